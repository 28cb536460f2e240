"""The tiny SAM 3 of the tests: drawn scenes, the model, its training and its held-out figures.

`python -m tools.tiny_sam3.train --out DIR --minutes 45` trains one on a CPU;
`python -m tools.tiny_sam3.evaluate DIR` measures it through transformers' own processors.
"""
