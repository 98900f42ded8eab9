"""A real Alertmanager: what it shows of incidents as they open, get worse and end."""

import json
import os
import shutil
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.deploy.tools import free_port
from tests.streams.notify.records import change
from tests.streams.notify.test_channels import message, sender
from tests.waiting import wait_until

_NAMES = ("prometheus-alertmanager", "alertmanager")
_TEMPLATES = Path("/usr/share/prometheus/alertmanager/default.tmpl")
"""Debian's has none of its own in it."""


@pytest.fixture
def alertmanager(tmp_path: Path) -> Iterator[str]:
    """Debian's, which tells nobody."""
    found = next(filter(None, map(shutil.which, _NAMES)), None)
    if found is None or (found.endswith(_NAMES[0]) and not _TEMPLATES.exists()):
        reason = f"needs Alertmanager: Debian's prometheus-alertmanager, unpacked, and {_TEMPLATES} of it"
        if os.environ.get("CI") == "true":
            pytest.fail(f"CI=true: {reason}", pytrace=False)
        pytest.skip(reason)
    (tmp_path / "alertmanager.yml").write_text("route: {receiver: nobody}\nreceivers: [{name: nobody}]\n")
    address = f"127.0.0.1:{free_port()}"
    command = [found, f"--config.file={tmp_path / 'alertmanager.yml'}", f"--storage.path={tmp_path / 'data'}"]
    with (tmp_path / "log").open("wb") as log:
        process = subprocess.Popen(
            [*command, f"--web.listen-address={address}", "--cluster.listen-address="], stdout=log, stderr=log
        )
    try:

        def ready() -> bool:
            assert process.poll() is None, (tmp_path / "log").read_text()
            try:
                urllib.request.urlopen(f"http://{address}/-/ready", timeout=10).close()
            except OSError:
                return False
            return True

        wait_until(ready, "Alertmanager answers")
        yield f"http://{address}"
    finally:
        process.terminate()
        process.wait(30)


def active(address: str) -> dict[str, Any]:
    """The alerts that fire, by severity."""
    with urllib.request.urlopen(f"{address}/api/v2/alerts", timeout=10) as answer:
        return {alert["labels"]["severity"]: alert for alert in json.load(answer)}


def test_an_incident_is_one_alert_that_gets_worse_and_ends(alertmanager: str, tmp_path: Path) -> None:
    now_ms = time.time_ns() // 1_000_000
    times: dict[str, Any] = {"first_at": now_ms - 60_000, "last_at": now_ms, "changed_at": now_ms}
    made = sender(tmp_path, "alertmanager", alertmanager, labels={"team": "ops"})
    made.send(message(change(severity="high", **times)))
    wait_until(lambda: active(alertmanager), "the alert fires")
    made.send(message(change("escalated", 2, severity="critical", **times)))
    wait_until(lambda: active(alertmanager).keys() == {"critical"}, "it fires as critical, and no longer as high")
    labels = active(alertmanager)["critical"]["labels"]
    assert labels.items() >= {"alertname": "HaltlineIncident", "incident_id": "inc-1", "team": "ops"}.items()
    made.send(message(change("resolved", 3, severity="critical", **times)))
    wait_until(lambda: not active(alertmanager), "none fires")
    made.close()
