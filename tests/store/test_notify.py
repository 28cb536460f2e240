"""Waking controllers: what is heard, how soon again after each way of losing the connection, and when it cannot be."""

import logging
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from uuid import UUID

import pytest
import sqlalchemy as sa

from samjobs.errors import ErrorClass, InvalidInput
from samjobs.names import Reason
from samjobs.states import ImageState
from samjobs.store import Connection, Store, connect, jobs, migrate, shards
from samjobs.store.notify import Listener, wake
from samjobs.store.rows import Shard
from tests.store.builders import DEAD, claim, job, new_images, outcomes, run, running, spec
from tests.waiting import until

MARKER = "marker-password"
SOON_S = 5.0


@pytest.fixture
def hearing(postgres_url: str) -> Iterator[tuple[Store, Listener]]:
    """A store, and a listener that hears and has nothing to tell."""
    store = connect(postgres_url)
    with closing(Listener(store, check_s=0.5)) as listener:
        assert listener.wait(SOON_S), "it says once that something may have been missed"
        yield store, listener
    store.close()


def act(store: Store, what: Callable[[Connection], object]) -> None:
    with store.begin() as conn:
        what(conn)


def drain(listener: Listener) -> None:
    while listener.wait(0.05):
        pass


def test_who_listens_hears_what_is_committed_and_nothing_else(hearing: tuple[Store, Listener]) -> None:
    store, listener = hearing
    assert listener.connected
    assert not listener.wait(0.01)
    with store.begin() as conn:
        wake(conn)
        assert not listener.wait(0.05)
    assert listener.wait(SOON_S)

    def ask_and_fail(conn: Connection) -> None:
        wake(conn)
        raise RuntimeError("rolled back")

    with suppress(RuntimeError):
        act(store, ask_and_fail)
    assert not listener.wait(0.05)


def test_a_burst_is_one_wake_up(hearing: tuple[Store, Listener]) -> None:
    store, listener = hearing
    for _ in range(50):
        act(store, wake)
    assert listener.wait(SOON_S)
    drain(listener)
    assert not listener.wait(0.05)


def test_everything_that_lets_a_controller_act_wakes_it(hearing: tuple[Store, Listener]) -> None:
    store, listener = hearing

    def told(what: Callable[[Connection], object]) -> bool:
        drain(listener)
        act(store, what)
        return listener.wait(SOON_S)

    job_id = job(store, 12)
    dead = job(store, 2)
    shard = running(store, dead)
    assert told(lambda conn: shards.fail(conn, *_name(shard), DEAD, error_class=ErrorClass.WORKER, error="x"))
    assert told(lambda conn: jobs.purge_dead(conn, dead, actor="ada"))
    assert told(lambda conn: jobs.mark_published(conn, dead))
    (claimed,) = claim(store, job_id=job_id)
    assert told(lambda conn: shards.start(conn, *_name(claimed), claimed.id))
    assert told(lambda conn: shards.finish(conn, *_name(claimed), outcomes(claimed)))
    released = running(store, job_id)
    assert told(lambda conn: shards.release(conn, *_name(released), reason=Reason.DRAINED))
    assert told(lambda conn: jobs.set_suspend(conn, job_id, True, actor="ada"))
    assert told(lambda conn: jobs.set_suspend(conn, job_id, False, actor="ada"))
    assert told(lambda conn: jobs.cancel(conn, job_id, actor="ada"))
    failed = job(store, 2)
    run(store, failed, ImageState.FAILED)
    assert told(lambda conn: jobs.retry_failed(conn, failed, actor="ada"))
    new: list[UUID] = []
    assert told(lambda conn: new.append(jobs.submit(conn, spec()).job_id))
    (new_id,) = new
    assert told(lambda conn: jobs.add_images(conn, new_id, new_images(2)))
    assert told(lambda conn: jobs.mark_expanded(conn, new_id))
    assert told(lambda conn: conn.execute(sa.text("INSERT INTO requests (spec) VALUES ('{}')")))


def _name(shard: Shard) -> tuple[UUID, int]:
    return shard.id, shard.attempt


def test_a_heartbeat_and_an_image_wake_nobody(hearing: tuple[Store, Listener]) -> None:
    store, listener = hearing
    shard = running(store, job(store, 4))
    drain(listener)
    with store.begin() as conn:
        shards.heartbeat(conn, shard.id, shard.attempt, shard.id)
        shards.record(conn, shard.id, shard.attempt, outcomes(shard)[:1])
    assert not listener.wait(0.1)


