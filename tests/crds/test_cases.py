"""What pydantic takes and refuses, an API server takes and refuses, in the same words where they hold no value."""

from typing import Any

import pytest

from controller.kube.crd import crds
from samjobs.names import JOB_PLURAL, POOL_PLURAL
from tests.crds import cases
from tests.crds.judges import Fault, Server, by_pydantic

PAIRS = [(JOB_PLURAL, pair) for pair in cases.JOB_PAIRS] + [(POOL_PLURAL, pair) for pair in cases.POOL_PAIRS]
PAIR_NAMES = [f"{pair.field}-{pair.message[:30]}" for _, pair in PAIRS]
TAKEN = [(JOB_PLURAL, spec) for spec in cases.JOB_TAKEN] + [(POOL_PLURAL, spec) for spec in cases.POOL_TAKEN]
REFUSED = [(JOB_PLURAL, *one) for one in cases.JOB_REFUSED] + [(POOL_PLURAL, *one) for one in cases.POOL_REFUSED]
REFUSED_NAMES = [field for _, field, _ in REFUSED]


@pytest.mark.parametrize(("plural", "spec"), TAKEN)
def test_pydantic_takes_it(plural: str, spec: cases.Spec) -> None:
    assert by_pydantic(plural, spec) is None


@pytest.mark.parametrize(("plural", "spec"), TAKEN)
def test_the_server_takes_it(server: Server, plural: str, spec: cases.Spec) -> None:
    assert server.judge(plural, spec) == []


@pytest.mark.parametrize(("plural", "pair"), PAIRS, ids=PAIR_NAMES)
def test_pydantic_says_what_a_rule_says(plural: str, pair: cases.Pair) -> None:
    said = by_pydantic(plural, pair.bad)
    if pair.words == "":
        assert said is None
    else:
        assert said is not None
        assert (pair.words or pair.message) in said


@pytest.mark.parametrize(("plural", "pair"), PAIRS, ids=PAIR_NAMES)
def test_a_rule_refuses_in_its_own_words(server: Server, plural: str, pair: cases.Pair) -> None:
    assert server.judge(plural, pair.bad) == [Fault(pair.field, pair.message)]


@pytest.mark.parametrize(("plural", "field", "spec"), REFUSED, ids=REFUSED_NAMES)
def test_pydantic_refuses_what_is_out_of_bounds(plural: str, field: str, spec: cases.Spec) -> None:
    said = by_pydantic(plural, spec)
    assert said is not None
    assert field.removeprefix("spec.").replace("[", ".").replace("]", "") in said


@pytest.mark.parametrize(("plural", "field", "spec"), REFUSED, ids=REFUSED_NAMES)
def test_the_server_refuses_what_is_out_of_bounds(server: Server, plural: str, field: str, spec: cases.Spec) -> None:
    told = server.judge(plural, spec)
    assert field in [fault.field for fault in told]
    assert all(fault.message and "\n" not in fault.message for fault in told)


def test_every_rule_has_a_pair() -> None:
    told = {pair.message for _, pair in PAIRS}
    for plural in (JOB_PLURAL, POOL_PLURAL):
        spec = crds()[plural]["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
        assert {rule["message"] for rule in rules(spec) if "oldSelf" not in rule["rule"]} <= told


def rules(schema: dict[str, Any]) -> list[dict[str, Any]]:
    """All rules in a schema."""
    inner = [*schema.get("properties", {}).values(), *([schema["items"]] if "items" in schema else [])]
    return [*schema.get("x-kubernetes-validations", []), *(rule for node in inner for rule in rules(node))]
