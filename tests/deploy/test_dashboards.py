"""Dashboards, asked of a Prometheus that scrapes the real processes, and alerts in Prometheus' own test tool."""

import json
import math
import re
import subprocess
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml
from confluent_kafka import Producer
from prometheus_client import Counter, Gauge, Histogram

from haltline.console.pages.serving import PAGES
from haltline.schemas.topics import Topics
from haltline.streams.local.kafka import free_port
from haltline.streams.runtime.metrics import METRICS, PREFIX
from tests.builders import bash
from tests.deploy.system import System, ask, running
from tests.deploy.tools import DEPLOY, RULES, RUNBOOKS, alerts, is_well, rules, tool
from tests.programs import printed
from tests.waiting import wait_until

GRAFANA = DEPLOY / "grafana"
VIEWS = DEPLOY.parent / "console" / "pages" / "static" / "views"
FILES = sorted((GRAFANA / "dashboards").glob("*.json"))
NAMING = [file for file in sorted(DEPLOY.rglob("*.*")) if file.suffix in {".json", ".yaml", ".yml", ".tpl"}]
"""The files of the deployment that can name a metric."""
POLICY = {
    "name": "default",
    "cooldown_s": 1,
    "rules": {
        "error_repetition": {"levels": dict.fromkeys(("low", "medium", "high", "critical"), "NUDGE")},
        "repetition": {"enabled": False},
    },
    "interventions": {"after_warnings": 2},
}
"""Under which an error that is repeated eight times is an escalation too."""

WITHIN_S = 90.0


def queries() -> dict[str, str]:
    """Every query by dashboard, panel and letter, as Grafana would send it."""
    found = {}
    for file in FILES:
        for panel in json.loads(file.read_text())["panels"]:
            for target in panel["targets"]:
                result = target["expr"].replace("$__rate_interval", "1m").replace("$job", ".*")
                found[f"{file.stem}: {panel['title']}: {target['refId']}"] = result
    return found


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_each_link_leads_to_a_page_of_the_console_that_reads_its_parameters(file: Path) -> None:
    document = json.loads(file.read_text())
    by_panel = [
        (panel, link) for panel in document["panels"] for link in panel["fieldConfig"]["defaults"].get("links", [])
    ]
    assert by_panel, "no panel leads to the console"
    for panel, link in by_panel:
        address = urllib.parse.urlsplit(link["url"].replace("${console}", "http://console"))
        page = address.path.removeprefix("/")
        assert (address.netloc, page in PAGES) == ("console", True), link["url"]
        source = (VIEWS / f"{page}.js").read_text()
        for name, value in urllib.parse.parse_qsl(address.query):
            assert re.search(rf"""["']{name}["']""", source), f"{page} reads no {name}"
            for label in re.findall(r"\$\{__field\.labels\.(\w+)", value):
                assert all(f"{{{{{label}}}}}" in target["legendFormat"] for target in panel["targets"]), label


@pytest.mark.parametrize("file", NAMING, ids=lambda file: str(file.relative_to(DEPLOY)))
def test_each_metric_that_a_file_names_is_one(file: Path) -> None:
    recorded = {rule["record"] for rule in rules() if "record" in rule}
    text = re.sub("|".join(map(re.escape, recorded)), "", file.read_text())
    assert metrics_in(text) <= NAMES


class Prometheus:
    def __init__(self, address: str) -> None:
        self._address = address

    def ask(self, path: str, **parameters: str) -> Any:
        url = f"http://{self._address}/api/v1/{path}?{urllib.parse.urlencode(parameters)}"
        with urllib.request.urlopen(url, timeout=10) as answer:
            return json.load(answer)["data"]

    def has(self, query: str) -> bool:
        """Return whether a query returns a number."""
        found = self.ask("query", query=query)["result"]
        return any(not math.isnan(float(one["value"][1])) for one in found)

    def alerts(self) -> set[str]:
        return {one["labels"]["alertname"] for one in self.ask("alerts")["alerts"] if one["state"] == "firing"}


