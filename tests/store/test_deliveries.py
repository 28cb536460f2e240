"""The outbox: every end of a job with a callback is told, by one sender at a time; on both databases."""

import json
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from threading import Barrier
from typing import Any
from uuid import UUID, uuid4

from samjobs.names import Reason
from samjobs.spec import Output
from samjobs.states import ImageState
from samjobs.store import Store, deliveries, jobs, now
from samjobs.store.deliveries import PUBLISH_GRACE_S
from samjobs.store.rows import Delivery
from samjobs.store.tables import deliveries as delivery_rows
from tests.store.builders import job, read, run

CALLBACK = "https://example.org/done?token=marker"


def ended(store: Store, state: ImageState = ImageState.DONE, **changes: Any) -> UUID:
    job_id = job(store, 2, callback=CALLBACK, **changes)
    run(store, job_id, state)
    return job_id


def of_job(store: Store, job_id: UUID) -> list[Delivery]:
    with store.read() as conn:
        return deliveries.of_job(conn, job_id)


def take(store: Store, limit: int = 9, lease_s: float = 60) -> list[Delivery]:
    with store.begin() as conn:
        return deliveries.take(conn, limit=limit, lease_s=lease_s)


def make_due(store: Store) -> None:
    with store.begin() as conn:
        later = delivery_rows.c.due_at.is_not(None)
        conn.execute(delivery_rows.update().where(later).values(due_at=now(conn) - timedelta(seconds=1)))


def test_the_end_of_a_job_with_a_callback_is_written_down_with_it(store: Store) -> None:
    job_id = ended(store, name="cells", tenant="lab")
    (told,) = of_job(store, job_id)
    found = read(store, job_id)
    assert found.finished_at is not None
    assert told.payload == {
        "type": "job.finished",
        "timestamp": found.finished_at.isoformat(),
        "data": {
            "id": str(job_id),
            "name": "cells",
            "tenant": "lab",
            "state": "succeeded",
            "reason": "Completed",
            "error": None,
            "images": {"total": 2, "done": 2, "failed": 0, "skipped": 0},
            "output": found.spec.output.uri,
        },
    }
    assert datetime.fromisoformat(told.payload["timestamp"]).tzinfo is not None
    assert told.due_at == found.finished_at + timedelta(seconds=PUBLISH_GRACE_S)


def test_a_job_without_a_callback_tells_nobody(store: Store) -> None:
    job_id = job(store, 2)
    run(store, job_id)
    assert of_job(store, job_id) == []


def test_a_payload_holds_no_secret_and_any_text(store: Store) -> None:
    output = Output(uri="https://host/out?sig=marker")
    job_id = job(store, 2, callback=CALLBACK, output=output, name="a\x00\udcff🌋")
    with store.begin() as conn:
        message = "cannot list s3://key:marker@bucket/photos \x00"
        jobs.stop(conn, job_id, reason=Reason.INVALID_INPUT, message=message, actor="expand")
    (told,) = of_job(store, job_id)
    assert "marker" not in json.dumps(told.payload)
    assert told.payload["data"]["name"] == r"a\x00\udcff🌋"
    assert told.payload["data"]["error"] == r"cannot list s3://***@bucket/photos \x00"


def test_a_receiver_is_told_once_the_files_are_there(store: Store) -> None:
    job_id = ended(store)
    assert take(store) == []
    with store.begin() as conn:
        jobs.mark_published(conn, job_id)
    (told,) = take(store)
    assert (told.job_id, told.attempts) == (job_id, 1)


def test_publishing_does_not_hasten_what_was_tried_already(store: Store) -> None:
    job_id = ended(store)
    make_due(store)
    (told,) = take(store)
    with store.begin() as conn:
        deliveries.failed(conn, told.id, 1, status=None, error="refused", retry_in_s=300)
        jobs.mark_published(conn, job_id)
    assert take(store) == []


def test_each_end_is_told_also_after_a_retry(store: Store) -> None:
    job_id = ended(store, ImageState.FAILED)
    with store.begin() as conn:
        jobs.retry_failed(conn, job_id, actor="ada")
    run(store, job_id)
    assert [told.payload["data"]["state"] for told in of_job(store, job_id)] == ["failed", "succeeded"]


def test_a_cancelled_job_is_told_of_too(store: Store) -> None:
    job_id = job(store, 2, callback=CALLBACK)
    with store.begin() as conn:
        jobs.cancel(conn, job_id, actor="ada")
    assert [told.payload["data"]["reason"] for told in of_job(store, job_id)] == ["CancelledByUser"]


def test_what_a_sender_took_and_never_spoke_of_again_is_due_once_more(store: Store) -> None:
    ended(store)
    make_due(store)
    (first,) = take(store, lease_s=60)
    assert take(store) == []
    make_due(store)
    (second,) = take(store)
    assert (second.id, second.attempts) == (first.id, 2)
    with store.begin() as conn:
        assert not deliveries.failed(conn, first.id, first.attempts, status=500, error="late", retry_in_s=1)
        assert deliveries.failed(conn, second.id, second.attempts, status=503, error="busy", retry_in_s=30)
        due_at = deliveries.next_due_at(conn)
        assert due_at is not None
        assert timedelta(seconds=20) < due_at - now(conn) <= timedelta(seconds=30)
    (row,) = of_job(store, first.job_id)
    assert (row.status, row.error, row.attempts) == (503, "busy", 2)


def test_a_delivered_message_is_done(store: Store) -> None:
    ended(store)
    make_due(store)
    (told,) = take(store)
    with store.begin() as conn:
        assert deliveries.delivered(conn, told.id, 204)
        assert not deliveries.failed(conn, told.id, told.attempts, status=500, error="x", retry_in_s=0)
        assert deliveries.next_due_at(conn) is None
    assert take(store) == []
    (row,) = of_job(store, told.job_id)
    assert (row.status, row.error, row.due_at) == (204, None, None)
    assert row.delivered_at is not None


def test_a_message_that_is_given_up_says_why_and_is_not_due_again(store: Store) -> None:
    ended(store)
    make_due(store)
    (told,) = take(store)
    with store.begin() as conn:
        assert deliveries.failed(conn, told.id, told.attempts, status=410, error="gone", retry_in_s=None)
        assert deliveries.next_due_at(conn) is None
    (row,) = of_job(store, told.job_id)
    assert (row.status, row.error, row.delivered_at) == (410, "gone", None)


def test_senders_at_once_take_different_messages_the_longest_due_first(store: Store) -> None:
    ids = [ended(store) for _ in range(6)]
    make_due(store)
    with store.begin() as conn:
        for place, job_id in enumerate(ids):
            due_at = now(conn) - timedelta(seconds=100 - place)
            conn.execute(delivery_rows.update().where(delivery_rows.c.job_id == job_id).values(due_at=due_at))
    together = Barrier(3)

    def send(_: int) -> list[UUID]:
        together.wait()
        return [told.job_id for told in take(store, limit=2)]

    with ThreadPoolExecutor(3) as threads:
        taken = list(threads.map(send, range(3)))
    assert sorted(job_id for of_one in taken for job_id in of_one) == sorted(ids)
    assert all(of_one == sorted(of_one, key=ids.index) for of_one in taken)


def test_an_unknown_message_changes_nothing(store: Store) -> None:
    with store.begin() as conn:
        assert not deliveries.delivered(conn, uuid4(), 200)
        assert not deliveries.failed(conn, uuid4(), 1, status=None, error="x", retry_in_s=None)
        assert deliveries.next_due_at(conn) is None
