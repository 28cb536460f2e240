"""Jobs on the job table: submit, get, describe, why, watch, events, cancel, suspend, resume, retry, dead."""

import json
import re
import signal
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest

from samjobs.cli import specfile
from samjobs.errors import ErrorClass, InvalidInput
from samjobs.names import Reason
from samjobs.states import ImageState, ShardState
from samjobs.store import Store, jobs, requests, shards
from samjobs.store.tables import requests as request_rows
from tests.cli.job_table import JobTable, cells, fields
from tests.store.builders import DEAD, job, read, run, running, shard_of
from tests.waiting import until

LIST = {"images": {"list": [{"image": "/photos/a.jpg"}]}, "prompts": {"text": ["bus"]}, "output": {"uri": "/out/list"}}
OPTIONS = ("--input", "s3://photos/trip", "--prompt", "red car", "--output", "s3://out/trip")


# submit


def test_submit_prints_the_id_of_a_job_that_is_as_the_options_say(postgres_table: JobTable) -> None:
    more = ("--name", "trip", "-n", "team-a", "--region", "us", "--priority", "5", "--parallelism", "2", "--ttl", "60")
    times = ("--not-before", "2099-12-24T18:00:00+01:00", "--deadline", "3600", "--shard-size", "8")
    end = ("--max-failed-images", "3", "--callback", "https://hooks.host/x", "--suspend", "--mode", "find_all")

    said = postgres_table.run("submit", *OPTIONS, *more, *times, *end, "--format", "overlay")

    found = read(postgres_table.store, UUID(said.out.strip()))
    spec = found.spec
    assert (found.name, found.tenant, found.region, found.priority, found.state) == (
        "trip",
        "team-a",
        "us",
        5,
        "suspended",
    )
    assert (spec.images.prefix, spec.output.uri, spec.parallelism) == ("s3://photos/trip", "s3://out/trip", 2)
    assert (spec.active_deadline_seconds, spec.ttl_seconds_after_finished, spec.shard_size) == (3600, 60, 8)
    assert (spec.failure_policy.max_failed_images, str(spec.callback)) == (3, "https://hooks.host/x")
    assert found.not_before is not None
    assert found.not_before.isoformat() == "2099-12-24T17:00:00+00:00"


def test_submitting_the_same_again_joins_the_active_job(postgres_table: JobTable) -> None:
    first, second = postgres_table.run("submit", *OPTIONS), postgres_table.run("submit", *OPTIONS)
    assert second.out == first.out
    assert second.last == "samjobs: an equal job is active: joined it"


def test_a_file_of_yaml_holds_several_jobs_and_json_comes_by_standard_input(table: JobTable) -> None:
    (table.root / "jobs.yaml").write_text(
        "images:\n  list:\n  - image: /photos/a.jpg\nprompts: {text: [bus]}\noutput: {uri: /out/one}\n---\n"
        "images: {list: [{image: /photos/b.jpg}]}\nprompts: {text: [car]}\noutput: {uri: /out/two}\n"
    )
    said = table.run("submit", "-f", "jobs.yaml", "--json")
    assert [line["created"] for line in said.lines] == [True, True]
    table.run("submit", "-f", "-", "--name", "piped", given=json.dumps(LIST, indent="\t"))

    listed = table.run("get", "--json").lines
    assert [one["output"] for one in listed] == ["/out/list", "/out/two", "/out/one"]
    assert [one["images"]["total"] for one in listed] == [1, 1, 1]


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("-f", "-", "--prompt", "x"), "--prompt does not go with --file"),
        (("--input", "photos", "--prompt", "x", "--output", "/out"), "images.prefix: 'photos' is a relative path"),
        (("--input", "", "--prompt", "x", "--output", "/out"), "--input '' is empty"),
        (("--input", "/photos", "--prompt", "x"), "--output is missing"),
        ((*OPTIONS, "--not-before", "2026-12-24T18:00:00"), "notBefore: Input should have timezone info"),
    ],
)
def test_what_is_wrong_is_the_last_line_and_submits_nothing(
    postgres_table: JobTable, arguments: tuple[str, ...], told: str
) -> None:
    said = postgres_table.run("submit", *arguments, code=2)
    assert told in said.last
    assert (said.out, "Traceback" in said.err) == ("", False)
    with postgres_table.store.read() as conn:
        assert jobs.list_jobs(conn) == []


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("{images: [", "job.yaml: neither JSON nor YAML"),
        ("# nothing", "job.yaml: no job in it"),
        ("- 1", "job.yaml: the whole: Input should be a valid dictionary"),
        ("mode: guess", "job.yaml: mode: Input should be 'find_all'"),
        (f"{json.dumps(LIST)}\n---\n{{}}", "job.yaml, document 2: images: Field required"),
        (json.dumps(LIST | {"output": {"uri": "out"}}), "job.yaml: output.uri: 'out' is a relative path"),
    ],
)
def test_a_wrong_file_is_told_by_document_and_field(tmp_path: Path, text: str, told: str) -> None:
    (tmp_path / "job.yaml").write_text(text)
    with pytest.raises(InvalidInput, match=re.escape(told)):
        specfile.read(str(tmp_path / "job.yaml"))


