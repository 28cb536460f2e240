"""What the controller is refused by a real API server: all that it does not need, tried one by one.

Its whole list of rights is in tests/charts/test_api_server.py; here each attempt is made, as the controller's account.
"""

import json
from collections.abc import Iterator

import pytest

from samjobs.names import API_VERSION, POOL_KIND
from tests.charts.conftest import helm, helm3, helm4
from tests.charts.helm import Helm
from tests.charts.sets import EXTERNAL
from tests.charts.test_api_server import Server, as_list, crds, server
from tests.controller.kube.bed import manifest

__all__ = ["crds", "helm", "helm3", "helm4", "server"]

POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "mine"},
    "spec": {"containers": [{"name": "a", "image": "a"}]},
}
GRANT = {
    "apiVersion": "rbac.authorization.k8s.io/v1",
    "kind": "ClusterRoleBinding",
    "metadata": {"name": "samjobs-takes-all"},
    "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
    "subjects": [{"kind": "User", "name": "anybody"}],
}
# In the controller's own namespace.
REFUSED: dict[str, tuple[str, ...]] = {
    "read secrets": ("get", "secrets"),
    "read its own password": ("get", "secret", "samjobs-database"),
    "read configuration": ("get", "configmaps"),
    "delete a pod": ("delete", "pod", "any", "--wait=false"),
    "delete all pods": ("delete", "--raw=/api/v1/namespaces/NAMESPACE/pods"),
    "delete a Deployment": ("delete", "deployment", "any", "--wait=false"),
    "delete a pool": ("delete", "samworkerpool", "any", "--wait=false"),
    "make a token": ("create", "token", "default"),
    "read service accounts": ("get", "serviceaccounts"),
    "read nodes": ("get", "nodes"),
    "read namespaces": ("get", "namespaces"),
    "read other CRDs": ("get", "crds"),
    "change its own CRD": ("annotate", "crd", "samjobs.samjobs.dev", "a=b"),
    "change a pool's wish": ("patch", "samworkerpool", "any", "--type=merge", "-p", '{"spec":{"region":"x"}}'),
    "change a job's wish": ("patch", "samjob", "any", "--type=merge", "-p", '{"spec":{"priority":1}}'),
    "run in a pod": ("exec", "any", "--", "id"),
    "read a pod's log": ("logs", "any"),
    "be somebody else": ("auth", "can-i", "impersonate", "users"),
}
MADE = {"make a pod": POD, "give itself all": GRANT}


@pytest.fixture
def installed(server: Server, helm: Helm, request: pytest.FixtureRequest) -> Iterator[Server]:
    """The chart's roles for one watched namespace beside its own, and a secret in each namespace."""
    request.getfixturevalue("crds")
    rendered = helm.template({**EXTERNAL, "watchNamespaces": ["team-a"]})
    kinds = ("ServiceAccount", "Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding")
    given = server.here(as_list([one for kind in kinds for one in rendered.of(kind)]))
    server.run("apply", "--server-side", "-f", "-", given=given)
    for namespace in server.namespaces.values():
        server.run("create", "secret", "generic", "samjobs-database", "--from-literal=url=hunter2", "-n", namespace)
        pool = {"apiVersion": API_VERSION, "kind": POOL_KIND, "metadata": {"name": "any"}, "spec": {}}
        for made in (pool, manifest(namespace, "any")):
            server.run("create", "-f", "-", "-n", namespace, given=json.dumps(made))
    yield server
    server.run("delete", "--ignore-not-found", "-f", "-", given=given)


def as_controller(server: Server, *arguments: str, said: str = "samjobs-system", given: str = "") -> str:
    """What kubectl says to the controller's account, in a namespace."""
    account = f"system:serviceaccount:{server.namespaces['samjobs-system']}:samjobs-controller"
    command = [word.replace("NAMESPACE", server.namespaces[said]) for word in arguments]
    at = command.index("--") if "--" in command else len(command)
    command[at:at] = ["-n", server.namespaces[said], f"--as={account}"]
    done = server.client.run(server.client.kubectl_path, *command, input=given)
    return done.stdout + done.stderr


@pytest.mark.needs_cluster
def test_the_controller_is_refused_what_it_does_not_need_in_its_own_namespace(installed: Server) -> None:
    for what, command in REFUSED.items():
        told = as_controller(installed, *command)
        assert "orbidden" in told or told.strip() == "no", f"it may {what}: {told}"
        assert "hunter2" not in told
    for what, made in MADE.items():
        told = as_controller(installed, "create", "-f", "-", given=json.dumps(made))
        assert "orbidden" in told, f"it may {what}: {told}"


@pytest.mark.needs_cluster
def test_what_it_needs_is_granted_where_it_watches_and_closed_elsewhere(installed: Server) -> None:
    for said in ("samjobs-system", "team-a"):
        for kind in ("samjobs", "samworkerpools", "pods"):
            assert "orbidden" not in as_controller(installed, "get", kind, said=said)
    for kind in ("samjobs", "samworkerpools", "deployments", "pods", "secrets", "events"):
        assert "orbidden" in as_controller(installed, "get", kind, said="elsewhere"), f"it may read {kind} elsewhere"
        assert "orbidden" in as_controller(installed, "get", kind, "--all-namespaces"), f"it may read all {kind}"
    status = '{"status":{"conditions":[]}}'
    told = as_controller(
        installed, "patch", "samjob", "any", "--subresource=status", "--type=merge", "-p", status, said="elsewhere"
    )
    assert "orbidden" in told


@pytest.mark.needs_cluster
def test_the_service_account_of_workers_has_no_rights_and_no_role(server: Server, helm: Helm) -> None:
    rendered = helm.template({**EXTERNAL, "watchNamespaces": ["team-a"]})
    bound = [
        subject["name"]
        for kind in ("RoleBinding", "ClusterRoleBinding")
        for one in rendered.of(kind)
        for subject in one.get("subjects", ())
    ]
    assert "default" not in bound
    for verb, resource in (("get", "secrets"), ("list", "pods"), ("get", "samjobs.samjobs.dev")):
        done = server.client.run(
            *(server.client.kubectl_path, "auth", "can-i", verb, resource, "-n", server.namespaces["team-a"]),
            f"--as=system:serviceaccount:{server.namespaces['team-a']}:default",
        )
        assert done.stdout.strip() == "no"
