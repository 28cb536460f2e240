"""Files that are small and want to become large, or to keep a decoder busy for hours."""

import io
import struct
import zlib
from collections.abc import Callable, Mapping
from typing import Any

from PIL import Image

SIDE = 4000  # pixels of the pictures below: 16 million


def saved(kind: str, mode: str = "RGB", side: int = SIDE, **options: Any) -> bytes:
    """A grey picture, which compresses to nearly nothing."""
    out = io.BytesIO()
    Image.new(mode, (side, side)).save(out, kind, **options)
    return out.getvalue()


def png_chunk(kind: bytes, body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))


def png_with(*chunks: bytes) -> bytes:
    """A PNG of one pixel with more chunks behind its header."""
    whole = saved("PNG", side=1)
    return whole[:33] + b"".join(chunks) + whole[33:]


def inflated(mebibytes: int) -> bytes:
    """zlib data that becomes so much."""
    packer = zlib.compressobj(9)
    return b"".join(packer.compress(bytes(1 << 20)) for _ in range(mebibytes)) + packer.flush()


def with_scans(count: int, side: int = SIDE) -> bytes:
    """A progressive JPEG whose last scan, a few bytes long, comes again and again."""
    whole = saved("JPEG", "L", side, progressive=True)
    last = whole[whole.rindex(b"\xff\xda") : -2]
    return whole[:-2] + last * count + b"\xff\xd9"


def with_hidden_scans(count: int) -> bytes:
    """The same, behind a comment that holds what looks like the end of the picture."""
    whole = with_scans(count)
    return whole[:2] + b"\xff\xfe\x00\x06\xff\xd9\xff\xd9" + whole[2:]


def tiff(*pages: Mapping[int, int], extra: bytes = b"") -> bytes:
    """A TIFF of pages with these tags, all of them LONG, one behind another; then `extra`."""
    out = bytearray(b"II*\0" + struct.pack("<I", 8))
    for number, tags in enumerate(pages, 1):
        out += struct.pack("<H", len(tags)) + b"".join(
            struct.pack("<HHII", tag, 4, 1, tags[tag]) for tag in sorted(tags)
        )
        out += struct.pack("<I", len(out) + 4 if number < len(pages) else 0)
    return bytes(out) + extra


# ImageWidth, ImageLength, BitsPerSample, Compression, Photometric, StripOffsets, RowsPerStrip, StripByteCounts
PAGE = {256: 1, 257: 1, 258: 8, 259: 1, 262: 1, 273: 8, 278: 1, 279: 1}


def tiff_with_wide_tag() -> bytes:
    """A TIFF whose colour profile claims four gigabytes."""
    page = struct.pack("<H", len(PAGE) + 1)
    page += b"".join(struct.pack("<HHII", tag, 4, 1, value) for tag, value in PAGE.items())
    page += struct.pack("<HHII", 34675, 7, 0xFFFFFFFF, 8) + struct.pack("<I", 0)
    return b"II*\0" + struct.pack("<I", 8) + page


def gif_of(frames: int) -> bytes:
    whole = saved("GIF", "P", 1)
    start = whole.index(b",", 13)
    return whole[:-1] + whole[start:-1] * (frames - 1) + b";"


def header_only(kind: str) -> bytes:
    """A picture of one pixel that says it has 60,000 x 60,000."""
    huge = 60_000
    if kind == "PNG":
        return (
            saved("PNG", side=1)[:8]
            + png_chunk(b"IHDR", struct.pack(">IIBBBBB", huge, huge, 8, 6, 0, 0, 0))
            + saved("PNG", side=1)[33:]
        )
    if kind == "BMP":
        whole = bytearray(saved("BMP", side=1))
        whole[18:26] = struct.pack("<ii", huge, huge)
    elif kind == "GIF":
        whole = bytearray(saved("GIF", "P", 1))
        whole[6:10] = struct.pack("<HH", huge, huge)
    else:
        whole = bytearray(saved("JPEG", side=1))
        frame = whole.index(b"\xff\xc0")
        whole[frame + 5 : frame + 9] = struct.pack(">HH", huge, huge)
    return bytes(whole)


# Pictures within the limit of pixels, whose decoding must take no more memory than was said before.
LARGE: Mapping[str, Callable[[], bytes]] = {
    "jpeg": lambda: saved("JPEG"),
    "jpeg-progressive": lambda: saved("JPEG", progressive=True),
    "jpeg-cmyk": lambda: saved("JPEG", "CMYK"),
    "png-rgba": lambda: saved("PNG", "RGBA"),
    "png-palette": lambda: saved("PNG", "P"),
    "png-16-bit": lambda: saved("PNG", "I;16"),
    "webp": lambda: saved("WEBP", method=0),
    "webp-lossless": lambda: saved("WEBP", "RGBA", lossless=True, method=0, quality=0),
    "avif": lambda: saved("AVIF", speed=10),
    "tiff": lambda: saved("TIFF", compression="tiff_adobe_deflate"),
    "tiff-lzw-rgba": lambda: saved("TIFF", "RGBA", compression="tiff_lzw"),
    "gif": lambda: saved("GIF", "P"),
    "bmp": lambda: saved("BMP", "L"),
}

# Files that must be refused as images, or decoded as the small pictures that they are; quickly, and in little memory.
SMALL: Mapping[str, Callable[[], bytes]] = {
    "png header": lambda: header_only("PNG"),
    "bmp header": lambda: header_only("BMP"),
    "gif header": lambda: header_only("GIF"),
    "jpeg header": lambda: header_only("JPEG"),
    "png profile": lambda: png_with(png_chunk(b"iCCP", b"p\0\0" + inflated(256))),
    "png text": lambda: png_with(png_chunk(b"zTXt", b"k\0\0" + inflated(256))),
    "png international text": lambda: png_with(png_chunk(b"iTXt", b"k\0\1\0\0\0" + inflated(256))),
    "png many texts": lambda: png_with(*[png_chunk(b"zTXt", b"k\0\0" + inflated(48))] * 40),
    "png pixels that go on": lambda: saved("PNG", side=1)[:33] + png_chunk(b"IDAT", inflated(256)),
    "jpeg scans": lambda: with_scans(20_000),
    "jpeg scans behind a comment": lambda: with_hidden_scans(20_000),
    "tiff pages": lambda: tiff(*[PAGE] * 40_000),
    "tiff page that is its own next": lambda: tiff(PAGE)[:-4] + struct.pack("<I", 8),
    "tiff tag": tiff_with_wide_tag,
    "tiff strip": lambda: tiff(PAGE | {256: 60_000, 257: 60_000, 278: 60_000, 259: 8}),
    "gif frames": lambda: gif_of(500_000),
    "gzip": lambda: zlib.compress(bytes(1 << 20), wbits=31) * 64,
    "svg": lambda: b'<svg xmlns="http://www.w3.org/2000/svg" width="99999" height="99999"/>',
}
