"""Recording, failing and releasing shards; on both databases."""

from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest
import sqlalchemy as sa

from samjobs.decisions.retry import Verdict, after_failure
from samjobs.errors import ErrorClass
from samjobs.names import Reason
from samjobs.spec import RetryPolicy
from samjobs.states import ImageState, JobState, ShardState
from samjobs.store import Store, connect, images, jobs, now, shards
from samjobs.store.rows import ImageOutcome, LeaseAnswer
from samjobs.store.tables import shards as shard_rows
from samjobs.store.transitions import IllegalTransition
from tests.store.builders import DEAD, ME, REQUEUE, claim, job, outcomes, read, run, running, shard_of
from tests.waiting import until

HOSTILE = "NUL \x00, lone \udcff, ملف 🌋, line\nbreak"


def test_a_recorded_image_keeps_every_fact(store: Store) -> None:
    shard = running(store, job(store, 2))
    done = ImageOutcome(
        0,
        ImageState.DONE,
        Reason.NEW,
        quick_hash="q",
        content_hash="c",
        width=4000,
        height=3000,
        instances=7,
        truncated=True,
        output_uri="out/0000.json",
        output_hash="o",
    )
    failed = ImageOutcome(
        1, ImageState.FAILED, Reason.IMAGE_ERROR, error_class=ErrorClass.PERMANENT, error="truncated JPEG"
    )
    with store.begin() as conn:
        assert shards.record(conn, shard.id, shard.attempt, [failed, done])
    with store.read() as conn:
        first, second = images.iterate(conn, shard.job_id)
    for image, outcome in ((first, done), (second, failed)):
        assert {name: getattr(image, name) for name in vars(outcome)} == vars(outcome)
        assert image.finished_at is not None
    assert shard_of(store, shard.job_id).images_done == 2


def test_recording_twice_counts_once(store: Store) -> None:
    shard = running(store, job(store, 2))
    for _ in range(2):
        with store.begin() as conn:
            assert shards.record(conn, shard.id, shard.attempt, outcomes(shard))
    assert read(store, shard.job_id).images_done == 2


def test_images_of_another_shard_are_not_touched(store: Store) -> None:
    shard = running(store, job(store, 4))
    strangers = [replace(outcome, index=outcome.index + 2) for outcome in outcomes(shard)]
    with store.begin() as conn:
        assert shards.record(conn, shard.id, shard.attempt, strangers)
    assert read(store, shard.job_id).images_done == 0


def test_what_is_pending_shrinks_as_images_are_recorded(store: Store) -> None:
    shard = running(store, job(store, 2))
    with store.begin() as conn:
        shards.record(conn, shard.id, shard.attempt, outcomes(shard)[:1])
        assert [image.index for image in images.pending(conn, shard)] == [1]


def test_a_shard_with_pending_images_may_not_succeed(store: Store) -> None:
    shard = running(store, job(store, 2))
    with pytest.raises(IllegalTransition, match="2 of its images"), store.begin() as conn:
        shards.finish(conn, shard.id, shard.attempt)


def test_the_last_images_may_be_recorded_with_the_end(store: Store) -> None:
    job_id = job(store, 3, shard_size=3)
    shard = running(store, job_id)
    failed, *done = outcomes(shard, ImageState.FAILED)[:1] + outcomes(shard)[1:]
    with store.begin() as conn:
        assert shards.record(conn, shard.id, shard.attempt, [failed])
        # What is recorded already stays as it is, and what is no image of the shard is passed over.
        strangers = [replace(done[0], index=7)]
        assert shards.finish(conn, shard.id, shard.attempt, [replace(failed, state=ImageState.DONE), *done, *strangers])
    assert shard_of(store, job_id).state is ShardState.SUCCEEDED
    assert shard_of(store, job_id).images_done == 3
    ended = read(store, job_id)
    assert (ended.state, ended.images_failed, ended.images_done) == (JobState.SUCCEEDED, 1, 2)
    assert ended.alive_at == ended.finished_at
    with store.read() as conn:
        assert [image.state.value for image in images.iterate(conn, job_id)] == ["failed", "done", "done"]


def test_an_image_told_twice_in_one_go_counts_once(store: Store) -> None:
    shard = running(store, job(store, 2))
    with store.begin() as conn:
        assert shards.finish(conn, shard.id, shard.attempt, outcomes(shard) * 2)
    assert read(store, shard.job_id).images_done == 2


def test_an_end_whose_images_are_not_all_told_records_none(store: Store) -> None:
    shard = running(store, job(store, 2))
    with pytest.raises(IllegalTransition, match="1 of its images"), store.begin() as conn:
        shards.finish(conn, shard.id, shard.attempt, outcomes(shard)[:1])
    assert read(store, shard.job_id).images_done == 0


def test_a_shard_that_goes_back_has_no_message_any_more(store: Store) -> None:
    job_id = job(store, 12)
    started, waiting, failed = claim(store, limit=3)
    with store.begin() as conn:
        conn.execute(shard_rows.update().values(queue="samjobs:region:eu"))
        for shard in (started, failed):
            begun = shards.start(conn, shard.id, shard.attempt, ME)
            assert begun is not None
            assert begun[1].queue == "samjobs:region:eu"
        shards.release(conn, started.id, started.attempt, reason=Reason.DRAINED)
        shards.release(conn, waiting.id, waiting.attempt, reason=Reason.MESSAGE_LOST)
        shards.fail(conn, failed.id, failed.attempt, REQUEUE, error_class=ErrorClass.TRANSIENT, error="503")
    assert [shard_of(store, job_id, index).queue for index in range(3)] == [None] * 3
    with store.begin() as conn:
        claimed = [shards.claim(conn, limit=1, job_id=job_id)[0]]
        conn.execute(shard_rows.update().values(queue="samjobs:region:eu"))
        jobs.set_suspend(conn, job_id, True, actor="ada")
    assert shard_of(store, job_id, claimed[0].index).queue is None