def test_json_lines_are_a_job_a_line_and_a_wrong_one_is_told_by_its_number(tmp_path: Path) -> None:
    file = tmp_path / "jobs.jsonl"
    file.write_text(f"{json.dumps(LIST)}\n\n{json.dumps(LIST)}\n")
    assert len(specfile.read(str(file))) == 2
    file.write_text(f"{json.dumps(LIST)}\n{{}}\n")
    with pytest.raises(InvalidInput, match=r"jobs.jsonl, line 2: images: Field required"):
        specfile.read(str(file))


def test_a_file_that_is_not_there_is_named() -> None:
    with pytest.raises(InvalidInput, match=r"--file no.yaml: No such file"):
        specfile.read("no.yaml")


def test_submit_and_wait_tells_progress_and_ends_as_the_job_does(postgres_table: JobTable) -> None:
    process = postgres_table.start("submit", "-f", "-", "--wait", "--name", "waited")
    assert process.stdin is not None
    process.stdin.write(json.dumps(LIST))
    process.stdin.close()
    process.stdin = None
    until(lambda: _named(postgres_table.store, "waited") is not None, "the job is there")
    job_id = _named(postgres_table.store, "waited")
    assert job_id is not None
    run(postgres_table.store, job_id)

    out, err = process.communicate(timeout=60)

    assert process.returncode == 0, err
    assert out.splitlines()[0] == str(job_id)
    assert "succeeded  1/1 images" in out.splitlines()[-1]


def _named(store: Store, name: str) -> UUID | None:
    with store.read() as conn:
        found = jobs.find(conn, name)
    return None if found is None else found.id


# get, describe, why, watch, events


def test_get_lists_jobs_newest_first_or_shows_one(table: JobTable) -> None:
    first = job(table.store, name="first")
    job(table.store, name="second", tenant="team-a")
    run(table.store, first, ImageState.FAILED)

    rows = cells(table.run("get").out)
    assert rows[0] == ["NAME", "ID", "MODE", "PHASE", "PROGRESS", "FAILED", "AGE"]
    assert [row[:6] for row in rows[1:]] == [
        ["second", str(_named(table.store, "second"))[:8], "find_all", "queued", "0/4", "0"],
        ["first", str(first)[:8], "find_all", "running", "2/4", "2"],
    ]
    assert [row[0] for row in cells(table.run("get", "-n", "team-a").out)[1:]] == ["second"]
    (one,) = table.run("get", "first", "--json").lines
    assert (one["id"], one["state"], one["images"]["failed"]) == (str(first), "running", 2)


def test_get_and_watch_prints_a_row_again_when_the_job_has_changed(postgres_table: JobTable) -> None:
    job_id = job(postgres_table.store, 2, name="trip")
    process = postgres_table.start("get", "trip", "--watch")
    assert process.stdout is not None
    assert [process.stdout.readline().split()[0] for _ in range(2)] == ["NAME", "trip"]
    run(postgres_table.store, job_id)

    out, _ = process.communicate(timeout=60)

    assert process.returncode == 0
    assert out.splitlines()[-1].split()[3:6] == ["succeeded", "2/2", "0"]


