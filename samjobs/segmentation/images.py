"""From the bytes of a file to an upright RGB picture at the size that the engine works at.

The picture is shrunk before it is rotated and before it becomes an array, so the peak of memory is about that of
decoding: a JPEG much larger than the target is decoded at 1/2, 1/4 or 1/8 of its size (by its own cosine transform),
everything else whole. Shrinking is antialiased and bilinear, as SAM 3's processor does it, and the same bytes always
give the same pixels. Of a file with several pages or frames the first is taken.

All functions may run in several threads at once.
"""

from dataclasses import dataclass

import numpy as np
from PIL import Image

from samjobs.errors import ImageError
from samjobs.segmentation import pixels
from samjobs.segmentation.engines.base import LongSide, Square, UInt8Image
from samjobs.segmentation.imagefile import (
    MOST_FRAMES,
    Limits,
    check_pixels,
    frame_count,
    load_pixels,
    open_image,
    orientation,
)

__all__ = ["Limits", "Photo", "decode", "decode_bytes"]

Size = tuple[int, int]  # width, height

UPRIGHT = {  # EXIF orientation → what turns the stored picture upright
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}
STORED_BYTES = {"1": 1, "L": 1, "P": 1, "I;16": 2, "I;16B": 2}  # per pixel in Pillow's memory; all other modes 4
BAND_BYTES = 16  # per pixel of a band on its way to RGB
BITS_PER_SAMPLE = 258  # TIFF tag


@dataclass(frozen=True)
class Photo:
    """A decoded photo."""

    width: int  # of the upright photo at its full size
    height: int
    pixels: UInt8Image  # upright, at the working size
    preview: UInt8Image | None  # upright, for overlays
    exif_orientation: int  # 1…8, as recorded in the file; already applied
    format: str
    source_mode: str
    notes: tuple[str, ...]  # what was done to it that a reader of the results must know


def decode_bytes(data: bytes, target: Square | LongSide, limits: Limits, preview: int | None = None) -> int:
    """About the peak memory in bytes of `decode` with the same arguments, without the file itself and the result.

    Raises:
        ImageError: as `decode`, as far as the header tells; or it is more than `limits.max_memory`.
    """
    image = open_image(data, limits)
    turned, _ = orientation(image, loaded=False)
    needed = _peak_bytes(image, data, turned, _wanted(image.size, target, preview))
    if limits.max_memory is not None and needed > limits.max_memory:
        raise ImageError(
            f"decoding its {image.width:,} x {image.height:,} pixels needs about {needed:,} bytes of memory, and this"
            f" process has {limits.max_memory:,} for it: give workers more memory, or make the picture smaller"
        )
    return needed


def decode(data: bytes, target: Square | LongSide, limits: Limits, preview: int | None = None) -> Photo:
    """The photo, upright and at the working size.

    Args:
        preview: also make a picture whose long side has at most this many pixels.

    Raises:
        ImageError: no image, cut short, damaged, an unknown format, or over a limit; the message says what was found.
    """
    image = open_image(data, limits)
    stored, mode, kind = image.size, image.mode, image.format or ""
    frames = frame_count(data)
    turned, note = orientation(image, loaded=False)
    working = _fit(stored, target)
    shown = _fit(stored, LongSide(preview)) if preview else None
    wanted = _wanted(stored, target, preview)
    drafted = image.draft(None, wanted) if kind in ("JPEG", "MPO") else None
    load_pixels(image)
    check_pixels(image.size, limits)
    if kind == "PNG":  # only now is all of its EXIF known
        turned, note = orientation(image, loaded=True)
    source, notes = _source(image, data)
    covered = drafted[1][2:] if drafted else (float(source.width), float(source.height))
    pending = _pending(image, turned)
    del image
    small, box = pixels.shrink(source, wanted)
    box = box[0] * covered[0] / source.width, box[1] * covered[1] / source.height
    if frames > 1:
        some = f"{MOST_FRAMES} or more" if frames == MOST_FRAMES else frames
        notes.append(f"first of {some} pages or frames")
    if note:
        notes.append(note)
    return Photo(
        *_upright(stored, pending),
        pixels=_finish(small, box, working, pending),
        preview=_finish(small, box, shown, pending) if shown else None,
        exif_orientation=turned,
        format=kind,
        source_mode=mode,
        notes=tuple(notes),
    )


