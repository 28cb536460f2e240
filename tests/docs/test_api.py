"""docs/api.md: its command lines work as they stand, and what it names exists."""

import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import UUID

from api.app import create_app
from samjobs.states import ImageState
from samjobs.store import Store, connect, jobs, shards
from tests.api.server import Api
from tests.api.world import photo, record
from tests.store.builders import outcomes, running

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs/api.md").read_text()
START, *BLOCKS = re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL)


def test_every_setting_path_and_file_of_the_page_exists() -> None:
    settings = set(re.findall(r"SAMJOBS_[A-Z_]+", (ROOT / "docs/reference/settings.md").read_text()))
    assert set(re.findall(r"SAMJOBS_[A-Z_]+", PAGE)) <= settings
    files = [name for name in re.findall(r"\]\(([\w./-]+)(?:#[\w-]+)?\)", PAGE) if not (ROOT / "docs" / name).exists()]
    assert not files
    paths = {re.sub(r"{\w+}", "X", path) for path in create_app(None).openapi()["paths"]}
    used = {re.sub(r"\$JOB|/0(?=/)", lambda found: "X" if found[0] == "$JOB" else "/X", path) for path in _used()}
    assert used <= paths


def _used() -> list[str]:
    return re.findall(r'"\$API([\w/$-]+)', PAGE)


@contextmanager
def worker(store: Store, folder: Path) -> Iterator[None]:
    """Works off what is submitted: of two images the first succeeds, with its photo and result; the second fails."""
    result = folder / "masks.json"
    here = photo(folder / "photos/trip/1.jpg")
    result.write_bytes(record(str(here)))
    ended = threading.Event()

    def work() -> None:
        while not ended.wait(0.05):
            with store.read() as conn:
                queued = [one.id for one in jobs.list_jobs(conn, active_only=True) if one.state.value == "queued"]
            for job_id in queued:
                _work_off(store, job_id, str(result))

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def _work_off(store: Store, job_id: UUID, result: str) -> None:
    shard = running(store, job_id)
    first, second = (
        outcomes(shard, ImageState.DONE, output_uri=result)[0],
        outcomes(shard, ImageState.FAILED, error="gone")[1],
    )
    with store.begin() as conn:
        shards.record(conn, shard.id, shard.attempt, [first, second])
        shards.finish(conn, shard.id, shard.attempt)


def test_the_commands_work_as_they_stand(tmp_path: Path, postgres_url: str) -> None:
    environment = os.environ | {
        "SAMJOBS_DATABASE_URL": postgres_url,
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
    }
    # Installed, started and reached elsewhere than the page says; all else as it is.
    begin = "\n".join(line for line in START.splitlines() if not re.match("pip|export|.*python -m api", line))
    _bash(begin, tmp_path, environment)
    (tmp_path / "run").mkdir()
    api = Api(tmp_path / "run", postgres_url, API_TOKENS_FILE=tmp_path / "tokens.yaml")
    store = connect(postgres_url)
    try:
        script = "\n".join(BLOCKS).replace("http://127.0.0.1:8000", api.until_ready().url)
        script = script.replace("s3://photos", str(tmp_path / "photos"))
        retried = script.index("curl", script.index("state=failed"))
        with worker(store, tmp_path):
            out = _bash(script[:retried], tmp_path, environment)
        assert "event: end" in out
        _bash(_setup(script) + script[retried:], tmp_path, environment)
        with store.read() as conn:
            (job,) = jobs.list_jobs(conn)
        assert (job.tenant, job.name, job.state.value, job.images_failed) == ("team-a", "trip", "cancelled", 0)
        assert json.loads((tmp_path / "record.json").read_text())["key"] == "a.jpg"
    finally:
        store.close()
        api.close()


def _setup(script: str) -> str:
    return "\n".join(line for line in script.splitlines() if line.startswith(("API=", "AUTH=", "JOB="))) + "\n"


def _bash(script: str, folder: Path, environment: dict[str, str]) -> str:
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", script],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, f"{script}\n{done.stdout}\n{done.stderr}"
    return done.stdout
