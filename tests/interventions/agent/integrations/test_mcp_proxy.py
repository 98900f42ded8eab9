import io

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from haltline.interventions.agent.frame.session import FrameworkSession
from haltline.interventions.agent.integrations.mcp_calls import effect_of
from haltline.interventions.agent.integrations.mcp_proxy import Proxy
from haltline.interventions.agent.testing import ScriptedGuard
from haltline.schemas.decisions import Level
from haltline.schemas.events import Effect
from tests.interventions.agent.integrations.mcp_cases import CALLS, MESSAGES
from tests.streams.commands import haltline


@pytest.mark.parametrize(
    ("name", "annotations", "expected"),
    [
        ("tidy", None, None),
        ("tidy", "no annotations", None),
        ("drop_table", {"readOnlyHint": True}, None),
        ("tidy", {"destructiveHint": True}, Effect.DESTRUCTIVE),
        ("get_it", {"destructiveHint": False}, Effect.WRITE),
        ("drop_table", {"destructiveHint": False}, Effect.DESTRUCTIVE),
        ("tidy", {"readOnlyHint": True, "destructiveHint": True}, None),
    ],
)
def test_annotations_make_a_tool_worse_only(name: str, annotations: object, expected: Effect | None) -> None:
    assert effect_of(name, annotations) is expected


ECHO = ["cat"]
OTHERS = (
    b'{"jsonrpc":"2.0",  "id":1,"method":"resources/list"}',
    b"no json at all",
    b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}',
    b'"text"',
    b"7",
    b"\xff\xfe",
)
NAMELESS = b'{"method":"tools/call"}'


def through_echo(guard: ScriptedGuard, sent: bytes) -> list[bytes]:
    """The lines that a client reads whose server repeats what it gets."""
    out = io.BytesIO()
    assert Proxy(FrameworkSession(guard)).run(ECHO, io.BytesIO(sent), out) == 0
    return out.getvalue().splitlines()


def test_what_is_no_call_of_a_tool_goes_through_byte_for_byte() -> None:
    lines = through_echo(ScriptedGuard(), b"\n".join([*OTHERS, NAMELESS]) + b"\n")
    assert NAMELESS in lines, "it waits for its verdict beside the others, at no fixed place"
    assert [line for line in lines if line != NAMELESS] == list(OTHERS)


def test_a_refused_call_of_any_shape_does_not_reach_the_server() -> None:
    lines = through_echo(ScriptedGuard(*[Level.BLOCK] * 20), b"\n".join(CALLS.values()))
    assert not [line for line in lines if b"tools" in line]
    answers = [answer for line in lines for answer in [orjson.loads(line)]]
    errors = [answer for answer in answers if isinstance(answer, dict) and "error" in answer]
    assert len(errors) == 2, "nested without end, and cut off"
    assert len(answers) >= len(CALLS) - 1, "all but the one without an id are answered"


LINES = st.lists(st.binary(max_size=30).map(lambda line: line.replace(b"\n", b"")) | MESSAGES, max_size=30)


@given(LINES)
@settings(max_examples=8, deadline=None)
def test_lines_of_any_shape_in_both_directions_lose_no_line(lines: list[bytes]) -> None:
    result = through_echo(ScriptedGuard(), b"\n".join([*lines, b"last"]))
    assert b"last" in result
    assert len(result) >= len([line for line in lines if line.strip() not in {b"", b"[]"}])


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--", "/no/such/server"], "/no/such/server"),
        ([], "expected the command of a server after --, or --url; got none"),
        (["--url", "http://a/mcp", "--", "server"], "or --url; got both"),
        (["--url", "ftp://a/mcp"], "--url: expected http://HOST... or https://HOST..., got 'ftp://a/mcp'"),
        (["--url", "http://a/", "--header-file", "/no/such"], "No such file"),
        (["--url", "http://a/", "--header-file", __file__], ":1: expected `name:value`, got a line without"),
    ],
)
def test_a_command_without_a_server_says_so(
    arguments: list[str], expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HALTLINE_CLOSE_BUDGET_S", "0")
    done = haltline("mcp-proxy", "--bootstrap", "127.0.0.1:9", *arguments)
    assert (done.exit_code, done.stdout, expected in done.stderr) == (2, "", True), done.stderr
