"""How many seconds does an image take this worker, lately?

A moving average over its shards, from the start of each to its end, since that is what a pool's size is reckoned by.
Every image with an outcome counts, also one that was found unchanged: a run over what is done already goes as fast as
it goes, and needs no more workers than that.
"""

LATEST_SHARE = 0.3  # of the last shard in the average: after five shards, what was before counts for a sixth


class Pace:
    """The average of one process. Used by the thread that runs its shards."""

    def __init__(self) -> None:
        self._image_s: float | None = None
        self._images = 0

    def image(self) -> None:
        """Note an image of the shard in hand that has its outcome."""
        self._images += 1

    def shard(self, seconds: float) -> float | None:
        """Note that the shard in hand is over, after so long; seconds per image, None before the first image.

        >>> pace = Pace()
        >>> pace.shard(3.0) is None
        True
        >>> for _ in range(10):
        ...     pace.image()
        >>> pace.shard(20.0), pace.shard(60.0)
        (2.0, 2.0)
        >>> pace.image()
        >>> round(pace.shard(1.0), 3)
        1.7
        """
        if self._images:
            latest = seconds / self._images
            before = latest if self._image_s is None else self._image_s
            self._image_s = before + LATEST_SHARE * (latest - before)
            self._images = 0
        return self._image_s
