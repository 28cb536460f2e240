"""Access by Kubernetes, on a real API server: service accounts, roles, and tokens as `kubectl create token` makes them.

The API asks as a service account that may make the two reviews and nothing else.
"""

import base64
import json
import logging
import subprocess
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from api.access import access_of
from api.access.caller import Caller, Forbidden, Unauthenticated, Verb, reach
from api.access.kubernetes import KubernetesAccess, KubernetesUser
from samjobs.errors import InvalidInput, KubernetesUnavailable
from samjobs.settings import Settings
from tests.cluster.client import Client
from tests.cluster.control_plane import ControlPlane, control_plane_only
from tests.waiting import until

API = "samjobs-api"
RULES = {
    "viewer": {"samjobs": ("get", "list")},
    "editor": {"samjobs": ("get", "list", "create", "update"), "samjobs/dead": ("update",)},
    "purger": {"samjobs": ("get",), "samjobs/dead": ("delete",)},
    "boss": {"samjobs": ("get", "list"), "samjobs/queue": ("get",)},
}
VIEWS = {Verb.GET, Verb.LIST}
EDITS = VIEWS | {Verb.CREATE, Verb.UPDATE, Verb.RETRY}
KINDS = "rbac.authorization.k8s.io"


@dataclass(frozen=True)
class Place:
    """Two namespaces of a test on an API server."""

    client: Client
    mine: str
    other: str
    folder: Path

    def account(self, role: str = "") -> str:
        """A new service account in `mine`, with one of RULES there; its name."""
        name = f"caller-{uuid.uuid4().hex[:8]}"
        self.client.kubectl("create", "serviceaccount", name, f"--namespace={self.mine}")
        if role:
            self.bind(name, role, self.mine)
        return name

    def bind(self, name: str, role: str, namespace: str | None) -> None:
        """Give an account of `mine` one of RULES in a namespace; None: in all."""
        label = f"{self.mine}-{name}-{role}"
        rules = [
            {"apiGroups": ["samjobs.dev"], "resources": [what], "verbs": verbs} for what, verbs in RULES[role].items()
        ]
        kind = "ClusterRole" if namespace is None else "Role"
        self.client.apply(
            {"apiVersion": f"{KINDS}/v1", "kind": kind, "metadata": {"name": label}, "rules": rules},
            self.binding(label, kind, label, name),
            namespace=namespace,
        )

    def binding(self, label: str, kind: str, role: str, name: str) -> dict[str, object]:
        return {
            "apiVersion": f"{KINDS}/v1",
            "kind": f"{kind}Binding",
            "metadata": {"name": label},
            "roleRef": {"apiGroup": KINDS, "kind": kind, "name": role},
            "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": self.mine}],
        }

    def token(self, name: str, audience: str | None = "samjobs") -> str:
        """A token as a person makes one; without an audience it is the API server's own."""
        more = [f"--audience={audience}"] if audience else []
        return self.client.kubectl("create", "token", name, f"--namespace={self.mine}", *more).strip()

    def access(self, account: str = "") -> KubernetesAccess:
        """The API's way of access, as its own service account or another one."""
        account = account or API
        config = self.folder / f"{account}.yaml"
        config.write_text(self.client.kubeconfig.read_text())
        command = [str(self.client.kubectl_path), f"--kubeconfig={config}", "config"]
        token = self.token(account, audience=None)
        for change in (
            ("set-credentials", account, f"--token={token}"),
            ("set-context", "--current", f"--user={account}"),
        ):
            subprocess.run([*command, *change], check=True, capture_output=True)
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("KUBECONFIG", str(config))
            found = access_of(Settings(api_access="kubernetes"))
        assert isinstance(found, KubernetesAccess)
        return found

    def reviews(self, kind: str) -> int:
        """How many of these the API has asked for."""
        user = f"system:serviceaccount:{self.mine}:{API}"
        return len(self.client.requests(verb="create", resource=kind, user=user))


