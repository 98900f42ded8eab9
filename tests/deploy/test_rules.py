"""Alerts: their expressions in Prometheus' own test tool, their pages, the metrics that they ask for."""

import re
from pathlib import Path

import pytest
import yaml
from prometheus_client import Counter, Gauge, Histogram

from haltline.streams.runtime.metrics import METRICS, PREFIX
from tests.deploy.tools import RULES, RUNBOOKS, alerts, rules, tool
from tests.programs import printed

CASES = Path(__file__).with_name("haltline.rules.test.yml")
SECTIONS = ("## What it means", "## How to see it", "## What to do", "## How to know that it is over")
SUFFIXES = {Counter: ("",), Gauge: ("",), Histogram: ("_bucket", "_sum", "_count")}
NAMES = {PREFIX + metric.name + suffix for metric in METRICS for suffix in SUFFIXES[metric.kind]}


def metrics_in(expression: str) -> set[str]:
    return set(re.findall(rf"\b{PREFIX}[a-z_]+\b", expression))


def test_prometheus_takes_the_rules_and_each_alert_fires_when_it_should_and_not_otherwise(tmp_path: Path) -> None:
    printed(tool("promtool"), "check", "rules", RULES)
    document = yaml.safe_load(RULES.read_text())
    for group in document["groups"]:
        for rule in group["rules"]:
            rule.pop("annotations", None)
    (tmp_path / "RULES").write_text(yaml.safe_dump(document))
    (tmp_path / "cases.yml").write_text(CASES.read_text())
    printed(tool("promtool"), "test", "rules", tmp_path / "cases.yml")


def test_of_each_alert_it_is_tested_that_it_fires_and_not_and_each_page_has_its_alert() -> None:
    fires: set[str] = set()
    is_quiet: set[str] = set()
    for case in yaml.safe_load(CASES.read_text())["tests"]:
        for test in case.get("alert_rule_test", []):
            (fires if test.get("exp_alerts") else is_quiet).add(test["alertname"])
    assert fires == is_quiet == set(alerts())
    assert {page.stem for page in RUNBOOKS.glob("Haltline*.md")} == set(alerts())


@pytest.mark.parametrize("name", alerts())
def test_each_alert_says_how_bad_it_is_and_what_it_is_and_has_a_page(name: str) -> None:
    alert = alerts()[name]
    assert alert["labels"]["severity"] in {"page", "warn", "info"}
    assert alert["annotations"]["summary"].endswith(".")
    assert alert["annotations"]["runbook_url"] == f"deploy/runbooks/{name}.md"
    page = (RUNBOOKS / f"{name}.md").read_text()
    assert page.startswith(f"# {name}\n")
    places = [page.find(section) for section in SECTIONS]
    assert min(places) > -1, f"{name}.md: expected {SECTIONS}"
    assert places == sorted(places)


def test_rules_ask_for_metrics_that_there_are() -> None:
    assert {metric for rule in rules() for metric in metrics_in(rule["expr"])} <= NAMES
