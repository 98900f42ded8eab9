"""The official SDK's client on one side of the proxy, and its server on the other."""

import asyncio
import io
import os
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mcp import ClientSession, StdioServerParameters, stdio_client

from haltline.cli.agent import mcp_proxy as command
from haltline.interventions.agent.integrations.mcp_calls import Tool, effect_of, loop_key_of
from haltline.interventions.agent.integrations.mcp_proxy import Proxy
from haltline.interventions.agent.testing import ScriptedGuard
from haltline.schemas.decisions import Level
from haltline.schemas.events import Effect, Kind
from haltline.streams.local.embedded_broker import EmbeddedBroker
from tests.interventions.agent.integrations.mcp_cases import ENDS, MESSAGES, REACHED, say, six_calls
from tests.interventions.agent.stand_in import StandIn
from tests.waiting import wait_until

SERVER = Path(__file__).with_name("mcp_server.py")


def through_the_proxy(
    bootstrap: str, reached: Path, talk: Callable[[ClientSession], Awaitable[Any]], **environment: str
) -> Any:
    """What a client says to the server through `haltline mcp-proxy`."""
    arguments = ["-m", "haltline.cli", "mcp-proxy", "--bootstrap", bootstrap, "--session", "s1", "--name", "files"]
    parameters = StdioServerParameters(
        command=sys.executable,
        args=[*arguments, "--", sys.executable, str(SERVER), str(reached)],
        env={**os.environ, "HALTLINE_BUDGET_S": "20", "HALTLINE_START_BUDGET_S": "20", **environment},
    )

    async def connect() -> Any:
        async with stdio_client(parameters) as (read, write), ClientSession(read, write) as session:
            await session.initialize()
            return await talk(session)

    return asyncio.run(connect())


def test_calls_go_through_and_refused_ones_are_errors_that_the_model_reads(
    embedded: EmbeddedBroker, tmp_path: Path
) -> None:
    reached = tmp_path / "reached"

    async def talk(session: ClientSession) -> None:
        tools = await session.list_tools()
        assert sorted(tool.name for tool in tools.tools) == ["fail", "read_file", "tidy"]
        await six_calls(session)

    with StandIn(embedded.bootstrap, say) as worker:
        through_the_proxy(embedded.bootstrap, reached, talk)
        assert reached.read_text(encoding="utf-8").splitlines() == REACHED
        wait_until(lambda: worker.of(Kind.SESSION_ENDED), "the session has ended with the connection")
        ends = [(e.action.removeprefix("mcp__files__"), e.outcome) for e in worker.of(Kind.COMPLETED)]
        assert ends == ENDS
        assert {e.action: e.effect for e in worker.of(Kind.PROPOSED)} == {
            "mcp__files__read_file": None,
            "mcp__files__tidy": Effect.DESTRUCTIVE,
            "mcp__files__fail": None,
        }


def test_with_the_broker_away_a_destructive_tool_is_refused_and_others_go_on(tmp_path: Path) -> None:
    async def talk(session: ClientSession) -> list[bool]:
        await session.list_tools()
        return [bool((await session.call_tool(name, {"path": "a"})).is_error) for name in ("read_file", "tidy")]

    refused = through_the_proxy(
        "127.0.0.1:9", tmp_path / "reached", talk,
        HALTLINE_BUDGET_S="0.05", HALTLINE_START_BUDGET_S="0.05", HALTLINE_CLOSE_BUDGET_S="0",
    )  # fmt: skip
    assert refused == [False, True]


@pytest.mark.parametrize(
    ("name", "annotations", "expected"),
    [
        ("tidy", None, None),
        ("tidy", "no annotations", None),
        ("tidy", {}, None),
        ("tidy", {"readOnlyHint": True}, None),
        ("drop_table", {"readOnlyHint": True}, None),
        ("tidy", {"destructiveHint": True}, Effect.DESTRUCTIVE),
        ("get_it", {"destructiveHint": False}, Effect.WRITE),
        ("drop_table", {"destructiveHint": False}, Effect.DESTRUCTIVE),
        ("tidy", {"readOnlyHint": True, "destructiveHint": True}, None),
    ],
)
def test_annotations_make_a_tool_worse_than_its_name_and_never_better(
    name: str, annotations: object, expected: Effect | None
) -> None:
    assert effect_of(name, annotations) is expected


