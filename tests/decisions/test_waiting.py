"""Why a job waits: one line, and the right one where several things are true."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from samjobs.decisions.dispatch import Limits, Region
from samjobs.decisions.waiting import OF_OTHERS, NextShard, Sent, View, why, without_others
from samjobs.names import Reason
from samjobs.states import JobState

NOW = datetime(2026, 3, 1, 14, 2, 12, tzinfo=UTC)
THREE = Region("us", ready=2, loading=1, silent_for_s=1.0, dispatched=1, running=2)
LIMITS = Limits(region_concurrency=10, dispatch_window=2)
DUE = NextShard(index=4, available_at=NOW - timedelta(seconds=30), failures=0, error=None)
FAILED = NextShard(4, NOW + timedelta(seconds=60), 2, "S3 says 503")
SENT = Sent(4, "samjobs:region:us", NOW - timedelta(seconds=3))
GONE = Region("us", silent_for_s=125.0)


def view(**changes: Any) -> View:
    """A job whose next shard is due, behind 41 others."""
    plain = View(
        at=NOW,
        state=JobState.QUEUED,
        reason=Reason.SUBMITTED,
        error=None,
        suspend=False,
        not_before=None,
        expanded=True,
        images_total=200,
        images_open=160,
        shards_open=5,
        running=0,
        sent=None,
        next=DUE,
        held=0,
        parallelism=None,
        max_attempts=3,
        tenant="ada",
        region=THREE,
        tenant_at_work=1,
        ahead=41,
        limits=LIMITS,
    )
    return replace(plain, **changes)


ENDED = {"state": JobState.FAILED, "reason": Reason.DEADLINE_EXCEEDED, "error": "stopped with 40 of 200 images"}
BUSY = replace(THREE, running=9)

CASES: dict[str, tuple[dict[str, Any], Reason, str]] = {
    "it has ended": (ENDED, Reason.DEADLINE_EXCEEDED, "it has ended: failed, stopped with 40 of 200 images"),
    "suspended": ({"suspend": True}, Reason.SUSPENDED_BY_USER, "is suspended until somebody resumes it"),
    "suspended, but still at work": (
        {"suspend": True, "running": 2},
        Reason.SUSPENDED_BY_USER,
        "is suspended until somebody resumes it; 2 of its shards still run to their next image",
    ),
    "being listed": (
        {"expanded": False, "shards_open": 0, "images_total": 0, "next": None},
        Reason.LISTING,
        "its images are being listed, 0 so far; the first shard starts after that",
    ),
    "not before": (
        {"not_before": NOW + timedelta(hours=5), "next": replace(DUE, available_at=NOW + timedelta(hours=5))},
        Reason.NOT_BEFORE,
        "waits for its notBefore, 2026-03-01 19:02:12 UTC, in 5 h",
    ),
    "running": (
        {"running": 3, "sent": SENT},
        Reason.STARTED,
        "is running: 3 of its 5 open shards are at work, 40 of 200 images are finished",
    ),
    "in a queue": (
        {"sent": SENT},
        Reason.NEXT_IN_LINE,
        "shard 4 was sent to queue samjobs:region:us 3 s ago and waits there for a free worker; "
        "3 workers of region us are alive, 2 ready, 1 loading a model",
    ),
    "in a queue that nobody reads": (
        {"sent": SENT, "region": GONE},
        Reason.NO_WORKER,
        "shard 4 was sent to queue samjobs:region:us 3 s ago, but no worker of region us is alive "
        "(last heard of one 125 s ago): start one, or see why none starts",
    ),
    "a pause that nobody is charged with": (
        {"next": NextShard(4, NOW + timedelta(seconds=60), 0, "the disk is full")},
        Reason.BACKOFF,
        "waits for its backoff until 2026-03-01 14:03:12 UTC, in 60 s: the disk is full",
    ),
    "backoff": (
        {"next": FAILED},
        Reason.BACKOFF,
        "waits for its backoff until 2026-03-01 14:03:12 UTC, in 60 s, after failure 2 of 3 of shard 4: S3 says 503",
    ),
    "parallelism": (
        {"next": None, "held": 3, "parallelism": 2},
        Reason.PARALLELISM,
        "its parallelism of 2 is in use; 3 shards wait for a place",
    ),
    "no worker, never one": (
        {"region": Region("us"), "ahead": 0},
        Reason.NO_WORKER,
        "no worker of region us is alive (never had one): start one, or see why none starts; no shard is ahead of it",
    ),
    "workers, but none is ready": (
        {"region": Region("us", loading=1, silent_for_s=9.0), "ahead": 1},
        Reason.NO_WORKER,
        "1 worker of region us is alive, 0 ready, 1 loading a model; 1 shard is ahead of it",
    ),
    "the region's cap": (
        {"region": BUSY},
        Reason.REGION_CAP,
        "region us has 10 of 10 shards at work; 41 shards are ahead of it",
    ),
    "the tenant's cap": (
        {"limits": replace(LIMITS, tenant_concurrency=4), "tenant_at_work": 4},
        Reason.TENANT_CAP,
        "tenant ada has 4 of 4 shards at work",
    ),
    "the tenant's minute": (
        {"limits": replace(LIMITS, tenant_rate_per_minute=60), "minute_left": 0},
        Reason.RATE_LIMITED,
        "tenant ada has sent 60 shards this minute, its limit; the next minute begins in 48 s",
    ),
    "others first": (
        {},
        Reason.WINDOW_FULL,
        "waits for a free worker: 3 workers of region us are alive, 2 ready, 1 loading a model; "
        "41 shards are ahead of it",
    ),
    "too many to count": (
        {"ahead": 1000},
        Reason.WINDOW_FULL,
        "waits for a free worker: 3 workers of region us are alive, 2 ready, 1 loading a model; "
        "1000 shards or more are ahead of it",
    ),
    "its turn": (
        {"ahead": 0, "region": Region("us", ready=1)},
        Reason.NEXT_IN_LINE,
        "waits for a free worker: 1 worker of region us is alive, 1 ready; no shard is ahead of it",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_a_job_says_why_it_waits(case: str) -> None:
    changes, reason, message = CASES[case]
    assert why(view(**changes)) == (reason, message)


@pytest.mark.parametrize("case", CASES)
def test_who_may_not_know_what_others_have_is_told_the_same_reason_without_their_numbers(case: str) -> None:
    _, reason, message = CASES[case]
    told = without_others((reason, message))
    others = ("ahead", "alive", "of region", "of 10 shards")
    assert told[0] == reason
    assert not [words for words in others if words in told[1]]
    assert told[1] == message or (reason in OF_OTHERS and not any(char.isdigit() for char in told[1]))


def test_what_only_a_person_can_change_is_told_before_what_time_changes() -> None:
    everything = view(suspend=True, next=FAILED, region=GONE, not_before=NOW + timedelta(hours=1))
    told = [why(everything)[0], why(replace(everything, suspend=False))[0]]
    told.append(why(replace(everything, suspend=False, not_before=None))[0])
    told.append(why(replace(everything, suspend=False, not_before=None, next=DUE))[0])
    assert told == [Reason.SUSPENDED_BY_USER, Reason.NOT_BEFORE, Reason.BACKOFF, Reason.NO_WORKER]
