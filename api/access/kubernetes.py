"""Access by Kubernetes: whose token a bearer token is, and whether the cluster's roles let that user do it.

A TokenReview for the audience `samjobs` tells the user: a token that was made for another server is refused, so that
nobody who gets to see it can use it here, nor the other way round. A SubjectAccessReview tells the right, asked as a
right on SamJobs in the namespace that is the tenant: the roles that let somebody use kubectl here let them call the
API. What goes beyond a SamJob's own verbs has a subresource that only roles know:

    get, list, create, update    samjobs          in the tenant
    retry, purge                 samjobs/dead     update, delete; in the tenant
    admin                        samjobs/queue    get; in all namespaces

Answers are kept for seconds, so that a page which asks often costs the cluster little. When the cluster does not answer
nobody is let in, but for callers whose answer is still kept.
"""

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import urllib3
from kubernetes import client, config
from pydantic import TypeAdapter, ValidationError

from api.access.caller import Caller, Unauthenticated, Verb
from api.access.kept import Kept
from samjobs import __version__
from samjobs.errors import InvalidInput, KubernetesUnavailable
from samjobs.kubernetes import configuration
from samjobs.names import GROUP, JOB_PLURAL
from samjobs.spec import Name

# A caller waits for these: one that is told soon that nobody can tell can come again.
CONNECT_TIMEOUT_S, READ_TIMEOUT_S = 3.0, 5.0
ALLOWED_FOR_S, DENIED_FOR_S = 10.0, 1.0
MOST_CALLERS, MOST_RIGHTS = 2_000, 10_000
# What a bearer token is made of. Kubernetes takes a blank one for a request without a token, whose user is anonymous.
_TOKEN = re.compile(r"[A-Za-z0-9._~+/-]{1,16384}=*")
_NOBODY = "system:anonymous"

DEAD, QUEUE = "dead", "queue"
# The verb and the subresource that a role has to name.
RIGHTS: Mapping[Verb, tuple[str, str]] = MappingProxyType(
    {
        Verb.GET: ("get", ""),
        Verb.LIST: ("list", ""),
        Verb.CREATE: ("create", ""),
        Verb.UPDATE: ("update", ""),
        Verb.RETRY: ("update", DEAD),
        Verb.PURGE: ("delete", DEAD),
        Verb.ADMIN: ("get", QUEUE),
    }
)
_TENANT: TypeAdapter[str] = TypeAdapter(Name)
_SERVICE_ACCOUNT = "system:serviceaccount:"
_REFUSED = "Kubernetes does not take the token: make one by `kubectl create token NAME --audience {}`"


@dataclass(frozen=True)
class KubernetesUser(Caller):
    """A user as Kubernetes told it.

    Attributes:
        facts: uid, groups and what else a SubjectAccessReview takes, as JSON: a value, so that users can be compared.
    """

    facts: str

    def tenants(self) -> frozenset[str] | None:
        """A service account's namespace; None for everybody else."""
        if not self.name.startswith(_SERVICE_ACCOUNT):
            return None
        return frozenset({self.name.removeprefix(_SERVICE_ACCOUNT).split(":")[0]})