@pytest.fixture(scope="module")
def place(api_server: Client, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    with api_server.namespace(wait=False) as mine, api_server.namespace(wait=False) as other:
        yield prepared(Place(api_server, mine, other, tmp_path_factory.mktemp("kubernetes")))
        api_server.kubectl("delete", "clusterrolebinding", mine)


def prepared(place: Place) -> Place:
    """The API's own account, by a role of Kubernetes for just this."""
    place.client.kubectl("create", "serviceaccount", API, f"--namespace={place.mine}")
    place.client.apply(place.binding(place.mine, "ClusterRole", "system:auth-delegator", API))
    return place


def verbs(access: KubernetesAccess, caller: Caller, tenant: str | None) -> set[Verb]:
    return {verb for verb in Verb if access.allows(caller, verb, tenant)}


# Whose a token is.


def test_a_token_for_the_audience_is_its_service_accounts(place: Place) -> None:
    ci = place.account()
    caller = place.access().who(place.token(ci))
    assert caller.name == f"system:serviceaccount:{place.mine}:{ci}"
    assert caller.tenants() == {place.mine}


def test_a_token_for_another_audience_is_refused(place: Place) -> None:
    ci = place.account("editor")
    access = place.access()
    for audience in (None, "vault"):
        with pytest.raises(Unauthenticated, match="--audience samjobs"):
            access.who(place.token(ci, audience))


def test_a_token_that_is_over_is_refused(place: Place) -> None:
    ci = place.account("editor")
    good = place.token(ci)
    access = place.access()
    over = signed(place, good, iat=1_600_000_000, nbf=1_600_000_000, exp=1_600_000_600)
    assert access.who(signed(place, good, jti="another")).name.endswith(ci), "the test's own signature is not taken"
    with pytest.raises(Unauthenticated):
        access.who(over)


def test_the_token_of_an_account_that_is_gone_is_refused(place: Place) -> None:
    ci = place.account("editor")
    token = place.token(ci)
    place.client.kubectl("delete", "serviceaccount", ci, f"--namespace={place.mine}")
    with pytest.raises(Unauthenticated):
        place.access().who(token)


def test_a_token_with_another_signature_is_refused(place: Place) -> None:
    ci = place.account("editor")
    head, body, signature = place.token(ci).split(".")
    changed = {**json.loads(decoded(body)), "sub": f"system:serviceaccount:{place.other}:boss"}
    none = encoded(json.dumps({"alg": "none"}).encode())
    access = place.access()
    for forged in (f"{head}.{encoded(json.dumps(changed).encode())}.{signature}", f"{none}.{body}."):
        with pytest.raises(Unauthenticated):
            access.who(forged)


def test_garbage_is_refused_and_not_repeated(place: Place, caplog: pytest.LogCaptureFixture) -> None:
    access = place.access()
    # A blank token is to Kubernetes a request without one, and its user the anonymous one.
    for token in ("", " ", "=", "garbage", "a.b.c", "\x00", "ü" * 50, "\udcff", "Bearer garbage", "x" * 20_000):
        with caplog.at_level(logging.DEBUG), pytest.raises(Unauthenticated) as refused:
            access.who(token)
        if len(token) > 5:
            assert token not in str(refused.value) + caplog.text


# What it may do.


@pytest.mark.parametrize(
    ("role", "may"),
    [("", set()), ("viewer", VIEWS), ("editor", EDITS), ("purger", {Verb.GET, Verb.PURGE}), ("boss", VIEWS)],
)
def test_a_role_in_a_namespace_allows_its_verbs_there_and_nothing_elsewhere(
    place: Place, role: str, may: set[Verb]
) -> None:
    ci = place.account(role)
    access = place.access()
    caller = access.who(place.token(ci))
    assert verbs(access, caller, place.mine) == may
    for elsewhere in (place.other, "nowhere", "", "*", "a/b", "x" * 300, None):
        assert verbs(access, caller, elsewhere) == set(), elsewhere


def test_a_binding_in_another_namespace_counts_there(place: Place) -> None:
    ci = place.account()
    place.bind(ci, "viewer", place.other)
    access = place.access()
    caller = access.who(place.token(ci))
    assert verbs(access, caller, place.other) == VIEWS
    assert verbs(access, caller, place.mine) == set()


def test_a_cluster_role_over_all_namespaces_allows_all_tenants_at_once(place: Place) -> None:
    ci = place.account()
    place.bind(ci, "boss", None)
    access = place.access()
    caller = access.who(place.token(ci))
    for tenant in (None, place.other, "nowhere"):
        assert verbs(access, caller, tenant) == VIEWS | {Verb.ADMIN}
    assert reach(access, caller, Verb.LIST, None) is None


def test_a_list_without_a_tenant_is_about_the_accounts_own_namespace(place: Place) -> None:
    ci = place.account("viewer")
    stranger = place.account()
    access = place.access()
    assert reach(access, access.who(place.token(ci)), Verb.LIST, None) == {place.mine}
    with pytest.raises(Forbidden, match="name one"):
        reach(access, access.who(place.token(stranger)), Verb.LIST, None)


def test_a_person_belongs_to_no_tenant() -> None:
    assert KubernetesUser(name="jane@example.com", facts="{}").tenants() is None


def test_who_comes_by_another_way_of_access_may_nothing(place: Place) -> None:
    assert verbs(place.access(), Caller(name="system:admin"), place.mine) == set()


# What it costs, and what happens when Kubernetes is away.


def test_asking_again_costs_the_cluster_nothing_for_a_while(place: Place) -> None:
    ci = place.account("viewer")
    access, token = place.access(), place.token(ci)
    before = place.reviews("tokenreviews"), place.reviews("subjectaccessreviews")
    for _ in range(20):
        caller = access.who(token)
        assert access.allows(caller, Verb.GET, place.mine)
        assert not access.allows(caller, Verb.GET, "")
    after = place.reviews("tokenreviews"), place.reviews("subjectaccessreviews")
    assert after == (before[0] + 1, before[1] + 1)


def test_a_right_that_is_given_is_noticed_soon(place: Place) -> None:
    ci = place.account()
    access = place.access()
    caller = access.who(place.token(ci))
    assert not access.allows(caller, Verb.GET, place.mine)
    place.bind(ci, "viewer", place.mine)
    until(lambda: access.allows(caller, Verb.GET, place.mine), "the new right is noticed", every_s=0.2)


def test_without_the_right_to_ask_nobody_is_let_in_and_the_error_names_what_lacks(place: Place) -> None:
    powerless = place.account()
    ci = place.account("editor")
    access = place.access(powerless)
    token = place.token(ci)
    with pytest.raises(KubernetesUnavailable, match="needs `create` on tokenreviews") as told:
        access.who(token)
    assert token not in str(told.value)
    with pytest.raises(KubernetesUnavailable, match="needs `create` on subjectaccessreviews"):
        access.allows(KubernetesUser(name="admin", facts='{"groups": ["system:masters"]}'), Verb.GET, place.mine)


def test_while_kubernetes_is_away_nobody_new_is_let_in_and_afterwards_all_is_as_before(tmp_path: Path) -> None:
    with control_plane_only() as client:
        client.kubectl("create", "namespace", "mine")
        place = prepared(Place(client, "mine", "other", tmp_path))
        ci = place.account("viewer")
        access, token, second = place.access(), place.token(ci), place.token(ci)
        caller = access.who(token)
        assert access.allows(caller, Verb.GET, "mine")
        plane = ControlPlane(client.kubeconfig.parent, bound=True)
        server = next(one for one in plane.processes() if one.name == "kube-apiserver")
        server.stop()

        with pytest.raises(KubernetesUnavailable, match="does not answer a TokenReview") as told:
            access.who(second)
        assert second not in str(told.value)
        with pytest.raises(KubernetesUnavailable, match="does not answer a SubjectAccessReview"):
            access.allows(caller, Verb.LIST, "mine")
        with pytest.raises(KubernetesUnavailable):
            access.allows(caller, Verb.ADMIN, None)

        plane.start("kube-apiserver")
        assert access.who(second).name == caller.name
        assert access.allows(caller, Verb.LIST, "mine")
        assert not access.allows(caller, Verb.ADMIN, None)


def test_without_a_kubernetes_the_api_does_not_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    with pytest.raises(InvalidInput, match=r"SAMJOBS_API_ACCESS 'kubernetes': no Kubernetes is known"):
        access_of(Settings(api_access="kubernetes"))


# Tokens that only the API server's own key can make.


def signed(place: Place, like: str, **changed: object) -> str:
    """A token like another one, with other claims and a right signature."""
    key = place.client.kubeconfig.parent / "pki" / "service-accounts.key"
    head, body, _ = like.split(".")
    text = f"{head}.{encoded(json.dumps({**json.loads(decoded(body)), **changed}).encode())}"
    command = ["openssl", "dgst", "-sha256", "-sign", str(key)]
    found = subprocess.run(command, input=text.encode(), capture_output=True, check=True).stdout
    # openssl writes the two numbers of the signature as a sequence of two integers; a token has them side by side.
    second = 4 + found[3]
    numbers = found[4:second], found[second + 2 :]
    return f"{text}.{encoded(b''.join(number[-32:].rjust(32, bytes(1)) for number in numbers))}"


def encoded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def decoded(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
