import contextlib
import io
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from haltline.interventions.agent.frame.session import Allowed
from haltline.interventions.agent.integrations.claude_code.messages import Turn
from haltline.interventions.agent.service.client import ServiceSession
from haltline.interventions.agent.watch.lines import Lines
from haltline.interventions.agent.watch.watching import Watch as Watching
from haltline.schemas.control import Stage
from haltline.schemas.decisions import Level
from haltline.schemas.events import Kind, Outcome, Usage
from haltline.streams.local.embedded_broker import EmbeddedBroker
from tests.interventions.agent.stand_in import StandIn, decision, standing
from tests.programs import ended
from tests.streams.commands import haltline
from tests.waiting import wait_until

Watch = Callable[..., "subprocess.Popen[str]"]
FAMILY = ("agent", "stubborn", "daemon")


def alive(pid: int) -> bool:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace")
    except OSError:
        return False
    return stat[stat.rindex(")") + 2] not in "ZX"


def family(folder: Path) -> dict[str, int]:
    """Who of the agent's family has written its id."""
    written = {name: (folder / name).read_text() for name in FAMILY if (folder / name).exists()}
    return {name: int(text) for name, text in written.items() if text}


@pytest.fixture
def watch(embedded: EmbeddedBroker, tmp_path: Path) -> Iterator[Watch]:
    """Runs `haltline watch` with the agent; whoever is left is ended with the test."""
    started: list[subprocess.Popen[str]] = []

    def run(how: str, form: str = "claude", *options: str) -> "subprocess.Popen[str]":
        agent = [sys.executable, "-m", "tests.interventions.agent.watch.line_agent", str(tmp_path), how, form]
        command = [sys.executable, "-m", "haltline.cli", "watch", "--bootstrap", embedded.bootstrap]
        command += ["--session", "s1", "--grace", "0.3", *options, "--", *agent]
        started.append(subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True))
        return started[-1]

    yield run
    for process in started:
        process.kill()
        process.communicate()
    for pid in family(tmp_path).values():
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


@pytest.mark.parametrize("form", ["claude", "plain"])
def test_an_agent_that_ends_is_reported_with_its_exit_code(embedded: EmbeddedBroker, watch: Watch, form: str) -> None:
    with StandIn(embedded.bootstrap) as worker:
        process = watch("short", form)
        out, _ = process.communicate(timeout=60)
        assert process.returncode == 7
        assert out.splitlines()[0] == "a line that is no JSON"
        wait_until(lambda: worker.of(Kind.SESSION_ENDED, "s1"), "the session has ended")
        whose = "s1/t0" if form == "claude" else "s1"
        wait_until(lambda: len(worker.of(Kind.COMPLETED)) == 3, "every call has ended")
        ends = {(e.call_id, e.session_id, e.action, e.outcome) for e in worker.of(Kind.COMPLETED)}
        assert ends == {
            ("t0", "s1", "Bash", Outcome.OK),
            ("t1", whose, "Read", Outcome.OK),
            ("agent_process", "s1", "agent_process", Outcome.ERROR),
        }
        assert {e.parent_session_id for e in worker.of(Kind.PROPOSED, "s1/t0")} <= {"s1"}
        turns = [e.usage for e in worker.of(Kind.MODEL_TURN, "s1")]
        cost = Usage(cost_usd=0.25)
        assert turns == ([Usage(input_tokens=3, output_tokens=1), cost] if form == "claude" else [cost])


def test_a_kill_ends_the_whole_family_and_says_so(embedded: EmbeddedBroker, watch: Watch, tmp_path: Path) -> None:
    with StandIn(embedded.bootstrap) as worker:
        process = watch("endless")
        wait_until(lambda: len(family(tmp_path)) == len(FAMILY), "the whole family runs")
        wait_until(lambda: worker.of(Kind.PROPOSED, "s1/t0"), "the subagent is known")
        assert all(map(alive, family(tmp_path).values()))
        worker.send(decision(Level.KILL))
        wait_until(lambda: Stage.APPLIED in worker.stages("s1"), "the kill has arrived")
        (applied,) = [f for f in worker.feedback if f.stage is Stage.APPLIED and f.session_id == "s1"]
        assert "agent_process" in applied.detail, "it still runs"
        _, err = process.communicate(timeout=60)
        assert process.returncode == 90, err
        assert "KILL: for the model" in err
        assert not any(map(alive, family(tmp_path).values()))
        wait_until(lambda: Stage.STOPPED in worker.stages("s1"), "it is acknowledged")
        (children,) = [f.children for f in worker.feedback if f.stage is Stage.CHILDREN]
        assert children == ["s1/t0"]


def test_a_hint_is_reported_a_block_ends_the_agent_and_one_whose_session_is_killed_is_not_started(
    embedded: EmbeddedBroker, watch: Watch, tmp_path: Path
) -> None:
    with StandIn(embedded.bootstrap) as worker:
        process = watch("endless", "claude", "--grace", "2")
        wait_until(lambda: worker.of(Kind.PROPOSED, "s1"), "it runs")
        worker.send(decision(Level.NUDGE))
        wait_until(lambda: Stage.APPLIED in worker.stages("s1"), "it was heard")
        worker.feedback.clear()
        worker.send(decision(Level.BLOCK))  # which can only be obeyed by ending the agent
        wait_until(lambda: Stage.APPLIED in worker.stages("s1"), "the refusal has arrived")
        _, err = process.communicate(timeout=60)
        assert (process.returncode, "BLOCK: for the model" in err) == (90, True)
        assert "haltline: watch: hint: NUDGE: for the model" in err
        worker.control(standing(scope_id="s1"))
        before, again = family(tmp_path), watch("endless")
        again.communicate(timeout=60)
        assert (again.returncode, family(tmp_path)) == (90, before), "it is not started"


