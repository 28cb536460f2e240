"""Standard output and standard error, whatever the shell has made of them: closed, full, or unable to show a character.

Nothing that goes wrong with them may cost an image, or end in a stack of calls. That nobody reads standard output is
told by the result of `print_out`, that it cannot be written by an error; what cannot be said on standard error is lost.
"""

import io
import os
import sys
from typing import TextIO

from samjobs.errors import ErrorClass, SamjobsError


class StreamUnwritable(SamjobsError):
    """Standard output is full: the caller would wait in vain for what goes there."""

    error_class = ErrorClass.CRITICAL


def prepare() -> None:
    """Make the three streams safe to use. Call it before any file is opened.

    One that the shell has closed gets the null device: otherwise the next file would get its number, and what some
    library prints to standard error would go into that file. A character that a stream cannot show is escaped.
    """
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            _lead_nowhere(number)
            setattr(sys, name, os.fdopen(number, "w" if number else "r", encoding="utf-8"))
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def print_out(text: str) -> bool:
    """Print to standard output at once. False, and never an error again, when nobody reads it any more.

    Raises:
        StreamUnwritable: it cannot be written, e.g. for lack of room.
    """
    try:
        print(text, flush=True)
    except OSError as error:
        return give_up(error)
    return True


def say(text: str) -> None:
    """A remark on standard error, if anybody listens there."""
    write_error(f"samjobs: {text}\n")


def write_error(text: str) -> None:
    """Text for standard error as it is."""
    try:
        sys.stderr.write(text)
        sys.stderr.flush()
    except OSError:
        _silence(sys.stderr)


def flush() -> None:
    """Write what still waits for the two streams, so that Python need not complain of it at its end.

    Raises:
        StreamUnwritable: see `print_out`.
    """
    write_error("")
    try:
        sys.stdout.flush()
    except OSError as error:
        give_up(error)


def give_up(error: OSError) -> bool:
    """Write no more to standard output, which has given `error`; False: nobody reads it.

    Raises:
        StreamUnwritable: it could not be written for another reason.
    """
    _silence(sys.stdout)
    if isinstance(error, BrokenPipeError):
        return False
    raise StreamUnwritable(
        f"standard output cannot be written: {error.strerror}; send it elsewhere and run again"
    ) from error


def _silence(stream: TextIO) -> None:
    """Let what is still in the stream's buffer, and all that follows, vanish."""
    _lead_nowhere(stream.fileno())


def _lead_nowhere(number: int) -> None:
    null = os.open(os.devnull, os.O_RDWR)
    if null != number:
        os.dup2(null, number)
        os.close(null)
