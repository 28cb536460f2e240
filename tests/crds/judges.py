"""The two that judge a spec: pydantic, as the operator asks it, and an API server."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kubernetes import client
from kubernetes.client.exceptions import ApiException

from samjobs import places
from samjobs.errors import InvalidInput
from samjobs.names import GROUP, JOB_KIND, JOB_PLURAL, POOL_KIND, POOL_PLURAL, VERSION
from samjobs.pool import PoolSpec
from samjobs.spec import JobSpec, parse

KINDS = {JOB_PLURAL: JOB_KIND, POOL_PLURAL: POOL_KIND}
# Said beside a fault of the shape: no rule was asked.
UNCHECKED = "some validation rules were not checked"
MERGE = "application/merge-patch+json"


def by_pydantic(plural: str, spec: Mapping[str, Any]) -> str | None:
    """What pydantic says against a spec; None when it takes it."""
    try:
        if plural == POOL_PLURAL:
            parse(PoolSpec, spec, "spec")
        else:
            places.settled(parse(JobSpec, {**spec, "dedupe": False}, "spec"))
    except InvalidInput as error:
        return str(error)
    return None


@dataclass(frozen=True)
class Fault:
    """One thing that an API server says against an object."""

    field: str
    message: str  # without the value


@dataclass(frozen=True)
class Server:
    """An API server that knows the CRDs, as whoever applies objects in one namespace meets it."""

    api: client.ApiClient
    namespace: str

    @property
    def _objects(self) -> client.CustomObjectsApi:
        return client.CustomObjectsApi(self.api)

    def create(self, plural: str, spec: Mapping[str, Any], name: str | None = None) -> dict[str, Any]:
        """Create an object; without a name it is judged only."""
        body = {
            "apiVersion": f"{GROUP}/{VERSION}",
            "kind": KINDS[plural],
            "metadata": {"name": name or "judged"},
            "spec": spec,
        }
        made: dict[str, Any] = self._objects.create_namespaced_custom_object(
            GROUP,
            VERSION,
            self.namespace,
            plural,
            body,
            field_validation="Strict",
            **({} if name else {"dry_run": "All"}),
        )
        return made

    def patch(self, plural: str, name: str, body: Mapping[str, Any], *, dry: bool = True) -> dict[str, Any]:
        """Merge `body` into an object; None unsets."""
        made: dict[str, Any] = self._objects.patch_namespaced_custom_object(
            GROUP,
            VERSION,
            self.namespace,
            plural,
            name,
            body,
            _content_type=MERGE,
            **({"dry_run": "All"} if dry else {}),
        )
        return made

    def patch_status(self, plural: str, name: str, status: Mapping[str, Any]) -> dict[str, Any]:
        """Merge `status` into the status, by the subresource."""
        made: dict[str, Any] = self._objects.patch_namespaced_custom_object_status(
            GROUP, VERSION, self.namespace, plural, name, {"status": status}, _content_type=MERGE
        )
        return made

    def get(self, plural: str, name: str) -> dict[str, Any]:
        """An object as it stands."""
        found: dict[str, Any] = self._objects.get_namespaced_custom_object(GROUP, VERSION, self.namespace, plural, name)
        return found

    def judge(self, plural: str, spec: Mapping[str, Any]) -> list[Fault]:
        """What the server says against a spec."""
        try:
            self.create(plural, spec)
        except ApiException as error:
            return faults(error)
        return []


def faults(error: ApiException) -> list[Fault]:
    """What is wrong with an object that was refused as invalid."""
    assert error.status == 422, error.body
    causes = json.loads(error.body)["details"]["causes"]
    told = [Fault(cause["field"], _without_value(cause["message"])) for cause in causes]
    return [fault for fault in told if not fault.message.startswith(UNCHECKED)]


def _without_value(message: str) -> str:
    """`Invalid value: "a": words` without its beginning. A value is JSON, so it may hold anything."""
    kind, mark, rest = message.partition("Invalid value: ")
    if not mark or kind:
        return message
    _, end = json.JSONDecoder().raw_decode(rest)
    return rest[end:].removeprefix(": ")
