"""In which order does the API's process start, and with which code does it end?

    settings → who may call → database, with this code's schema → health port → API port

The database must be there at the start: a supervisor starts it again. Later an outage ends nothing: it is answered by
503. The process keeps nothing that another one would miss, so any number may run at once.

    0   after SIGTERM or SIGINT, when the requests in hand are answered; a second signal ends it at once
    3   something that it needs is not there or does not fit: settings, tokens, database, schema, port
    4   a fault of the code outside of any request
"""

import logging
import signal
import socket
import threading
import time
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from dataclasses import replace
from enum import IntEnum
from types import MappingProxyType
from typing import Any

import uvicorn

from api.access import access_of
from api.access.caller import Access
from api.app import create_app
from api.context import Context
from api.metrics import Metrics
from api.photos import Photos
from api.readiness import Readiness
from api.sampling import Samples
from api.sse import Watchers
from samjobs import __version__, memory
from samjobs.client import Client
from samjobs.errors import DatabaseUnavailable, InvalidInput, SamjobsError, describe
from samjobs.health import HealthPort
from samjobs.settings import Settings, load
from samjobs.storage import Storage, access_for, access_of_server

log = logging.getLogger("api")

# What requests in hand may take at the end.
LEAVE_S = 10.0
# An event loop that is silent for longer hangs.
HUNG_S = 30.0
# With a storage: whoever looks at a photo does not wait for long, and others wait for their turn.
PATIENCE: Mapping[str, Any] = MappingProxyType(
    {"connect_timeout_s": 5.0, "read_timeout_s": 10.0, "total_timeout_s": 30.0, "retries": 1}
)
WAITING = 1024  # connections that nobody has accepted yet
# Waited for by the first thread and handled nowhere: no handler can interrupt a thread that holds a lock.
SIGNALS = (signal.SIGTERM, signal.SIGINT)


class Exit(IntEnum):
    """Exit codes."""

    DONE = 0
    MISSING = 3
    BROKEN = 4


def main() -> Exit:
    """Serve until asked to end. SIGNALS must be blocked, in this thread and before any other."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    try:
        with ExitStack() as stack:
            return _serve(load(), stack)
    except SamjobsError as error:
        log.critical("%s%s", describe(error), _remedy(error))
        return Exit.MISSING
    except Exception as error:
        log.critical("this process ends by an unexpected error: %s", describe(error), exc_info=True)
        return Exit.BROKEN


def _remedy(error: SamjobsError) -> str:
    """What the library cannot know: where this process has its address from."""
    return "; start it, or name another in SAMJOBS_DATABASE_URL" if isinstance(error, DatabaseUnavailable) else ""


class Server(uvicorn.Server):
    """Uvicorn's, in a thread: it tells how long its event loop has been silent, and handles no signal."""

    def __init__(self, config: uvicorn.Config, listening: socket.socket) -> None:
        super().__init__(config)
        self._socket = listening
        self._ticked_at = time.monotonic()
        self.thread = threading.Thread(target=self._run, name="http", daemon=True)

    @property
    def silent_s(self) -> float:
        """Seconds since the event loop last showed that it goes on; it does so ten times a second."""
        return time.monotonic() - self._ticked_at

    async def on_tick(self, counter: int) -> bool:
        """Uvicorn's own hook."""
        self._ticked_at = time.monotonic()
        return await super().on_tick(counter)

    def _run(self) -> None:
        try:
            self.run([self._socket])
        except BaseException:
            log.critical("the HTTP server ended by an unexpected error", exc_info=True)
            raise


def _serve(settings: Settings, stack: ExitStack) -> Exit:
    access = access_of(settings)
    client = stack.enter_context(Client())
    context = _context(settings, client, access, stack)
    listening = stack.enter_context(_listening(settings.api_host, settings.api_port))
    server = Server(_config(context), listening)
    port = stack.enter_context(_health(settings, context, server))
    log.info(
        "api %s starts: port=%d probes=%d access=%s database=%s%s body=%d bytes at most",
        __version__,
        listening.getsockname()[1],
        port.server_port,
        settings.api_access,
        client.store.name,
        " (pooled: no notifications)" if client.store.pooled else "",
        settings.api_max_body_bytes,
    )
    memory.settle()
    context.samples.start()
    server.thread.start()
    while server.thread.is_alive() and not _signalled():
        pass
    if not server.thread.is_alive():
        return Exit.BROKEN
    _end(context, server)
    return Exit.DONE


def _signalled() -> bool:
    """Whether this process is asked to end, within a second. After a stop and a continuation Python may give a signal
    that nobody sent."""
    got = signal.sigtimedwait(SIGNALS, 1.0)
    return got is not None and got.si_signo in SIGNALS


def _context(settings: Settings, client: Client, access: Access, stack: ExitStack) -> Context:
    # What lies in a SQLite file is worked on by a person with their own rights.
    reachable = access_for(settings) if client.store.is_sqlite else access_of_server(settings)
    storage = stack.enter_context(Storage(replace(reachable, **PATIENCE)))
    metrics = Metrics()
    watchers = Watchers(client, metrics.watching)
    stack.callback(watchers.close)
    return Context(
        settings=settings,
        client=client,
        access=access,
        metrics=metrics,
        watchers=watchers,
        samples=Samples(client),
        photos=Photos(settings, storage),
        readiness=Readiness(client.store),
    )


def _config(context: Context) -> uvicorn.Config:
    return uvicorn.Config(
        create_app(context),
        lifespan="off",
        log_config=None,
        access_log=False,
        proxy_headers=False,  # nothing depends on who a proxy says that it stands for
        server_header=False,
        backlog=WAITING,
        timeout_graceful_shutdown=round(LEAVE_S),
    )


def _listening(host: str, port: int) -> socket.socket:
    """A socket that listens there: on IPv4 and IPv6 alike where no address is named.

    Raises:
        InvalidInput: the address or the port cannot be had.
    """
    everywhere = host == "" and socket.has_dualstack_ipv6()
    family = socket.AF_INET6 if everywhere or ":" in host else socket.AF_INET
    try:
        made = socket.create_server((host, port), family=family, dualstack_ipv6=everywhere, backlog=WAITING)
    except (OSError, OverflowError) as error:
        where = f"{host or 'any address'}, port {port}"
        raise InvalidInput(
            f"SAMJOBS_API_PORT: cannot listen on {where} ({error}): give a free port, or 0 for any"
        ) from None
    # Its connections inherit it. Without it each answer waits 40 ms for an acknowledgement, since asyncio does not
    # know this socket for one of TCP.
    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return made


def _health(settings: Settings, context: Context, server: Server) -> HealthPort:
    def alive() -> str | None:
        return f"the event loop has been silent for {server.silent_s:.0f} s" if server.silent_s > HUNG_S else None

    def ready() -> str | None:
        if not server.started or server.should_exit:
            return "it does not serve yet, or no more"
        return context.readiness.why_not()

    return HealthPort(settings.health_host, settings.health_port, context.metrics.registry, alive=alive, ready=ready)


def _end(context: Context, server: Server) -> None:
    """Answer what is in hand, and no more. A second signal no longer waits for that."""
    for number in SIGNALS:
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
    context.samples.stop()
    server.should_exit = True
    context.watchers.close()
    server.thread.join(LEAVE_S + 5)
    with suppress(SamjobsError):
        context.store.close()
    log.info("ended%s", ", with requests in hand" if server.thread.is_alive() else "")
