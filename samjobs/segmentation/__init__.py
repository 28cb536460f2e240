"""How a mask is made: the path of one photo.

1. `prepare.py`   Does the earlier record still hold (`decisions/resume.py`)? If not: the file's bytes.
2. `images.py`    bytes → an upright RGB picture at the size that the engine works at; limits, EXIF, odd formats
3. `prompts.py`   what a person asked, in pixels → what the engine is asked, in fractions of the photo
4. `engines/`     picture and questions → candidates: scores, boxes, low-resolution masks
5. `masks.py`     candidates → instances: thresholds, overlap, `upsample.py` to the photo's size, `rle.py` to runs
6. `formats.py`   instances → files on request; `records.py` → the record, which is written last
7. `pipeline.py`  does this for many photos at once, in bounded stages, with one thread on the device

`work.py` holds the values that pass between them; `budget.py` bounds their memory; `publish.py` writes.
"""