class KubernetesAccess:
    """The cluster that this process runs in, or that of KUBECONFIG. May be shared between threads.

    Args:
        audience: the one that tokens have to be made for.

    Raises:
        InvalidInput: neither a service account nor a KUBECONFIG is there, or it cannot be read.
    """

    def __init__(self, audience: str) -> None:
        self._audience = audience
        self._client = client.ApiClient(_configuration())
        self._callers: Kept[str, KubernetesUser] = Kept(MOST_CALLERS, ALLOWED_FOR_S)
        # Apart from the good ones, which a flood of bad tokens would push out.
        self._strangers: Kept[str, bool] = Kept(MOST_CALLERS, DENIED_FOR_S)
        self._allowed: Kept[tuple[KubernetesUser, Verb, str | None], bool] = Kept(MOST_RIGHTS, ALLOWED_FOR_S)
        self._denied: Kept[tuple[KubernetesUser, Verb, str | None], bool] = Kept(MOST_RIGHTS, DENIED_FOR_S)

    def who(self, token: str) -> Caller:
        """The user of a token.

        Raises:
            Unauthenticated: Kubernetes does not take it, or it is not for this audience.
            KubernetesUnavailable: Kubernetes cannot tell now.
        """
        known = hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()
        found = self._callers.get(known)
        if found is not None:
            return found
        if _TOKEN.fullmatch(token) and not self._strangers.get(known):
            found = self._user(token)
        if found is None:
            self._strangers.put(known, True)
            raise Unauthenticated(_REFUSED.format(self._audience))
        self._callers.put(known, found)
        return found

    def allows(self, caller: Caller, verb: Verb, tenant: str | None) -> bool:
        """Whether a role gives a user this right.

        Raises:
            KubernetesUnavailable: Kubernetes cannot tell now.
        """
        if not isinstance(caller, KubernetesUser) or not _may_be(tenant):
            return False
        asked = caller, verb, None if verb is Verb.ADMIN else tenant
        if self._allowed.get(asked):
            return True
        if self._denied.get(asked):
            return False
        right = self._right(*asked)
        (self._allowed if right else self._denied).put(asked, True)
        return right

    def _user(self, token: str) -> KubernetesUser | None:
        """The user of a token, or None; asks the cluster."""
        status = self._ask(
            "authentication.k8s.io", "TokenReview", "tokenreviews", {"token": token, "audiences": [self._audience]}
        )
        # A server that knows no audiences names none, and takes its own tokens for any.
        if status.get("authenticated") is not True or self._audience not in (status.get("audiences") or ()):
            return None
        user = status.get("user") or {}
        facts = {key: user[key] for key in ("uid", "groups", "extra") if user.get(key)}
        name = user.get("username")
        return KubernetesUser(name, json.dumps(facts, sort_keys=True)) if name and name != _NOBODY else None

    def _right(self, user: KubernetesUser, verb: Verb, tenant: str | None) -> bool:
        """Whether a user has a right; asks the cluster."""
        name, subresource = RIGHTS[verb]
        wanted = {"group": GROUP, "resource": JOB_PLURAL, "subresource": subresource, "verb": name}
        if tenant is not None:
            wanted["namespace"] = tenant
        spec = {"user": user.name, **json.loads(user.facts), "resourceAttributes": wanted}
        status = self._ask("authorization.k8s.io", "SubjectAccessReview", "subjectaccessreviews", spec)
        return status.get("allowed") is True and not status.get("denied", False)

    def _ask(self, group: str, kind: str, plural: str, spec: Mapping[str, Any]) -> dict[str, Any]:
        """The status of a review. No error's text holds what was asked: that is the caller's token.

        Raises:
            KubernetesUnavailable: no answer, or one that is none.
        """
        try:
            status = json.loads(self._sent(f"/apis/{group}/v1/{plural}", group, kind, spec).data)["status"]
        except client.ApiException as error:
            remedy = f"; its service account needs `create` on {plural}" if error.status in (401, 403) else ""
            raise KubernetesUnavailable(
                f"Kubernetes answers no {kind}: {error.status} {error.reason}{remedy}"
            ) from None
        except (urllib3.exceptions.HTTPError, OSError, config.ConfigException) as error:
            raise KubernetesUnavailable(f"Kubernetes does not answer a {kind}: {type(error).__name__}") from None
        except (ValueError, LookupError, TypeError):
            raise KubernetesUnavailable(f"Kubernetes' answer to a {kind} cannot be understood") from None
        if not isinstance(status, dict):
            raise KubernetesUnavailable(f"Kubernetes' answer to a {kind} cannot be understood")
        return status

    def _sent(self, path: str, group: str, kind: str, spec: Mapping[str, Any]) -> Any:
        headers = {"Content-Type": "application/json", "User-Agent": f"samjobs-api/{__version__}"}

        def send() -> Any:
            self._client.update_params_for_auth(headers, [], ["BearerToken"])
            return self._client.rest_client.request(
                "POST",
                self._client.configuration.host + path,
                headers=headers,
                body={"apiVersion": f"{group}/v1", "kind": kind, "spec": spec},
                _preload_content=False,
                _request_timeout=(CONNECT_TIMEOUT_S, READ_TIMEOUT_S),
            )

        try:
            return send()
        except urllib3.exceptions.ProtocolError:
            return send()  # the server closed that connection just then, as at its restart; asking twice does no harm


def _may_be(tenant: str | None) -> bool:
    """Whether there can be a tenant of this name. An empty one would be asked for as all namespaces."""
    if tenant is None:
        return True
    try:
        _TENANT.validate_python(tenant)
    except ValidationError:
        return False
    return True


def _configuration() -> Any:
    try:
        return configuration()
    except InvalidInput as error:
        raise InvalidInput(f"SAMJOBS_API_ACCESS 'kubernetes': {error}, or use tokens from a file") from None