def _source(image: Image.Image, data: bytes) -> tuple[pixels.Source, list[str]]:
    if _deep_colour(image, data):
        source = pixels.of_deep_colour(data, image.size)
        if source is None:
            source = pixels.of_image(image)
            return source, [*source.notes, "16 bits per channel were cut to the upper 8"]
    else:
        source = pixels.of_image(image)
    return source, list(source.notes)


def _deep_colour(image: Image.Image, data: bytes) -> bool:
    """Whether the file has 16 bits in each of several channels, of which Pillow keeps 8."""
    if image.format == "PNG":
        return data[24] == 16 and image.mode in ("RGB", "RGBA", "LA")  # IHDR: bit depth
    if image.format == "TIFF":
        bits = getattr(image, "tag_v2", {}).get(BITS_PER_SAMPLE, (8,))
        return max(bits) == 16 and image.mode in ("RGB", "RGBA")
    return False


def _fit(size: Size, target: Square | LongSide) -> Size:
    """The working size; the same for a photo and the photo turned by 90°, but for its order."""
    if isinstance(target, Square):
        return target.side, target.side
    scale = min(1.0, target.pixels / max(size))
    return max(1, round(size[0] * scale)), max(1, round(size[1] * scale))


def _wanted(size: Size, target: Square | LongSide, preview: int | None) -> Size:
    """The least size from which both the working image and the preview can be made."""
    working = _fit(size, target)
    shown = _fit(size, LongSide(preview)) if preview else working
    return max(working[0], shown[0]), max(working[1], shown[1])


def _pending(image: Image.Image, turned: int) -> int:
    """The orientation that is left to apply: Pillow and OpenCV apply that of a TIFF themselves."""
    return 1 if image.format == "TIFF" else turned


def _upright(size: Size, pending: int) -> Size:
    return (size[1], size[0]) if pending >= 5 else size


def _finish(image: Image.Image, box: tuple[float, float], size: Size, pending: int) -> UInt8Image:
    """The part 0, 0, *box of `image` at `size`, then turned upright."""
    box = min(box[0], image.width), min(box[1], image.height)
    picture = image.resize(size, Image.Resampling.BILINEAR, box=(0, 0, *box))
    if pending != 1:
        picture = picture.transpose(UPRIGHT[pending])
    return np.array(picture)


def _peak_bytes(image: Image.Image, data: bytes, turned: int, wanted: Size) -> int:
    """Memory of decoding: the picture as the codec and Pillow hold it, the bands, and the reduced picture."""
    width, height = image.size
    count = width * height
    held = count * STORED_BYTES.get(image.mode, 4)
    if image.format in ("JPEG", "MPO"):
        draft = 2 ** max(0, min(width // wanted[0], height // wanted[1], 8).bit_length() - 1)
        width, height, held = width // draft, height // draft, held // draft**2
        if image.info.get("progressive"):  # the coefficients of the whole picture, 16 bits each
            held += count * 2 * len(image.getbands())
    elif image.format in ("WEBP", "AVIF"):  # the codec's picture, its bytes and Pillow's picture
        held *= 3
    elif _deep_colour(image, data):  # once by Pillow, to see that it is whole, then by OpenCV
        held += count * 2 * len(image.getbands())
    if image.format == "TIFF" and turned != 1:  # turned at full size by the reader
        held *= 2
    across, down = pixels.reductions((width, height), wanted)
    as_it_is = across == down == 1 and image.mode == "RGB"
    reduced = 0 if as_it_is else 4 * (width // across + 1) * (height // down + 1)
    return held + reduced + min(width * height, pixels.BAND_PIXELS) * BAND_BYTES
