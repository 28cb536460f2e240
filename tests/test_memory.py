"""What a container lets a process take."""

from pathlib import Path

from samjobs.memory import room

MEBI = 1 << 20


def test_the_room_is_what_the_limit_leaves(tmp_path: Path) -> None:
    limit = tmp_path / "memory.max"
    limit.write_text(f"{100_000 * MEBI}\n")
    left = room((tmp_path / "none", limit))
    assert left is not None
    assert 90_000 * MEBI < left < 100_000 * MEBI, "this process has some of it"
    limit.write_text("1000\n")
    assert room((limit,)) == 0


def test_no_limit_is_no_number(tmp_path: Path) -> None:
    for text in ("max\n", "9223372036854771712\n", ""):
        (tmp_path / "limit").write_text(text)
        assert room((tmp_path / "limit",)) is None
    assert room((tmp_path / "none",)) is None
