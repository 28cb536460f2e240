"""A namespace on a real API server, and the parts of a controller that look at it, one step at a time.

The test plays the person (kubectl), the workers, and whoever else writes to the table.
"""

import json
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import UUID

from controller.kube.api import Kube
from controller.kube.events import Events
from controller.kube.installation import DefaultPool, Installation, WorkerDefaults
from controller.kube.intake import Intake
from controller.kube.objects import Objects
from controller.kube.project import Project
from controller.kube.wakes import Woken
from controller.metrics import Metrics
from samjobs.names import API_VERSION, JOB_KIND, JOB_PLURAL
from samjobs.store import Store, fronts, jobs
from samjobs.store.rows import Job
from tests.store.builders import run
from tests.waiting import until

ALIVE_S = 60.0


def installation(namespace: str, *pools: DefaultPool, list_seconds: float = 1.0) -> Installation:
    """What a chart would set for a controller of one namespace."""
    return Installation(
        namespace=namespace,
        watch_namespaces=(namespace,),
        worker=WorkerDefaults(image="samjobs-worker:test"),
        default_pools=pools,
        list_seconds=list_seconds,
    )


def manifest(namespace: str, name: str, **spec: Any) -> dict[str, Any]:
    """A SamJob over three images that are never opened."""
    defaults = {
        "images": {"list": [{"image": f"/photos/{number}.png"} for number in range(3)]},
        "prompts": {"text": [{"text": "red car"}]},
        "output": {"uri": f"/results/{name}"},
        "engine": "opencv",
        "shardSize": 2,
    }
    meta = {"namespace": namespace, "name": name}
    return {"apiVersion": API_VERSION, "kind": JOB_KIND, "metadata": meta, "spec": {**defaults, **spec}}


@dataclass
class Parts:
    """What one controller process remembers."""

    objects: Objects
    intake: Intake
    project: Project


class Bed:
    """One test's namespace and database."""

    def __init__(self, kubectl: Callable[..., str], namespace: str, store: Store) -> None:
        self.kubectl, self.namespace, self.store = kubectl, namespace, store
        self.kube = Kube(installation(namespace))
        self.metrics = Metrics()
        self.parts = self.fresh()

    def fresh(self, *, least_s: float = 0.0) -> Parts:
        """The parts as a controller that was just started has them; it looks at the table each `least_s`."""
        objects = Objects()
        shared: dict[str, Any] = {"beat": lambda: None}
        intake = Intake(self.kube, self.store, objects, self.metrics, (self.namespace,), **shared)
        events = Events(self.kube)
        often: dict[str, Any] = {"alive_within_s": ALIVE_S, "least_s": least_s, **shared}
        project = Project(self.kube, self.store, objects, events, self.metrics, **often)
        self.parts = Parts(objects, intake, project)
        return self.parts

    def close(self) -> None:
        self.kube.close()

    # The controller.

    def take_in(self) -> None:
        """One full look at the objects."""
        self.parts.intake.look_at_all()

    def tell(self) -> int:
        """Write all statuses that differ; how many were written."""
        self.parts.project.round(threading.Event())
        return self.parts.project.did()["written"]

    def look(self) -> int:
        """A round: take in, tell."""
        self.take_in()
        return self.tell()

    def wake(self, name: str, *, uid: str, generation: int = 0, deleted: bool = False) -> None:
        """What a watch would tell of an object."""
        woken = Woken(JOB_PLURAL, self.namespace, name, UUID(uid), generation, deleted=deleted)
        self.parts.intake.look_at(self.parts.intake.news([woken]))

    # The person.

    def apply(self, name: str, **spec: Any) -> str:
        """Make a SamJob; its uid."""
        self.kubectl("apply", "--validate=strict", "-f", "-", input=json.dumps(manifest(self.namespace, name, **spec)))
        return str(self.object(name)["metadata"]["uid"])

    def patch(self, name: str, **spec: Any) -> None:
        body = json.dumps({"spec": spec})
        self.kubectl("patch", "samjob", name, "-n", self.namespace, "--type=merge", "-p", body)

    def delete(self, name: str) -> None:
        self.kubectl("delete", "samjob", name, "-n", self.namespace, "--wait=false")

    def object(self, name: str) -> dict[str, Any]:
        found = self.kube.get_job(self.namespace, name)
        assert found is not None, f"there is no SamJob {name}"
        return found

    def status(self, name: str) -> dict[str, Any]:
        status: dict[str, Any] = self.object(name).get("status") or {}
        return status

    def true(self, name: str) -> set[str]:
        """Types of the conditions that are true."""
        return {one["type"] for one in self.status(name).get("conditions", ()) if one["status"] == "True"}

    def events(self, name: str) -> list[tuple[str, str, int]]:
        """Type, reason and count of the Events of an object."""
        found = json.loads(self.kubectl("get", "events", "-n", self.namespace, "-o", "json"))["items"]
        return [(one["type"], one["reason"], one["count"]) for one in found if one["involvedObject"]["name"] == name]

    # The table.

    def rows(self, name: str) -> list[Job]:
        """The rows of that name, oldest first."""
        with self.store.read() as conn:
            found = jobs.list_jobs(conn, tenant=self.namespace, limit=1000)
        return sorted((job for job in found if job.name == name), key=lambda job: job.created_at)

    def row(self, name: str) -> Job:
        (found,) = self.rows(name)
        return found

    def until_row(self, name: str, holds: Callable[[Job], bool], what: str) -> None:
        until(lambda: any(holds(row) for row in self.rows(name)), f"the row of {name} {what}")

    def until_status(self, name: str, phase: str) -> None:
        until(lambda: self.status(name).get("phase") == phase, f"{name} is told to be {phase}")

    def finish(self, name: str) -> None:
        """Play the workers: all its images are done."""
        while self.row(name).shards_open:
            run(self.store, self.row(name).id)

    def brief(self, uid: str) -> fronts.Brief | None:
        with self.store.read() as conn:
            return fronts.briefs(conn, [UUID(uid)]).get(UUID(uid))


def written(folder: Path, made: Installation) -> Path:
    """The installation as the file that a chart mounts."""
    path = folder / "kubernetes.yaml"
    path.write_text(made.model_dump_json(by_alias=True, exclude_none=True, exclude_defaults=True))
    return path
