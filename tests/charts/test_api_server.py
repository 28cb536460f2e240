"""A real API server takes every object that is rendered, in namespaces that take restricted pods alone; and what the
controller may do there is what is written down here."""

import json
import uuid
from collections.abc import Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import pytest

from tests.charts.helm import Helm
from tests.charts.sets import EXTERNAL, SETS
from tests.charts.test_examples import OBJECTS, load
from tests.cluster.client import Client

RESTRICTED = {f"pod-security.kubernetes.io/{mode}": "restricted" for mode in ("enforce", "warn")}
# Kinds of the Prometheus operator, which is not installed.
FOREIGN = "monitoring.coreos.com/"

# What a service account may do that every other may not, as `kubectl auth can-i --list` tells it.
EVERYWHERE = {
    "samjobs.samjobs.dev [get list watch delete]",
    "samworkerpools.samjobs.dev [get list watch]",
    "samjobs.samjobs.dev/status [patch]",
    "samworkerpools.samjobs.dev/status [patch]",
    "deployments.apps [get list create patch]",
    "pods [list patch]",
    "events [get create patch]",
}
OF_THE_CRDS = {
    f"customresourcedefinitions.apiextensions.k8s.io [{name}.samjobs.dev] [get]"
    for name in ("samjobs", "samworkerpools")
}
WITH_POOLS = EVERYWHERE - {"samworkerpools.samjobs.dev [get list watch]"} | {
    "samworkerpools.samjobs.dev [get list watch create patch]"
}


def as_list(objects: list[dict[str, Any]]) -> str:
    """The objects as one JSON text: what YAML of Python and of kubectl take for a boolean differs."""
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": objects})


@dataclass(frozen=True)
class Server:
    """The API server, and namespaces of this test on it."""

    client: Client
    namespaces: Mapping[str, str]  # what the values call it → what it is called here

    def run(self, *arguments: str, given: str = "") -> str:
        """Standard output and warnings of a kubectl that has to succeed."""
        done = self.client.run(self.client.kubectl_path, *arguments, input=given)
        assert done.returncode == 0, done.stderr
        return done.stdout + done.stderr

    def here(self, text: str) -> str:
        """A text with the namespaces of this test."""
        for said, name in self.namespaces.items():
            text = text.replace(said, name)
        return text


@pytest.fixture
def server(api_server: Client) -> Iterator[Server]:
    """Namespaces as the sets of values call them, which take restricted pods alone."""
    names = {said: f"{said}-{uuid.uuid4().hex[:8]}" for said in ("samjobs-system", "team-a", "team-b", "elsewhere")}
    server = Server(api_server, names)
    for name in names.values():
        meta = {"name": name, "labels": RESTRICTED}
        server.run("create", "-f", "-", given=json.dumps({"apiVersion": "v1", "kind": "Namespace", "metadata": meta}))
    yield server
    server.run("delete", "namespace", "--wait=false", *names.values())


@pytest.fixture
def crds(server: Server, helm3: Helm) -> None:
    """The CRDs, as the chart brings them."""
    found = helm3.template(EXTERNAL).of("CustomResourceDefinition")
    server.run("apply", "--server-side", "--force-conflicts", "-f", "-", given=as_list(found))
    server.run("wait", "--for=condition=Established", "--timeout=60s", *(f"crd/{o['metadata']['name']}" for o in found))


@pytest.mark.usefixtures("crds")
@pytest.mark.parametrize("name", SETS)
def test_every_object_is_taken_without_a_warning(server: Server, helm: Helm, name: str) -> None:
    rendered = deepcopy(helm.template(SETS[name]).objects)
    objects = [one for one in rendered if not one["apiVersion"].startswith(FOREIGN)]
    for one in objects:
        if one["metadata"]["name"] == "samjobs-extra":
            one["metadata"]["namespace"] = "samjobs-system"
    told = server.run(
        *("apply", "--server-side", "--force-conflicts", "--dry-run=server", "--validate=strict", "-f", "-"),
        given=server.here(as_list(objects)),
    )
    assert "Warning" not in told
    assert told.count("serverside-applied") == len(objects)


@pytest.mark.usefixtures("crds")
@pytest.mark.parametrize("path", OBJECTS, ids=lambda path: path.stem)
def test_an_example_is_taken(server: Server, path: Any) -> None:
    namespace = server.namespaces["team-a"]
    told = server.run("apply", "-n", namespace, "--dry-run=server", "--validate=strict", "-f", str(path))
    assert load(path)["metadata"]["name"] in told
    assert "Warning" not in told


@pytest.mark.parametrize(
    ("values", "may"),
    [
        pytest.param(
            {},
            {"samjobs-system": EVERYWHERE | OF_THE_CRDS, "team-a": EVERYWHERE | OF_THE_CRDS},
            id="all namespaces",
        ),
        pytest.param(
            {"pools": [{"name": "gpu"}]},
            {"samjobs-system": WITH_POOLS | OF_THE_CRDS, "team-a": EVERYWHERE | OF_THE_CRDS},
            id="all namespaces, and pools of the values",
        ),
        pytest.param(
            {"watchNamespaces": ["team-a"], "pools": [{"name": "gpu"}]},
            {"samjobs-system": WITH_POOLS, "team-a": EVERYWHERE, "elsewhere": set()},
            id="one namespace",
        ),
    ],
)
def test_the_controller_may_do_this_and_no_more(
    server: Server, helm: Helm, values: dict[str, Any], may: dict[str, set[str]]
) -> None:
    rendered = helm.template({**EXTERNAL, **values})
    kinds = ("ServiceAccount", "Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding")
    objects = [one for kind in kinds for one in rendered.of(kind)]
    given = server.here(as_list(objects))
    server.run("apply", "--server-side", "-f", "-", given=given)
    try:
        found = {said: rights(server, said) for said in may}
    finally:
        server.run("delete", "--ignore-not-found", "-f", "-", given=given)
    assert found == {said: {in_order(right) for right in rights} for said, rights in may.items()}


def test_the_api_may_ask_who_calls_and_what_a_caller_may_do_and_nothing_else(server: Server, helm: Helm) -> None:
    rendered = helm.template(EXTERNAL)
    kinds = ("ServiceAccount", "Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding")
    given = server.here(as_list([one for kind in kinds for one in rendered.of(kind)]))
    server.run("apply", "--server-side", "-f", "-", given=given)
    try:
        found = [rights(server, said, "samjobs-api") for said in ("samjobs-system", "team-a")]
    finally:
        server.run("delete", "--ignore-not-found", "-f", "-", given=given)
    assert (
        found
        == [{"tokenreviews.authentication.k8s.io [create]", "subjectaccessreviews.authorization.k8s.io [create]"}] * 2
    )


def in_order(right: str) -> str:
    """A line of the list with its verbs in order: kubectl gives them in that of the bindings."""
    what, _, verbs = right.rpartition("[")
    return f"{what}[{' '.join(sorted(verbs.rstrip(']').split()))}]"


def rights(server: Server, said: str, account: str = "samjobs-controller") -> set[str]:
    """What an account of the release may do in a namespace, beyond what every account may."""

    def listed(name: str) -> set[str]:
        table = server.run(
            *("auth", "can-i", "--list", "--no-headers", "-n", server.namespaces[said]),
            f"--as=system:serviceaccount:{server.namespaces['samjobs-system']}:{name}",
        )
        return {in_order(" ".join(line.replace("[]", "").split())) for line in table.splitlines()}

    return listed(account) - listed("nobody")
