"""How does a controller learn at once that there is something to do?

Who changes something that a controller may act on calls `wake` in the same transaction: Postgres tells it at the
commit, and tells several of one transaction once. A `Listener` hears it. SQLite and a pooled connection have no such
thing; there, and whenever a wake-up is lost, the controller's next regular pass finds the work.

A connection that hears nothing looks like one on which nothing happens. So the listener tells itself something again
and again, and makes a new connection when it does not hear that.
"""

import logging
import os
import selectors
import threading
import time
from contextlib import closing
from datetime import datetime
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self
from uuid import uuid4

import sqlalchemy as sa

from samjobs.errors import InvalidInput, describe
from samjobs.names import CHANNEL
from samjobs.store.engine import KEEPALIVE, Connection, Store, now
from samjobs.store.types import db_now

if TYPE_CHECKING:
    import psycopg

log = logging.getLogger(__name__)

CHECK_S = 10.0
_FIRST_PAUSE_S = 0.1
_LONGEST_PAUSE_S = 2.0
_LEAVE_S = 1.0

# What `wake` does, for a statement that returns something anyway. On Postgres alone.
WOKEN = sa.func.pg_notify(CHANNEL, "")
_WAKE = sa.select(db_now(), WOKEN)


def wake(conn: Connection) -> datetime:
    """Wake the controllers when this transaction commits.

    Returns:
        The database's clock, as `engine.now` gives it: most callers need it too, and so it costs no statement.
    """
    if conn.dialect.name == "sqlite":
        return now(conn)
    at: datetime = conn.execute(_WAKE).one()[0]
    return at


class Listener:
    """Hears `wake`, by a thread with a connection of its own, from its making to `close()`."""

    def __init__(self, store: Store, *, check_s: float = CHECK_S) -> None:
        """
        Args:
            check_s: seconds between two checks of the connection, and how long it may take to answer one.

        Raises:
            InvalidInput: on SQLite, or through a pooler: there is nothing to listen to.
        """
        if store.is_sqlite or store.pooled:
            raise InvalidInput(
                f"database {store.name} cannot wake anybody (SQLite, or pgbouncer in transaction mode): poll it"
            )
        self._store, self._check_s = store, check_s
        self._own = f"samjobs_{uuid4().hex}"
        self._heard, self._connected, self._closed = threading.Event(), threading.Event(), threading.Event()
        self._closing = threading.Lock()
        self._leave, self._left = os.pipe()
        self._thread = threading.Thread(target=self._listen_until_closed, name="listener", daemon=True)
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    @property
    def connected(self) -> bool:
        """Whether the last check of the connection was answered."""
        return self._connected.is_set()

    def wait(self, timeout_s: float) -> bool:
        """Wait until somebody called `wake`, or something may have been missed, since the last call of this.

        Returns:
            False after `timeout_s` in vain, and at once when closed. Any number of wake-ups is one.
        """
        if not self._heard.wait(timeout_s) or self._closed.is_set():
            return False
        self._heard.clear()
        return True

    def close(self) -> None:
        """Stop listening; from any thread. Whoever waits stops waiting."""
        with self._closing:
            if not self._closed.is_set():
                os.write(self._left, b"x")  # before `_closed`, at which the thread closes the pipe
                self._closed.set()
                self._heard.set()
        # A connection that is just being made ends by its own timeout.
        self._thread.join(_LEAVE_S)

    def _listen_until_closed(self) -> None:
        pause_s, out = _FIRST_PAUSE_S, False
        while not self._closed.is_set():
            try:
                self._listen()
            except Exception as error:  # whatever it was: there is nobody else to make the next connection
                if self._connected.is_set() or not out:
                    log.warning("database %s: wake-ups are not heard: %s", self._store.name, describe(error, 500))
                    pause_s, out = _FIRST_PAUSE_S, True
                self._connected.clear()
                self._closed.wait(pause_s)
                pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)
        os.close(self._leave)
        os.close(self._left)

    def _listen(self) -> None:
        """One connection's life; returns only when closed."""
        # `closing`: its own `with` would first ask the server, which may be the one that does not answer.
        with closing(_connect(self._store, self._check_s)) as connection, selectors.DefaultSelector() as selector:
            talk = _Talk(connection, self._own)
            selector.register(connection.fileno(), selectors.EVENT_READ)
            selector.register(self._leave, selectors.EVENT_READ)
            asked = talk.ask()
            answered = False
            while not self._closed.is_set():
                selector.select(max(0.0, asked + self._check_s - time.monotonic()))
                heard, echo = talk.read()
                if heard:
                    self._heard.set()
                if echo and not self._connected.is_set():
                    log.info("database %s: wake-ups are heard", self._store.name)
                    self._connected.set()
                    self._heard.set()  # what was said before was not heard
                answered = answered or echo
                if time.monotonic() - asked >= self._check_s:
                    if not answered:
                        raise TimeoutError(f"the connection was silent for {self._check_s:g} s")
                    asked, answered = talk.ask(), False


def _connect(store: Store, check_s: float) -> "psycopg.Connection[tuple[Any, ...]]":
    import psycopg

    # As the engine connects: the same address, with the same options in it.
    address, options = store.engine.dialect.create_connect_args(store.engine.url)
    patience = {"connect_timeout": max(2, round(check_s)), **KEEPALIVE}
    return psycopg.connect(*address, **{**options, **patience}, autocommit=True)


class _Talk:
    """A connection's questions to itself. By libpq's own calls, none of which waits for the other side."""

    def __init__(self, connection: "psycopg.Connection[tuple[Any, ...]]", own: str) -> None:
        self._pg, self._own = connection.pgconn, own.encode()

    def ask(self) -> float:
        """Listen, and say something to oneself; when (monotonic). The answer is an echo by `read`."""
        # Both each time: it costs nothing, and there is but one way to begin and to go on.
        self._pg.send_query(b"LISTEN %b; LISTEN %b; NOTIFY %b" % (CHANNEL.encode(), self._own, self._own))
        self._pg.flush()
        return time.monotonic()

    def read(self) -> tuple[bool, bool]:
        """What has arrived: whether anybody woke us, and whether we heard ourselves.

        Raises:
            psycopg.Error: the connection is gone, or the server refuses to listen.
        """
        import psycopg

        self._pg.consume_input()
        while not self._pg.is_busy():
            result = self._pg.get_result()
            if result is None:
                break
            if result.status != psycopg.pq.ExecStatus.COMMAND_OK:
                raise psycopg.OperationalError(result.get_error_message())
        heard = echo = False
        while (note := self._pg.notifies()) is not None:
            echo = echo or note.relname == self._own
            heard = heard or note.relname != self._own
        return heard, echo
