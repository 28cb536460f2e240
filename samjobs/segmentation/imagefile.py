"""What kind of image file are these bytes, and is it safe to decode?

Opens a file with Pillow as far as its header, by an allow-list of formats, and refuses what is no image, what is over a
limit and what would give a misleading picture (the thumbnail inside a camera's raw file). Pixels are not read here.
"""

import io
import re
from dataclasses import dataclass
from typing import Final

from PIL import Image, PngImagePlugin, UnidentifiedImageError
from PIL.ExifTags import Base

from samjobs.errors import ImageError

FORMATS: Final = (
    "AVIF",
    "BMP",
    "GIF",
    "JPEG",
    "PNG",
    "TIFF",
    "WEBP",
)  # JPEG includes MPO, as phones and cameras write it

# Pillow's own guard warns at one size and raises at another, for all users of the process alike. `Limits` decides
# before anything is decoded, so the guard is off: set once, here, because it is a global of the process.
Image.MAX_IMAGE_PIXELS = None
# Pillow refuses a PNG with a megabyte of compressed text, which editing histories reach; the file's size is limited.
PngImagePlugin.MAX_TEXT_CHUNK = PngImagePlugin.MAX_TEXT_MEMORY = 64 << 20
Image.init()  # registers the readers now, not in the first of several threads

MOST_FRAMES = 1000  # that are counted
MOST_GIF_BYTES = 16 << 20  # in which the frames of a GIF are counted: a million of them take five seconds
MOST_SCANS = 100  # of a progressive JPEG; usual are ten
_MARKER = re.compile(rb"\xff+([\x02-\xcf\xd9-\xfe])")  # with a length behind it, or the end
_END_OF_IMAGE, _START_OF_SCAN = b"\xd9", b"\xda"

DNG_VERSION, NEW_SUBFILE_TYPE = 50706, 254
SIGNATURES: Final = (  # (offset, bytes, what it is)
    (4, b"ftyphei", "an HEIC photo; convert it to JPEG"),
    (4, b"ftyphev", "an HEIC photo; convert it to JPEG"),
    (4, b"ftypmif1", "an HEIF photo; convert it to JPEG"),
    (4, b"ftypavi", "a damaged AVIF image; copy it again"),
    (4, b"ftypcrx", "a camera raw file (CR3); convert it to JPEG or TIFF"),
    (4, b"ftyp", "a video (MP4 or QuickTime)"),
    (0, b"%PDF", "a PDF document"),
    (0, b"PK\x03\x04", "a ZIP archive or an office document"),
    (0, b"\x1f\x8b", "gzip-compressed data"),
    (0, b"8BPS", "a Photoshop file; export it as TIFF or PNG"),
    (0, b"\x00\x00\x00\x0cjP  ", "a JPEG 2000 image; convert it to JPEG, PNG or TIFF"),
    (0, b"\xff\x4f\xff\x51", "a JPEG 2000 image; convert it to JPEG, PNG or TIFF"),
    (0, b"\xff\xd8", "a damaged JPEG; copy it again"),
    (0, b"\x89PNG", "a damaged PNG; copy it again"),
    (0, b"GIF8", "a damaged GIF; copy it again"),
    (0, b"RIFF", "a damaged WebP or another RIFF file (sound, video)"),
    (0, b"II*\0", "a TIFF that is damaged or of a rare kind (such as colour in 32-bit floats); convert it"),
    (0, b"MM\0*", "a TIFF that is damaged or of a rare kind (such as colour in 32-bit floats); convert it"),
    (0, b"version https://git-lfs", "a Git LFS pointer; fetch the real file with git lfs pull"),
)


@dataclass(frozen=True)
class Limits:
    """What is refused before it is decoded."""

    max_bytes: int = 512 * 1024 * 1024  # SAMJOBS_MAX_IMAGE_BYTES
    max_pixels: int = 400_000_000  # SAMJOBS_MAX_IMAGE_PIXELS
    max_memory: int | None = None  # bytes that decoding may take, beside all else; None: whatever it needs


def open_image(data: bytes, limits: Limits) -> Image.Image:
    """The file's first picture, header read, pixels not.

    Raises:
        ImageError: empty, no image, a format outside FORMATS, a damaged header, or over a limit.
    """
    if not data:
        raise ImageError("the file is empty (0 bytes): copy it again from its source")
    if len(data) > limits.max_bytes:
        raise ImageError(
            f"the file has {len(data):,} bytes, over the limit of {limits.max_bytes:,}: "
            "raise SAMJOBS_MAX_IMAGE_BYTES if it is meant"
        )
    try:
        image = Image.open(io.BytesIO(data), formats=FORMATS)
    except UnidentifiedImageError:
        raise ImageError(_unidentified(data)) from None
    except Exception as error:  # Pillow's readers raise many kinds for a hostile header
        raise ImageError(f"the file is damaged or cut short: its header cannot be read ({_reason(error)})") from error
    check_pixels(image.size, limits)
    _refuse_raw(image, data)
    _refuse_scans(image, data)
    return image