def test_a_connection_that_the_server_ends_is_made_again_and_an_outage_is_told_once(
    hearing: tuple[Store, Listener], caplog: pytest.LogCaptureFixture
) -> None:
    store, listener = hearing
    caplog.set_level(logging.INFO, "samjobs.store.notify")
    with store.begin() as conn:
        others = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND datname ="
        assert conn.exec_driver_sql(f"{others} current_database()").rowcount == 1
    began = time.monotonic()
    assert listener.wait(SOON_S), "once it is back it says that something may have been missed"
    assert listener.connected
    act(store, wake)
    assert listener.wait(SOON_S)
    assert time.monotonic() - began < SOON_S, "a wake-up is heard again within 5 s"
    told = [record.getMessage() for record in caplog.records]
    assert len(told) == 2, told
    assert "wake-ups are not heard" in told[0]
    assert "wake-ups are heard" in told[1]


class Proxy:
    """Between a client and the server; it can go silent: connections stay open, and nothing passes."""

    def __init__(self, port: int) -> None:
        self.port, self.silent, self.connections = 0, False, 0
        self._to = port
        self._door = socket.create_server(("127.0.0.1", 0))
        self.port = self._door.getsockname()[1]
        self._open: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._door.accept()
                server = socket.create_connection(("127.0.0.1", self._to))
                self.connections += 1
                self._open += [client, server]
                for source, sink in ((client, server), (server, client)):
                    threading.Thread(target=self._pass, args=(source, sink), daemon=True).start()

    def _pass(self, source: socket.socket, sink: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(65536):
                if not self.silent:
                    sink.sendall(data)

    def close(self) -> None:
        for one in [self._door, *self._open]:
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()


@pytest.fixture
def proxied(postgres_url: str) -> Iterator[tuple[Store, Proxy]]:
    url = sa.make_url(postgres_url)
    assert url.port is not None
    proxy = Proxy(url.port)
    store = connect(url.set(port=proxy.port).render_as_string(hide_password=False))
    yield store, proxy
    store.close()
    proxy.close()


def test_a_connection_that_has_gone_silent_is_made_again(postgres_url: str, proxied: tuple[Store, Proxy]) -> None:
    through, proxy = proxied
    direct = connect(postgres_url)
    with closing(Listener(through, check_s=0.3)) as listener:
        assert listener.wait(SOON_S)
        proxy.silent = True
        act(direct, wake)
        until(lambda: not listener.connected, "the listener notices that it hears nothing", SOON_S)
        assert not listener.wait(0)
        proxy.silent = False
        assert listener.wait(SOON_S)
        assert listener.connected
        assert proxy.connections >= 2
        act(direct, wake)
        assert listener.wait(SOON_S)
    direct.close()


def test_a_quiet_connection_stays(proxied: tuple[Store, Proxy]) -> None:
    store, proxy = proxied
    with closing(Listener(store, check_s=0.05)) as listener:
        assert listener.wait(SOON_S)
        assert not listener.wait(1.0)
        assert listener.connected
        assert proxy.connections == 1


def test_closing_ends_the_wait_of_another_thread(hearing: tuple[Store, Listener]) -> None:
    _, listener = hearing
    answers: list[bool] = []
    waiting = threading.Thread(target=lambda: answers.append(listener.wait(60)))
    waiting.start()
    listener.close()
    waiting.join(SOON_S)
    assert answers == [False]
    assert not listener.wait(60)
    until(lambda: "listener" not in {thread.name for thread in threading.enumerate()}, "its thread has ended")
    listener.close()


def test_a_server_that_is_away_is_waited_for_without_telling_its_password(caplog: pytest.LogCaptureFixture) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    store = connect(f"postgresql://me:{MARKER}@127.0.0.1:{port}/name")
    with closing(Listener(store)) as listener:
        until(lambda: bool(caplog.records), "the outage is told")
        assert not listener.wait(0.5), "several tries later"
        assert not listener.connected
    (record,) = caplog.records
    assert MARKER not in caplog.text + record.getMessage()
    assert store.name in record.getMessage()


def test_where_nobody_can_be_woken_a_listener_is_refused(sqlite_url: str, postgres_url: str) -> None:
    for store in (connect(sqlite_url), connect(postgres_url, pooled=True)):
        with pytest.raises(InvalidInput, match="poll it"):
            Listener(store)
        store.close()


def test_a_wake_on_sqlite_goes_nowhere_and_gives_the_time(sqlite_url: str) -> None:
    store = connect(sqlite_url)
    migrate(store)
    with store.begin() as conn:
        assert wake(conn).tzinfo is not None
    store.close()