@contextmanager
def prometheus(folder: Path, targets: list[str]) -> Iterator[Prometheus]:
    config = {
        "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
        "rule_files": [str(RULES)],
        "scrape_configs": [{"job_name": "haltline", "static_configs": [{"targets": targets}]}],
    }
    folder.mkdir()
    (folder / "prometheus.yml").write_text(yaml.safe_dump(config))
    address = f"127.0.0.1:{free_port()}"
    options = [f"--config.file={folder}/prometheus.yml", f"--storage.tsdb.path={folder}/data"]
    command = [tool("prometheus"), *options, f"--web.listen-address={address}"]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
    try:

        def ready() -> bool:
            assert process.poll() is None, (folder / "log").read_text()
            return is_well(f"http://{address}/-/ready")

        wait_until(ready, "Prometheus is ready", deadline_s=WITHIN_S)
        yield Prometheus(address)
    finally:
        process.terminate()
        process.wait(30)


def run_away(system: System, session: str) -> None:
    """An agent that makes the same mistake again and again, and one whose records are no JSON."""
    producer = Producer({"bootstrap.servers": system.bootstrap, "partitioner": "murmur2_random"})
    for number in range(8):
        event = bash(10 * number, "cat a", "cat: a: No such file or directory").model_copy(
            update={"session_id": session, "event_id": f"{session}/{number}"}
        )
        producer.produce(Topics().actions, key=event.session_id.encode(), value=event.to_json())
    producer.produce(Topics().actions, key=b"s2", value=b"not JSON")
    assert producer.flush(30) == 0


def test_every_panel_shows_something_once_agents_have_run_away(tmp_path: Path) -> None:
    tool("prometheus")
    (tmp_path / "policy.yaml").write_text(yaml.safe_dump(POLICY))
    policy = ["--policy", str(tmp_path / "policy.yaml")]
    with running(tmp_path, worker=policy) as system:
        served = ["--port", "0", "--metrics-port", "0"]
        system.start("console", ["console", *served, "--database", f"sqlite:///{tmp_path}/console.db"])
        intake = system.start("intake", ["intake", "--port", "0", "--budget", "20"])
        system.start("canary", ["canary", "--every", "2s", "--within", "60s", "--metrics-port", "0"])
        run_away(system, "s1")
        assert ask(intake, "/v1/verdict", {"session_id": "s3", "action": "look_up", "args": {}}) is not None
        assert ask(intake, "/v1/events", {"kind": "model.turn", "session_id": "s3"}) is not None
        system.children.wait_until((system.table / "_delta_log").exists, "the audit has a table", within_s=WITHIN_S)
        verifier = ["audit", "verify", "--table", str(system.table), "--every", "1s", "--metrics-port", "0"]
        system.follow(system.children.start_module("verifier", "haltline.cli", verifier))
        with prometheus(tmp_path / "prometheus", list(system.addresses.values())) as metrics:
            expected = queries()
            run_away(system, "s4")  # a histogram shows what was added since

            def answered() -> bool:
                system.children.require_running()
                for where in [where for where, query in expected.items() if metrics.has(query)]:
                    del expected[where]
                return not expected

            try:
                wait_until(answered, "every panel has data", deadline_s=WITHIN_S)
            finally:
                assert not expected, f"without data: {expected}"
            groups = metrics.ask("rules")["groups"]
            assert {rule["health"] for group in groups for rule in group["rules"]} == {"ok"}
            # What is wrong here on purpose, and nothing else.
            assert metrics.alerts() <= {"HaltlineDeadLetters", "HaltlineTripSpike"}
            targets = metrics.ask("targets")["activeTargets"]
            assert {target["health"] for target in targets} == {"up"}
            assert len(targets) == len(system.addresses) == 6


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
