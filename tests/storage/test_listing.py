"""Which files of a folder become images."""

import os
import subprocess
import sys
import tempfile
from collections import Counter
from itertools import islice
from pathlib import Path

import pytest

from samjobs.errors import InvalidInput, ObjectMissing
from samjobs.names import OUTPUT_MARK
from samjobs.storage import Storage, encode_path


def make(root: Path, *names: str) -> None:
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"x")


def listed(root: Path) -> tuple[list[str], dict[str, int]]:
    """The keys, and what was passed over."""
    ignored: Counter[str] = Counter()
    return [item.key for item in Storage().list(encode_path(root), ignored=ignored)], ignored


def keys(root: Path, **options: str) -> list[str]:
    return [item.key for item in Storage().list(encode_path(root), **options)]


def test_image_extensions_count_in_any_case_and_nothing_else(tmp_path: Path) -> None:
    suffixes = ("jpg", "jpeg", "jpe", "jfif", "png", "tif", "tiff", "webp", "avif", "bmp", "gif", "mpo", "JPG", "Png")
    images = [f"{suffix}.{suffix}" for suffix in suffixes]
    make(tmp_path, *images, "notes.txt", "a.jpg.part", "jpg")
    found, ignored = listed(tmp_path)
    assert sorted(found) == sorted(images)
    assert ignored == {"not an image": 3}


def test_pictures_of_kinds_that_are_not_read_are_counted_apart_by_their_kind(tmp_path: Path) -> None:
    make(tmp_path, "a.jpg", "b.heic", "c.HEIC", "d.dng", "e.jp2", "notes.txt")
    assert listed(tmp_path)[1] == {
        "unsupported picture (.heic)": 2,
        "unsupported picture (.dng)": 1,
        "unsupported picture (.jp2)": 1,
        "not an image": 1,
    }


def test_hidden_files_and_junk_are_passed_over_with_all_that_is_in_them(tmp_path: Path) -> None:
    make(tmp_path, "a.jpg", ".b.jpg", ".cache/c.jpg", "__MACOSX/d.jpg", "x/@eaDir/e.jpg", "x/._f.jpg", "x/Thumbs.db")
    make(tmp_path, ".DS_Store", "desktop.ini")
    assert listed(tmp_path) == (["a.jpg"], {"junk": 6, "hidden": 2})


def test_a_hidden_folder_that_is_asked_for_is_listed(tmp_path: Path) -> None:
    make(tmp_path, ".photos/a.jpg")
    assert keys(tmp_path / ".photos") == ["a.jpg"]


def test_the_order_is_depth_first_by_name_and_always_the_same(tmp_path: Path) -> None:
    make(tmp_path, "b.jpg", "a/z.jpg", "a/b/c.jpg", "c/a.jpg", "B.jpg", "a.jpg")
    assert keys(tmp_path) == ["B.jpg", "a/b/c.jpg", "a/z.jpg", "a.jpg", "b.jpg", "c/a.jpg"]


def test_uris_lead_back_to_the_files(tmp_path: Path) -> None:
    make(tmp_path, "sub/é ü.jpg")
    [item] = Storage().list(str(tmp_path))
    assert Storage().read(item.uri, 10) == b"x"


@pytest.mark.parametrize("name", [b"new\nline.jpg", b"\xff\xfe.jpg", b"100%.jpg", b"%0A.jpg", b"x" * 251 + b".jpg"])
def test_any_file_name_is_listed_and_read_back(tmp_path: Path, name: bytes) -> None:
    (tmp_path / os.fsdecode(name)).write_bytes(b"pixels")
    storage = Storage()
    [item] = storage.list(str(tmp_path))
    assert storage.read(item.uri, 10) == b"pixels"


def test_links_to_files_are_followed_and_links_to_folders_are_not(tmp_path: Path) -> None:
    make(tmp_path, "in/a.jpg", "elsewhere/b.jpg")
    (tmp_path / "in/link.jpg").symlink_to(tmp_path / "elsewhere/b.jpg")
    (tmp_path / "in/loop").symlink_to(tmp_path / "in")
    assert listed(tmp_path / "in") == (["a.jpg", "link.jpg"], {"symlinked folder": 1})


def test_a_broken_link_is_listed_and_fails_when_it_is_read(tmp_path: Path) -> None:
    (tmp_path / "gone.jpg").symlink_to(tmp_path / "nowhere.jpg")
    storage = Storage()
    [item] = storage.list(str(tmp_path))
    with pytest.raises(ObjectMissing, match=r"gone\.jpg"):
        storage.read(item.uri, 10)


def test_a_pipe_is_no_image(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.jpg")
    assert listed(tmp_path) == ([], {"not a file": 1})


def test_the_output_folder_below_the_input_is_passed_over_by_any_of_its_names(tmp_path: Path) -> None:
    make(tmp_path, "a.jpg", "out/b.jpg", "other/out/c.jpg")
    (tmp_path.parent / f"{tmp_path.name}-link").symlink_to(tmp_path)
    assert keys(tmp_path, exclude=f"{tmp_path}/out/") == ["a.jpg", "other/out/c.jpg"]
    assert keys(tmp_path, exclude=f"{tmp_path.parent}/{tmp_path.name}-link/out") == ["a.jpg", "other/out/c.jpg"]


def test_output_folders_of_earlier_jobs_are_known_by_their_mark(tmp_path: Path) -> None:
    make(tmp_path, "a.jpg", "masks/overlay/a.jpg.jpg", f"masks/{OUTPUT_MARK}")
    assert listed(tmp_path) == (["a.jpg"], {"output": 1})


def test_output_and_input_may_not_be_one_folder(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="both input and output"):
        Storage().list(str(tmp_path), exclude=f"{tmp_path}/")


def test_a_prefix_that_names_one_file_lists_that_file(tmp_path: Path) -> None:
    make(tmp_path, "one.dat")
    assert keys(tmp_path / "one.dat") == ["one.dat"]


def test_a_missing_prefix_is_named(tmp_path: Path) -> None:
    with pytest.raises(ObjectMissing, match="nowhere does not exist"):
        Storage().list(f"{tmp_path}/nowhere")


def test_folders_are_read_as_the_caller_goes_on(tmp_path: Path) -> None:
    make(tmp_path, "a/1.jpg", "b/2.jpg")
    listing = Storage().list(str(tmp_path))
    assert [item.key for item in islice(listing, 1)] == ["a/1.jpg"]
    make(tmp_path, "b/3.jpg")  # not yet read, so still seen
    assert [item.key for item in listing] == ["b/2.jpg", "b/3.jpg"]


LIST_WITHOUT_RIGHTS = """
import os, sys
from samjobs.storage import Storage

if os.geteuid() == 0:  # root may read everything
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)
try:
    list(Storage().list(sys.argv[1]))
except Exception as error:
    print(type(error).__name__, error)
"""


def test_a_folder_that_may_not_be_read_is_named() -> None:
    # In a process of its own, which gives up its rights, and not below tmp_path, which is closed to others.
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        make(folder, "secret/a.jpg")
        (folder / "secret").chmod(0)
        program = [sys.executable, "-c", LIST_WITHOUT_RIGHTS, str(folder)]
        done = subprocess.run(program, capture_output=True, text=True, check=True)
        (folder / "secret").chmod(0o700)
    assert done.stdout.startswith(f"AccessDenied {folder}/secret: permission denied")
