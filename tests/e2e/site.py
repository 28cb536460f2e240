"""One test's corner of the release: a region, a pool of workers for it, jobs that only they take.

Questions about jobs are answered by the job table, not by what the controller says of it; and each commit of an image's
outcome is written down by a trigger in the database, which no code of samjobs knows.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from samjobs.names import API_VERSION, JOB_KIND, POOL_KIND, POOL_LABEL
from samjobs.states import JOB_TERMINAL
from tests.e2e.release import DATA_CLAIM, Release

SITE_LABEL = "site"
RESOURCES = {"requests": {"cpu": "50m", "memory": "128Mi"}, "limits": {"memory": "1Gi"}}
# One worker per shard at once, and gone soon after.
PER_SHARD = {
    "policy": "steps",
    "steps": [{"shards": count, "replicas": count} for count in range(1, 7)],
    "maxReplicas": 6,
    "upCooldownSeconds": 0,
    "downCooldownSeconds": 3,
}


@dataclass(frozen=True)
class Site:
    """A region called `name`; its pools and jobs begin with it."""

    release: Release
    name: str

    @property
    def folder(self) -> str:
        """Where its photos and results lie, in the pods."""
        return f"/data/{self.name}"

    def pool(self, name: str = "pool", **spec: Any) -> str:
        """Apply a pool of the opencv engine; its full name. `spec`: what it has beside that."""
        full = f"{self.name}-{name}"
        usual = {
            "region": self.name,
            "engine": "opencv",
            "scaling": PER_SHARD,
            "resources": RESOURCES,
            "volumes": [{"claim": DATA_CLAIM, "mountPath": "/data", "readOnly": False}],
            # One photo at a time, so that a slow server makes an even pace.
            "env": [{"name": "SAMJOBS_FETCH_THREADS", "value": "1"}],
            "terminationGracePeriodSeconds": 60,
        }
        self.release.apply(self._object(POOL_KIND, full, usual | spec))
        return full

    def job(self, name: str, images: Mapping[str, Any], **spec: Any) -> str:
        """Apply a job that looks for red; its full name. `spec`: what it has beside that."""
        full = f"{self.name}-{name}"
        usual = {
            "region": self.name,
            "engine": "opencv",
            "images": images,
            "prompts": {"text": [{"text": "red"}]},
            "output": {"uri": f"{self.folder}/{name}"},
            "shardSize": 100,
        }
        self.release.apply(self._object(JOB_KIND, full, usual | spec))
        return full

    def _object(self, kind: str, name: str, spec: Mapping[str, Any]) -> dict[str, Any]:
        metadata = {"name": name, "labels": {SITE_LABEL: self.name}}
        return {"apiVersion": API_VERSION, "kind": kind, "metadata": metadata, "spec": dict(spec)}

    def clear(self) -> None:
        """Delete its jobs and pools."""
        self.release.kubectl("delete", "samjobs,samworkerpools", f"--selector={SITE_LABEL}={self.name}")

    # What there is.

    def pods(self, pool: str) -> dict[str, dict[str, Any]]:
        """The pool's pods that are to stay, by name."""
        found = self.release.get("pods", f"--selector={POOL_LABEL}={pool}")["items"]
        return {pod["metadata"]["name"]: pod for pod in found if "deletionTimestamp" not in pod["metadata"]}

    def replicas(self, pool: str) -> int | None:
        """Of the pool's Deployment; None where there is none."""
        found = self.release.find("deployment", f"samworkers-{pool}")
        return None if found is None else int(found["spec"]["replicas"])

    def at_work(self) -> dict[str, str]:
        """The pod that has a shard of a job in hand, by the job's name."""
        found = self.release.rows(
            "SELECT jobs.name, workers.pod FROM shards JOIN jobs ON jobs.id = shards.job_id"
            " JOIN workers ON workers.incarnation = shards.incarnation"
            f" WHERE shards.state = 'running' AND jobs.region = '{self.name}' AND shards.images_done > 0"
        )
        return {row["name"]: row["pod"] for row in found}

    def row(self, job: str) -> dict[str, Any]:
        """The job's row; {} where there is none yet."""
        return next(iter(self.release.rows(f"SELECT * FROM jobs WHERE name = '{job}'")), {})

    def shards(self, job: str) -> list[dict[str, Any]]:
        """The rows of the job's shards."""
        return self.release.rows(
            f"SELECT shards.* FROM shards JOIN jobs ON jobs.id = job_id WHERE name = '{job}' ORDER BY shards.index"
        )

    def commits(self, job: str) -> Counter[int]:
        """How often the outcome of each image was committed, by its index."""
        found = self.release.rows(
            f"SELECT commits.index FROM commits JOIN jobs ON jobs.id = commits.job_id WHERE jobs.name = '{job}'"
        )
        return Counter(row["index"] for row in found)

    def reasons(self, job: str) -> list[str]:
        """Why its shards changed, in order."""
        found = self.release.rows(
            f"SELECT events.reason FROM events JOIN jobs ON jobs.id = job_id WHERE name = '{job}'"
            " AND subject = 'shard' ORDER BY events.id"
        )
        return [row["reason"] for row in found]

    # Waiting and judging.

    def until(self, condition: Callable[[], bool], what: str) -> None:
        """See `Release.until`."""
        self.release.until(condition, what)

    def until_at_work(self, *jobs: str) -> dict[str, str]:
        """Wait until an image of each of the jobs is done and the next one is in hand; the pods by the job's name."""
        found: dict[str, str] = {}

        def all_there() -> bool:
            found.clear()
            found.update(self.at_work())
            return set(jobs) <= set(found)

        self.until(all_there, f"workers have {', '.join(jobs)} in hand")
        return found

    def until_ended(self, job: str) -> dict[str, Any]:
        """Wait until the row says that the job has ended; that row."""
        ends = {state.value for state in JOB_TERMINAL}
        self.until(lambda: self.row(job).get("state") in ends, f"{job} ends")
        return self.row(job)

    def check_done_once(self, job: str) -> None:
        """The job has succeeded, no shard was charged with a failure, and each image was committed once."""
        row = self.row(job)
        assert row["state"] == "succeeded", f"{row}\n{self.release.told()}"
        assert row["images_done"] == row["images_total"]
        assert [shard["failures"] for shard in self.shards(job)] == [0] * row["shards_total"]
        assert self.commits(job) == Counter(range(row["images_total"])), "an image was lost, or committed twice"
