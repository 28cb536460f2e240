"""Which values are refused, and what is said."""

from typing import Any

import pytest

from tests.charts.helm import Helm, Refused
from tests.charts.sets import EXTERNAL


@pytest.mark.parametrize(
    ("values", "named"),
    [
        pytest.param({"replicas": 2}, ["replicas"], id="a value that does not exist"),
        pytest.param({"controller": {"resource": {}}}, ["controller", "resource"], id="a misspelt one further in"),
        pytest.param({"image": {"tag": 1.1}}, ["image", "tag", "string"], id="a tag that YAML takes for a number"),
        pytest.param({"image": {"pullPolicy": "always"}}, ["pullPolicy", "IfNotPresent"], id="a word of no choice"),
        pytest.param({"settings": {"SAMJOBS_PROFIL": "dev"}}, ["SAMJOBS_PROFIL"], id="a setting that does not exist"),
        pytest.param({"settings": {"SAMJOBS_REGION": "eu"}}, ["SAMJOBS_REGION"], id="a setting of pools"),
        pytest.param(
            {"settings": {"SAMJOBS_DATABASE_URL": "postgresql://u:p@h/d"}}, ["SAMJOBS_DATABASE_URL"], id="an address"
        ),
        pytest.param({"pools": [{"spec": {}}]}, ["pools", "name"], id="a pool without a name"),
        pytest.param(
            {"pools": [{"name": "a", "spec": {"scaling": {"max": 3}}}]}, ["scaling", "max"], id="a field of no pool"
        ),
        pytest.param(
            {"pools": [{"name": "a", "spec": {"engine": "sam2"}}]}, ["engine", "sam3"], id="an unknown engine"
        ),
        pytest.param({"watchNamespaces": "team-a"}, ["watchNamespaces", "array"], id="one namespace instead of a list"),
    ],
)
def test_the_schema_refuses(each_helm: Helm, values: dict[str, Any], named: list[str]) -> None:
    with pytest.raises(Refused) as refused:
        each_helm.template({**EXTERNAL, **values})
    told = str(refused.value)
    assert [word for word in named if word not in told] == [], told


@pytest.mark.parametrize(
    ("values", "told"),
    [
        pytest.param({}, "database: no server is given: set database.existingSecret", id="no database"),
        pytest.param(
            {"database": {"existingSecret": "a"}}, "redis: no server is given: set redis.existingSecret", id="no Redis"
        ),
        pytest.param(
            {**EXTERNAL, "redis": {"existingSecret": "a", "url": "redis://b"}},
            "redis.existingSecret and redis.url are both set",
            id="two addresses",
        ),
        pytest.param(
            {**EXTERNAL, "serviceMonitor": {"enabled": True}, "metrics": {"enabled": False}},
            "serviceMonitor.enabled needs metrics.enabled",
            id="a monitor of nothing",
        ),
    ],
)
def test_what_cannot_work_is_refused_with_the_remedy(each_helm: Helm, values: dict[str, Any], told: str) -> None:
    with pytest.raises(Refused, match=told):
        each_helm.template(values)


def test_values_of_charts_around_it_are_taken(helm: Helm) -> None:
    helm.template({**EXTERNAL, "global": {"storageClass": "fast"}, "enabled": True})
