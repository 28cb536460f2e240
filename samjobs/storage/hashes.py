"""Two hashes of a file: a quick one that asks "may it have changed?", a full one that knows.

The quick hash covers the size and five samples, so it is cheap on a file of any size and cannot see a change between
its samples that keeps the size; whoever needs certainty takes the content hash.
"""

import hashlib
from collections.abc import Sequence

SAMPLE_BYTES = 4096


def sample_ranges(size: int) -> list[tuple[int, int]]:
    """The byte ranges (start, end) that the quick hash reads: start, ¼, ½, ¾ and end; all of a small file.

    >>> sample_ranges(100)
    [(0, 100)]
    >>> sample_ranges(100_000)
    [(0, 4096), (25000, 29096), (50000, 54096), (75000, 79096), (95904, 100000)]
    """
    if size <= 5 * SAMPLE_BYTES:
        return [(0, size)]
    starts = (0, size // 4, size // 2, 3 * size // 4, size - SAMPLE_BYTES)
    return [(start, start + SAMPLE_BYTES) for start in starts]


def hash_samples(size: int, samples: Sequence[bytes]) -> str:
    """BLAKE2b (160 bit, hex) over the size as 8 bytes little endian, then the samples of `sample_ranges`."""
    digest = hashlib.blake2b(size.to_bytes(8, "little"), digest_size=20)
    for sample in samples:
        digest.update(sample)
    return digest.hexdigest()


def quick_hash(data: bytes) -> str:
    """The quick hash of bytes in memory; the same as `Storage.quick_hash` of the file they came from."""
    return hash_samples(len(data), [data[start:end] for start, end in sample_ranges(len(data))])


def content_hash(data: bytes) -> str:
    """BLAKE2b (160 bit, hex) of all bytes."""
    return hashlib.blake2b(data, digest_size=20).hexdigest()
