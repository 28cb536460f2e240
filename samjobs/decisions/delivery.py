"""When is a webhook tried again, and when is it given up?

At least once, never surely: a receiver that is away for a day has missed it, and reads the job instead.
"""

from http import HTTPStatus

# Seconds after the first failed try, the second, … : quick while a receiver restarts, slow while people repair it.
RETRY_AFTER_S = (5.0, 30.0, 120.0, 600.0, 3600.0, 3 * 3600.0, 6 * 3600.0, 12 * 3600.0)


def next_attempt(attempts: int, status: int | None = None) -> float | None:
    """Seconds until the next try; None to give up.

    Args:
        attempts: tries so far, all in vain; at least 1.
        status: what the receiver answered; None for no answer. 410 says that it wants nothing more.

    >>> [next_attempt(tries) for tries in (1, 2, 3)]
    [5.0, 30.0, 120.0]
    >>> next_attempt(1, 410) is None
    True
    """
    if status == HTTPStatus.GONE or attempts > len(RETRY_AFTER_S):
        return None
    return RETRY_AFTER_S[attempts - 1]
