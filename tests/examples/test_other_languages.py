"""The programs of docs/go.md and docs/java.md, and that in JavaScript, as they stand, before a real intake."""

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.request import urlopen

import pytest

from haltline.schemas.decisions import Decision, Level
from haltline.schemas.events import ActionEvent
from haltline.streams.local.embedded_broker import EmbeddedBroker
from tests.docs.pages import ROOT
from tests.interventions.agent.stand_in import StandIn, decision
from tests.streams.running import running_system

HINT = "You have done this to asset_id=fact_sales before"
REFUSED = "the model reads: no_verdict: nobody could be asked whether this may be done, and it could do harm."
AWAY = "http://127.0.0.1:9"


def go() -> list[str] | None:
    """The command that runs a program in Go; the wheel is what `make go` installs."""
    found = shutil.which("go") or shutil.which(ROOT / ".tools/go/go/bin/go")
    return [found, "run"] if found else None


def java() -> list[str] | None:
    """The command that runs a program in Java from its source, which needs a JDK."""
    for found in filter(None, [shutil.which("java"), *map(str, Path("/usr/lib/jvm").glob("*/bin/java"))]):
        modules = subprocess.run([found, "--list-modules"], capture_output=True, text=True, check=False).stdout
        version = modules.partition("java.base@")[2].partition(".")[0].split("\n")[0]
        if "jdk.compiler@" in modules and version.isdecimal() and int(version) >= 17:
            return [found]
    return None


LANGUAGES = [
    pytest.param("go", "http_agent.go", go, "Go (make go)", id="Go"),
    pytest.param("java", "HttpAgent.java", java, "a JDK of Java 17 or newer", id="Java"),
]


def output_of(command: Callable[[], list[str] | None], needs: str, program: str, address: str) -> list[str]:
    """The lines that a program prints. Without its language the test is skipped; with CI=true that is a failure."""
    run = command()
    if run is None:
        why = f"expected {needs}, got none"
        if os.environ.get("CI") == "true":
            pytest.fail(why, pytrace=False)
        pytest.skip(why)
    environ = os.environ | {"LC_ALL": "C.UTF-8"}
    full = [*run, str(ROOT / "examples" / program), address]
    done = subprocess.run(full, capture_output=True, check=False, timeout=300, env=environ)
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


@pytest.mark.parametrize(("language", "program", "command", "needs"), LANGUAGES)
def test_an_agent_in_another_language_hears_a_hint_and_is_stopped(
    intake: str, language: str, program: str, command: Callable[[], list[str] | None], needs: str
) -> None:
    def turns() -> float:
        with urlopen(f"{intake}/metrics") as response:
            lines = response.read().decode().splitlines()
        answered = 'haltline_http_requests_total{route="/v1/turn",status="200"} '
        return sum(float(line.split()[1]) for line in lines if line.startswith(answered))

    before = turns()
    lines = output_of(command, needs, program, intake)
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


@pytest.mark.parametrize(("language", "program", "command", "needs"), LANGUAGES)
def test_without_kafka_an_intake_decides_itself(
    language: str, program: str, command: Callable[[], list[str] | None], needs: str
) -> None:
    with running_intake("--mode", "local") as address:
        lines = output_of(command, needs, program, address)
    assert (lines.count("deleted fact_sales"), lines[-1]) == (2, "stopped: session_killed_loop_guard")


@pytest.mark.parametrize(("language", "program", "command", "needs"), LANGUAGES)
def test_without_an_intake_an_agent_in_another_language_may_look_and_delete_nothing(
    language: str, program: str, command: Callable[[], list[str] | None], needs: str
) -> None:
    lines = output_of(command, needs, program, AWAY)
    assert lines == ["read fact_sales", "the model reads: 3 rows", *[REFUSED] * 5]


@pytest.mark.parametrize(("language", "program", "command", "needs"), LANGUAGES)
def test_changed_arguments_and_letters_of_any_kind_arrive_in_another_language(
    embedded: EmbeddedBroker, language: str, program: str, command: Callable[[], list[str] | None], needs: str
) -> None:
    def say(event: ActionEvent) -> Decision | Level:
        if event.action != "get_asset":
            return Level.KILL
        put = {"asset_id": 'Übersicht 名 🦊 "a\\b"', "rows": [1, {"deep": None}]}
        changes = {"arguments": put, "without_arguments": ("force",), "message": "Prüfe 🦊\tzuerst."}
        return decision(Level.NUDGE, event).model_copy(update=changes)

    with StandIn(embedded.bootstrap, say), running_intake("--bootstrap", embedded.bootstrap) as address:
        assert output_of(command, needs, program, address) == [
            'read Übersicht 名 🦊 "a\\b"',
            "the model reads: 3 rows  Prüfe 🦊\tzuerst.",
            "stopped: session_killed_loop_guard",
        ]


def test_changed_arguments_arrive_in_the_program_in_javascript(embedded: EmbeddedBroker) -> None:
    def say(event: ActionEvent) -> Decision | Level:
        if not first:
            return Level.KILL
        changes = {"arguments": first.pop(), "without_arguments": ("force",)}
        return decision(Level.NUDGE, event).model_copy(update=changes)

    first = [{"asset_id": "dim_date 名"}]
    with StandIn(embedded.bootstrap, say), running_intake("--bootstrap", embedded.bootstrap) as address:
        lines = output_of(lambda: [node] if (node := shutil.which("node")) else None, "node", "http_agent.mjs", address)
    assert lines == ["deleted dim_date 名", "stopped: session_killed_loop_guard"]