def test_an_unknown_job_and_an_empty_table_say_what_to_do(postgres_table: JobTable) -> None:
    assert "no jobs; `samjobs submit --help`" in postgres_table.run("get").out
    assert "no job 'nix': `samjobs get` lists them" in postgres_table.run("describe", "nix", code=2).last


def test_a_request_by_sql_that_was_refused_tells_its_error(postgres_table: JobTable) -> None:
    request_id = uuid4()
    with postgres_table.store.begin() as conn:
        conn.execute(request_rows.insert().values(id=request_id, spec={"mode": "guess"}))
    assert "waits for a controller to admit it" in postgres_table.run("get", request_id, code=2).last
    with postgres_table.store.begin() as conn:
        requests.refuse(conn, request_id, "spec: mode: Input should be 'find_all'")
    said = postgres_table.run("describe", request_id, code=2)
    assert said.last == f"samjobs: request {request_id} was refused: spec: mode: Input should be 'find_all'"


def test_describe_tells_all_of_a_job_at_work(table: JobTable) -> None:
    table.register_worker()
    job_id = job(table.store, 8, name="trip", callback="https://hooks.host/x?token=hush")
    run(table.store, job_id, ImageState.FAILED)
    running(table.store, job_id)
    _kill(table.store, job_id)

    text = table.run("describe", "trip").out

    told = fields(text)
    assert told["State"] == "running (Started)"
    assert told["Why"].startswith("is running: 1 of its 2 open shards are at work")
    assert told["Images"] == "2/8: 0 done, 0 unchanged, 2 failed"
    assert told["Shards"] == "4: 1 queued, 1 running, 1 succeeded, 1 dead"
    assert told["Callback"] == "hooks.host: told of its end"
    assert "  shard 1, attempt 1: 0/2 images on gpu-7 (pool a100, cuda)" in text
    assert "Failed images (the first 2 of 2):\n  0000.jpg: " in text
    assert "  shard 2, 1 failures: no such mode" in text
    assert f"shard {str(shard_of(table.store, job_id, 2).id)[:8]}  running → dead  FailuresExhausted" in text
    assert "hush" not in text


def test_describe_as_json_holds_the_same(postgres_table: JobTable) -> None:
    job_id = job(postgres_table.store, 2, name="trip")
    run(postgres_table.store, job_id, ImageState.FAILED)

    (told,) = postgres_table.run("describe", "trip", "--json").lines

    assert (told["state"], told["reason"], told["why"]["reason"]) == ("failed", "AllImagesFailed", "AllImagesFailed")
    assert [image["key"] for image in told["failedImages"]] == ["0000.jpg", "0001.jpg"]
    assert told["lastEvents"][-1]["to"] == "failed"


def test_why_is_one_line_that_names_what_has_to_happen(postgres_table: JobTable) -> None:
    job_id = job(postgres_table.store)
    told = "no worker of region default is alive (never had one): start one, or see why none starts"
    assert postgres_table.run("why", job_id).out == f"{told}; no shard is ahead of it\n"


def test_why_knows_the_caps_of_the_settings(postgres_table: JobTable) -> None:
    postgres_table.register_worker()
    postgres_table.environment["SAMJOBS_REGION_CONCURRENCY"] = "1"
    running(postgres_table.store, job(postgres_table.store))

    (told,) = postgres_table.run("why", job(postgres_table.store), "--json").lines

    assert told["reason"] == Reason.REGION_CAP
    assert told["message"].startswith("region default has 1 of 1 shards at work")


def test_watch_ends_with_the_job_and_1_when_images_failed(postgres_table: JobTable) -> None:
    job_id = job(postgres_table.store, 2, name="trip")
    process = postgres_table.start("watch", "trip")
    assert process.stdout is not None
    assert "queued  0/2 images  no worker of region default is alive" in process.stdout.readline()
    run(postgres_table.store, job_id, ImageState.FAILED)

    out, _ = process.communicate(timeout=60)

    assert process.returncode == 1
    assert "failed  2/2 images, 2 failed  all 2 images failed" in out.splitlines()[-1]


