"""How a process ends, when something of it is not there or fails.

What each of them lacks at its start is tested with the process itself.
"""

import logging
from contextlib import ExitStack

import pytest

from samjobs.errors import DatabaseUnavailable, DeviceFault, InvalidInput, ModelUnavailable
from samjobs.process import Exit, run
from samjobs.settings import Settings

LOG = logging.getLogger("test")

ENDS = [
    (InvalidInput("a setting is wrong"), Exit.MISSING, "a setting is wrong"),
    (
        DatabaseUnavailable("the database does not answer"),
        Exit.MISSING,
        "the database does not answer; start it, or name another in SAMJOBS_DATABASE_URL",
    ),
    (ModelUnavailable("no weights"), Exit.WEIGHTLESS, "no weights"),
    (
        DeviceFault("the device is lost"),
        Exit.BROKEN,
        "this process ends, since later calls would fail alike: the device is lost",
    ),
    (KeyError("x"), Exit.BROKEN, "this process ends by an unexpected error: KeyError: 'x'"),
]


@pytest.mark.parametrize(("error", "code", "told"), ENDS, ids=[type(error).__name__ for error, _, _ in ENDS])
def test_an_error_is_a_code_and_the_last_line(
    error: Exception, code: Exit, told: str, caplog: pytest.LogCaptureFixture
) -> None:
    def work(_settings: Settings, stack: ExitStack) -> Exit:
        stack.callback(LOG.error, "closed")
        raise error

    assert run(work, LOG) is code

    assert [record.getMessage() for record in caplog.records] == ["closed", told]
    assert caplog.records[-1].levelname == "CRITICAL"


def test_who_ends_in_order_has_said_all(caplog: pytest.LogCaptureFixture) -> None:
    assert run(lambda _settings, _stack: Exit.DONE, LOG) is Exit.DONE
    assert not caplog.records
