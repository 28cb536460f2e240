"""Why was my shard retried, when, or why is it dead?

The only home of that rule: the shard runner asks it for an error that it saw, the reclaim of lost leases asks it
for a worker that vanished.
"""

from dataclasses import dataclass

from samjobs.errors import ErrorClass
from samjobs.names import Reason
from samjobs.spec import RetryPolicy
from samjobs.states import ShardState

BACKOFF_CEILING_S = 60.0


@dataclass(frozen=True)
class Verdict:
    """What becomes of a shard."""

    state: ShardState  # queued or dead
    delay_s: float  # how long it stays unavailable, when queued
    charged: bool  # whether its failure count goes up
    reason: Reason
    message: str


def backoff_s(failures: int, policy: RetryPolicy) -> float:
    """Seconds before try number `failures` + 1, without jitter.

    exponential: min(2^n, 60); quadratic: 10 n², for n failures so far.

    >>> [backoff_s(n, RetryPolicy()) for n in (1, 2, 5, 6, 1000)]
    [2.0, 4.0, 32.0, 60.0, 60.0]
    >>> [backoff_s(n, RetryPolicy(backoff="quadratic")) for n in (1, 2, 3)]
    [10.0, 40.0, 90.0]
    """
    if policy.backoff == "quadratic":
        return 10.0 * failures**2
    return min(2.0 ** min(failures, 10), BACKOFF_CEILING_S)


def after_failure(error_class: ErrorClass, failures: int, policy: RetryPolicy, jitter: float) -> Verdict:
    """What to do with a shard that met an error of `error_class`.

    Args:
        failures: failures charged to it before this one.
        jitter: random number in 0…1; the delay is shortened by up to half of itself, so that shards that failed
            together do not return together.

    >>> after_failure(ErrorClass.TRANSIENT, 0, RetryPolicy(), 0).delay_s
    2.0
    >>> after_failure(ErrorClass.TRANSIENT, 2, RetryPolicy(max_attempts=3), 0).state
    <ShardState.DEAD: 'dead'>
    """
    if error_class is ErrorClass.CRITICAL:
        return Verdict(
            ShardState.QUEUED,
            0.0,
            False,
            Reason.CRITICAL_ERROR,
            "released uncharged: nothing can be written now",
        )
    if error_class is ErrorClass.PERMANENT:
        return Verdict(ShardState.DEAD, 0.0, True, Reason.PERMANENT_ERROR, "dead: a retry would fail alike")
    charged = failures + 1
    if charged >= policy.max_attempts:
        return Verdict(
            ShardState.DEAD,
            0.0,
            True,
            Reason.FAILURES_EXHAUSTED,
            f"dead: failure {charged} of {policy.max_attempts}",
        )
    delay = backoff_s(charged, policy) * (1 - jitter / 2)
    reason = Reason.WORKER_FAULT if error_class is ErrorClass.WORKER else Reason.TRANSIENT_ERROR
    return Verdict(
        ShardState.QUEUED,
        delay,
        True,
        reason,
        f"retry in {delay:.0f} s: failure {charged} of {policy.max_attempts}",
    )