def check_pixels(size: tuple[int, int], limits: Limits) -> None:
    """Refuse more pixels than allowed.

    Raises:
        ImageError: naming both numbers and the setting.
    """
    width, height = size
    if width * height > limits.max_pixels:
        raise ImageError(
            f"the image has {width:,} x {height:,} = {width * height:,} pixels, over the limit of "
            f"{limits.max_pixels:,} (it may be a decompression bomb): raise SAMJOBS_MAX_IMAGE_PIXELS if it is meant"
        )
    if width < 1 or height < 1:
        raise ImageError(f"the image has no pixels ({width} x {height})")


def load_pixels(image: Image.Image) -> None:
    """Decode the whole picture into memory.

    Raises:
        ImageError: cut short or damaged.
    """
    try:
        image.load()
    except MemoryError as error:
        raise ImageError(f"not enough memory to decode {image.width:,} x {image.height:,} pixels") from error
    except Exception as error:
        raise ImageError(f"the {image.format} file is damaged or cut short: {_reason(error)}") from error


def orientation(image: Image.Image, *, loaded: bool) -> tuple[int, str | None]:
    """The EXIF orientation, 1…8, and a note when EXIF is there but cannot be used.

    A PNG may bring its EXIF behind the pixels: before they are `loaded` only what stands before them is seen.
    """
    if image.format == "PNG" and not loaded and not ({"exif", "Raw profile type exif"} & image.info.keys()):
        return 1, None
    try:
        exif = image.getexif()
        value = exif.get(Base.Orientation, 1)
    except Exception:  # damaged EXIF takes Pillow's parser down in many ways, and no photo should fail for it
        return 1, "EXIF is damaged and was ignored"
    if not len(exif) and len(image.info.get("exif", b"")) > 14:  # 14: an empty directory
        return 1, "EXIF is damaged and was ignored"
    if value not in range(1, 9):
        return 1, f"EXIF orientation {value!r} is not 1 to 8 and was ignored"
    return int(value), None


def frame_count(data: bytes) -> int:
    """Pages or frames in a file that `open_image` took, counted up to MOST_FRAMES; 1 where they cannot be counted.

    Counting walks through the file and, where a later page is damaged, leaves Pillow's image in the middle of it: so it
    is done on an image of its own. A page or frame may take a dozen bytes, and Pillow's own counting of a TIFF's pages
    takes hours for a file full of them.
    """
    count = 1
    try:
        with Image.open(io.BytesIO(data[:MOST_GIF_BYTES] if data[:3] == b"GIF" else data), formats=FORMATS) as image:
            if image.format != "TIFF":
                return min(int(getattr(image, "n_frames", 1)), MOST_FRAMES)
            while count < MOST_FRAMES:
                image.seek(count)
                count += 1
    except Exception:  # the last page; or a damaged one, which does not concern the first
        pass
    return count


def _refuse_scans(image: Image.Image, data: bytes) -> None:
    """A scan of a progressive JPEG may take a few bytes, and makes the decoder go over the whole picture."""
    if image.format not in ("JPEG", "MPO") or not image.info.get("progressive"):
        return
    scans, at = 0, 2
    while (marker := _MARKER.search(data, at)) is not None and marker[1] != _END_OF_IMAGE:
        scans += marker[1] == _START_OF_SCAN
        if scans > MOST_SCANS:
            raise ImageError(f"the JPEG has over {MOST_SCANS} scans, which no camera or program writes: save it again")
        at = marker.end() + int.from_bytes(data[marker.end() : marker.end() + 2], "big")


def _refuse_raw(image: Image.Image, data: bytes) -> None:
    """Raw files of cameras are TIFFs whose first page is a small preview: never take that for the photo."""
    if image.format != "TIFF":
        return
    tags = image.getexif()
    reduced = tags.get(NEW_SUBFILE_TYPE, 0)
    if DNG_VERSION in tags or data[8:10] == b"CR" or (isinstance(reduced, int) and reduced & 1):
        raise ImageError("this is a camera raw file, whose first page is only a preview: convert it to JPEG or TIFF")


def _unidentified(data: bytes) -> str:
    for offset, signature, what in SIGNATURES:
        if data.startswith(signature, offset):
            return f"this is not an image that samjobs reads, but {what}"
    known = "samjobs reads JPEG, PNG, TIFF, WebP, AVIF, BMP, GIF"
    head = data[:256]
    text = head.decode("utf-8", "replace")
    if text.count("\ufffd") <= 1 and all(char.isprintable() or char.isspace() or char == "\ufffd" for char in text):
        return f"this is text, not an image: it begins with {' '.join(text.split())[:40]!r}; {known}"
    if not any(head):
        return f"the file begins with zeros, as after an interrupted copy: copy it again; {known}"
    return f"unknown or damaged image format: it begins with bytes {head[:8].hex(' ')}; {known}"


def _reason(error: Exception) -> str:
    return " ".join(str(error).split())[:200] or type(error).__name__
