"""The API of the chart: what its pods have and lack, how its callers are known, and who reaches it."""

from typing import Any

import pytest
from yaml import safe_dump

from samjobs.settings import Settings
from tests.charts.helm import Helm, Refused, Rendered, env_of
from tests.charts.sets import EXTERNAL, SETS, everything
from tools.chart import CHART

TOKENS = {"access": "tokens", "tokensSecret": "api-tokens"}


def pod(rendered: Rendered) -> dict[str, Any]:
    found: dict[str, Any] = rendered.one("Deployment", "samjobs-api")["spec"]["template"]["spec"]
    return found


def process(rendered: Rendered) -> dict[str, Any]:
    found: dict[str, Any] = pod(rendered)["containers"][0]
    return found


def component(one: dict[str, Any]) -> str | None:
    found: str | None = one["metadata"].get("labels", {}).get("app.kubernetes.io/component")
    return found


@pytest.mark.parametrize("name", SETS)
def test_it_is_the_controllers_image_with_a_process_of_its_own(helm: Helm, name: str) -> None:
    rendered = helm.template(SETS[name])
    controller = rendered.one("Deployment", "samjobs-controller")["spec"]["template"]["spec"]["containers"][0]
    assert process(rendered)["image"] == controller["image"]
    assert process(rendered)["command"] == ["python", "-m", "api"]


@pytest.mark.parametrize("name", SETS)
def test_every_setting_that_it_is_given_is_one(helm: Helm, name: str) -> None:
    env = env_of(process(helm.template(SETS[name])))
    named = {key.removeprefix("SAMJOBS_").lower() for key in env if key.startswith("SAMJOBS_")}
    assert named <= set(Settings.model_fields)
    assert {"database_url", "api_access"} <= named


def test_it_has_no_way_to_redis_and_no_key_of_webhooks(helm: Helm) -> None:
    found = pod(helm.template(everything()))
    assert "redis" not in str(found).lower()
    assert "webhook" not in str(found).lower()


def test_it_reads_where_workers_write_and_changes_nothing_there(helm: Helm) -> None:
    rendered = helm.template({"embedded": {"enabled": True}, "storage": {"existingSecret": "bucket"}})
    (data,) = (one for one in process(rendered)["volumeMounts"] if one["name"] == "data")
    assert data == {"name": "data", "mountPath": "/data", "readOnly": True}
    assert process(rendered)["envFrom"] == [{"secretRef": {"name": "bucket"}}]


def test_with_the_clusters_tokens_it_has_an_account_that_may_ask_about_them(helm: Helm) -> None:
    rendered = helm.template({**EXTERNAL, "api": {"audience": "photos"}})
    env = env_of(process(rendered))
    assert (env["SAMJOBS_API_ACCESS"], env["SAMJOBS_API_AUDIENCE"]) == ("kubernetes", "photos")
    assert pod(rendered)["serviceAccountName"] == "samjobs-api"
    assert pod(rendered)["automountServiceAccountToken"]
    role = rendered.one("ClusterRole", "samjobs-system-samjobs-api")
    assert [(rule["resources"], rule["verbs"]) for rule in role["rules"]] == [
        (["tokenreviews"], ["create"]),
        (["subjectaccessreviews"], ["create"]),
    ]
    assert rendered.one("ClusterRoleBinding", "samjobs-system-samjobs-api")["subjects"] == [
        {"kind": "ServiceAccount", "name": "samjobs-api", "namespace": "samjobs-system"}
    ]


def test_with_tokens_of_its_own_it_has_nothing_to_do_with_kubernetes(helm: Helm) -> None:
    rendered = helm.template({**EXTERNAL, "api": TOKENS})
    assert env_of(process(rendered))["SAMJOBS_API_TOKENS_FILE"] == "/etc/samjobs/tokens/tokens.yaml"
    assert {"name": "tokens", "secret": {"secretName": "api-tokens"}} in pod(rendered)["volumes"]
    assert not pod(rendered)["automountServiceAccountToken"]
    assert not [one for one in rendered.of("ClusterRole") if one["metadata"]["name"].endswith("-api")]


def test_tokens_of_its_own_have_to_be_somewhere(helm: Helm) -> None:
    with pytest.raises(Refused, match=r"api\.tokensSecret is not set: .*samjobs token"):
        helm.template({**EXTERNAL, "api": {"access": "tokens"}})


def test_where_no_roles_are_made_the_release_says_what_the_api_lacks(helm: Helm) -> None:
    values = {**EXTERNAL, "rbac": {"create": False}, "api": {"serviceAccount": {"create": False, "name": "mine"}}}
    rendered = helm.template(values)
    assert not [one for one in rendered.of("ClusterRoleBinding") if one["metadata"]["name"].endswith("-api")]
    assert pod(rendered)["serviceAccountName"] == "mine"
    told = helm.run("install", "samjobs", str(CHART), "--dry-run=client", "--values", "-", given=safe_dump(values))
    assert "until the service account mine has the cluster role\nsystem:auth-delegator" in told


def test_metrics_are_not_where_callers_are_let_in(helm: Helm) -> None:
    rendered = helm.template(everything())
    (port,) = rendered.one("Service", "samjobs-api")["spec"]["ports"]
    assert (port["port"], port["targetPort"]) == (8080, "http")
    assert rendered.one("Service", "samjobs-api")["spec"]["type"] == "LoadBalancer"
    assert rendered.one("Service", "samjobs-api-metrics")["spec"].get("type", "ClusterIP") == "ClusterIP"
    off = helm.template({**EXTERNAL, "metrics": {"enabled": False}})
    assert "samjobs-api-metrics" not in [one["metadata"]["name"] for one in off.of("Service")]


def test_who_reaches_it_can_be_named(helm: Helm) -> None:
    gate = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "ingress"}}}
    values = {**EXTERNAL, "networkPolicy": {"enabled": True, "apiFrom": [gate]}}
    policy = helm.template(values).one("NetworkPolicy", "samjobs-api")["spec"]
    callers, scrapers = policy["ingress"]
    assert (callers["ports"][0]["port"], scrapers["ports"][0]["port"]) == ("http", "health")
    assert callers["from"][0] == gate
    assert [one["podSelector"]["matchLabels"]["app.kubernetes.io/component"] for one in callers["from"][1:]] == ["test"]
    anybody = helm.template({**EXTERNAL, "networkPolicy": {"enabled": True}}).one("NetworkPolicy", "samjobs-api")
    assert "from" not in anybody["spec"]["ingress"][0]


def test_it_can_be_left_out(helm: Helm) -> None:
    rendered = helm.template({**SETS["embedded with policies"], "api": {"enabled": False}})
    assert [one for one in rendered.objects if component(one) == "api"] == []
    (check,) = rendered.of("Pod")
    assert "samjobs-api" not in str(check)


def test_probes_ask_the_port_that_callers_use(helm: Helm) -> None:
    found = process(helm.template(EXTERNAL))
    assert found["livenessProbe"]["httpGet"] == {"path": "/healthz", "port": "http"}
    assert found["readinessProbe"]["httpGet"] == {"path": "/readyz", "port": "http"}
    assert {one["name"]: one["containerPort"] for one in found["ports"]} == {"http": 8000, "health": 8080}
