import os
import shutil
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
from tests.programs import ended, intake, missing, printed

pytestmark = pytest.mark.wide
REFUSED = "the model reads: nobody could be asked whether this may be done, and it could do harm."
AWAY = "http://127.0.0.1:9"


def go(source: Path, folder: Path) -> list[str] | None:
    found = shutil.which("go") or shutil.which(ROOT / ".tools/go/go/bin/go")
    if found is None:
        return None
    printed(found, "build", "-o", folder / "agent", source)
    return [str(folder / "agent")]


def java(source: Path, folder: Path) -> list[str] | None:
    """The command of a program in Java, which it compiles; that needs a JDK."""
    for found in filter(None, [shutil.which("java"), *map(str, Path("/usr/lib/jvm").glob("*/bin/java"))]):
        modules = ended(found, "--list-modules").stdout
        version = modules.partition("java.base@")[2].partition(".")[0].split("\n")[0]
        if "jdk.compiler@" in modules and version.isdecimal() and int(version) >= 17:
            compiler = [found, "-m", "jdk.compiler/com.sun.tools.javac.Main", "-encoding", "UTF-8"]
            printed(*compiler, "-d", folder, source)
            return [found, "-cp", str(folder), source.stem]
    return None


LANGUAGES = {"Go": ("http_agent.go", go, "Go (make go)"), "Java": ("HttpAgent.java", java, "a JDK of Java 17 or newer")}


@pytest.fixture(scope="module", params=LANGUAGES)
def agent(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    program, command, needs = LANGUAGES[request.param]
    run = command(ROOT / "examples" / program, tmp_path_factory.mktemp("built"))
    return run or missing(f"expected {needs}, got none")


def output_of(agent: list[str], address: str) -> list[str]:
    return printed(*agent, address, encoding="utf-8", env=os.environ | {"LC_ALL": "C.UTF-8"}).splitlines()


SAYS: list[Callable[[ActionEvent], Decision | Level]] = []
"""The last decision of the fixture's worker."""


def said(event: ActionEvent) -> Decision | Level:
    return SAYS[-1](event)


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """The address of an intake before a worker that says what a test wants."""
    with QuickBroker() as broker:
        broker.ensure_topics(Topics())
        with StandIn(broker.bootstrap, said), intake("--bootstrap", broker.bootstrap) as address:
            yield address


def changed(event: ActionEvent, arguments: dict[str, Any], **more: Any) -> Decision:
    changes = {"arguments": arguments, "without_arguments": ("force",), **more}
    return decision(Level.NUDGE, event).model_copy(update=changes)


def test_an_agent_in_another_language_gets_hints_and_arguments_and_is_stopped(address: str, agent: list[str]) -> None:
    name = 'Übersicht 名 🦊 "a\\b"'
    deletes = third_delete_kills()

    def turns() -> float:
        with urlopen(f"{address}/metrics") as response:
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
    assert output_of(agent, address) == [
        f"read {name}",
        "the model reads: 3 rows  Prüfe 🦊\tzuerst.",
        *["deleted fact_sales", "the model reads: fact_sales still exists  NUDGE: for the model"] * 2,
        "stopped: session_killed_loop_guard",
    ]
    assert turns() - before == 4, "each turn of the model is reported"


def test_without_an_intake_an_agent_in_another_language_may_look_and_delete_nothing(agent: list[str]) -> None:
    assert output_of(agent, AWAY) == ["read fact_sales", "the model reads: 3 rows", *[REFUSED] * 5]