@pytest.mark.parametrize(
    ("declared", "of_the_call", "expected"),
    [
        pytest.param(None, None, None, id="nothing is said"),
        pytest.param("any", None, "any", id="a text of the tool"),
        pytest.param(["order", "shop"], None, '{"order":7}', id="arguments of the tool"),
        pytest.param([], None, "{}", id="none of the arguments"),
        pytest.param("any", "this one", "this one", id="the call's own comes first"),
        pytest.param(7, {"a": 1}, None, id="neither a text nor names"),
    ],
)
def test_what_a_repetition_is(declared: object, of_the_call: object, expected: str | None) -> None:
    meta = {} if of_the_call is None else {"_meta": {"loopKey": of_the_call}}
    message = {"method": "tools/call", "params": {"name": "look_up", "arguments": {"order": 7}, **meta}}
    assert loop_key_of(message, Tool(loop_key=declared), {"order": 7, "note": "x"}) == expected


ECHO = ["cat"]


@pytest.mark.parametrize(
    "line",
    [
        b'{"jsonrpc":"2.0",  "id":1,"method":"resources/list"}',
        b"no json at all",
        b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}',
        b'{"method":"tools/call"}',
        b'"text"',
        b"7",
        b"\xff\xfe",
    ],
)
def test_what_is_no_call_of_a_tool_goes_through_byte_for_byte(line: bytes) -> None:
    out = io.BytesIO()
    assert Proxy(ScriptedGuard()).run(ECHO, io.BytesIO(line + b"\n"), out) == 0
    assert out.getvalue() == line + b"\n"


def test_the_calls_of_a_batch_are_guarded_too() -> None:
    guard, out = ScriptedGuard(Level.BLOCK), io.BytesIO()
    batch = [{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "rm"}}, {"id": 2, "method": "ping"}]
    Proxy(guard).run(ECHO, io.BytesIO(orjson.dumps(batch)), out)
    result = {line["id"]: line for line in map(orjson.loads, out.getvalue().splitlines())}
    assert (result[1]["result"]["isError"], result[2]["method"]) == (True, "ping")


@pytest.mark.parametrize(
    ("line", "answered"),
    [
        pytest.param(b'{"id":1,"method":"tools/call","params":{"arguments":{"x":NaN}}}', "result", id="not a number"),
        pytest.param(
            b'{"id":1,"method":"tools/call","params":{"name":"\\ud800"}}', "result", id="half a surrogate pair"
        ),
        pytest.param(b'{"method":"tools/call","params":{"name":"rm"}}', None, id="without an id"),
        pytest.param(b'{"id":1,"method":"tools/call","x":' + b"[" * 9999 + b"]" * 9999 + b"}", "error", id="too deep"),
        pytest.param(b'{"id":1,"method":"tools/call"', "error", id="cut off"),
    ],
)
def test_a_refused_call_that_only_some_can_read_does_not_reach_the_server(line: bytes, answered: str | None) -> None:
    guard, out = ScriptedGuard(Level.BLOCK), io.BytesIO()
    Proxy(guard).run(ECHO, io.BytesIO(line), out)
    assert b"tools/call" not in out.getvalue()
    assert [answered in orjson.loads(result) for result in out.getvalue().splitlines()] == [True] * (
        answered is not None
    )


LINES = st.lists(st.binary(max_size=30).map(lambda line: line.replace(b"\n", b"")) | MESSAGES, max_size=30)


@given(LINES)
@settings(max_examples=8, deadline=None)
def test_lines_of_any_shape_in_both_directions_lose_no_line(lines: list[bytes]) -> None:
    guard, out = ScriptedGuard(), io.BytesIO()
    assert Proxy(guard).run(ECHO, io.BytesIO(b"\n".join([*lines, b"last"])), out) == 0
    result = out.getvalue().splitlines()
    assert b"last" in result
    assert len(result) >= len([line for line in lines if line.strip() not in {b"", b"[]"}])


@pytest.mark.parametrize("params", [None, [], {"name": 7, "arguments": "text"}, {}])
def test_a_call_of_any_shape_is_checked(params: object) -> None:
    guard, out = ScriptedGuard(Level.BLOCK), io.BytesIO()
    call = {"jsonrpc": "2.0", "id": "x", "method": "tools/call", "params": params}
    Proxy(guard).run(ECHO, io.BytesIO(orjson.dumps(call)), out)
    assert orjson.loads(out.getvalue())["result"]["isError"] is True


def test_a_server_that_does_not_start_is_reported(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HALTLINE_CLOSE_BUDGET_S", "0")
    assert command.main(["--bootstrap", "127.0.0.1:9", "--", "/no/such/server"]) == 2
    out, err = capsys.readouterr()
    assert (out, "/no/such/server" in err) == ("", True)
