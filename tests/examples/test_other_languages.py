import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest

from haltline.schemas.decisions import Decision, Level
from haltline.schemas.events import ActionEvent
from haltline.schemas.topics import Topics
from tests.docs.pages import ROOT
from tests.interventions.agent.stand_in import StandIn, decision, third_delete_kills
from tests.mock_cluster import QuickBroker

pytestmark = pytest.mark.wide
REFUSED = "the model reads: no_verdict: nobody could be asked whether this may be done, and it could do harm."
AWAY = "http://127.0.0.1:9"


def go(source: Path, folder: Path) -> list[str] | None:
    """The command of a program in Go, which it builds; the wheel is what `make go` installs."""
    found = shutil.which("go") or shutil.which(ROOT / ".tools/go/go/bin/go")
    if found is None:
        return None
    built([found, "build", "-o", str(folder / "agent"), str(source)])
    return [str(folder / "agent")]


def java(source: Path, folder: Path) -> list[str] | None:
    """The command of a program in Java, which it compiles; that needs a JDK."""
    for found in filter(None, [shutil.which("java"), *map(str, Path("/usr/lib/jvm").glob("*/bin/java"))]):
        modules = subprocess.run([found, "--list-modules"], capture_output=True, text=True, check=False).stdout
        version = modules.partition("java.base@")[2].partition(".")[0].split("\n")[0]
        if "jdk.compiler@" in modules and version.isdecimal() and int(version) >= 17:
            compiler = [found, "-m", "jdk.compiler/com.sun.tools.javac.Main", "-encoding", "UTF-8"]
            built([*compiler, "-d", str(folder), str(source)])
            return [found, "-cp", str(folder), source.stem]
    return None


def built(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr


LANGUAGES = {
    "Go": ("http_agent.go", go, "Go (make go)"),
    "Java": ("HttpAgent.java", java, "a JDK of Java 17 or newer"),
}


@pytest.fixture(scope="module", params=LANGUAGES)
def agent(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The command of the program in a language, built once. Without the language the test is skipped; with CI=true
    that is a failure."""
    program, command, needs = LANGUAGES[request.param]
    run = command(ROOT / "examples" / program, tmp_path_factory.mktemp("built"))
    if run is None:
        why = f"expected {needs}, got none"
        if os.environ.get("CI") == "true":
            pytest.fail(why, pytrace=False)
        pytest.skip(why)
    return run


def output_of(agent: list[str], address: str) -> list[str]:
    """The lines that a program prints."""
    environ = os.environ | {"LC_ALL": "C.UTF-8"}
    done = subprocess.run([*agent, address], capture_output=True, check=False, timeout=300, env=environ)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout.decode().splitlines()


SAYS: list[Callable[[ActionEvent], Decision | Level]] = []
"""What the worker of the fixture says, the last of them."""


def said(event: ActionEvent) -> Decision | Level:
    return SAYS[-1](event)


@pytest.fixture(scope="module")
def intake() -> Iterator[str]:
    """The address of an intake before a worker that says what a test wants."""
    with QuickBroker() as broker:
        broker.ensure_topics(Topics())
        command = [sys.executable, "-m", "haltline.cli", "intake", "--bootstrap", broker.bootstrap, "--port", "0"]
        with (
            StandIn(broker.bootstrap, said),
            subprocess.Popen([*command, "--budget", "20"], stdout=subprocess.PIPE, text=True) as process,
        ):
            assert process.stdout is not None
            yield process.stdout.readline().strip()
            process.send_signal(signal.SIGTERM)


def changed(event: ActionEvent, arguments: dict[str, Any], **more: Any) -> Decision:
    changes = {"arguments": arguments, "without_arguments": ("force",), **more}
    return decision(Level.NUDGE, event).model_copy(update=changes)


def test_an_agent_in_another_language_gets_hints_and_arguments_and_is_stopped(intake: str, agent: list[str]) -> None:
    name = 'Übersicht 名 🦊 "a\\b"'
    deletes = third_delete_kills()

    def turns() -> float:
        with urlopen(f"{intake}/metrics") as response:
            lines = response.read().decode().splitlines()
        answered = 'haltline_http_requests_total{route="/v1/turn",status="200"} '
        return sum(float(line.split()[1]) for line in lines if line.startswith(answered))

    def say(event: ActionEvent) -> Decision | Level:
        if event.action == "get_asset":
            return changed(event, {"asset_id": name, "rows": [1, {"deep": None}]}, message="Prüfe 🦊\tzuerst.")
        level = deletes(event)
        return decision(Level.NUDGE, event) if level is Level.ALLOW else Level.KILL

    SAYS.append(say)
    before = turns()
    assert output_of(agent, intake) == [
        f"read {name}",
        "the model reads: 3 rows  Prüfe 🦊\tzuerst.",
        *["deleted fact_sales", "the model reads: fact_sales still exists  NUDGE: for the model"] * 2,
        "stopped: session_killed_loop_guard",
    ]
    assert turns() - before == 4, "each turn of the model is reported"


def test_without_an_intake_an_agent_in_another_language_may_look_and_delete_nothing(agent: list[str]) -> None:
    assert output_of(agent, AWAY) == ["read fact_sales", "the model reads: 3 rows", *[REFUSED] * 5]
