"""Monitors, alerts and dashboards: what ships is what Prometheus reads, and speaks of metrics that exist.

tests/alerts judges the alerts themselves.
"""

import json
import re
from pathlib import Path

import pytest
import yaml

from samjobs.metrics import TABLE
from tests.charts.helm import Helm
from tests.charts.sets import EXTERNAL, MONITORED
from tools.chart import CHART

RULES = sorted((CHART / "files/rules").glob("*.yaml"))
DASHBOARDS = sorted((CHART / "files/dashboards").glob("*.json"))
METRICS = {metric.name for metrics in TABLE.values() for metric in metrics}
# What a panel's numbers are; others would be shown as bare numbers.
UNITS = {"short", "s", "bytes", "cps", "percentunit", "bool_yes_no"}


def unknown_metrics(expression: str) -> set[str]:
    """Metrics in an expression that no process has."""
    found = set(re.findall(r"\bsamjobs_\w+", expression))
    return {name for name in found if re.sub(r"_(bucket|sum|count)$", "", name) not in METRICS and name not in METRICS}


def test_the_rule_object_holds_the_rules_as_they_ship(helm: Helm) -> None:
    rule = helm.template({**EXTERNAL, "prometheusRule": {"enabled": True}}).one("PrometheusRule", "samjobs")
    shipped = [group for path in RULES for group in yaml.safe_load(path.read_text())["groups"]]
    assert rule["spec"]["groups"] == shipped


def test_alerts_take_labels_and_runbooks_and_can_be_left_out(helm: Helm) -> None:
    values = {
        "enabled": True,
        "labels": {"release": "kps"},
        "additionalRuleLabels": {"team": "vision"},
        "runbookUrl": "https://docs.example.com/runbooks/",
    }
    rule = helm.template({**EXTERNAL, "prometheusRule": values}).one("PrometheusRule", "samjobs")
    assert rule["metadata"]["labels"]["release"] == "kps"
    for group in rule["spec"]["groups"]:
        for one in group["rules"]:
            assert one["labels"]["team"] == "vision"
            assert one["annotations"]["runbook_url"] == f"https://docs.example.com/runbooks/{one['alert']}.md"
    none = {"enabled": True, "excludeRules": [path.stem for path in RULES]}
    assert helm.template({**EXTERNAL, "prometheusRule": none}).one("PrometheusRule", "samjobs")["spec"]["groups"] == []


def test_monitors_find_controller_api_and_the_workers_of_all_pools(helm: Helm) -> None:
    rendered = helm.template({**EXTERNAL, **MONITORED})
    monitor = rendered.one("ServiceMonitor", "samjobs-controller")["spec"]
    (component,) = monitor["selector"]["matchExpressions"]
    (endpoint,) = monitor["endpoints"]
    scraped = {
        service["metadata"]["name"]: port["targetPort"]
        for service in rendered.of("Service")
        for port in service["spec"]["ports"]
        if monitor["selector"]["matchLabels"].items() <= service["metadata"]["labels"].items()
        and service["metadata"]["labels"][component["key"]] in component["values"]
        and port["name"] == endpoint["port"]
    }
    assert component["operator"] == "In"
    assert scraped == {"samjobs-controller": "health", "samjobs-api-metrics": "health"}
    pods = rendered.one("PodMonitor", "samjobs-workers")["spec"]
    assert pods["namespaceSelector"] == {"any": True}
    assert pods["selector"]["matchLabels"] == {
        "app.kubernetes.io/name": "samjobs",
        "app.kubernetes.io/component": "worker",
    }
    watched = helm.template({**EXTERNAL, **MONITORED, "watchNamespaces": ["a"]})
    assert watched.one("PodMonitor", "samjobs-workers")["spec"]["namespaceSelector"] == {
        "matchNames": ["samjobs-system", "a"]
    }


def test_each_dashboard_becomes_what_grafanas_sidecar_loads(helm: Helm) -> None:
    values = {"enabled": True, "namespace": "monitoring"}
    rendered = helm.template({**EXTERNAL, "grafanaDashboard": values})
    for path in DASHBOARDS:
        one = rendered.one("ConfigMap", f"samjobs-dashboard-{path.stem}")
        assert one["metadata"]["namespace"] == "monitoring"
        assert one["metadata"]["labels"]["grafana_dashboard"] == "1"
        assert json.loads(one["data"][path.name]) == json.loads(path.read_text())


@pytest.mark.parametrize("path", DASHBOARDS, ids=lambda path: path.stem)
def test_a_dashboard_is_one_that_can_be_loaded_anywhere(path: Path) -> None:
    board = json.loads(path.read_text())
    variables = {one["name"]: one for one in board["templating"]["list"]}
    assert board["id"] is None
    assert not board["editable"]
    assert 0 < len(board["uid"]) <= 40
    assert "samjobs" in board["tags"]
    assert "__inputs" not in board
    assert [one["name"] for one in variables.values() if one["type"] == "datasource"] == ["datasource"]
    queries = [one for one in variables.values() if one["type"] == "query"]
    assert {one["name"] for one in queries} == {"job", "namespace", "region", "pool"}
    for one in queries:
        assert one["multi"], one["name"]
        assert one["includeAll"], one["name"]
        # A Prometheus outside of Kubernetes knows no namespaces.
        assert one["allValue"] == (".*" if one["name"] == "namespace" else ".+"), one["name"]
        assert one["datasource"]["uid"] == "${datasource}"
    panels = [panel for panel in board["panels"] if panel["type"] != "row"]
    assert len({panel["id"] for panel in board["panels"]}) == len(board["panels"])
    for panel in panels:
        assert panel["title"], panel["id"]
        assert panel["description"], panel["title"]
        assert panel["datasource"]["uid"] == "${datasource}", panel["title"]
        assert panel["fieldConfig"]["defaults"]["unit"] in UNITS, panel["title"]
        assert panel["targets"], panel["title"]
        for target in panel["targets"]:
            assert target["datasource"]["uid"] == "${datasource}", panel["title"]
            assert unknown_metrics(target["expr"]) == set(), panel["title"]
            windows = re.findall(r"\[([^\]]+)\]", target["expr"])
            assert set(windows) <= {"$__rate_interval"}, panel["title"]
            counters = re.findall(r"(\w*)\(samjobs_\w+_(?:total|bucket)\b", target["expr"])
            assert set(counters) <= {"rate"}, f"{panel['title']}: a counter means something only as a rate"
            selectors = re.findall(r"samjobs_\w+\{([^}]*)\}", target["expr"])
            assert all('job=~"$job"' in one and 'namespace=~"$namespace"' in one for one in selectors), panel["title"]
            chosen = set(re.findall(r"\$(\w+)", target["expr"]))
            assert chosen <= {"__rate_interval", *variables}, panel["title"]


@pytest.mark.parametrize("path", DASHBOARDS, ids=lambda path: path.stem)
def test_the_panels_of_a_dashboard_fill_its_rows_and_overlap_nowhere(path: Path) -> None:
    taken: dict[tuple[int, int], str] = {}
    for panel in json.loads(path.read_text())["panels"]:
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= 24, panel["title"]
        for x in range(place["x"], place["x"] + place["w"]):
            for y in range(place["y"], place["y"] + place["h"]):
                assert (x, y) not in taken, f"{panel['title']} lies over {taken[x, y]}"
                taken[x, y] = panel["title"]