def test_a_shard_without_trouble_costs_few_statements(store: Store) -> None:
    job_id = job(store, 8, shard_size=2)
    run(store, job_id)
    (claimed,) = claim(store, job_id=job_id)
    sent: list[str] = []

    def note(_conn: Any, _cursor: Any, statement: str, *_: Any) -> None:
        if not statement.startswith("BEGIN"):
            sent.append(statement)

    sa.event.listen(store.engine, "before_cursor_execute", note)
    with store.begin() as conn:
        assert shards.start(conn, claimed.id, claimed.attempt, ME)
    with store.begin() as conn:
        assert shards.finish(conn, claimed.id, claimed.attempt, outcomes(claimed))
    assert len(sent) <= 4 + 8, sent


def test_a_released_shard_is_not_charged_and_goes_on_where_it_was(store: Store) -> None:
    shard = running(store, job(store, 2))
    with store.begin() as conn:
        shards.record(conn, shard.id, shard.attempt, outcomes(shard)[:1])
        assert shards.release(conn, shard.id, shard.attempt, reason=Reason.DRAINED, message="node goes")
    again = running(store, shard.job_id)
    assert (again.attempt, again.failures, again.images_done) == (2, 0, 1)
    with store.begin() as conn:
        (rest,) = images.pending(conn, again)
        assert shards.record(conn, again.id, again.attempt, outcomes(again)[rest.index :])
        assert shards.finish(conn, again.id, again.attempt)


def test_a_failure_is_charged_delayed_and_explained(store: Store) -> None:
    shard = running(store, job(store, 2))
    verdict = after_failure(ErrorClass.TRANSIENT, shard.failures, RetryPolicy(), jitter=0)
    with store.begin() as conn:
        before = now(conn)
        shards.fail(
            conn, shard.id, shard.attempt, verdict, error_class=ErrorClass.TRANSIENT, error="S3 says 503", actor="w1"
        )
        event = jobs.events(conn, shard.job_id)[-1]
    found = shard_of(store, shard.job_id)
    assert (found.state, found.failures, found.error) == (ShardState.QUEUED, 1, "S3 says 503")
    assert found.error_class is ErrorClass.TRANSIENT
    assert found.available_at >= before + timedelta(seconds=verdict.delay_s)
    with store.read() as conn:
        assert shards.next_due_at(conn) == found.available_at
    assert claim(store) == []
    assert (event.reason, event.actor) == (Reason.TRANSIENT_ERROR, "w1")
    assert event.message == f"{verdict.message}: S3 says 503"


@pytest.mark.parametrize("verdict", [REQUEUE, DEAD], ids=["queued", "dead"])
def test_the_failure_path_takes_any_text_of_any_length(store: Store, verdict: Verdict) -> None:
    shard = running(store, job(store, 2))
    broken = outcomes(shard, ImageState.FAILED, error=HOSTILE + "x" * 100_000)
    with store.begin() as conn:
        assert shards.record(conn, shard.id, shard.attempt, broken)
        assert shards.fail(
            conn,
            shard.id,
            shard.attempt,
            verdict,
            error_class=ErrorClass.WORKER,
            error=HOSTILE + "x" * 100_000,
            actor=HOSTILE,
        )
    found = shard_of(store, shard.job_id)
    with store.read() as conn:
        told = [event.message for event in jobs.events(conn, shard.job_id) if event.to_state == verdict.state]
        texts = [found.error, images.iterate(conn, shard.job_id)[0].error, told[-1]]
    for text in texts:
        assert text is not None
        assert r"NUL \x00, lone \udcff, ملف 🌋" in text
        assert len(text) == 2000


def test_nothing_can_be_done_with_a_shard_that_is_not_there(store: Store) -> None:
    missing = uuid4()
    with store.begin() as conn:
        assert shards.start(conn, missing, 1, ME) is None
        assert shards.heartbeat(conn, missing, 1, ME) is LeaseAnswer.LOST
        assert not shards.record(conn, missing, 1, [])
        assert not shards.finish(conn, missing, 1)
        assert not shards.release(conn, missing, 1, reason=Reason.DRAINED)
        assert not shards.fail(conn, missing, 1, DEAD, error_class=ErrorClass.WORKER, error="x")
        assert shards.get(conn, missing) is None


def test_a_start_that_waited_for_a_cancel_starts_nothing(postgres_url: str) -> None:
    """The one statement of a start saw the shard dispatched when it began; what it finds after its wait counts."""
    with closing(connect(postgres_url)) as store, ThreadPoolExecutor(1) as other:
        job_id = job(store, 2)
        (claimed,) = claim(store)

        def start() -> object:
            with store.begin() as conn:
                return shards.start(conn, claimed.id, claimed.attempt, ME)

        def waits() -> bool:
            waiting = (
                "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
            )
            with store.read() as conn:
                return conn.execute(sa.text(waiting)).scalar_one() == 1

        with store.begin() as conn:
            assert jobs.cancel(conn, job_id, actor="ada")
            started = other.submit(start)
            until(waits, "the start waits for the job that is being cancelled")
        assert started.result() is None
        assert shard_of(store, job_id).state is ShardState.CANCELLED
