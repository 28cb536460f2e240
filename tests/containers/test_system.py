"""The services of compose.yaml that are ours, with the words of that file, on real servers: only addresses differ."""

import json
import socket
import urllib.request
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack
from functools import partial
from typing import Any
from uuid import uuid4

import boto3
import psycopg
import pytest
from moto.server import ThreadedMotoServer

from tests.containers import compose
from tests.containers.compose import ROOT
from tests.containers.oci import Container, Image
from tests.waiting import until

pytestmark = [pytest.mark.needs_buildah, pytest.mark.timeout(900)]

NOBODY = "postgresql://samjobs:hidden@127.0.0.1:1/samjobs"


@pytest.fixture
def empty_database(postgres_server: str) -> Iterator[str]:
    """The address of a database without tables."""
    name = f"test_{uuid4().hex}"
    with psycopg.connect(f"{postgres_server}/postgres", autocommit=True) as admin:
        admin.execute(f"CREATE DATABASE {name}".encode())
        yield f"{postgres_server}/{name}"
        admin.execute(f"DROP DATABASE {name} WITH (FORCE)".encode())


@pytest.fixture
def store_url() -> Iterator[str]:
    """The address of an S3 server."""
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port: int = one.getsockname()[1]
        return port


class Services:
    """What compose.yaml says, at other addresses."""

    def __init__(self, container_images: dict[str, Image], **addresses: str) -> None:
        self._images, self._addresses = container_images, addresses
        self._said = compose.filled(compose.load())["services"]
        self._ports = {name: free_port() for name in self._said}
        self.api_port = free_port()

    def started(self, name: str) -> AbstractContextManager[Container]:
        said = self._said[name]
        image = self._images[said["build"]["dockerfile"].removeprefix("Dockerfile.")]
        return image.started(
            *said.get("entrypoint", []),
            env={
                **said["environment"],
                **self._addresses,
                "SAMJOBS_HEALTH_PORT": self._ports[name],
                "SAMJOBS_API_PORT": self.api_port,
            },
            mounts={ROOT / source: place for source, place, _ in (one.split(":") for one in said["volumes"])},
        )

    def ended(self, name: str) -> str:
        """What a service that does one thing said."""
        with self.started(name) as container:
            container.ends(0)
            return container.said

    def healthy(self, name: str, container: Container) -> bool:
        assert container.process.poll() is None, f"{name} ended:\n{container.said}"
        how, *command = self._said[name]["healthcheck"]["test"]
        assert how == "CMD"
        return container.execute(*(word.replace(":8080", f":{self._ports[name]}") for word in command)).returncode == 0

    def environment(self, name: str) -> dict[str, Any]:
        found: dict[str, Any] = self._said[name]["environment"]
        return found


def test_a_job_goes_from_bucket_to_bucket_and_both_processes_end_well_when_told(
    container_images: dict[str, Image], empty_database: str, redis_url: str, store_url: str
) -> None:
    services = Services(
        container_images, SAMJOBS_DATABASE_URL=empty_database, SAMJOBS_REDIS_URL=redis_url, AWS_ENDPOINT_URL=store_url
    )
    assert "migrated" in services.ended("migrate")
    services.ended("bucket")
    with ExitStack() as stack:
        started = {name: stack.enter_context(services.started(name)) for name in ("controller", "worker", "api")}
        controller, worker = started["controller"], started["worker"]
        for name, container in started.items():
            until(partial(services.healthy, name, container), f"the {name} is healthy")
        job = (ROOT / "examples" / "compose" / "job.yaml").read_text()
        submitted = controller.execute("samjobs", "submit", "--file", "-", "--wait", stdin=job)
        assert submitted.returncode == 0, f"{submitted.stdout}{submitted.stderr}\n{controller.said}\n{worker.said}"
        (told,) = listed(services.api_port, "samjobs_trial-only")["items"]
        assert told["state"] == "succeeded"
        for container in started.values():
            container.stop()
    keys = services.environment("worker")
    store = boto3.client(
        "s3",
        endpoint_url=store_url,
        region_name=keys["AWS_DEFAULT_REGION"],
        aws_access_key_id=keys["AWS_ACCESS_KEY_ID"],
        aws_secret_access_key=keys["AWS_SECRET_ACCESS_KEY"],
    )
    written = {entry["Key"] for entry in store.list_objects_v2(Bucket="samjobs", Prefix="masks/")["Contents"]}
    photos = {path.relative_to(ROOT / "examples/photos") for path in (ROOT / "examples/photos").rglob("*.jpg")}
    assert written >= {f"masks/records/{photo}.json" for photo in photos}


def listed(port: int, token: str) -> dict[str, Any]:
    """The API's list of jobs."""
    asked = urllib.request.Request(f"http://127.0.0.1:{port}/api/v1/jobs", headers={"Authorization": f"Bearer {token}"})
    with urllib.request.urlopen(asked, timeout=10) as answer:
        found: dict[str, Any] = json.load(answer)
        return found


@pytest.mark.parametrize("name", ["controller", "worker"])
def test_without_a_database_it_ends_with_one_line_that_says_which_and_what_to_do(
    container_images: dict[str, Image], name: str
) -> None:
    with container_images[name].started(env={"SAMJOBS_DATABASE_URL": NOBODY, "SAMJOBS_HEALTH_PORT": 0}) as container:
        container.ends(3)
        (line,) = container.said.splitlines()
    assert "127.0.0.1:1" in line
    assert "SAMJOBS_DATABASE_URL" in line
    assert "hidden" not in line
