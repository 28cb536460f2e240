"""How do the controller, the worker and the API start and end alike?

They write their logs alike, the first two need a database that machines can share, and all of them are told by a signal
to end. What is missing at the start ends a process at once, with a last line that says what, where and what helps, and
with a code. Each of them says in its own first lines what the codes mean there.
"""

import logging
import signal
from collections.abc import Callable
from contextlib import ExitStack
from enum import IntEnum

from samjobs.errors import DatabaseUnavailable, DeviceFault, InvalidInput, ModelUnavailable, SamjobsError, describe
from samjobs.names import WEIGHTLESS_EXIT
from samjobs.settings import Settings, load
from samjobs.store import Store, connect

# Time, level and name before each line: `controller/kube/poolview.py` takes them off a worker's last one.
LOG_FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"
# An outage is met by trying again, and work that is due should not wait for a question.
ASK_AFTER_S = 2.0
# Blocked in the first thread before all others begin, waited for by it, and handled nowhere: no handler can then
# interrupt a thread that holds a lock. The worker, whose first thread is at work, handles them: see `worker/drain.py`.
SIGNALS = (signal.SIGTERM, signal.SIGINT)


class Exit(IntEnum):
    """Exit codes."""

    DONE = 0
    MISSING = 3
    BROKEN = 4
    WEIGHTLESS = WEIGHTLESS_EXIT  # of workers alone


def run(work: Callable[[Settings, ExitStack], Exit], log: logging.Logger) -> Exit:
    """Do the whole of a process, with the settings and a stack of what is closed at its end. What ends it before its
    time is told in the last line of `log`."""
    logging.basicConfig(level=logging.INFO, format=LOG_FORMAT)
    try:
        with ExitStack() as stack:
            return work(load(), stack)
    except DeviceFault as error:
        log.critical("this process ends, since later calls would fail alike: %s", describe(error))
        return Exit.BROKEN
    except ModelUnavailable as error:
        log.critical("%s", describe(error))
        return Exit.WEIGHTLESS
    except SamjobsError as error:
        # What the library cannot know: where a process has its address from.
        away = isinstance(error, DatabaseUnavailable)
        remedy = "; start it, or name another in SAMJOBS_DATABASE_URL" if away else ""
        log.critical("%s%s", describe(error), remedy)
        return Exit.MISSING
    except Exception as error:
        log.critical("this process ends by an unexpected error: %s", describe(error), exc_info=True)
        return Exit.BROKEN


def shared_store(settings: Settings, stack: ExitStack, connections: int) -> Store:
    """The database that is set, with at most so many connections at once; `stack` closes it.

    Raises:
        InvalidInput: it is one that several machines cannot share.
    """
    store = connect(
        settings.database_url, pooled=settings.database_pooled, connections=connections, ask_after_s=ASK_AFTER_S
    )
    stack.callback(store.close)
    if store.is_sqlite:
        raise InvalidInput(
            f"SAMJOBS_DATABASE_URL: {store.name} is a SQLite file, which a controller and its workers cannot share:"
            " give postgresql://user:password@host:port/name (`samjobs process` works on a SQLite file)"
        )
    return store


def signalled() -> bool:
    """Whether this process is asked to end, within a second; SIGNALS must be blocked. After a stop and a continuation
    Python may give a signal that nobody sent."""
    got = signal.sigtimedwait(SIGNALS, 1.0)
    return got is not None and got.si_signo in SIGNALS


def end_by_next_signal() -> None:
    """From now on one of SIGNALS ends this process at once."""
    for number in SIGNALS:
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
