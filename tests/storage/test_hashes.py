"""The quick hash sees what it promises to see."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from samjobs.storage.hashes import SAMPLE_BYTES, content_hash, quick_hash, sample_ranges


@given(st.integers(0, 10**12))
def test_samples_lie_inside_the_file_and_hold_at_most_20_kib(size: int) -> None:
    ranges = sample_ranges(size)
    assert all(0 <= start <= end <= size for start, end in ranges)
    assert sum(end - start for start, end in ranges) <= 5 * SAMPLE_BYTES
    assert ranges[0][0] == 0
    assert ranges[-1][1] == size


@pytest.mark.parametrize("position", [0, 25_000, 50_000, 75_000, 99_999])
def test_a_change_in_a_sample_changes_the_quick_hash(position: int) -> None:
    data = bytearray(100_000)
    before = quick_hash(bytes(data))
    data[position] = 1
    assert quick_hash(bytes(data)) != before


def test_a_change_between_the_samples_is_seen_by_the_content_hash_alone() -> None:
    data = bytearray(100_000)
    quick, full = quick_hash(bytes(data)), content_hash(bytes(data))
    data[10_000] = 1
    assert quick_hash(bytes(data)) == quick
    assert content_hash(bytes(data)) != full


def test_files_of_zeros_with_other_sizes_differ() -> None:
    assert len({quick_hash(bytes(size)) for size in (0, 1, 4096, 20_480, 20_481, 100_000)}) == 6


def test_hashes_are_160_bits_in_hex() -> None:
    assert len(content_hash(b"")) == len(quick_hash(b"")) == 40
