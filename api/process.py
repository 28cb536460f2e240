"""In which order does the API's process start, and with which code does it end?

    settings → who may call → database, with this code's schema → health port → API port

The database must be there at the start: a supervisor starts it again. Later an outage ends nothing: it is answered by
503. The process keeps nothing that another one would miss, so any number may run at once.

    0   after SIGTERM or SIGINT, when the requests in hand are answered; a second signal ends it at once
    3   something that it needs is not there or does not fit: settings, tokens, database, schema, port
    4   a fault of the code outside of any request
"""

import logging
import socket
import threading
import time
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import uvicorn

from api.access import access_of
from api.access.caller import Access
from api.app import create_app
from api.context import Context
from api.edge import Edge
from api.metrics import Metrics
from api.photos import Photos
from api.readiness import Readiness
from api.sampling import Samples
from api.silent import Silent
from api.sse import Watchers
from samjobs import __version__, memory
from samjobs.client import Client
from samjobs.errors import InvalidInput, SamjobsError
from samjobs.health import HealthPort
from samjobs.process import Exit, end_by_next_signal, run, signalled
from samjobs.settings import Settings
from samjobs.storage import Storage, access_for, access_of_server

log = logging.getLogger("api")

# What requests in hand may take at the end.
LEAVE_S = 10.0
# An event loop that is silent for longer hangs.
HUNG_S = 30.0
# A caller who is silent for longer, in the middle of something, is cut off.
SILENT_S = 30.0
TICKS_OF_A_SECOND = 10
# With a storage: whoever looks at a photo does not wait for long, and others wait for their turn.
PATIENCE: Mapping[str, Any] = MappingProxyType(
    {"connect_timeout_s": 5.0, "read_timeout_s": 10.0, "total_timeout_s": 30.0, "retries": 1}
)
WAITING = 1024  # connections that nobody has accepted yet


def main() -> Exit:
    """Serve until asked to end. The signals must be blocked, in this thread and before any other."""
    return run(_serve, log)


class Server(uvicorn.Server):
    """Uvicorn's, in a thread: it tells how long its event loop has been silent, and handles no signal.

    Args:
        patience_s: how long a caller may keep a connection without going on; see `api/silent.py`.
    """

    def __init__(self, config: uvicorn.Config, listening: socket.socket, patience_s: float = SILENT_S) -> None:
        super().__init__(config)
        self._socket = listening
        self._silent = Silent(patience_s)
        self._ticked_at = time.monotonic()
        self.thread = threading.Thread(target=self._run, name="http", daemon=True)

    @property
    def silent_s(self) -> float:
        """Seconds since the event loop last showed that it goes on; it does so ten times a second."""
        return time.monotonic() - self._ticked_at

    async def on_tick(self, counter: int) -> bool:
        """Uvicorn's own hook."""
        self._ticked_at = time.monotonic()
        if counter % TICKS_OF_A_SECOND == 0:
            self._silent.cut(self.server_state.connections)
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
    while server.thread.is_alive() and not signalled():
        pass
    if not server.thread.is_alive():
        return Exit.BROKEN
    _end(context, server)
    return Exit.DONE


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
        Edge(create_app(context), context.metrics),
        lifespan="off",
        http="h11",  # which bounds a request's head
        ws="none",
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
    end_by_next_signal()
    context.samples.stop()
    server.should_exit = True
    context.watchers.close()
    server.thread.join(LEAVE_S + 5)
    with suppress(SamjobsError):
        context.store.close()
    log.info("ended%s", ", with requests in hand" if server.thread.is_alive() else "")
