"""SAM 3 segmentation jobs: submit, run and read them."""

__version__ = "0.1.0"