def test_ctrl_c_ends_a_watch_and_leaves_the_job_alone(postgres_table: JobTable) -> None:
    job_id = job(postgres_table.store, name="trip")
    process = postgres_table.start("watch", "trip")
    assert process.stdout is not None
    process.stdout.readline()
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=60) == -signal.SIGINT
    assert "Traceback" not in process.communicate()[1]
    assert read(postgres_table.store, job_id).state == "queued"


def test_events_are_the_whole_story_with_who_did_it(postgres_table: JobTable) -> None:
    job_id = job(postgres_table.store, 2, name="trip")
    postgres_table.run("suspend", "trip")
    postgres_table.run("resume", "trip")
    run(postgres_table.store, job_id)

    lines = postgres_table.run("events", "trip").out.splitlines()

    assert "job  queued → suspended  SuspendedByUser" in lines[1]
    assert lines[1].endswith("[samjobs suspend]")
    changes = [(event["subject"], event["to"]) for event in postgres_table.run("events", "trip", "--json").lines]
    assert changes[-4:] == [("shard", "running"), ("job", "running"), ("shard", "succeeded"), ("job", "succeeded")]


# cancel, suspend, resume, retry, dead


def test_acts_say_of_each_job_what_they_did(postgres_table: JobTable) -> None:
    first, second = job(postgres_table.store, name="first"), job(postgres_table.store, name="second")
    assert postgres_table.run("suspend", "first").out == f"first ({str(first)[:8]}): suspended\n"
    assert "first" in postgres_table.run("suspend", "first").out
    assert postgres_table.run("cancel", "first", "second").out.splitlines() == [
        f"first ({str(first)[:8]}): cancelled",
        f"second ({str(second)[:8]}): cancelled",
    ]
    assert postgres_table.run("resume", "first").out == f"first ({str(first)[:8]}): has ended already: cancelled\n"


def test_of_several_jobs_none_is_touched_when_one_is_unknown(postgres_table: JobTable) -> None:
    first = job(postgres_table.store, name="first")
    assert "no job 'nix'" in postgres_table.run("cancel", "first", "nix", code=2).last
    assert read(postgres_table.store, first).state == "queued"


def test_retry_takes_dead_shards_or_failed_images_or_both(postgres_table: JobTable) -> None:
    job_id = job(postgres_table.store, 4, name="trip")
    run(postgres_table.store, job_id, ImageState.FAILED)
    _kill(postgres_table.store, job_id)

    assert "give one of them" in postgres_table.run("retry", "trip", "--dead", "--failed-images", code=2).last
    assert "2 failed images and 1 shards" in postgres_table.run("retry", "trip", "--failed-images").out
    assert shard_of(postgres_table.store, job_id, 1).state is ShardState.DEAD
    assert "0 failed images and 1 shards" in postgres_table.run("retry", "trip", "--dead").out
    assert "nothing to retry" in postgres_table.run("retry", "trip").out


def test_the_dead_are_listed_retried_and_purged(table: JobTable) -> None:
    first, second = job(table.store, 2, name="first"), job(table.store, 2, name="second")
    assert table.run("dead", "list").out == "no shard is dead\n"
    for one in (first, second):
        _kill(table.store, one)

    rows = cells(table.run("dead", "list").out)
    assert rows[0] == ["JOB", "SHARD", "DONE", "FAILURES", "AGE", "ERROR"]
    assert sorted(row[0].split()[0] for row in rows[1:]) == ["first", "second"]
    assert {row[5] for row in rows[1:]} == {"no such mode"}
    assert "name the jobs, or give --all" in table.run("dead", "purge", code=2).last
    assert "1 shards are queued again" in table.run("dead", "retry", "first").out
    assert "second" in table.run("dead", "purge", "--all").out
    assert [shard_of(table.store, one).state for one in (first, second)] == ["queued", "cancelled"]


def _kill(store: Store, job_id: UUID, verdict: Any = DEAD) -> None:
    """The job's next shard fails."""
    shard = running(store, job_id)
    with store.begin() as conn:
        assert shards.fail(
            conn, shard.id, shard.attempt, verdict, error_class=ErrorClass.PERMANENT, error="no such mode"
        )
