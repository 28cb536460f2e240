"""What the exit codes of `samjobs` mean, to shells and to the process that started several workers."""

from enum import IntEnum


class Exit(IntEnum):
    """An exit code."""

    DONE = 0
    SOME_FAILED = 1  # images that failed, or that nobody got to do
    USAGE = 2  # wrong options or input
    CRITICAL = 3  # nothing can go on
    BY_SIGNAL = 128  # and more: 128 + the number of the signal that ended it, as shells have it
