"""Image files made on the fly: one asymmetric scene, written in every way that people's files are."""

import io
from typing import Any

import numpy as np
import numpy.typing as npt
from PIL import Image

Array = npt.NDArray[Any]
RED_BOX = (8, 4, 40, 20)  # x0, y0, x1, y1 in the upright scene


def scene(width: int = 96, height: int = 64) -> Image.Image:
    """A grey field with a red box near its top left corner, a blue one at the bottom right; no symmetry at all."""
    picture = np.full((height, width, 3), 120, np.uint8)
    x0, y0, x1, y1 = RED_BOX
    picture[y0:y1, x0:x1] = (230, 20, 20)
    picture[-10:, -14:] = (20, 20, 230)
    return Image.fromarray(picture)


def written(image: Image.Image, kind: str, **options: Any) -> bytes:
    """The file that Pillow writes of `image`."""
    buffer = io.BytesIO()
    image.save(buffer, kind, **options)
    return buffer.getvalue()


def turned_file(kind: str, orientation: int, size: tuple[int, int] = (96, 64), **options: Any) -> bytes:
    """The scene, stored turned so that a reader who obeys `orientation` sees it upright."""
    stored = scene(*size)
    undo = {
        2: "FLIP_LEFT_RIGHT",
        3: "ROTATE_180",
        4: "FLIP_TOP_BOTTOM",
        5: "TRANSPOSE",
        6: "ROTATE_90",
        7: "TRANSVERSE",
        8: "ROTATE_270",
    }
    if orientation in undo:
        stored = stored.transpose(Image.Transpose[undo[orientation]])
    exif = Image.Exif()
    exif[0x0112] = orientation
    if kind == "TIFF":
        return written(stored, kind, tiffinfo={0x0112: orientation}, **options)
    return written(stored, kind, exif=exif, **options)


def red_frame(pixels: Array) -> tuple[int, int, int, int]:
    """x0, y0, x1, y1 of what is red."""
    red = (pixels[..., 0] > 170) & (pixels[..., 2] < 90)
    rows, columns = np.flatnonzero(red.any(axis=1)), np.flatnonzero(red.any(axis=0))
    return int(columns[0]), int(rows[0]), int(columns[-1]) + 1, int(rows[-1]) + 1
