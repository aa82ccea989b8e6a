"""The Grafana dashboard and the Prometheus rules: they use metrics and labels that a scheduler exports."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from tests.client.server import serving
from tests.daemon.test_run import Cluster, daemon

from kubesched.base.types import JSON
from kubesched.daemon.process_metrics import ProcessMetrics
from kubesched.daemon.stalls import StallWatch
from kubesched.scheduler.metric_types import Histogram
from kubesched.scheduler.metrics import Metrics

DEPLOY = Path(__file__).parents[2] / "deploy"
DASHBOARD = DEPLOY / "grafana" / "kubesched.json"
RULES = DEPLOY / "prometheus" / "rules.yaml"
UNIT_TESTS = Path(__file__).parent / "rules.test.yaml"
SCRAPED = {"job", "instance"}
"""Labels that Prometheus adds to every series."""
WORDS = {"and", "or", "unless", "bool", "offset", "by", "without", "on", "ignoring", "group_left", "group_right"}
LABEL_LIST = r"\b(?:by|without|on|ignoring) \(([^)]*)\)"


def panels() -> list[JSON]:
    """All panels of the dashboard but the titles of rows."""
    return [panel for panel in json.loads(DASHBOARD.read_text("utf-8"))["panels"] if panel["type"] != "row"]


def rules() -> list[JSON]:
    """All rules of all groups."""
    return [rule for group in yaml.safe_load(RULES.read_text("utf-8"))["groups"] for rule in group["rules"]]


def expressions() -> Iterator[str]:
    """All PromQL of the dashboard and the rules."""
    for panel in panels():
        yield from (target["expr"] for target in panel["targets"])
    yield from (rule["expr"] for rule in rules())


def metrics_in(expression: str) -> set[str]:
    """The names of the metrics in an expression."""
    bare = re.sub(r'"[^"]*"', "", expression)
    bare = re.sub(LABEL_LIST, "", re.sub(r"\{[^}]*\}|\[[^\]]*\]", "", bare))
    return set(re.findall(r"(?<![\w:.])[a-zA-Z_:][\w:]*\b(?!\s*\()", bare)) - WORDS


def labels_in(expression: str) -> set[str]:
    """The names of the labels that an expression selects or groups by."""
    selected = re.findall(r"(\w+)\s*(?:=~|!~|!=|=)\s*\"", expression)
    grouped = [label.strip() for group in re.findall(LABEL_LIST, expression) for label in group.split(",")]
    return {*selected, *grouped}


def exported() -> dict[str, set[str]]:
    """The series of the scheduler's and the process's families, with their labels."""
    metrics = Metrics(process=False)
    ProcessMetrics(metrics)
    StallWatch(metrics)
    found: dict[str, set[str]] = {}
    for family in metrics.families:
        labels = {*family.labels, *SCRAPED}
        if isinstance(family, Histogram):
            found |= {f"{family.name}_sum": labels, f"{family.name}_count": labels}
            found[f"{family.name}_bucket"] = labels | {"le"}
        else:
            found[family.name] = labels
    return found


async def test_a_scheduler_exports_what_is_used(tmp_path: Path) -> None:
    """Every metric is a family of the registry or on the page of a running scheduler, and has the labels named."""
    series = exported()
    async with serving(Cluster()) as cluster:
        assert isinstance(cluster, Cluster)
        flags = ("--leader-elect=false", f"--decision-log={tmp_path}/decisions")
        async with daemon(tmp_path, cluster, *flags) as scheduler:
            await scheduler.until(lambda: "Serving securely" in scheduler.log)
            page = (await scheduler.ask("GET", "/metrics"))[1]
    for name in re.findall(r"^# TYPE (\S+)", page, re.MULTILINE):
        series.setdefault(name, SCRAPED)
    for rule in rules():
        if "record" in rule:
            series[rule["record"]] = labels_in(rule["expr"])
    for expression in expressions():
        names = metrics_in(expression)
        assert names, expression
        assert names <= series.keys(), expression
        assert labels_in(expression) <= set.union(*(series[name] for name in names)), expression


def test_names_are_found_in_expressions() -> None:
    """What the test above relies on: functions, labels, durations and keywords are no metrics."""
    expression = 'sum by (job, le) (rate(a_bucket{job=~"$job", x!="b"}[5m])) / on (job) group_left c:d > 0.5 and e == 1'
    assert metrics_in(expression) == {"a_bucket", "c:d", "e"}
    assert labels_in(expression) == {"job", "le", "x"}


def test_the_dashboard_is_laid_out() -> None:
    """Panels have their own identity, a title and a place on the grid of 24 columns that no other panel has."""
    shown = json.loads(DASHBOARD.read_text("utf-8"))["panels"]
    assert len({panel["id"] for panel in shown}) == len({panel["title"] for panel in shown}) == len(shown)
    taken: set[tuple[int, int]] = set()
    for panel in shown:
        at = panel["gridPos"]
        cells = {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}
        assert not taken & cells, panel["title"]
        assert at["x"] + at["w"] <= 24, panel["title"]
        taken |= cells


def test_alerts_say_what_to_do() -> None:
    """Every alert has a severity, a summary and a description; records are named level:metric:operation."""
    for rule in rules():
        if "record" in rule:
            assert rule["record"].count(":") == 2
        else:
            assert rule["labels"]["severity"] in ("critical", "warning", "info")
            assert set(rule["annotations"]) == {"summary", "description"}


@pytest.mark.skipif(shutil.which("promtool") is None, reason="no promtool: it is in Debian's package prometheus")
@pytest.mark.parametrize("arguments", [("check", "rules", RULES), ("test", "rules", UNIT_TESTS)], ids=["check", "test"])
def test_promtool_accepts_the_rules(arguments: tuple[object, ...]) -> None:
    """The rules are valid, and alerts fire when they should."""
    done = subprocess.run(["promtool", *map(str, arguments)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_alert_is_tested() -> None:
    """promtool sees each alert fire once, and not fire once."""
    tested = [
        each for case in yaml.safe_load(UNIT_TESTS.read_text("utf-8"))["tests"] for each in case["alert_rule_test"]
    ]
    for fires in (True, False):
        names = {each["alertname"] for each in tested if bool(each.get("exp_alerts")) is fires}
        assert names == {rule["alert"] for rule in rules() if "alert" in rule}


@pytest.mark.skipif(shutil.which("promtool") is None, reason="no promtool: it is in Debian's package prometheus")
def test_promtool_accepts_the_dashboard(tmp_path: Path) -> None:
    """The expressions of the panels are valid once Grafana has put values for its variables."""
    queries = [target["expr"].replace("$__rate_interval", "5m") for panel in panels() for target in panel["targets"]]
    as_rules = [{"record": f"panel:{number}", "expr": query} for number, query in enumerate(queries)]
    file = tmp_path / "rules.yaml"
    file.write_text(yaml.safe_dump({"groups": [{"name": "dashboard", "rules": as_rules}]}), "utf-8")
    done = subprocess.run(["promtool", "check", "rules", str(file)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
