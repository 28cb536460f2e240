"""A SamJob's spec stays as it is, but for suspend, priority and ttlSecondsAfterFinished; status is not for users."""

from typing import Any

import pytest
from kubernetes.client.exceptions import ApiException

from controller.kube.jobrules import LEFT_OUT, MUTABLE
from samjobs.names import JOB_PLURAL
from samjobs.spec import JobSpec
from tests.crds.cases import FULL_JOB, job
from tests.crds.judges import Fault, Server, faults

# Another value of each field that FULL_JOB has, and that an object of nothing but what is needed has not.
OTHER: dict[str, Any] = {
    "mode": "inside_box",
    "images": {"list": [{"image": "/photos/other.jpg"}]},
    "prompts": {"text": [{"text": "other"}]},
    "thresholds": {"score": 0.9},
    "output": {"uri": "/other"},
    "engine": "sam3-meta",
    "model": "other",
    "revision": "other",
    "region": "other",
    "shardSize": 9,
    "parallelism": 9,
    "retryPolicy": {"maxAttempts": 9},
    "failurePolicy": {"maxFailedImages": 9},
    "notBefore": "2028-01-01T00:00:00Z",
    "activeDeadlineSeconds": 9,
    "callback": "https://example.org/other",
    "resume": True,
    "suspend": False,
    "priority": 9,
    "ttlSecondsAfterFinished": 9,
}
SETTLED = [field for field in OTHER if field not in MUTABLE]


@pytest.fixture(scope="module")
def made() -> set[str]:
    """Names of the objects that are there."""
    return set()


@pytest.fixture
def full(server: Server, made: set[str]) -> str:
    """A SamJob in which every field is set."""
    return _made(server, made, "full", FULL_JOB)


@pytest.fixture
def bare(server: Server, made: set[str]) -> str:
    """A SamJob in which only what is needed is set."""
    return _made(server, made, "bare", job())


def _made(server: Server, made: set[str], name: str, spec: dict[str, Any]) -> str:
    if name not in made:
        server.create(JOB_PLURAL, spec, name)
        made.add(name)
    return name


def refused(server: Server, name: str, field: str, value: Any) -> list[Fault]:
    """What is said against a change of one field."""
    with pytest.raises(ApiException) as error:
        server.patch(JOB_PLURAL, name, {"spec": {field: value}})
    return faults(error.value)


def test_every_field_is_tried() -> None:
    fields = {field.alias for field in JobSpec.model_fields.values()} - set(LEFT_OUT)
    assert set(OTHER) == set(FULL_JOB) | {"mode"} == fields


@pytest.mark.parametrize("field", SETTLED)
def test_a_settled_field_keeps_its_value(server: Server, full: str, field: str) -> None:
    told = refused(server, full, field, OTHER[field])
    assert Fault(f"spec.{field}", f"{field} cannot be changed: make a new SamJob") in told


@pytest.mark.parametrize("field", [one for one in SETTLED if one not in ("mode", "images", "output")])
def test_a_settled_field_does_not_vanish(server: Server, full: str, field: str) -> None:
    told = refused(server, full, field, None)
    assert Fault(f"spec.{field}", f"{field} cannot be changed: make a new SamJob") in told


@pytest.mark.parametrize("field", [one for one in SETTLED if one not in ("images", "output", "resume", "prompts")])
def test_a_settled_field_does_not_appear(server: Server, bare: str, field: str) -> None:
    told = refused(server, bare, field, OTHER[field])
    assert Fault(f"spec.{field}", f"{field} cannot be changed: make a new SamJob") in told


@pytest.mark.parametrize("field", MUTABLE)
def test_a_mutable_field_is_changed_unset_and_set(server: Server, full: str, bare: str, field: str) -> None:
    changed = server.patch(JOB_PLURAL, full, {"spec": {field: OTHER[field]}})
    unset = server.patch(JOB_PLURAL, full, {"spec": {field: None}})
    appeared = server.patch(JOB_PLURAL, bare, {"spec": {field: FULL_JOB[field]}})
    assert changed["spec"][field] == OTHER[field]
    assert unset["spec"].get(field) == {"suspend": False, "priority": 0}.get(field)
    assert appeared["spec"][field] == FULL_JOB[field]


def test_saying_a_default_is_no_change(server: Server, bare: str) -> None:
    same = server.patch(JOB_PLURAL, bare, {"spec": {"mode": "find_all", "engine": "sam3", "shardSize": 32}})
    assert same["metadata"]["generation"] == 1


def test_an_object_without_spec_is_refused(server: Server, bare: str) -> None:
    with pytest.raises(ApiException) as error:
        server.patch(JOB_PLURAL, bare, {"spec": None})
    assert [fault.field for fault in faults(error.value)] == ["spec"]


def test_a_spelling_error_is_told(server: Server) -> None:
    with pytest.raises(ApiException, match=r'unknown field \\"spec.promts\\"') as error:
        server.create(JOB_PLURAL, job(promts={}))
    assert error.value.status == 400


def test_status_is_changed_through_its_own_resource_only(server: Server, bare: str) -> None:
    server.patch(JOB_PLURAL, bare, {"status": {"phase": "Succeeded"}}, dry=False)
    assert "status" not in server.get(JOB_PLURAL, bare)
    server.patch_status(JOB_PLURAL, bare, {"phase": "Running"})
    assert server.get(JOB_PLURAL, bare)["status"] == {"phase": "Running"}


def test_a_status_with_a_spec_changes_the_status_alone(server: Server, bare: str) -> None:
    before = server.get(JOB_PLURAL, bare)
    after = server.patch_status(JOB_PLURAL, bare, {"message": "is running"})
    assert after["spec"] == before["spec"]
    assert after["metadata"]["generation"] == before["metadata"]["generation"]
