import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest

from haltline.schemas.decisions import Decision, Level
from haltline.schemas.events import ActionEvent
from haltline.schemas.topics import Topics
from tests.docs.pages import ROOT
from tests.interventions.agent.stand_in import StandIn, decision
from tests.mock_cluster import QuickBroker
from tests.streams.running import running_system

HINT = "You have done this to asset_id=fact_sales before"
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


@contextmanager
def running_intake(*options: str) -> Iterator[str]:
    """The address of an intake, until the end of the block."""
    command = [sys.executable, "-m", "haltline.cli", "intake", *options, "--port", "0"]
    with subprocess.Popen([*command, "--budget", "20"], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield process.stdout.readline().strip()
        finally:
            process.send_signal(signal.SIGTERM)


@pytest.fixture(scope="module")
def intake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of an intake before a broker with a worker."""
    with (
        running_system(tmp_path_factory.mktemp("logs")) as bootstrap,
        running_intake("--bootstrap", bootstrap) as address,
    ):
        yield address


@pytest.fixture(scope="module")
def deciding() -> Iterator[str]:
    """The address of an intake that decides itself."""
    with running_intake("--mode", "local") as address:
        yield address


SAYS: list[Callable[[ActionEvent], Decision | Level]] = []
"""What the worker of the fixture says, the last of them."""


def said(event: ActionEvent) -> Decision | Level:
    return SAYS[-1](event)


@pytest.fixture(scope="module")
def scripted() -> Iterator[str]:
    """The address of an intake before a worker that says what a test wants."""
    with QuickBroker() as broker:
        broker.ensure_topics(Topics())
        with StandIn(broker.bootstrap, said), running_intake("--bootstrap", broker.bootstrap) as address:
            yield address


def changed(event: ActionEvent, arguments: dict[str, Any], **more: Any) -> Decision:
    changes = {"arguments": arguments, "without_arguments": ("force",), **more}
    return decision(Level.NUDGE, event).model_copy(update=changes)


def test_an_agent_in_another_language_hears_a_hint_and_is_stopped(intake: str, agent: list[str]) -> None:
    def turns() -> float:
        with urlopen(f"{intake}/metrics") as response:
            lines = response.read().decode().splitlines()
        answered = 'haltline_http_requests_total{route="/v1/turn",status="200"} '
        return sum(float(line.split()[1]) for line in lines if line.startswith(answered))

    before = turns()
    lines = output_of(agent, intake)
    hint = lines.pop(5)
    assert hint.startswith("the model reads: fact_sales still exists  ")
    assert HINT in hint
    assert lines == [
        "read fact_sales",
        "the model reads: 3 rows",
        "deleted fact_sales",
        "the model reads: fact_sales still exists",
        "deleted fact_sales",
        "stopped: session_killed_loop_guard",
    ]
    assert turns() - before == 4, "each turn of the model is reported"


def test_without_kafka_an_intake_decides_itself(deciding: str, agent: list[str]) -> None:
    lines = output_of(agent, deciding)
    assert (lines.count("deleted fact_sales"), lines[-1]) == (2, "stopped: session_killed_loop_guard")


def test_without_an_intake_an_agent_in_another_language_may_look_and_delete_nothing(agent: list[str]) -> None:
    assert output_of(agent, AWAY) == ["read fact_sales", "the model reads: 3 rows", *[REFUSED] * 5]


def test_changed_arguments_and_letters_of_any_kind_arrive_in_another_language(scripted: str, agent: list[str]) -> None:
    def say(event: ActionEvent) -> Decision | Level:
        if event.action != "get_asset":
            return Level.KILL
        put = {"asset_id": 'Übersicht 名 🦊 "a\\b"', "rows": [1, {"deep": None}]}
        return changed(event, put, message="Prüfe 🦊\tzuerst.")

    SAYS.append(say)
    assert output_of(agent, scripted) == [
        'read Übersicht 名 🦊 "a\\b"',
        "the model reads: 3 rows  Prüfe 🦊\tzuerst.",
        "stopped: session_killed_loop_guard",
    ]


def test_changed_arguments_arrive_in_the_program_in_javascript(scripted: str) -> None:
    node = shutil.which("node")
    if node is None:
        pytest.skip("expected node, got none")
    put = [{"asset_id": "dim_date 名"}]
    SAYS.append(lambda event: changed(event, put.pop()) if put else Level.KILL)
    lines = output_of([node, str(ROOT / "examples/http_agent.mjs")], scripted)
    assert lines == ["deleted dim_date 名", "stopped: session_killed_loop_guard"]
