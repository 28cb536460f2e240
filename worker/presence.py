"""What does a worker tell of itself, while it loads, idles, works and drains?

A thread with a connection of its own beats in the `workers` table, so that neither a busy device nor a slow query makes
a living worker look dead. A change of state is told at once, but not more than once a second: a worker that runs
hundreds of small shards a second costs the database no more. The probes of the health port ask here, too.
"""

import logging
import os
import platform
import threading
import time
from types import TracebackType
from typing import Self
from uuid import UUID

from samjobs.errors import SamjobsError
from samjobs.segmentation.engines.base import EngineInfo
from samjobs.settings import Settings
from samjobs.store import Connection, Store, workers
from samjobs.store.rows import WorkerState
from worker.drain import Drain
from worker.outage import Outage

log = logging.getLogger(__name__)

LEAST_S = 1.0  # between two beats


class Presence:
    """This process in the table of workers, while in the `with` block."""

    def __init__(self, store: Store, incarnation: UUID, settings: Settings, drain: Drain) -> None:
        """`store`: connections that nothing else waits for or holds for long."""
        self.stall: str | None = None  # why work stalls: see `execution.lease`
        self._store, self._incarnation, self._settings, self._drain = store, incarnation, settings, drain
        self._info: EngineInfo | None = None
        self._load_s: float | None = None
        self._image_s: float | None = None
        self._listed: EngineInfo | None = None  # as the table has it
        self._state = WorkerState.LOADING
        self._shard_id: UUID | None = None
        self._beaten = time.monotonic()
        self._outage = Outage("database, for heartbeats")
        self._changed, self._stop = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._beat_until_stopped, name="presence", daemon=True)

    def __enter__(self) -> Self:
        """Raises what the store raises: who cannot be listed does not start."""
        with self._store.begin() as conn:
            self._register(conn)
        self._beaten = time.monotonic()
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._stop.set()
        self._changed.set()
        self._thread.join()
        try:
            with self._store.begin() as conn:
                workers.set_state(conn, self._incarnation, WorkerState.GONE)
        except SamjobsError as error_at_end:  # its last heartbeat tells it, too
            log.warning("the end of this worker could not be told: %s", error_at_end)

    def loaded(self, info: EngineInfo, load_s: float) -> None:
        """The engine is there, after so many seconds, and has shown that it works: ready."""
        self._info, self._load_s = info, load_s
        self.tell(WorkerState.READY)

    def tell(self, state: WorkerState, shard_id: UUID | None = None) -> None:
        """What this worker does now. Costs the caller nothing."""
        self._state, self._shard_id = state, shard_id
        self._changed.set()

    def measured(self, image_s: float) -> None:
        """How many seconds an image takes this worker lately: told with the next change of state, or beat."""
        self._image_s = image_s

    def age_s(self) -> float:
        """Seconds since the last heartbeat that the database heard."""
        return time.monotonic() - self._beaten

    def alive(self) -> str | None:
        """Why this process should be restarted; None: it should not."""
        return self.stall

    def ready(self) -> str | None:
        """Why this worker takes no work; None: it does. Nothing outside the process is asked."""
        if self._drain.requested:
            return "draining"
        return f"loading engine {self._settings.engine}" if self._state is WorkerState.LOADING else None

    def _beat_until_stopped(self) -> None:
        beat_s = self._settings.beat_s
        least_s = min(LEAST_S, beat_s)
        pause_s = 0.0
        while not self._stop.wait(max(least_s, pause_s)):
            self._changed.wait(beat_s - least_s)
            self._changed.clear()
            if self._stop.is_set():
                return
            try:
                self._beat()
            except SamjobsError as error:
                pause_s = min(self._outage.failed(error), beat_s)
                continue
            self._outage.over()
            self._beaten, pause_s = time.monotonic(), 0.0

    def _beat(self) -> None:
        state = WorkerState.DRAINING if self._drain.requested else self._state
        info, listed = self._info, self._listed
        with self._store.begin() as conn:
            if not self._set_state(conn, state):
                self._register(conn)  # it was silent for long, and forgotten
                self._set_state(conn, state)
                listed = None
            if info is not None and info is not listed:
                workers.set_model(
                    conn,
                    self._incarnation,
                    device=info.device,
                    model=info.model,
                    revision=info.revision,
                    load_s=self._load_s,
                )
        self._listed = info

    def _set_state(self, conn: Connection, state: WorkerState) -> bool:
        return workers.set_state(conn, self._incarnation, state, shard_id=self._shard_id, image_s=self._image_s)

    def _register(self, conn: Connection) -> None:
        workers.register(
            conn,
            self._incarnation,
            pool=self._settings.pool,
            region=self._settings.region,
            node=platform.node(),
            pod=self._settings.pod_name,
            pid=os.getpid(),
        )
