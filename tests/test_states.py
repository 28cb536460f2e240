"""The tables of transitions hold together."""

from samjobs.states import (
    IMAGE_TRANSITIONS,
    JOB_ACTIVE,
    JOB_TERMINAL,
    SHARD_TRANSITIONS,
    ImageState,
    JobState,
    ShardState,
    may_become,
)

ENDED = {ShardState.SUCCEEDED, ShardState.DEAD, ShardState.CANCELLED}


def test_every_state_has_its_row() -> None:
    assert set(SHARD_TRANSITIONS) == set(ShardState)
    assert set(IMAGE_TRANSITIONS) == set(ImageState)
    assert set(JobState) == JOB_ACTIVE | JOB_TERMINAL


def test_work_only_starts_by_way_of_dispatched() -> None:
    into_running = {old for old in ShardState if may_become(old, ShardState.RUNNING)}
    assert into_running == {ShardState.DISPATCHED}


def test_an_ended_shard_leaves_its_state_only_for_the_queue_or_the_bin() -> None:
    for state in ENDED:
        assert SHARD_TRANSITIONS[state] <= {ShardState.QUEUED, ShardState.CANCELLED}


def test_every_shard_can_end() -> None:
    reached = set(ENDED)
    while grown := {old for old in ShardState if SHARD_TRANSITIONS[old] & reached} - reached:
        reached |= grown
    assert reached == set(ShardState)
