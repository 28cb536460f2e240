"""Every kind of file that people have becomes an upright 8-bit RGB photo, or an error that says what is wrong."""

import io
import struct
import threading
import warnings
import zlib
from concurrent.futures import ThreadPoolExecutor

import cv2
import numpy as np
import pytest
from PIL import Image

from samjobs.errors import ImageError
from samjobs.segmentation.engines.base import LongSide, Square
from samjobs.segmentation.images import Limits, decode, decode_bytes
from tests.segmentation.pictures import RED_BOX, red_frame, scene, turned_file, written

LIMITS = Limits()
FULL = LongSide(10_000)


def png(width: int, height: int, colour_type: int = 2, depth: int = 8) -> bytes:
    """A flat black PNG whose header may promise any size; its data are right only for small ones."""

    def chunk(kind: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    header = struct.pack(">IIBBBBB", width, height, depth, colour_type, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(b"\0")) + chunk(b"IEND", b"")


# --- what comes out


def test_a_square_target_squashes_the_photo_and_keeps_its_true_size():
    photo = decode(written(scene(), "PNG"), Square(32), LIMITS)
    assert (photo.width, photo.height) == (96, 64)
    assert photo.pixels.shape == (32, 32, 3)
    assert photo.pixels.dtype == np.uint8


def test_a_long_side_target_keeps_the_aspect_and_never_enlarges():
    assert decode(written(scene(), "PNG"), LongSide(48), LIMITS).pixels.shape == (32, 48, 3)
    assert decode(written(scene(), "PNG"), LongSide(1000), LIMITS).pixels.shape == (64, 96, 3)


def test_a_photo_at_its_own_size_is_not_changed_by_a_single_value():
    assert np.array_equal(decode(written(scene(), "PNG"), FULL, LIMITS).pixels, np.asarray(scene()))


def test_the_preview_keeps_the_aspect_and_has_the_asked_long_side():
    photo = decode(written(scene(960, 640), "PNG"), Square(32), LIMITS, preview=300)
    assert photo.preview is not None
    assert photo.preview.shape == (200, 300, 3)
    assert decode(written(scene(), "PNG"), Square(32), LIMITS).preview is None


def test_arrays_are_writable_so_that_torch_takes_them_without_a_warning():
    photo = decode(written(scene(), "PNG"), Square(32), LIMITS, preview=20)
    assert photo.pixels.flags.writeable
    assert photo.preview is not None
    assert photo.preview.flags.writeable


@pytest.mark.parametrize("size", [(1, 1), (1, 5000), (5000, 1), (3, 2)])
def test_tiny_and_thin_photos_are_decoded(size: tuple[int, int]):
    data = written(Image.new("RGB", size, (10, 200, 30)), "PNG")
    for target in (Square(64), LongSide(64)):
        photo = decode(data, target, LIMITS, preview=50)
        assert (photo.width, photo.height) == size
        assert (photo.pixels == (10, 200, 30)).all()


def test_shrinking_is_close_to_pillows_antialiased_bilinear():
    rng = np.random.default_rng(1)
    smooth = cv2.resize(rng.integers(0, 255, (60, 90, 3), np.uint8), (1800, 1200), interpolation=cv2.INTER_CUBIC)
    image = Image.fromarray(smooth)
    plain = np.asarray(image.resize((100, 100), Image.Resampling.BILINEAR)).astype(int)
    for kind, options in (("PNG", {}), ("JPEG", {"quality": 95})):
        ours = decode(written(image, kind, **options), Square(100), LIMITS).pixels
        assert np.abs(ours - plain).mean() < 2


def test_the_same_bytes_give_the_same_pixels_from_many_threads_without_a_warning():
    files = [turned_file(kind, 6, (960, 640)) for kind in ("JPEG", "PNG", "TIFF", "WEBP")]
    alone = [decode(data, Square(64), LIMITS).pixels for data in files]
    with ThreadPoolExecutor(8) as pool:
        together = list(pool.map(lambda data: decode(data, Square(64), LIMITS).pixels, files * 8))
    assert all(np.array_equal(pixels, alone[i % 4]) for i, pixels in enumerate(together))


# --- orientation


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("kind", ["JPEG", "PNG", "TIFF", "WEBP"])
def test_all_orientations_come_out_upright(kind: str, orientation: int):
    options = {"JPEG": {"quality": 95, "subsampling": 0}, "WEBP": {"lossless": True}}.get(kind, {})
    data = turned_file(kind, orientation, **options)
    photo = decode(data, FULL, LIMITS, preview=96)
    assert (photo.width, photo.height) == (96, 64)
    assert photo.exif_orientation == orientation
    for picture in (photo.pixels, photo.preview):
        assert picture is not None
        assert red_frame(picture) == pytest.approx(RED_BOX, abs=1)


@pytest.mark.parametrize("orientation", range(1, 9))
def test_a_large_jpeg_decoded_at_reduced_size_is_upright_and_not_shifted(orientation: int):
    big = turned_file("JPEG", orientation, (1003, 701), quality=95, subsampling=0)
    photo = decode(big, LongSide(100), LIMITS)
    assert (photo.width, photo.height) == (1003, 701)
    scale = 100 / 1003
    assert red_frame(photo.pixels) == pytest.approx([v * scale for v in RED_BOX], abs=0.8)


@pytest.mark.parametrize("orientation", range(1, 9))
def test_deep_colour_tiffs_and_pngs_come_out_upright_too(orientation: int):
    turned = np.asarray(Image.open(io.BytesIO(turned_file("PNG", orientation)))).astype(np.uint16) * 200
    for suffix in (".tiff", ".png"):
        _, encoded = cv2.imencode(suffix, turned[..., ::-1])
        data = with_orientation(encoded.tobytes(), orientation)
        photo = decode(data, FULL, LIMITS)
        assert (photo.width, photo.height, photo.exif_orientation) == (96, 64, orientation)
        assert red_frame(photo.pixels) == RED_BOX


def with_orientation(data: bytes, orientation: int) -> bytes:
    """The file with an EXIF orientation put in."""
    if data[:4] == b"\x89PNG":
        exif = Image.Exif()
        exif[0x0112] = orientation
        body = exif.tobytes().removeprefix(b"Exif\0\0")
        chunk = struct.pack(">I", len(body)) + b"eXIf" + body + struct.pack(">I", zlib.crc32(b"eXIf" + body))
        return data[:33] + chunk + data[33:]
    start = struct.unpack("<I", data[4:8])[0]
    (count,) = struct.unpack("<H", data[start : start + 2])
    entries = data[start + 2 : start + 2 + 12 * count]
    tags = sorted(
        [entries[i : i + 12] for i in range(0, len(entries), 12)] + [struct.pack("<HHIHH", 274, 3, 1, orientation, 0)],
        key=lambda e: struct.unpack("<H", e[:2]),
    )
    moved = data[:4] + struct.pack("<I", len(data)) + data[8:]
    return moved + struct.pack("<H", len(tags)) + b"".join(tags) + b"\0\0\0\0"


def test_a_png_may_bring_its_exif_behind_the_pixels():
    plain = turned_file("PNG", 6)
    start = plain.index(b"eXIf") - 4
    (length,) = struct.unpack(">I", plain[start : start + 4])
    chunk, rest = plain[start : start + 12 + length], plain[:start] + plain[start + 12 + length :]
    photo = decode(rest[:-12] + chunk + rest[-12:], FULL, LIMITS)
    assert red_frame(photo.pixels) == RED_BOX
    assert (photo.width, photo.height) == (96, 64)


@pytest.mark.filterwarnings("ignore:Corrupt EXIF")  # Pillow's own words, beside our note
@pytest.mark.parametrize(
    "exif", [b"Exif\0\0garbage that is no directory", b"Exif\0\0II*\0\xff\xff\xff\xff" + b"\0" * 20]
)
def test_damaged_exif_is_ignored_with_a_note(exif: bytes):
    photo = decode(written(scene(), "JPEG", exif=exif), FULL, LIMITS)
    assert photo.exif_orientation == 1
    assert photo.notes == ("EXIF is damaged and was ignored",)


def test_an_orientation_outside_1_to_8_is_ignored_with_a_note():
    photo = decode(turned_file("JPEG", 77), FULL, LIMITS)
    assert photo.exif_orientation == 1
    assert photo.notes == ("EXIF orientation 77 is not 1 to 8 and was ignored",)


# --- kinds of pixels


def test_progressive_jpegs_are_decoded():
    photo = decode(written(scene(), "JPEG", progressive=True, quality=95), FULL, LIMITS)
    assert red_frame(photo.pixels) == pytest.approx(RED_BOX, abs=1)


def test_cmyk_jpegs_keep_their_colours_with_adobes_inverted_values_and_without():
    adobe = written(scene().convert("CMYK"), "JPEG", quality=95)
    photo = decode(adobe, FULL, LIMITS)
    assert photo.source_mode == "CMYK"
    assert photo.notes == ("CMYK was converted without its colour profile",)
    assert red_frame(photo.pixels) == pytest.approx(RED_BOX, abs=1)
    # the same values without Adobe's marker mean the opposite
    start = adobe.index(b"\xff\xee")
    (length,) = struct.unpack(">H", adobe[start + 2 : start + 4])
    inverted = written(Image.eval(scene().convert("CMYK"), lambda v: 255 - v), "JPEG", quality=95)
    start = inverted.index(b"\xff\xee")
    plain = inverted[:start] + inverted[start + 2 + length :]
    assert red_frame(decode(plain, FULL, LIMITS).pixels) == pytest.approx(RED_BOX, abs=1)


@pytest.mark.parametrize("mode", ["1", "L", "LA", "P", "RGB", "RGBA"])
@pytest.mark.parametrize("kind", ["PNG", "TIFF"])
def test_all_pillow_modes_show_the_same_scene(mode: str, kind: str):
    expected = np.asarray(scene().convert(mode).convert("RGBA").convert("RGB"))
    photo = decode(written(scene().convert(mode), kind), FULL, LIMITS)
    assert photo.source_mode == mode
    assert np.array_equal(photo.pixels, expected)


@pytest.mark.parametrize("kind", ["BMP", "GIF", "WEBP", "AVIF"])
def test_other_formats_are_decoded(kind: str):
    photo = decode(written(scene(), kind), FULL, LIMITS)
    assert photo.format == kind
    assert red_frame(photo.pixels) == pytest.approx(RED_BOX, abs=1)


def transparent(mode: str) -> Image.Image:
    image = scene().convert("RGBA")
    image.putalpha(Image.fromarray(np.where(np.arange(96) < 48, 255, 0).astype(np.uint8)[None].repeat(64, 0)))
    return image.convert(mode)


@pytest.mark.parametrize(("mode", "kind"), [("RGBA", "PNG"), ("LA", "PNG"), ("RGBA", "WEBP"), ("RGBA", "TIFF")])
def test_transparency_is_laid_on_white(mode: str, kind: str):
    photo = decode(written(transparent(mode), kind, **({"lossless": True} if kind == "WEBP" else {})), FULL, LIMITS)
    assert (photo.pixels[:, 48:] == 255).all()
    assert (photo.pixels[40, 0] == 120).all()
    assert photo.notes == ("transparency was laid on white",)


def test_a_palette_with_transparency_is_laid_on_white_before_it_is_shrunk():
    palette = scene().quantize(4)
    data = written(palette, "PNG", transparency=palette.getpixel((95, 63)))
    photo = decode(data, FULL, LIMITS)
    assert (photo.pixels[-5, -5] == 255).all()
    assert red_frame(photo.pixels) == RED_BOX
    small = decode(data, LongSide(24), LIMITS).pixels
    assert small[8, 10].tolist() == pytest.approx([120] * 3, abs=8)


def test_a_transparent_colour_of_an_rgb_png_is_laid_on_white():
    photo = decode(written(scene(), "PNG", transparency=(20, 20, 230)), FULL, LIMITS)
    assert (photo.pixels[-5, -5] == 255).all()


@pytest.mark.parametrize("byte_order", ["<", ">"])
@pytest.mark.parametrize("kind", ["PNG", "TIFF"])
def test_16_bit_grey_is_stretched_and_says_so(kind: str, byte_order: str):
    values = np.full((64, 96), 1000, "<u2")
    values[4:20, 8:40] = 3000  # 12-bit data: almost black if it were cut to the upper byte
    image = Image.frombytes(
        "I;16B" if byte_order == ">" else "I;16", (96, 64), values.astype(byte_order + "u2").tobytes()
    )
    photo = decode(written(image, kind), FULL, LIMITS)
    assert photo.notes == ("more than 8 bits per channel: stretched from 1000 to 3000",)
    assert (photo.pixels[4:20, 8:40] == 255).all()
    assert (photo.pixels[30:] == 0).all()


def test_32_bit_float_tiff_is_stretched_over_its_finite_values():
    values = np.linspace(-2, 2, 64 * 96, dtype=np.float32).reshape(64, 96).copy()
    values[0, 0] = np.nan
    values[0, 1] = np.inf
    photo = decode(written(Image.fromarray(values), "TIFF"), FULL, LIMITS)
    assert photo.source_mode == "F"
    assert photo.pixels[0, 0, 0] == 0
    assert photo.pixels[0, 1, 0] == 255
    assert int(photo.pixels[32, 48, 0]) == pytest.approx(128, abs=2)


def test_a_constant_16_bit_image_does_not_divide_by_zero():
    photo = decode(written(Image.fromarray(np.full((8, 8), 5, np.uint16)), "PNG"), FULL, LIMITS)
    assert (photo.pixels == 0).all()


@pytest.mark.parametrize("suffix", [".png", ".tiff"])
@pytest.mark.parametrize("channels", [3, 4])
def test_16_bit_colour_is_stretched_from_all_its_bits(suffix: str, channels: int):
    values = np.asarray(scene()).astype(np.uint16)[..., ::-1] + 1000  # lost entirely in the lower byte's neighbour
    if channels == 4:
        values = np.dstack([values, np.full(values.shape[:2], 65535, np.uint16)])
    _, data = cv2.imencode(suffix, values)
    photo = decode(data.tobytes(), FULL, LIMITS)
    assert photo.notes[0] == "more than 8 bits per channel: stretched from 1020 to 1230"
    assert red_frame(photo.pixels) == RED_BOX


@pytest.mark.parametrize("kind", ["TIFF", "GIF", "WEBP", "PNG"])
def test_of_many_pages_or_frames_the_first_is_taken_and_noted(kind: str):
    pages = [scene(), Image.new("RGB", (96, 64), "white"), Image.new("RGB", (96, 64), "black")]
    data = written(
        pages[0], kind, save_all=True, append_images=pages[1:], **({"lossless": True} if kind == "WEBP" else {})
    )
    photo = decode(data, FULL, LIMITS)
    assert "first of 3 pages or frames" in photo.notes
    assert red_frame(photo.pixels) == RED_BOX


def test_a_damaged_second_page_does_not_spoil_the_first():
    data = bytearray(turned_file("TIFF", 6))
    start = struct.unpack("<I", data[4:8])[0]
    (count,) = struct.unpack("<H", data[start : start + 2])
    after = start + 2 + 12 * count
    data[after : after + 4] = struct.pack("<I", start + 3)  # the next page is said to begin amid the tags of the first
    photo = decode(bytes(data), FULL, LIMITS)
    assert red_frame(photo.pixels) == RED_BOX


# --- refusals


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "empty (0 bytes)"),
        (b"Hello, this is my shopping list.\nMilk", "text, not an image: it begins with 'Hello, this is"),
        (b"<html><body>404 Not Found</body></html>", "begins with '<html>"),
        (b"version https://git-lfs.github.com/spec/v1\noid", "Git LFS pointer"),
        (b"%PDF-1.7 \x00\x01", "a PDF document"),
        (b"\x00\x00\x00\x18ftypheic" + b"\0" * 40, "HEIC"),
        (b"PK\x03\x04" + b"\0" * 30, "ZIP"),
        (b"\0" * 4096, "begins with zeros"),
        (bytes(range(128, 200)), "begins with bytes 80 81 82"),
        (b"\xff\xd8\xff\xe0", "damaged"),
    ],
)
def test_what_is_no_image_is_refused_saying_what_it_is(data: bytes, said: str):
    for read in (lambda: decode_bytes(data, FULL, LIMITS), lambda: decode(data, FULL, LIMITS)):
        with pytest.raises(ImageError) as caught:
            read()
        assert said in str(caught.value)


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "TIFF", "WEBP", "BMP", "GIF", "AVIF"])
@pytest.mark.parametrize("part", [0.3, 0.6, 0.95])
def test_truncated_files_are_refused(kind: str, part: float):
    noise = Image.fromarray(np.random.default_rng(0).integers(0, 255, (200, 300, 3), np.uint8))
    data = written(noise, kind)
    with pytest.raises(ImageError, match=r"cut short|damaged"):
        decode(data[: int(len(data) * part)], Square(32), LIMITS)


