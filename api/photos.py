"""A photo as a browser can show it: upright, as JPEG, not larger than asked for. And what was found in it: its record.

Whoever wrote the job wrote the address, so it is read through the same guard as a worker's inputs, and limited like
them. Two are read at once, each within half of the memory that the settings grant to pictures: who asks for more waits,
in no thread of the others, and not for long on a storage that is slow. Nor for long on the others: what was asked for
by a caller who has left is still in the line.
"""

import asyncio
import io
from collections.abc import Callable
from typing import TypeVarTuple

import anyio
import anyio.to_thread
from PIL import Image

from api.problems import RETRY_AFTER_S, Refused
from samjobs.errors import AccessDenied, ImageError, InvalidInput, ObjectMissing
from samjobs.segmentation import images, records
from samjobs.segmentation.engines.base import LongSide
from samjobs.settings import Settings
from samjobs.storage import Storage

AT_ONCE = 2
QUALITY = 85
LARGEST_RECORD = 64 << 20
PATIENCE_S = 20.0
Asked = TypeVarTuple("Asked")


class Photos:
    """What reads them."""

    def __init__(self, settings: Settings, storage: Storage, patience_s: float = PATIENCE_S) -> None:
        self._storage, self._patience_s = storage, patience_s
        self._memory = settings.memory_bytes // AT_ONCE
        self._limits = images.Limits(
            min(settings.max_image_bytes, self._memory), min(settings.max_image_pixels, 2**31 - 1)
        )
        # Of a record that is read and judged, about eight times its size is held for a moment.
        self._largest_record = min(LARGEST_RECORD, self._memory // 8)
        self._turns, self._threads = asyncio.Semaphore(AT_ONCE), anyio.CapacityLimiter(AT_ONCE)

    async def jpeg(self, uri: str, tenant: str, longest_side: int) -> bytes:
        """A tenant's photo at `uri`, its longer side at most so many pixels.

        Raises:
            Refused: it is not there, cannot be read from here, or is none that can be shown.
            StorageUnavailable: its storage does not answer.
        """
        return await self._in_turn(self._jpeg, uri, tenant, longest_side)

    async def record(self, uri: str, tenant: str) -> bytes:
        """A tenant's record at `uri`, as it was written.

        Raises:
            Refused: it is not there, cannot be read from here, or is no record.
            StorageUnavailable: its storage does not answer.
        """
        return await self._in_turn(self._record, uri, tenant)

    async def _in_turn(self, read: Callable[[*Asked], bytes], *asked: *Asked) -> bytes:
        """What `read` returns, when it is this one's turn.

        Raises:
            Refused: that takes too long.
        """
        try:
            async with asyncio.timeout(self._patience_s):
                await self._turns.acquire()
        except TimeoutError:
            told = "so many photos and results are asked for that this one had no turn: ask again"
            raise Refused(503, "busy", told, headers={"Retry-After": str(RETRY_AFTER_S)}) from None
        try:
            return await anyio.to_thread.run_sync(read, *asked, limiter=self._threads)
        finally:
            self._turns.release()

    def _record(self, uri: str, tenant: str) -> bytes:
        try:
            data = self._storage.within(tenant).read(uri, self._largest_record)
            records.load(data)
        except (ObjectMissing, AccessDenied, InvalidInput):
            raise Refused(404, "no-result", "the result is gone, or cannot be read from here") from None
        except ImageError:
            raise Refused(422, "too-large", "the result is too large to be shown here") from None
        return data

    def _jpeg(self, uri: str, tenant: str, longest_side: int) -> bytes:
        target = LongSide(longest_side)
        try:
            data = self._storage.within(tenant).read(uri, self._limits.max_bytes)
            needed = len(data) + images.decode_bytes(data, target, self._limits)
            if needed > self._memory:
                raise ImageError(f"it takes {needed:,} bytes to decode")
            photo = images.decode(data, target, self._limits)
        except (ObjectMissing, AccessDenied, InvalidInput):
            # Not why: whether a file is there is not told of places that only this process can see.
            raise Refused(404, "photo-unreadable", "the photo is gone, or cannot be read from here") from None
        except ImageError:
            # Nor what it is instead, which the library's message quotes.
            detail = "the file is no image that can be shown: damaged, of an unknown kind, or too large"
            raise Refused(422, "photo-unfit", detail) from None
        written = io.BytesIO()
        Image.fromarray(photo.pixels).save(written, "JPEG", quality=QUALITY)
        return written.getvalue()
