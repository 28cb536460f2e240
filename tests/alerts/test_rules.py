"""Each alert, judged by promtool on the bytes that ship: silent, firing, resolved; and silent where all is well."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml

from samjobs.alerts import THRESHOLDS, parse
from samjobs.cli import app
from samjobs.metrics import TABLE
from samjobs.names import Reason
from samjobs.settings import Settings
from tests.alerts.cases import AT_ZERO, CASES, THRESHOLD_SERIES, Case
from tests.alerts.rules import ALERTS, RULES, RUNBOOKS, minutes, promtool

METRICS = {metric.name for metrics in TABLE.values() for metric in metrics}
PAGING = {"SamJobsWorkWaits", "SamJobsQueueStalled", "SamJobsControllerDown", "SamJobsDatabaseDown"}
PARTS = ["Meaning", "Impact", "Diagnosis", "Mitigation"]


def test_promtool_finds_nothing_to_say() -> None:
    promtool("check", "rules", "--lint=all", "--lint-fatal", *map(str, RULES))


def test_every_alert_has_a_case_and_a_runbook_and_the_other_way_round() -> None:
    assert set(CASES) == set(ALERTS)
    assert {path.stem for path in RUNBOOKS.glob("*.md")} == set(ALERTS)


@pytest.mark.parametrize("path", RULES, ids=lambda path: path.stem)
def test_a_file_holds_the_one_alert_of_its_name(path: Path) -> None:
    alert = ALERTS[path.stem]
    assert alert["alert"] == path.stem
    assert path.stem.startswith("SamJobs")
    assert alert["labels"].keys() == {"severity"}
    annotations = alert["annotations"]
    assert annotations["summary"].endswith(".")
    assert "{{" not in annotations["summary"], "a summary is the same for all"
    assert annotations["description"].endswith(".")
    assert annotations["runbook_url"] == f"docs/runbooks/{path.stem}.md"


def test_only_what_somebody_has_to_get_up_for_pages() -> None:
    assert {name for name, alert in ALERTS.items() if alert["labels"]["severity"] == "critical"} == PAGING
    assert {alert["labels"]["severity"] for alert in ALERTS.values()} == {"critical", "warning", "info"}


@pytest.mark.parametrize("name", sorted(ALERTS))
def test_an_alert_asks_for_metrics_and_thresholds_that_exist(name: str) -> None:
    asked = set(re.findall(r"\bsamjobs_\w+", ALERTS[name]["expr"]))
    assert {re.sub(r"_(bucket|sum|count)$", "", one) for one in asked} <= METRICS
    compared = set(re.findall(r'alert="(\w+)"', ALERTS[name]["expr"]))
    assert compared == ({name} if name in THRESHOLDS else set()), "each has a threshold of its own, or none"


@pytest.mark.parametrize("name", sorted(ALERTS))
def test_it_is_silent_until_its_time_then_fires_and_then_is_over(name: str, tmp_path: Path) -> None:
    case = CASES[name]
    fires = case.since + minutes(ALERTS[name]["for"])
    told = _told(name, case)
    _judged(tmp_path, {**THRESHOLD_SERIES, **case.series}, {name: {fires - 1: [], fires: [told], case.over: []}})


@pytest.mark.parametrize("minute", [30, 420])
def test_nothing_is_told_where_nobody_works_and_nothing_waits(minute: int, tmp_path: Path) -> None:
    _judged(tmp_path, AT_ZERO, {name: {minute: []} for name in ALERTS})


def test_a_runbook_has_its_four_parts() -> None:
    for path in RUNBOOKS.glob("*.md"):
        text = path.read_text()
        assert text.startswith(f"# {path.stem}\n"), path
        assert re.findall(r"^## (.+)$", text, re.MULTILINE) == PARTS, path


@pytest.mark.parametrize("path", sorted(RUNBOOKS.glob("*.md")), ids=lambda path: path.stem)
def test_what_a_runbook_tells_to_do_can_be_done(path: Path) -> None:
    text = path.read_text()
    for line in re.findall(r"(?:^    |`)samjobs ([^#`\n]+)", text, re.MULTILINE):
        _is_a_command(line.split())
    settings = {f"SAMJOBS_{name.upper()}" for name in Settings.model_fields}
    assert set(re.findall(r"\bSAMJOBS_[A-Z_]+", text)) <= settings
    for name, value in re.findall(r"SAMJOBS_ALERT_THRESHOLDS=(\w+)=(\d+)", text):
        assert parse(f"{name}={value}") == {path.stem: float(value)}
    for linked in re.findall(r"\]\(([^)]+)\)", text):
        assert (path.parent / linked).exists(), linked
    words = set(re.findall(r"`([A-Z][a-z]+[A-Z]\w+)`", text))
    assert words <= {reason.value for reason in Reason}, "words in code are reasons"


def _is_a_command(words: list[str]) -> None:
    command: Any = typer.main.get_command(app)
    while hasattr(command, "commands"):
        name = words.pop(0)
        assert name in command.commands, f"there is no command {name}"
        command = command.commands[name]
    options = {option for parameter in command.params for option in parameter.opts}
    assert {word for word in words if word.startswith("-")} <= options, command.name


def _told(name: str, case: Case) -> dict[str, Any]:
    """What Alertmanager is given: all of it, word by word."""
    alert = ALERTS[name]
    place = {} if case.everywhere else {"job": "samjobs-controller", "namespace": "samjobs"}
    return {
        "exp_labels": {"severity": alert["labels"]["severity"], **place, **case.labels},
        "exp_annotations": alert["annotations"] | {"description": case.told},
    }


def _judged(folder: Path, series: Mapping[str, str], expected: Mapping[str, Mapping[int, list[Any]]]) -> None:
    """Let promtool compare what fires, by alert and minute."""
    test = {
        "rule_files": [str(path) for path in RULES if path.stem in expected],
        "evaluation_interval": "1m",
        "tests": [
            {
                "interval": "1m",
                "input_series": [{"series": name, "values": values} for name, values in series.items()],
                "alert_rule_test": [
                    {"eval_time": f"{minute}m", "alertname": name, "exp_alerts": alerts}
                    for name, by_minute in expected.items()
                    for minute, alerts in by_minute.items()
                ],
            }
        ],
    }
    path = folder / "test.yaml"
    path.write_text(yaml.safe_dump(test, width=1000))
    promtool("test", "rules", str(path))
