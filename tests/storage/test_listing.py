"""Which files of a folder become images."""

import os
from collections import Counter
from itertools import islice
from pathlib import Path

import pytest

from samjobs.errors import AccessDenied, InvalidInput, ObjectMissing
from samjobs.storage import Storage, encode_path


def make(root: Path, *names: str) -> None:
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"x")


def keys(root: Path, **options: str) -> list[str]:
    return [item.key for item in Storage().list(encode_path(root), **options)]


def test_image_extensions_count_in_any_case_and_nothing_else(tmp_path: Path) -> None:
    suffixes = ("jpg", "jpeg", "jpe", "jfif", "png", "tif", "tiff", "webp", "bmp", "gif", "mpo", "JPG", "Png")
    images = [f"{suffix}.{suffix}" for suffix in suffixes]
    make(tmp_path, *images, "notes.txt", "a.jpg.part", "jpg", "b.heic")
    listing = Storage().list(str(tmp_path))
    assert sorted(item.key for item in listing) == sorted(images)
    assert listing.ignored == Counter({"not an image": 4})


def test_hidden_files_and_junk_are_passed_over_with_all_that_is_in_them(tmp_path: Path) -> None:
    make(tmp_path, "a.jpg", ".b.jpg", ".cache/c.jpg", "__MACOSX/d.jpg", "x/@eaDir/e.jpg", "x/._f.jpg", "x/Thumbs.db")
    make(tmp_path, ".DS_Store", "desktop.ini")
    listing = Storage().list(str(tmp_path))
    assert [item.key for item in listing] == ["a.jpg"]
    assert listing.ignored == Counter({"junk": 6, "hidden": 2})


def test_a_hidden_folder_that_is_asked_for_is_listed(tmp_path: Path) -> None:
    make(tmp_path, ".photos/a.jpg")
    assert keys(tmp_path / ".photos") == ["a.jpg"]


def test_the_order_is_depth_first_by_name_and_always_the_same(tmp_path: Path) -> None:
    make(tmp_path, "b.jpg", "a/z.jpg", "a/b/c.jpg", "c/a.jpg", "B.jpg", "a.jpg")
    assert keys(tmp_path) == ["B.jpg", "a/b/c.jpg", "a/z.jpg", "a.jpg", "b.jpg", "c/a.jpg"]


def test_sizes_and_uris_lead_back_to_the_files(tmp_path: Path) -> None:
    make(tmp_path, "sub/é ü.jpg")
    [item] = Storage().list(str(tmp_path))
    assert item.size == 1
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
    listing = Storage().list(f"{tmp_path}/in")
    assert [item.key for item in listing] == ["a.jpg", "link.jpg"]
    assert listing.ignored == Counter({"symlinked folder": 1})


def test_a_broken_link_is_listed_and_fails_when_it_is_read(tmp_path: Path) -> None:
    (tmp_path / "gone.jpg").symlink_to(tmp_path / "nowhere.jpg")
    storage = Storage()
    [item] = storage.list(str(tmp_path))
    assert item.size is None
    with pytest.raises(ObjectMissing, match=r"gone\.jpg"):
        storage.read(item.uri, 10)


def test_a_pipe_is_no_image(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.jpg")
    listing = Storage().list(str(tmp_path))
    assert list(listing) == []
    assert listing.ignored == Counter({"not a file": 1})


def test_the_output_folder_below_the_input_is_passed_over_by_any_of_its_names(tmp_path: Path) -> None:
    make(tmp_path, "a.jpg", "out/b.jpg", "other/out/c.jpg")
    (tmp_path.parent / f"{tmp_path.name}-link").symlink_to(tmp_path)
    assert keys(tmp_path, exclude=f"{tmp_path}/out/") == ["a.jpg", "other/out/c.jpg"]
    assert keys(tmp_path, exclude=f"{tmp_path.parent}/{tmp_path.name}-link/out") == ["a.jpg", "other/out/c.jpg"]


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


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_folder_that_may_not_be_read_is_named(tmp_path: Path) -> None:
    make(tmp_path, "secret/a.jpg")
    (tmp_path / "secret").chmod(0)
    with pytest.raises(AccessDenied, match="secret"):
        list(Storage().list(str(tmp_path)))
    (tmp_path / "secret").chmod(0o700)