@pytest.mark.parametrize("suffix", [".png", ".tiff"])
def test_truncated_deep_colour_files_are_refused(suffix: str):
    _, encoded = cv2.imencode(suffix, np.random.default_rng(0).integers(0, 65535, (100, 100, 3), np.uint16))
    data = encoded.tobytes()
    with pytest.raises(ImageError):
        decode(data[: len(data) // 2], FULL, LIMITS)


def test_a_decompression_bomb_is_refused_from_its_header_naming_limit_and_setting():
    with pytest.raises(ImageError) as caught:
        decode(png(20_001, 20_000), Square(32), LIMITS)
    assert "20,001 x 20,000 = 400,020,000 pixels" in str(caught.value)
    assert "400,000,000" in str(caught.value)
    assert "SAMJOBS_MAX_IMAGE_PIXELS" in str(caught.value)


def test_20000_x_20000_pixels_pass_the_default_limit_without_a_warning():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert decode_bytes(png(20_000, 20_000), FULL, LIMITS) > 1_600_000_000


def test_too_many_bytes_are_refused_naming_limit_and_setting():
    with pytest.raises(ImageError, match=r"over the limit of 10: raise SAMJOBS_MAX_IMAGE_BYTES"):
        decode_bytes(written(scene(), "PNG"), FULL, Limits(max_bytes=10))


def test_the_preview_inside_a_camera_raw_file_is_not_taken_for_the_photo():
    dng = written(scene(), "TIFF", tiffinfo={50706: b"\x01\x04\x00\x00"})
    nef = written(scene(), "TIFF", tiffinfo={254: 1})
    for data in (dng, nef):
        with pytest.raises(ImageError, match="camera raw file"):
            decode_bytes(data, FULL, LIMITS)


def test_formats_outside_the_list_are_refused():
    with pytest.raises(ImageError, match="samjobs reads JPEG"):
        decode_bytes(written(scene(), "TGA"), FULL, LIMITS)


def test_the_estimate_of_a_large_jpeg_counts_its_reduced_decoding():
    data = written(scene(4000, 3000), "JPEG")
    assert decode_bytes(data, LongSide(4000), LIMITS) > 4000 * 3000 * 4
    assert decode_bytes(data, Square(336), LIMITS) < 4000 * 3000


def test_decoding_leaves_no_thread_behind():
    before = threading.active_count()
    decode(written(scene(), "AVIF"), FULL, LIMITS)
    assert threading.active_count() == before


def test_what_would_take_more_memory_than_there_is_is_refused_from_its_header():
    data = written(scene(), "PNG")
    needed = decode_bytes(data, Square(64), Limits())
    assert decode_bytes(data, Square(64), Limits(max_memory=needed)) == needed
    with pytest.raises(ImageError, match=rf"needs about {needed:,} bytes of memory, and this process has 100 for it"):
        decode_bytes(data, Square(64), Limits(max_memory=100))
