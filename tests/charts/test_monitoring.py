"""Monitors, alerts and dashboards: what ships is what Prometheus reads, and speaks of metrics that exist."""

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from samjobs import names
from tests.charts.helm import Helm
from tests.charts.sets import EXTERNAL, MONITORED
from tests.conftest import missing
from tools.chart import CHART

RULES = sorted((CHART / "files/rules").glob("*.yaml"))
DASHBOARDS = sorted((CHART / "files/dashboards").glob("*.json"))
METRICS = {value for key, value in vars(names).items() if key.startswith("METRIC_")}


def alerts(path: Path) -> list[dict[str, Any]]:
    return [rule for group in yaml.safe_load(path.read_text())["groups"] for rule in group["rules"] if "alert" in rule]


def unknown_metrics(expression: str) -> set[str]:
    """Metrics in an expression that no process has."""
    found = set(re.findall(r"\bsamjobs_\w+", expression))
    return {name for name in found if re.sub(r"_(bucket|sum|count)$", "", name) not in METRICS and name not in METRICS}


@pytest.mark.parametrize("path", RULES, ids=lambda path: path.stem)
def test_promtool_takes_the_rules_that_ship(path: Path) -> None:
    promtool = shutil.which("promtool")
    if promtool is None:
        missing("promtool is missing: apt-get install prometheus")
    done = subprocess.run(
        [promtool, "check", "rules", "--lint=all", "--lint-fatal", str(path)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("path", RULES, ids=lambda path: path.stem)
def test_a_file_holds_the_one_alert_of_its_name(path: Path) -> None:
    (alert,) = alerts(path)
    assert alert["alert"] == path.stem
    assert alert["alert"].startswith("SamJobs")
    assert alert["labels"]["severity"] in {"critical", "warning", "info"}
    assert alert["annotations"]["summary"].endswith(".")
    assert alert["annotations"]["description"]
    assert unknown_metrics(alert["expr"]) == set()


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


def test_monitors_find_the_controller_and_the_workers_of_all_pools(helm: Helm) -> None:
    rendered = helm.template({**EXTERNAL, **MONITORED})
    service = rendered.one("Service", "samjobs-controller")
    monitor = rendered.one("ServiceMonitor", "samjobs-controller")["spec"]
    assert monitor["selector"]["matchLabels"].items() <= service["metadata"]["labels"].items()
    assert monitor["endpoints"][0]["port"] == service["spec"]["ports"][0]["name"]
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
    assert all(one["multi"] and one["allValue"] == ".+" for one in variables.values() if one["type"] == "query")
    panels = [panel for panel in board["panels"] if panel["type"] != "row"]
    assert len({panel["id"] for panel in board["panels"]}) == len(board["panels"])
    for panel in panels:
        assert panel["title"], panel["id"]
        assert panel["description"], panel["title"]
        assert panel["datasource"]["uid"] == "${datasource}", panel["title"]
        assert panel["fieldConfig"]["defaults"]["unit"], panel["title"]
        for target in panel["targets"]:
            assert unknown_metrics(target["expr"]) == set(), panel["title"]
            windows = re.findall(r"\[([^\]]+)\]", target["expr"])
            assert set(windows) <= {"$__rate_interval"}, panel["title"]
