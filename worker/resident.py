"""Which engine does a worker keep loaded, is it sane, and what about a job that wants another?

The worker's own engine is loaded once, warmed up, and must find its way through a drawn picture before any message is
popped. A job that names another engine or other weights is served by loading those, one model at a time. If they cannot
be had, that is the job's trouble (`EngineUnfit`), and the worker's own engine comes back; if that one cannot be had,
it is the worker's.
"""

import gc
import logging
import time

import numpy as np

from samjobs.errors import DeviceFault, EngineUnfit, describe
from samjobs.execution.machine import Engines, Wanted, wanted_by
from samjobs.segmentation.engines.base import Candidates, Engine, Query, Selection, Square, UInt8Image
from samjobs.settings import Settings
from samjobs.spec import JobSpec, Mode
from worker.metrics import Metrics

log = logging.getLogger(__name__)

SIDE = 64  # pixels of the drawn picture where the engine does not ask for another
DISC = (0.3, 0.2, 0.7, 0.8)  # x0, y0, x1, y1 as fractions
TOLERANCE = 0.05


class Resident:
    """The engines of this process. Used by its one thread that owns the device."""

    def __init__(self, settings: Settings, metrics: Metrics) -> None:
        self.own = wanted_by(settings, settings.engine)
        self._settings, self._metrics = settings, metrics
        self._engines = Engines(settings)
        self.load_s = 0.0  # seconds that the last `load` took
        self._refused = False

    def load(self) -> Engine:
        """This worker's own engine, loaded, warmed up, and tried on a drawn picture.

        Raises:
            InvalidInput, ModelUnavailable, OutOfMemory, DeviceFault: see `engines.load`.
        """
        began = time.monotonic()
        engine = self._get(self.own)
        canary(engine)
        self.load_s = time.monotonic() - began
        return engine

    def __call__(self, spec: JobSpec) -> Engine:
        """The engine that a job asks for.

        Raises:
            EngineUnfit: another one than this worker's own, and it cannot be had here.
            InvalidInput, ModelUnavailable, OutOfMemory, DeviceFault: this worker's own cannot be had any more.
        """
        wanted = wanted_by(self._settings, spec.engine, spec.model, spec.revision)
        if wanted == self.own:
            return self._get(wanted)
        try:
            return self._get(wanted)
        except Exception as error:
            self._refused = True
            raise EngineUnfit(
                f"engine {wanted} cannot be loaded by this worker, which keeps {self.own}: {describe(error)}"
            ) from error

    def recover(self) -> None:
        """After a shard: have the own engine back if another one could not be loaded. Raises as `load`."""
        if self._refused:
            self._refused = False
            gc.collect()  # what was loaded in part may be in a cycle, and on the device
            self.load()
            log.warning("this worker's own engine %s is loaded again", self.own)

    def close(self) -> None:
        """Give the device's memory back."""
        self._engines.close()

    def _get(self, wanted: Wanted) -> Engine:
        began = time.monotonic()
        loaded, engine = self._engines.loaded, self._engines.get(wanted)
        if wanted != loaded:
            seconds = time.monotonic() - began
            self._metrics.loaded(engine.info, seconds)
            log.info("engine %s loaded and warmed up in %.1f s on %s", wanted, seconds, engine.info.device)
        return engine


def canary(engine: Engine) -> None:
    """Send a drawn picture through `engine`, by the calls that real ones take.

    Raises:
        DeviceFault: what comes back is no answer to it.
    """
    size = engine.info.input_size
    picture = drawn_disc(size.side if isinstance(size, Square) else SIDE)
    query = Query(text="red disc")
    engine.check(Mode.FIND_ALL, query)
    [[found]] = engine.segment(engine.encode([picture]), Mode.FIND_ALL, [[query]], Selection(score=0.0, mask=0.5))
    if (wrong := _wrong_with(found)) is not None:
        raise DeviceFault(
            f"engine {engine.info.name} on {engine.info.device} fails on a drawn picture ({wrong}): check the weights'"
            " checksum and the device"
        )


def drawn_disc(side: int) -> UInt8Image:
    """A square picture: a red ellipse that fills DISC, on grey."""
    x0, y0, x1, y1 = DISC
    y, x = (np.mgrid[0:side, 0:side] + 0.5) / side
    across, down = (2 * x - x0 - x1) / (x1 - x0), (2 * y - y0 - y1) / (y1 - y0)
    picture = np.full((side, side, 3), 128, np.uint8)
    picture[across**2 + down**2 < 1] = (215, 40, 40)
    return picture


def _wrong_with(found: Candidates) -> str | None:
    count = len(found)
    if count == 0:
        return "it finds nothing"
    if found.scores.shape != (count,) or found.boxes.shape != (count, 4):
        return f"{count} scores come with boxes of shape {found.boxes.shape}"
    if not (np.isfinite(found.scores).all() and np.isfinite(found.boxes).all()):
        return "scores or boxes are not finite"
    if found.logits is not None:
        # With any weights: that they are numbers, not what they say.
        fits = found.logits.ndim == 3 and len(found.logits) == count
        return None if fits and np.isfinite(found.logits).all() else "its logits are not finite, or of a wrong shape"
    if count != 1 or not np.allclose(found.boxes[0], DISC, atol=TOLERANCE):
        return f"the disc at {DISC} is found at {found.boxes.round(3).tolist()}"
    return None
