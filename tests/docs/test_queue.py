"""docs/queue.md and the examples beside it: what they name exists, and what they show works."""

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any
from uuid import UUID

import psycopg
import pytest
import typer

from samjobs.cli import app, specfile
from samjobs.names import Reason
from samjobs.places import settled
from samjobs.settings import PROFILES
from samjobs.spec import JobSpec, parse
from samjobs.states import ImageState, JobState, ShardState
from samjobs.store import Store, connect, jobs, requests
from tests.store.builders import read, run
from tests.waiting import until

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs/queue.md").read_text()
COMMANDS = re.findall(r"^    (?:SAMJOBS\S+ )*samjobs (.*?)(?: +#.*)?$", PAGE, re.MULTILINE)


def test_every_reason_and_state_is_explained() -> None:
    pages = PAGE + (ROOT / "docs/kubernetes.md").read_text()
    words = (*Reason, *JobState, *ShardState, *ImageState)
    unexplained = [word.value for word in words if f"`{word.value}`" not in pages]
    assert not unexplained, "explain them in docs/queue.md, or docs/kubernetes.md where they are words of Kubernetes"


def test_every_setting_exists_and_the_profiles_are_as_they_are() -> None:
    named = set(re.findall(r"SAMJOBS_[A-Z_]+", PAGE))
    assert named <= set(re.findall(r"SAMJOBS_[A-Z_]+", (ROOT / "docs/reference/settings.md").read_text()))
    for name, value in PROFILES["dev"].items():
        assert f"| `SAMJOBS_{name.upper()}` | {value} | {PROFILES['prod'][name]} |" in PAGE


@pytest.mark.parametrize("line", COMMANDS)
def test_every_command_has_the_options_that_are_shown(line: str) -> None:
    command: Any = typer.main.get_command(app)
    words = line.split()
    while hasattr(command, "commands"):
        name = words.pop(0)
        assert name in command.commands, f"docs/queue.md shows `samjobs {line}`, and there is no {name}"
        command = command.commands[name]
    options = {option for parameter in command.params for option in parameter.opts}
    assert {word for word in words if word.startswith("-")} <= options


def test_every_file_that_is_named_exists() -> None:
    named = re.findall(r"\]\(([\w./-]+)\)", PAGE) + re.findall(r"`((?:examples|docs)/[\w./-]+)`", PAGE)
    missing = [name for name in named if not (ROOT / "docs" / name).exists() and not (ROOT / name).exists()]
    assert not missing


@pytest.mark.parametrize("file", ["examples/job.yaml", "examples/compose/job.yaml"])
def test_an_example_file_is_a_job(file: str) -> None:
    (spec,) = specfile.read(str(ROOT / file))
    assert settled(spec).prompts.text


@pytest.mark.parametrize(
    "statements",
    [*re.findall(r"```sql\n(.*?)```", PAGE, re.DOTALL), (ROOT / "examples/submit.sql").read_text()],
    ids=["docs/queue.md", "examples/submit.sql"],
)
def test_a_job_by_sql_is_asked_for_and_admitted(postgres_url: str, statements: str) -> None:
    with psycopg.connect(postgres_url, autocommit=True) as plain:
        plain.execute(statements.encode())
        (request_id,) = plain.execute("SELECT id FROM requests").fetchone() or (None,)
    store = connect(postgres_url)
    try:
        with store.begin() as conn:
            (request,) = requests.pending(conn, limit=2)
            admitted = requests.admit(conn, request, settled(parse(JobSpec, request.spec, "spec")), actor="controller")
        assert admitted.job_id == request_id
        assert read(store, admitted.job_id).tenant == "default"
    finally:
        store.close()


def test_the_python_of_the_page_joins_its_own_transaction(postgres_url: str) -> None:
    (code,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    subprocess.run([sys.executable, "-c", code], env=_environment(postgres_url), check=True, cwd=ROOT)
    with psycopg.connect(postgres_url) as plain:
        joined = plain.execute("SELECT tenant, images_total FROM jobs JOIN orders ON jobs.id = orders.job").fetchall()
    assert joined == [("team-a", 1)]


def test_the_python_example_submits_and_tells_progress_to_the_end(postgres_url: str) -> None:
    process = subprocess.Popen(
        [sys.executable, "examples/submit.py"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=_environment(postgres_url),
        cwd=ROOT,
    )
    store = connect(postgres_url)
    try:
        until(lambda: _only_job(store) is not None, "the job is there")
        run(store, _only_job(store) or UUID(int=0), ImageState.FAILED)
    finally:
        store.close()
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    assert out.splitlines()[0].endswith(" is new")
    assert out.splitlines()[-1].startswith("photos/trip/b.jpg")


def _only_job(store: Store) -> UUID | None:
    with store.read() as conn:
        found = jobs.list_jobs(conn)
    return found[0].id if found else None


def _environment(url: str) -> dict[str, str]:
    return os.environ | {"SAMJOBS_DATABASE_URL": url, "PYTHONPATH": str(ROOT)}