def test_an_asked_end_takes_the_whole_family_along(embedded: EmbeddedBroker, watch: Watch, tmp_path: Path) -> None:
    process = watch("endless")
    wait_until(lambda: len(family(tmp_path)) == len(FAMILY), "the whole family runs")
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=60)
    assert process.returncode == 128 + signal.SIGKILL  # the agent ignores SIGTERM
    assert not any(map(alive, family(tmp_path).values()))


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--bootstrap", "x:1"], "expected a command after --, or --all; got none"),
        (["--bootstrap", "127.0.0.1:9", "--", "/no/such/program"], "No such file"),
    ],
)
def test_a_wrong_command_says_so(arguments: list[str], expected: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("HALTLINE_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HALTLINE_START_BUDGET_S", "0")
    monkeypatch.setenv("HALTLINE_CLOSE_BUDGET_S", "0")
    monkeypatch.setattr(signal, "signal", lambda *_: None)  # the command's handlers are not those of the tests
    done = haltline("watch", *arguments)
    assert (done.exit_code, expected in done.stderr) == (2, True), done.stderr


def test_without_a_service_the_agent_goes_on() -> None:
    def nowhere(_: object) -> Any:
        raise ConnectionRefusedError("nobody serves")

    line = b'{"type": "tool_call", "id": "1", "name": "delete_asset", "args": {}}\n'
    out = io.BytesIO()
    found = Watching(nowhere, {"session_id": "s1"}, out=out).run(["echo", line.decode().strip()])
    assert (found.code, found.refused, out.getvalue()) == (0, None, line)


def test_without_a_broker_a_loop_is_stopped_here(tmp_path: Path) -> None:
    call = {"type": "tool_call", "name": "delete_asset", "args": {"asset_id": "fact_sales"}}
    result = {"type": "tool_result", "output": "fact_sales still exists"}
    lines = [json.dumps(one | {"id": str(number)}) for number in range(9) for one in (call, result)]
    loop = tmp_path / "loop.py"
    loop.write_text(
        f"import time\nfor line in {lines!r}:\n    print(line, flush=True)\n    time.sleep(0.05)\ntime.sleep(600)\n"
    )
    environ = {name: value for name, value in os.environ.items() if name != "HALTLINE_BOOTSTRAP"}
    command = [sys.executable, "-m", "haltline.cli", "watch", "--grace", "0.3", "--", sys.executable, str(loop)]
    done = ended(*command, env=environ | {"HOME": str(tmp_path)})
    assert (done.returncode, "haltline stopped this session at " in done.stderr) == (90, True), done.stderr


def test_the_lines_of_codex_are_read() -> None:
    command = {"id": "i1", "type": "command_execution", "command": "ls", "status": "in_progress"}
    used = {"input_tokens": 9, "cached_input_tokens": 4, "output_tokens": 2}
    lines: list[dict[str, Any]] = [
        {"type": "thread.started", "thread_id": "x"},
        {"type": "item.started", "item": command},
        {"type": "item.completed", "item": command | {"aggregated_output": "no", "exit_code": 2}},
        {"type": "item.completed", "item": {"id": "i2", "type": "agent_message", "text": "done"}},
        {"type": "turn.completed", "usage": used},
    ]
    reader = Lines()
    call, result, turn = (one for line in lines for _, one in reader.read(line))
    assert (call.call_id, call.name, call.args) == ("i1", "shell", {"command": "ls"})  # type: ignore[union-attr]
    assert (result.content, result.is_error) == ("no", True)  # type: ignore[union-attr]
    assert turn == Turn(Usage(input_tokens=5, output_tokens=2, cache_read_tokens=4))


def test_a_line_with_half_a_surrogate_pair_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    reported: list[object] = []

    def before(_: ServiceSession, call_id: str, name: str, args: dict[str, Any]) -> Allowed:
        reported.append((call_id, name, args))
        return Allowed(call_id, args)

    monkeypatch.setattr(ServiceSession, "before", before)
    monkeypatch.setattr(ServiceSession, "after", lambda *args, error: reported.append((args[1], error)))
    used = {"type": "tool_use", "id": "t1", "name": "Bash", "input": {"command": "rm # \ud83d"}}
    actual = {"type": "tool_result", "tool_use_id": "t1", "is_error": True, "content": [{"text": "\ud83d"}]}
    lines = [{"type": "assistant", "message": {"content": [used]}}, {"type": "user", "message": {"content": [actual]}}]
    watch = Watching(lambda _: mock.Mock(), {"session_id": "s1"}, out=io.BytesIO())
    watch._read(io.BytesIO("\n".join(map(json.dumps, lines)).encode()))
    assert reported == [("t1", "Bash", used["input"]), ("t1", "\ud83d")]
