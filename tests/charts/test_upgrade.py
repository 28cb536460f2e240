"""An upgrade brings the new fields of the CRDs, keeps every SamJob, pool and value, and works by each way of giving the
values again. All of it is between helm and the API server, so there is no node."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from controller.kube.crd import crds, schema_version
from samjobs.names import API_VERSION, POOL_KIND
from tests.charts import older
from tests.charts.helm import RELEASE, Helm
from tests.charts.sets import EXTERNAL
from tests.cluster import binaries
from tests.cluster.client import Client
from tests.cluster.control_plane import control_plane_only
from tests.conftest import missing
from tests.controller.kube.bed import installation, manifest, written
from tests.controller.process import Controller
from tests.waiting import until
from tools.chart import CHART

VALUES = {**EXTERNAL, "settings": {"SAMJOBS_TENANT_CONCURRENCY": 3}, "rbac": {"aggregateClusterRoles": False}}
OURS = {plural: schema_version(crd) for plural, crd in crds().items()}
BEFORE = older.before()
GIVEN, REUSE, RESET = "given again", "--reuse-values", "--reset-then-reuse-values"


@pytest.fixture(scope="module")
def api_server() -> Iterator[Client]:
    """In place of the shared one, an API server of these tests alone: others would miss the fields taken away here."""
    lacking = binaries.lacking()
    if lacking is not None:
        missing(lacking)
    with control_plane_only() as client:
        yield client


@pytest.fixture
def namespace(api_server: Client) -> Iterator[str]:
    """A namespace; what is installed there goes, the CRDs too."""
    with api_server.namespace(wait=False) as name:
        yield name
    api_server.kubectl("delete", "crd", "--all")


@dataclass(frozen=True)
class Place:
    """A namespace on the server, and the helm that is used there."""

    server: Client
    namespace: str
    program: Helm

    def helm(self, *arguments: str, values: Mapping[str, Any] | None = None) -> None:
        """Run helm there; `values`: given with this command."""
        given = () if values is None else ("--values=-",)
        text = "" if values is None else yaml.safe_dump(dict(values))
        where = f"--namespace={self.namespace}"
        self.program.run(*arguments, *given, where, given=text, kubeconfig=self.server.kubeconfig)

    def install(self, chart: Path) -> None:
        """Install a chart, and wait until its kinds are known."""
        self.helm("install", RELEASE, str(chart), values=VALUES)
        self.server.kubectl("wait", "crd", "--all", "--for=condition=Established", "--timeout=60s")

    def apply(self, *, strict: bool) -> None:
        """Apply a job and a pool that have the fields which came later."""
        job = manifest(self.namespace, "job", ttlSecondsAfterFinished=3600)
        pool = {
            "apiVersion": API_VERSION,
            "kind": POOL_KIND,
            "metadata": {"name": "pool", "namespace": self.namespace},
            "spec": {"engine": "opencv", "terminationGracePeriodSeconds": 60},
        }
        everything = json.dumps({"apiVersion": "v1", "kind": "List", "items": [job, pool]})
        validate = f"--validate={'strict' if strict else 'ignore'}"
        self.server.kubectl("apply", validate, "--filename=-", input=everything)

    def get(self, kinds: str) -> list[dict[str, Any]]:
        """Objects of the namespace, as they are stored."""
        found: list[dict[str, Any]] = self.server.get(kinds, f"--namespace={self.namespace}")["items"]
        return found

    def later(self) -> dict[str, int | None]:
        """By the kind, what is stored in the field that came later."""
        found = {one["spec"]["names"]["plural"]: one["spec"]["names"]["kind"] for one in self.get("crds")}
        stored = {one["kind"]: one["spec"] for one in self.get("samjobs,samworkerpools")}
        return {plural: stored[kind].get(older.FIELDS[plural]) for plural, kind in found.items()}

    def schemas(self) -> dict[str, str | None]:
        """Versions of the installed CRDs."""
        return {one["spec"]["names"]["plural"]: schema_version(one) for one in self.get("crds")}

    def controller(self) -> dict[str, Any]:
        """The controller's container."""
        [found] = [one for one in self.get("deployments") if one["metadata"]["name"].endswith("-controller")]
        container: dict[str, Any] = found["spec"]["template"]["spec"]["containers"][0]
        return container


def check_kept(before: list[dict[str, Any]], after: list[dict[str, Any]]) -> None:
    """The same objects, never written to; at most a new field reads as its default."""
    assert [one["metadata"] for one in after] == [one["metadata"] for one in before]
    for one, other in zip(before, after, strict=True):
        assert one["spec"].items() <= other["spec"].items()


def check_upgraded(place: Place, *how: str, values: Mapping[str, Any] | None = None) -> None:
    """Objects are kept, the CRDs are those of this version, and what was set still is."""
    before = place.get("samjobs,samworkerpools")
    assert len(before) == 2
    place.helm("upgrade", RELEASE, str(CHART), *how, values=values)
    check_kept(before, place.get("samjobs,samworkerpools"))
    assert place.schemas() == OURS
    assert {"name": "SAMJOBS_TENANT_CONCURRENCY", "value": "3"} in place.controller()["env"]


@pytest.mark.parametrize(("program", "values"), [(3, RESET), (4, RESET), (4, REUSE), (4, GIVEN)])
def test_an_upgrade_keeps_what_is_there_and_brings_what_came_later(
    api_server: Client, namespace: str, helm3: Helm, helm4: Helm, tmp_path: Path, program: int, values: str
) -> None:
    place = Place(api_server, namespace, helm3 if program == 3 else helm4)
    place.install(older.made_older(tmp_path))
    assert set(place.schemas().values()) == {older.VERSION}
    place.apply(strict=False)
    assert place.later() == {"samjobs": None, "samworkerpools": None}, "dropped"

    if values == GIVEN:
        check_upgraded(place, values=VALUES)
    else:
        check_upgraded(place, values)
    # With --reuse-values helm takes over all values of the older chart, and what is not among them is not set.
    assert (older.VALUE in place.controller()) == (values != REUSE)
    place.apply(strict=True)
    assert place.later() == {"samjobs": 3600, "samworkerpools": 60}


if BEFORE is not None:

    def test_an_upgrade_from_the_chart_before(api_server: Client, namespace: str, helm4: Helm, tmp_path: Path) -> None:
        assert BEFORE is not None
        place = Place(api_server, namespace, helm4)
        place.install(older.of_the_history(BEFORE, tmp_path))
        place.apply(strict=False)
        check_upgraded(place, RESET)
        place.apply(strict=True)


def test_an_operator_that_meets_older_kinds_says_so_and_works(
    api_server: Client,
    namespace: str,
    helm4: Helm,
    postgres_url: str,
    redis_url: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    place = Place(api_server, namespace, helm4)
    place.install(older.made_older(tmp_path))
    place.apply(strict=False)
    monkeypatch.setenv("KUBECONFIG", str(api_server.kubeconfig))
    (tmp_path / "log").mkdir()
    config = written(tmp_path, installation(namespace))
    operator = Controller(tmp_path / "log", KUBERNETES_CONFIG=config, DATABASE_URL=postgres_url, REDIS_URL=redis_url)
    try:
        for plural, ours in OURS.items():
            operator.until_said(
                f"CRD {plural}.samjobs.dev is of another version ({older.VERSION}) than this controller ({ours})"
            )
        until(lambda: all(one.get("status") for one in place.get("samjobs,samworkerpools")), "both are seen to")
        operator.stop()
    finally:
        operator.close()
