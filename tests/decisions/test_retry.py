"""What becomes of a shard after each class of error."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from samjobs.decisions.retry import BACKOFF_CEILING_S, after_failure, backoff_s
from samjobs.errors import ErrorClass
from samjobs.names import Reason
from samjobs.spec import RetryPolicy
from samjobs.states import ShardState

POLICY = RetryPolicy(max_attempts=3)


@pytest.mark.parametrize(
    ("error_class", "failures", "state", "charged", "reason"),
    [
        pytest.param(ErrorClass.TRANSIENT, 0, ShardState.QUEUED, True, Reason.TRANSIENT_ERROR, id="first transient"),
        pytest.param(ErrorClass.TRANSIENT, 1, ShardState.QUEUED, True, Reason.TRANSIENT_ERROR, id="second transient"),
        pytest.param(ErrorClass.TRANSIENT, 2, ShardState.DEAD, True, Reason.FAILURES_EXHAUSTED, id="third transient"),
        pytest.param(ErrorClass.WORKER, 0, ShardState.QUEUED, True, Reason.WORKER_FAULT, id="a broken worker"),
        pytest.param(ErrorClass.WORKER, 2, ShardState.DEAD, True, Reason.FAILURES_EXHAUSTED, id="a poison shard"),
        pytest.param(ErrorClass.PERMANENT, 0, ShardState.DEAD, True, Reason.PERMANENT_ERROR, id="bad input"),
        pytest.param(
            ErrorClass.CRITICAL, 2, ShardState.QUEUED, False, Reason.CRITICAL_ERROR, id="disk full: uncharged"
        ),
    ],
)
def test_a_shard_after_a_failure(
    error_class: ErrorClass, failures: int, state: ShardState, charged: bool, reason: Reason
) -> None:
    verdict = after_failure(error_class, failures, POLICY, jitter=0)
    assert (verdict.state, verdict.charged, verdict.reason) == (state, charged, reason)


@given(failures=st.integers(1, 10_000), jitter=st.floats(0, 1), attempts=st.integers(1, 100))
def test_the_delay_is_bounded_and_never_negative(failures: int, jitter: float, attempts: int) -> None:
    verdict = after_failure(ErrorClass.TRANSIENT, failures, RetryPolicy(max_attempts=attempts), jitter)
    assert 0 <= verdict.delay_s <= BACKOFF_CEILING_S


@given(failures=st.integers(1, 50))
def test_backoff_never_shrinks_with_more_failures(failures: int) -> None:
    for policy in (RetryPolicy(), RetryPolicy(backoff="quadratic")):
        assert backoff_s(failures + 1, policy) >= backoff_s(failures, policy)


def test_jitter_shortens_by_at_most_half() -> None:
    delays = {jitter: after_failure(ErrorClass.TRANSIENT, 1, POLICY, jitter).delay_s for jitter in (0.0, 1.0)}
    assert delays == {0.0: 4.0, 1.0: 2.0}
