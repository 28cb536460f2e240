"""Which values are refused, and what is said."""

from typing import Any

import pytest

from samjobs import __version__
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
        *(
            pytest.param({"watchNamespaces": [word]}, ["watchNamespaces/0"], id=f"{word!r} for a namespace")
            for word in ("", "Team A", "*", "a.b", "a" * 64)
        ),
        pytest.param({"namespaceOverride": "Foo"}, ["namespaceOverride"], id="a namespace in capitals"),
        pytest.param({"grafanaDashboard": {"namespace": "Foo"}}, ["grafanaDashboard/namespace"], id="the dashboards'"),
        pytest.param({"nameOverride": "Foo"}, ["nameOverride"], id="a name in capitals"),
        pytest.param({"fullnameOverride": "1a"}, ["fullnameOverride"], id="a name of no Service"),
        pytest.param({"image": {"repository": ""}}, ["image/repository"], id="an image without a name"),
        pytest.param({"worker": {"image": {"repository": ""}}}, ["worker/image/repository"], id="that of workers"),
        pytest.param({"global": {"imagePullSecrets": [{"a": "b"}]}}, ["imagePullSecrets/0"], id="a secret of no name"),
        pytest.param({"worker": {"extraEnv": ["A=b"]}}, ["worker/extraEnv/0", "object"], id="a variable as a text"),
        pytest.param(
            {"controller": {"extraArgs": [1]}}, ["controller/extraArgs/0", "string"], id="a number to a process"
        ),
        pytest.param({"metrics": {"port": 0}}, ["metrics/port"], id="no port"),
        pytest.param({"api": {"service": {"port": 65536}}}, ["api/service/port"], id="a port that is too high"),
        pytest.param({"api": {"service": {"nodePort": -1}}}, ["api/service/nodePort"], id="a port below all"),
        *(
            pytest.param(
                {part: {"podDisruptionBudget": {"minAvailable": bad}}},
                [f"{part}/podDisruptionBudget"],
                id=f"{part} {bad}",
            )
            for part in ("controller", "api", "worker")
            for bad in (-1, "half", "50")
        ),
        *(
            pytest.param(
                {"networkPolicy": {"workerDeny": [bad]}}, ["networkPolicy/workerDeny/0"], id=f"{bad} is no range"
            )
            for bad in ("10.0.0.0", "::1", "metadata.google.internal")
        ),
        pytest.param(
            {"controller": {"terminationGracePeriodSeconds": -1}},
            ["terminationGracePeriodSeconds"],
            id="less than no time",
        ),
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
        pytest.param(
            {**EXTERNAL, "pools": [{"name": "a", "spec": {"scaling": {"minReplicas": 3}}}]},
            "pools: a: spec.scaling.minReplicas 3 is above spec.scaling.maxReplicas 1 .* raise maxReplicas",
            id="a pool of more than the most",
        ),
        pytest.param(
            {**EXTERNAL, "pools": [{"name": "a"}, {"name": "b"}, {"name": "a"}]},
            "pools: a is there twice: leave one of them out",
            id="two pools of one name",
        ),
    ],
)
def test_what_cannot_work_is_refused_with_the_remedy(each_helm: Helm, values: dict[str, Any], told: str) -> None:
    with pytest.raises(Refused, match=told):
        each_helm.template(values)


TEXTS_ONLY = (
    *("commonLabels", "commonAnnotations", "serviceAccount.annotations", "prometheusRule.additionalRuleLabels"),
    *(f"{of}.{name}" for of in ("controller", "api", "worker") for name in ("podLabels", "podAnnotations")),
    *("api.service.labels", "podMonitor.labels", "grafanaDashboard.labels", "controller.nodeSelector"),
)


@pytest.mark.parametrize("name", TEXTS_ONLY)
def test_labels_and_annotations_are_texts(helm: Helm, name: str) -> None:
    wrong: tuple[Any, ...] = (8080, True, None, {})
    for bad in wrong:
        with pytest.raises(Refused, match=f"{name.replace('.', '/')}/example.com"):
            helm.template({**EXTERNAL, **_at(name, {"example.com": bad})})


@pytest.mark.parametrize(
    "name", ["commonLabels", "controller.podLabels", "api.podLabels", "worker.podLabels", "api.service.labels"]
)
def test_labels_by_which_the_charts_objects_are_found_are_its_own(helm: Helm, name: str) -> None:
    for label in ("name", "instance", "component"):
        with pytest.raises(Refused, match=f"{name} sets app.kubernetes.io/{label}, by which .* leave it out"):
            helm.template({**EXTERNAL, **_at(name, {f"app.kubernetes.io/{label}": "other"})})


def test_a_release_whose_services_could_have_no_name_is_refused(helm: Helm) -> None:
    with pytest.raises(Refused, match="set fullnameOverride"):
        helm.template(EXTERNAL, release="123")
    assert helm.template({**EXTERNAL, "fullnameOverride": "a"}, release="123").one("Service", "a-api")


@pytest.mark.parametrize("values", [{"image": None}, {"image": {"repository": None}}], ids=["the image", "its name"])
def test_an_image_that_is_taken_out_is_the_charts_own(each_helm: Helm, values: dict[str, Any]) -> None:
    rendered = each_helm.template({**EXTERNAL, **values, "worker": values})
    images = {pod["containers"][0]["image"] for _, pod in rendered.pods()}
    assert images == {f"samjobs-controller:{__version__}"}
    assert f'image: "samjobs-worker:{__version__}"' in rendered.text


def test_no_time_to_end_is_no_time(helm: Helm) -> None:
    none = {"terminationGracePeriodSeconds": 0}
    rendered = helm.template({**EXTERNAL, "controller": none, "api": none})
    given = {name: pod.get("terminationGracePeriodSeconds") for name, pod in rendered.pods()}
    assert (given["samjobs-controller"], given["samjobs-api"]) == (0, 0)


def _at(name: str, value: Any) -> dict[str, Any]:
    """A value at a path of values.yaml."""
    for key in reversed(name.split(".")):
        value = {key: value}
    found: dict[str, Any] = value
    return found


def test_values_of_charts_around_it_are_taken(helm: Helm) -> None:
    helm.template({**EXTERNAL, "global": {"storageClass": "fast"}, "enabled": True})
