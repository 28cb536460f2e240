"""Reading and writing files of this machine, through the Storage."""

import errno
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from samjobs.errors import ErrorClass, ImageError, InvalidInput, ObjectMissing, OutputUnwritable
from samjobs.storage import Storage, encode_path, quick_hash
from samjobs.storage.faults import writing


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.fixture
def storage() -> Storage:
    return Storage()


def test_what_was_put_is_read_back_and_folders_are_made(storage: Storage, tmp_path: Path) -> None:
    uri = f"{tmp_path}/a/b/c.bin"
    storage.put(uri, b"one")
    storage.put(uri, b"two")
    assert storage.read(uri, 3) == b"two"
    assert storage.size(uri) == 3
    assert names(tmp_path / "a/b") == ["c.bin"]


def test_a_file_over_the_limit_is_refused_with_both_numbers(storage: Storage, tmp_path: Path) -> None:
    (tmp_path / "big.jpg").write_bytes(bytes(2000))
    with pytest.raises(ImageError, match=r"2,000 bytes, over the limit of 1,999"):
        storage.read(f"{tmp_path}/big.jpg", 1999)


def test_a_file_without_end_is_no_regular_file(storage: Storage, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.jpg")
    for uri in ("/dev/zero", f"{tmp_path}/pipe.jpg"):
        with pytest.raises(ImageError, match="not a regular file"):
            storage.read(uri, 10)


def test_missing_files_and_folders_are_missing(storage: Storage, tmp_path: Path) -> None:
    assert storage.size(f"{tmp_path}/no.jpg") is None
    for uri in (f"{tmp_path}/no.jpg", f"{tmp_path}/no/a.jpg"):
        with pytest.raises(ObjectMissing, match=r"no.* does not exist"):
            storage.read(uri, 10)
        with pytest.raises(ObjectMissing):
            storage.stamp(uri)


def test_a_nul_in_a_path_is_refused(storage: Storage, tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="NUL"):
        storage.read(f"{tmp_path}/a%00.jpg", 10)


def test_a_stamp_changes_when_the_file_does(storage: Storage, tmp_path: Path) -> None:
    path = tmp_path / "a.jpg"
    path.write_bytes(b"one")
    os.utime(path, ns=(1, 1))
    before = storage.stamp(str(path))
    assert storage.stamp(str(path)) == before
    os.utime(path, ns=(1, 2))
    assert storage.stamp(str(path)) != before
    assert before.size == 3


@pytest.mark.parametrize("size", [0, 1, 20_480, 20_481, 1_000_003])
def test_the_quick_hash_of_a_file_is_that_of_its_bytes(storage: Storage, tmp_path: Path, size: int) -> None:
    data = os.urandom(size)
    (tmp_path / "a.jpg").write_bytes(data)
    assert storage.quick_hash(f"{tmp_path}/a.jpg") == quick_hash(data)


def test_a_local_file_is_put_without_reading_it_whole(storage: Storage, tmp_path: Path) -> None:
    (tmp_path / "source").write_bytes(bytes(3_000_000))
    storage.put_file(f"{tmp_path}/out/copy", tmp_path / "source")
    assert storage.size(f"{tmp_path}/out/copy") == 3_000_000


def test_deleting_twice_is_no_error(storage: Storage, tmp_path: Path) -> None:
    storage.put(f"{tmp_path}/a", b"x")
    storage.delete(f"{tmp_path}/a")
    storage.delete(f"{tmp_path}/a")
    assert storage.size(f"{tmp_path}/a") is None


def test_putting_over_a_symlink_replaces_the_link_and_not_its_target(storage: Storage, tmp_path: Path) -> None:
    (tmp_path / "target").write_bytes(b"precious")
    (tmp_path / "link").symlink_to(tmp_path / "target")
    storage.put(f"{tmp_path}/link", b"new")
    assert (tmp_path / "target").read_bytes() == b"precious"


def test_free_bytes_are_those_of_the_disk_even_for_a_folder_to_come(storage: Storage, tmp_path: Path) -> None:
    free = storage.free_bytes(f"{tmp_path}/not/yet/there")
    assert free is not None
    assert free > 0


def test_a_full_disk_is_critical_names_path_and_bytes_and_leaves_nothing(tmp_path: Path) -> None:
    # A limit on file sizes fails a write half way, as a full disk does, without needing one. In a process of its own,
    # since the limit cannot be raised again.
    program = f"""
import resource, signal
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
from samjobs.errors import classify
from samjobs.storage import Storage
try:
    Storage().put({str(tmp_path / "out" / "a.bin")!r}, bytes(5000))
except Exception as error:
    print(classify(error), error)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("critical ")
    assert "a.bin (5,000 bytes wanted, " in done.stdout
    assert " bytes are free): File too large" in done.stdout
    assert names(tmp_path / "out") == []


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES])
def test_every_way_not_to_be_able_to_write_is_critical(number: int) -> None:
    message = r"10 bytes wanted, 5 bytes are free.*choose another output"
    with pytest.raises(OutputUnwritable, match=message) as caught, writing("/out/a", 10, lambda: 5):
        raise OSError(number, os.strerror(number))
    assert caught.value.error_class is ErrorClass.CRITICAL


def test_a_path_that_is_too_long_is_said_to_be(storage: Storage, tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="too long"):
        storage.put(f"{tmp_path}/{'x' * 300}", b"x")


def test_a_file_and_a_folder_of_one_name_fail_that_write_alone(storage: Storage, tmp_path: Path) -> None:
    (tmp_path / "out").write_bytes(b"a file")
    (tmp_path / "b.png").mkdir()
    for name in ("out/a.png", "b.png"):
        with pytest.raises(InvalidInput, match=f"{name}: a file stands where"):
            storage.put(f"{tmp_path}/{name}", b"x")
    assert names(tmp_path) == ["b.png", "out"]


def test_a_reader_sees_old_or_new_bytes_and_never_a_mixture(storage: Storage, tmp_path: Path) -> None:
    uri = encode_path(tmp_path / "a.bin")
    bodies = [bytes([number]) * 200_000 for number in range(4)]
    storage.put(uri, bodies[0])
    writers = [
        threading.Thread(target=lambda body=body: [storage.put(uri, body) for _ in range(20)]) for body in bodies
    ]
    for writer in writers:
        writer.start()
    seen = set()
    while any(writer.is_alive() for writer in writers):
        seen.add(storage.read(uri, 1_000_000))
    for writer in writers:
        writer.join()
    assert seen <= set(bodies)
    assert names(tmp_path) == ["a.bin"]
