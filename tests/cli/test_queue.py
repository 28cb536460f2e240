"""`samjobs queue`: what waits and why, working it, retrying, clearing."""

import signal
import sqlite3

from samjobs.store import connect, jobs
from tests.cli.command import Samjobs, draw, draw_many
from tests.waiting import until


def test_what_was_only_queued_is_worked_by_queue_process(samjobs: Samjobs) -> None:
    draw_many(samjobs.photos, 3)

    queued = samjobs.process("--no-process")
    assert queued.counts == (0, 0, 0, 3)
    assert "3 images are queued" in queued.err
    (job,) = samjobs.status()
    assert (job["state"], job["images"]) == ("queued", 3)
    assert "no process is at work on it" in job["why"]

    worked = samjobs.run("queue", "process", "--json")
    assert worked.counts == (3, 0, 0, 0)
    assert len(samjobs.results()) == 3
    (job,) = samjobs.status()
    assert (job["state"], job["done"], job["why"]) == ("succeeded", 3, "Completed")


def test_an_empty_queue_says_so(samjobs: Samjobs) -> None:
    assert "nothing is queued" in samjobs.run("queue", "status").out
    said = samjobs.run("queue", "process", "--json")
    assert said.counts == (0, 0, 0, 0)
    assert "nothing is queued" in said.err
    assert "nothing has failed" in samjobs.run("queue", "retry").out
    unknown = samjobs.run("queue", "status", "--job", "nix", code=2)
    assert "no job 'nix'" in unknown.last


def test_a_job_that_failed_says_why(samjobs: Samjobs) -> None:
    samjobs.photos.mkdir()
    (samjobs.photos / "broken.png").write_bytes(b"nothing")
    samjobs.process(code=1)

    table = samjobs.run("queue", "status").out

    assert "failed" in table
    assert "all 1 images failed" in table


def test_queue_process_takes_all_jobs_or_one(samjobs: Samjobs) -> None:
    draw_many(samjobs.photos, 2)
    samjobs.process("--no-process", "--name", "red")
    samjobs.out = samjobs.root / "out2"
    samjobs.process("--no-process", "--name", "blue", prompt=("--prompt", "blue disc"))

    assert samjobs.run("queue", "process", "--json", "--job", "blue").counts == (2, 0, 0, 0)
    assert {job.name: job.state for job in samjobs.jobs()} == {"blue": "succeeded", "red": "queued"}
    assert samjobs.run("queue", "process", "--json", "--workers", "2").counts == (2, 0, 0, 0)
    assert {job.state for job in samjobs.jobs()} == {"succeeded"}


def test_retry_does_the_repaired_images_alone(samjobs: Samjobs) -> None:
    draw_many(samjobs.photos, 2)
    (samjobs.photos / "000.png").write_bytes(b"nothing")
    samjobs.process(code=1)
    samjobs.process(code=1)
    draw(samjobs.photos / "000.png")

    # Of the two equal jobs only the newest one is retried.
    assert samjobs.run("queue", "retry").out.count("1 failed images") == 1
    assert samjobs.run("queue", "process", "--json").counts == (1, 0, 0, 0)
    assert len(samjobs.results()) == 2
    assert samjobs.results("failures.jsonl") == []


def test_an_older_job_never_overwrites_the_gathered_files_of_a_newer_one(samjobs: Samjobs) -> None:
    draw_many(samjobs.photos, 2)
    samjobs.process()
    _forget_that_it_was_published(samjobs)
    draw(samjobs.photos / "new.png", 9)
    samjobs.process()

    samjobs.run("queue", "process")

    assert [one["key"] for one in samjobs.results()] == ["000.png", "001.png", "new.png"]


def test_clear_forgets_jobs_and_keeps_results(samjobs: Samjobs) -> None:
    draw_many(samjobs.photos, 2)
    samjobs.process("--limit", "1")

    assert "1 jobs forgotten" in samjobs.run("queue", "clear", "--job", "out").out
    assert samjobs.jobs() == []
    assert samjobs.records() == ["000.png"]


def test_a_job_at_work_is_not_cleared(samjobs: Samjobs) -> None:
    draw_many(samjobs.photos, 4)
    gate = samjobs.hold_after(2)
    process = samjobs.start(*samjobs.asked())
    until(lambda: samjobs.work().total() == 2, "the second image is in hand")

    refused = samjobs.run("queue", "clear", "--job", "out", code=2)
    assert f"at work on it: process {process.pid}" in refused.last
    assert "stop it first" in refused.last
    assert f"left alone: out ({_job_id(samjobs)[:8]})" in samjobs.run("queue", "clear").out
    assert f"at work on it: process {process.pid}" in samjobs.status()[0]["why"]

    samjobs.let_go(gate)
    assert samjobs.finish(process).counts == (4, 0, 0, 0)


def test_a_job_that_is_cancelled_under_a_running_command_ends_it(samjobs: Samjobs) -> None:
    draw_many(samjobs.photos, 60)
    gate = samjobs.hold_after(2)
    process = samjobs.start(*samjobs.asked("--shard-size", "2"))
    until(lambda: samjobs.work().total() == 2, "the second image is in hand")
    (job,) = samjobs.jobs()
    store = connect(f"sqlite:///{samjobs.database}")
    with store.begin() as conn:
        jobs.cancel(conn, job.id, actor="a person")
    store.close()
    samjobs.let_go(gate)

    said = samjobs.finish(process, 1)

    assert "was cancelled (CancelledByUser)" in said.err
    assert len(samjobs.records()) <= 2
    assert samjobs.process().summary["skipped"] == 0


def test_jobs_past_their_time_are_forgotten_at_the_next_start(samjobs: Samjobs) -> None:
    draw_many(samjobs.photos, 1)
    samjobs.process()
    (first,) = samjobs.jobs()
    _let_it_expire(samjobs)

    samjobs.process()

    (second,) = samjobs.jobs()
    assert second.id != first.id


def test_a_command_that_waits_for_another_one_takes_over_when_that_stops(samjobs: Samjobs) -> None:
    draw_many(samjobs.photos, 6)
    gate = samjobs.hold_after(2)
    first = samjobs.start(*samjobs.asked())
    until(lambda: samjobs.work().total() == 2, "the second image is in hand")
    second = samjobs.start("queue", "process", "--json", "--job", "out")

    first.send_signal(signal.SIGKILL)
    first.communicate()
    gate.unlink()

    assert samjobs.finish(second).summary["skipped"] == 0
    assert len(samjobs.results()) == 6
    assert samjobs.work().total() <= 7


def _job_id(samjobs: Samjobs) -> str:
    return str(samjobs.jobs()[0].id)


def _forget_that_it_was_published(samjobs: Samjobs) -> None:
    """As if the process had been killed before it wrote the gathered files."""
    _execute(samjobs, "UPDATE jobs SET published_at = NULL")


def _let_it_expire(samjobs: Samjobs) -> None:
    _execute(samjobs, "UPDATE jobs SET expires_at = '2001-01-01 00:00:00.000000'")


def _execute(samjobs: Samjobs, statement: str) -> None:
    connection = sqlite3.connect(samjobs.database)
    with connection:
        assert connection.execute(statement).rowcount == 1
    connection.close()


def test_force_and_limit_together_would_never_get_further(samjobs: Samjobs) -> None:
    draw_many(samjobs.photos, 2)
    said = samjobs.process("--force", "--limit", "1", code=2)
    assert "leave out one" in said.last
    assert samjobs.status() == []
