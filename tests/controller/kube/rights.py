"""A service account whose rights in a namespace are as narrow as a test wants them."""

from pathlib import Path

from tests.cluster.client import Client
from tests.cluster.control_plane import ControlPlane

USER = "op"
_RBAC = "rbac.authorization.k8s.io"
_RULES = [
    ("samjobs.dev", "samjobs", ["get", "list", "watch", "delete"]),
    ("samjobs.dev", "samworkerpools", ["get", "list", "watch"]),
    ("samjobs.dev", "samjobs/status", ["patch"]),
    ("samjobs.dev", "samworkerpools/status", ["patch"]),
    ("apps", "deployments", ["get", "list", "create", "patch"]),
    ("", "pods", ["list", "patch"]),
    ("", "events", ["get", "create", "patch"]),
]


def account(client: Client, folder: Path) -> Path:
    """A KUBECONFIG of a user who may do nothing yet."""
    plane = ControlPlane(client.kubeconfig.parent)
    return plane.authority.kubeconfig(folder / f"{USER}.kubeconfig", plane.server, USER)


def grant(client: Client, namespace: str, *, but: tuple[str, str] = ("", "")) -> None:
    """Let the user do in a namespace what a controller does, but for one verb on one resource."""
    rules = [
        {"apiGroups": [group], "resources": [resource], "verbs": [verb for verb in verbs if (resource, verb) != but]}
        for group, resource, verbs in _RULES
    ]
    meta = {"name": USER, "namespace": namespace}
    client.apply({"apiVersion": f"{_RBAC}/v1", "kind": "Role", "metadata": meta, "rules": rules})
    client.apply(
        {
            "apiVersion": f"{_RBAC}/v1",
            "kind": "RoleBinding",
            "metadata": meta,
            "roleRef": {"apiGroup": _RBAC, "kind": "Role", "name": USER},
            "subjects": [{"kind": "User", "name": USER, "apiGroup": _RBAC}],
        }
    )


def withdraw(client: Client, namespace: str) -> None:
    """The user may do nothing there any more."""
    client.kubectl("delete", "rolebinding", USER, "-n", namespace)
