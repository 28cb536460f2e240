"""crds/ and the chart's copies are what the code makes now, and say which schema they hold."""

import copy
import re

import pytest
import yaml

from controller.kube import rules
from controller.kube.crd import crds, schema_version
from controller.kube.structural import structural
from samjobs.names import JOB_PLURAL, POOL_PLURAL
from samjobs.spec import JobSpec
from tools.crds import CHART, ROOT, files


@pytest.mark.parametrize("name", sorted(files()))
def test_a_generated_file_is_fresh(name: str) -> None:
    assert (ROOT / name).read_text() == files()[name], f"{name} is stale: run `make crds` and commit it"


@pytest.mark.parametrize("plural", [JOB_PLURAL, POOL_PLURAL])
def test_a_file_holds_the_crd(plural: str) -> None:
    assert yaml.safe_load(files()[f"crds/{plural}.yaml"]) == crds()[plural]


@pytest.mark.parametrize("plural", [JOB_PLURAL, POOL_PLURAL])
def test_the_chart_copy_is_the_crd_within_its_conditions(plural: str) -> None:
    text = files()[f"{CHART}/{plural}.yaml"]
    inside = "\n".join(line for line in text.splitlines() if not line.lstrip().startswith("{{-"))
    made = yaml.safe_load(inside)
    assert made["metadata"]["annotations"].pop("helm.sh/resource-policy") == "keep"
    assert made == crds()[plural]
    assert not re.search(r"\{\{(?!-|\s\"\{\{)", text), "a mark of the schema's own would be taken for the template's"


def test_the_version_changes_with_the_schema() -> None:
    made = crds()
    versions = {schema_version(crd) for crd in made.values()}
    assert len(versions) == 2
    assert None not in versions
    assert crds() == made


def test_a_crd_of_others_has_no_version() -> None:
    crd = copy.deepcopy(crds()[JOB_PLURAL])
    del crd["metadata"]["annotations"]
    assert schema_version(crd) is None


def test_a_rule_for_a_field_that_is_not_there_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(rules.FIELD_RULES, ("JobSpec", "kolour"), rules.PHRASE)
    with pytest.raises(KeyError, match=r"JobSpec\.kolour"):
        structural(JobSpec, "")
