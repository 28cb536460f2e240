"""What a worker counts and measures, for Prometheus. Names and labels are in `samjobs.metrics`.

One process, one registry of its own; with the process its gauges disappear. No label names a job or a shard. Nothing
here is done between the pop of a message and the start of its shard.
"""

from collections.abc import Callable

from samjobs import metrics as table
from samjobs.metrics import Board, Process
from samjobs.segmentation.engines.base import EngineInfo
from samjobs.segmentation.engines.device_memory import SHRINKS, gpu_bytes
from samjobs.segmentation.work import Outcome
from samjobs.settings import Settings
from samjobs.store.rows import Shard

# Ends of a message beside those of a run: never begun; given back because nothing can be written; this process broke.
STALE, CRITICAL, BROKEN = "stale", "critical", "broken"


class Metrics:
    """The worker's metrics."""

    def __init__(self, settings: Settings | None = None) -> None:
        """`settings`: whose region and pool the worker is of."""
        settings = settings or Settings()
        self._board = Board(Process.WORKER, region=settings.region, pool=settings.pool)
        self.registry = self._board.registry
        self._board.watch(table.WORKER_SHRINKS, lambda: SHRINKS.count)
        self._board.watch(
            table.WORKER_GPU_MEMORY, lambda: {(kind,): float(taken) for kind, taken in gpu_bytes().items()}
        )

    def watch_heartbeat(self, age_s: Callable[[], float]) -> None:
        """Take the age of the last heartbeat that the database heard from `age_s`."""
        self._board.watch(table.WORKER_HEARTBEAT_AGE, age_s)

    def loaded(self, info: EngineInfo, seconds: float) -> None:
        """Note that an engine was loaded, and how long that took."""
        self._board.replace(table.WORKER_ENGINE, {(info.name, info.device): 1})
        self._board.set(table.WORKER_LOAD_SECONDS, seconds)

    def begun(self) -> None:
        """Note that a shard is in hand."""
        self._board.set(table.WORKER_BUSY, 1)

    def image(self, outcome: Outcome) -> None:
        """Note an image that was committed."""
        self._board.inc(table.WORKER_IMAGES, 1, outcome.state.value)
        self._board.inc(table.WORKER_INSTANCES, outcome.instances or 0)
        self._board.touch(table.WORKER_PROGRESS)
        for stage, seconds in outcome.seconds.items():
            self._board.inc(table.WORKER_STAGE_SECONDS, seconds, stage)

    def committed(self, seconds: float) -> None:
        """Note a write of progress, and how long it took."""
        self._board.inc(table.WORKER_STAGE_SECONDS, seconds, "commit")

    def ended(self, shard: Shard, end: str, seconds: float) -> None:
        """Note that the shard in hand ended, how, and how long it took; and for how long it had waited before."""
        self._board.set(table.WORKER_BUSY, 0)
        self._board.inc(table.WORKER_SHARDS, 1, end)
        self._board.inc(table.WORKER_BUSY_SECONDS, seconds)
        if shard.started_at is not None:
            self._board.observe(table.WORKER_PICKUP, max(0.0, (shard.started_at - shard.available_at).total_seconds()))

    def stale(self) -> None:
        """Note a message of a shard that is not to be begun any more."""
        self._board.inc(table.WORKER_SHARDS, 1, STALE)

    def rejected(self, reason: str) -> None:
        """Note a message that is not ours."""
        self._board.inc(table.WORKER_REJECTED, 1, reason)

    def gathered(self, done: bool) -> None:
        """Note that a job's results were gathered, or could not be."""
        self._board.inc(table.WORKER_GATHERED, 1, "done" if done else "failed")
