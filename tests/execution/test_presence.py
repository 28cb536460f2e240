"""Whether another process of this machine is alive is known at once, however it ended."""

import fcntl
import threading
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest

from samjobs.execution.presence import Presence
from samjobs.store import connect, migrate
from tests.execution.builders import Other


@pytest.fixture
def other(tmp_path: Path, sqlite_url: str) -> Iterator[Other]:
    store = connect(sqlite_url)
    migrate(store)
    store.close()
    started = Other(sqlite_url, tmp_path, claim=False)
    yield started
    started.kill()


def test_a_process_is_alive_until_it_is_killed(tmp_path: Path, other: Other) -> None:
    with Presence(tmp_path, uuid4()) as mine:
        assert mine.alive(other.incarnation)
        other.kill()
        assert not mine.alive(other.incarnation)
        mine.forget(other.incarnation)
        assert len(list(tmp_path.glob("*.lock"))) == 1


def test_a_process_that_ended_in_order_leaves_nothing(tmp_path: Path, other: Other) -> None:
    other.end()
    with Presence(tmp_path, uuid4()) as mine:
        assert not mine.alive(other.incarnation)
    assert list(tmp_path.glob("*.lock")) == []


def test_one_is_alive_to_itself_and_a_stranger_is_not(tmp_path: Path) -> None:
    with Presence(tmp_path, own := uuid4()) as mine:
        assert mine.alive(own)
        assert not mine.alive(uuid4())


def test_two_who_ask_at_once_do_not_take_each_other_for_the_owner(tmp_path: Path) -> None:
    dead = uuid4()
    with (tmp_path / f"{dead}.lock").open("w") as file, Presence(tmp_path, uuid4()) as mine:
        fcntl.flock(file, fcntl.LOCK_SH)  # what another asker holds for a moment
        assert not mine.alive(dead)


def test_alone_lets_one_in_at_a_time(tmp_path: Path) -> None:
    mine, inside, entered = Presence(tmp_path, uuid4()), threading.Event(), threading.Event()
    order: list[str] = []

    def second() -> None:
        inside.wait()
        entered.set()
        with Presence(tmp_path, uuid4()).alone("gather"):
            order.append("second")

    thread = threading.Thread(target=second)
    thread.start()
    with mine.alone("gather"):
        inside.set()
        entered.wait()
        order.append("first")
    thread.join()

    assert order == ["first", "second"]
