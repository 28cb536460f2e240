"""The end of a job is told to its callback: signed, once where it can be, again and again where it must."""

import threading
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from controller.outbox import Outbox
from controller.steps import deliver
from samjobs.decisions.delivery import RETRY_AFTER_S
from samjobs.settings import Settings
from samjobs.store import deliveries, jobs
from samjobs.store.rows import Delivery
from tests.controller.receiver import Receiver, verified
from tests.controller.world import World, opened
from tests.store.builders import job, run
from tests.waiting import until

SECRET = "whsec_bmV3IGtleQ=="


def outbox(world: World, **settings: Any) -> Outbox:
    known = {"webhook_secret": SECRET, "allowed_hosts": "localhost"}
    return Outbox(Settings(database_url=world.url, **(known | settings)), world.store, world.ctx.metrics)


def ended(world: World, receiver: Receiver, **changes: Any) -> UUID:
    """A job that has ended, with its files written, of which the receiver is to be told."""
    job_id = job(world.store, 2, callback=receiver.url("/done?job=1"), **changes)
    run(world.store, job_id)
    with world.store.begin() as conn:
        jobs.mark_published(conn, job_id)
    return job_id


def told(world: World, job_id: UUID) -> Delivery:
    with world.store.read() as conn:
        (found,) = deliveries.of_job(conn, job_id)
    return found


def send(sender: Outbox) -> None:
    assert not sender.send(threading.Event())


def test_the_receiver_is_told_once(world: World, receiver: Receiver) -> None:
    job_id = ended(world, receiver, tenant="zoo")

    send(outbox(world))
    send(outbox(world))

    (heard,) = receiver.heard
    assert verified(heard, SECRET)
    assert heard.path == "/done?job=1"
    assert heard.json["type"] == "job.finished"
    assert (heard.json["data"]["id"], heard.json["data"]["state"]) == (str(job_id), "succeeded")
    row = told(world, job_id)
    assert (row.attempts, row.status, row.error, row.due_at) == (1, 200, None, None)
    assert row.delivered_at is not None


def test_what_fails_is_tried_again_later_with_the_same_id(world: World, receiver: Receiver) -> None:
    receiver.answer = lambda number: (503, {}, b"in repair") if number == 1 else (204, {}, b"")
    job_id = ended(world, receiver)

    send(outbox(world))
    row = told(world, job_id)
    assert (row.attempts, row.status, row.error) == (1, 503, "the receiver answers 503: in repair")
    send(outbox(world))
    assert len(receiver.heard) == 1, "not before its time"

    world.age("deliveries", "due_at", RETRY_AFTER_S[0])
    send(outbox(world))

    first, second = receiver.heard
    assert first.headers["webhook-id"] == second.headers["webhook-id"]
    assert told(world, job_id).status == 204


def test_after_the_last_try_it_is_given_up(world: World, receiver: Receiver) -> None:
    receiver.answer = lambda number: (500, {}, b"")
    job_id = ended(world, receiver)
    tries = len(RETRY_AFTER_S) + 1

    for _ in range(tries + 1):
        send(outbox(world))
        world.age("deliveries", "due_at", max(RETRY_AFTER_S))

    assert len(receiver.heard) == tries
    row = told(world, job_id)
    assert (row.attempts, row.due_at, row.delivered_at) == (tries, None, None)


def test_a_receiver_that_is_gone_is_not_asked_again(world: World, receiver: Receiver) -> None:
    receiver.answer = lambda number: (410, {}, b"")
    job_id = ended(world, receiver)

    send(outbox(world))

    assert told(world, job_id).due_at is None


def test_without_a_secret_nothing_is_sent_and_the_row_says_so(world: World, receiver: Receiver) -> None:
    job_id = ended(world, receiver, tenant="zoo")

    send(outbox(world, webhook_secret=None))

    assert receiver.heard == []
    row = told(world, job_id)
    assert "set SAMJOBS_WEBHOOK_SECRET" in (row.error or "")
    assert row.due_at is not None, "it is sent once somebody has set one"


def test_each_tenant_signs_with_its_own_secret(world: World, receiver: Receiver, tmp_path: Path) -> None:
    (tmp_path / "secrets").mkdir()
    (tmp_path / "secrets" / "zoo").write_text("whsec_em9v")
    ended(world, receiver, tenant="zoo")

    send(outbox(world, webhook_secrets_dir=tmp_path / "secrets"))

    assert verified(receiver.heard[0], "whsec_em9v")
    assert not verified(receiver.heard[0], SECRET)


def test_an_address_inside_is_not_reached(world: World, receiver: Receiver) -> None:
    job_id = ended(world, receiver)

    send(outbox(world, allowed_hosts=""))

    assert receiver.heard == []
    assert "a loopback address: refused" in (told(world, job_id).error or "")


def test_one_slow_receiver_delays_no_other(world: World, receiver: Receiver) -> None:
    both_there = threading.Barrier(2)

    def answer(number: int) -> tuple[int, dict[str, str], bytes]:
        both_there.wait(30)  # the first is answered only when the second has come
        return 200, {}, b""

    receiver.answer = answer
    ids = [ended(world, receiver), ended(world, receiver)]

    send(outbox(world))

    assert [told(world, job_id).status for job_id in ids] == [200, 200]


def test_the_thread_does_it_when_the_pass_wakes_it(postgres_url: str, redis_url: str, receiver: Receiver) -> None:
    with opened(postgres_url, redis_url, webhook_secret=SECRET, allowed_hosts="localhost") as world:
        job_id = ended(world, receiver)
        world.ctx.sending.start()

        deliver.run(world.ctx)

        until(lambda: told(world, job_id).status == 200, "the receiver is told")
        world.ctx.sending.stop()
        assert world.ctx.sending.join(60)


@pytest.mark.parametrize("workers", [3])
def test_several_controllers_tell_each_end_once(workers: int, world: World, receiver: Receiver) -> None:
    ids = [ended(world, receiver) for _ in range(10)]
    threads = [threading.Thread(target=send, args=(outbox(world),)) for _ in range(workers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert sorted(heard.json["data"]["id"] for heard in receiver.heard) == sorted(map(str, ids))
