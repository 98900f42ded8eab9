import asyncio
import contextlib
import gzip
import os
import signal
import socket
import sys
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import orjson
import pytest
import uvicorn
from aiohttp import ClientSession as Http
from aiohttp import web
from aiohttp.test_utils import TestServer
from mcp.client import Client
from yarl import URL

from haltline.interventions.agent.frame.session import FrameworkSession
from haltline.interventions.agent.guard import Guard
from haltline.interventions.agent.integrations.mcp_calls import Calls, Tools
from haltline.interventions.agent.integrations.mcp_http import HttpProxy
from haltline.interventions.agent.settings import GuardSettings
from haltline.interventions.agent.testing import ScriptedGuard, decision
from haltline.schemas.decisions import Decision, Level
from haltline.schemas.events import ActionEvent, Effect, Kind, Outcome
from haltline.streams.local.embedded_broker import EmbeddedBroker
from tests.builders import cases, some
from tests.interventions.agent.integrations.mcp_cases import CALL, CALLS, heard, say
from tests.interventions.agent.integrations.mcp_server import server_of as files_server
from tests.interventions.agent.stand_in import StandIn, third_delete_kills
from tests.waiting import wait_until


@contextlib.asynccontextmanager
async def serving(app: Any) -> AsyncIterator[str]:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        server = uvicorn.Server(uvicorn.Config(app, log_level="error", lifespan="on", timeout_graceful_shutdown=0))
        serving = asyncio.create_task(server.serve([listening]))
        try:
            yield f"http://127.0.0.1:{listening.getsockname()[1]}/mcp"
        finally:
            server.should_exit = True
            await serving


class Guards:
    def __init__(self, verdict: Callable[[ActionEvent], Decision | Level] = say) -> None:
        self.made: list[ScriptedGuard] = []
        self._verdict = verdict

    def __call__(self, settings: GuardSettings) -> Guard:
        self.made.append(ScriptedGuard(*[self._verdict] * 100, settings=settings))
        return self.made[-1]

    @property
    def events(self) -> list[ActionEvent]:
        return [event for guard in self.made for event in guard.events]

    def ends(self) -> list[tuple[str, Outcome | None]]:
        return [(e.action.removeprefix("mcp__files__"), e.outcome) for e in self.events if e.kind is Kind.COMPLETED]


ENVIRONMENT = {**os.environ, "HALTLINE_BUDGET_S": "20", "HALTLINE_START_BUDGET_S": "20"}
SETTINGS = GuardSettings(session_id="own", bootstrap="scripted", mode="blocking", budget_s=20.0)


@contextlib.asynccontextmanager
async def behind(url: str, guards: Guards, **options: Any) -> AsyncIterator[str]:
    def session_of(session_id: str | None) -> FrameworkSession:
        return FrameworkSession(guards(SETTINGS if session_id is None else SETTINGS.changed(session_id=session_id)))

    proxy = HttpProxy(session_of, url, prefix="mcp__files__", **options)
    async with TestServer(proxy.app(), handler_cancellation=True) as server:
        yield str(server.make_url("/mcp"))


WAYS = [
    pytest.param("legacy", {}, id="sessions, and streams of events"),
    pytest.param("legacy", {"json_response": True}, id="sessions, and JSON"),
    pytest.param("legacy", {"stateless_http": True}, id="no sessions, and streams"),
    pytest.param("2026-07-28", {}, id="the protocol without sessions"),
]


@pytest.mark.parametrize(("mode", "how"), WAYS)
def test_calls_go_through_and_refused_ones_are_errors_for_the_model(mode: str, how: dict[str, Any]) -> None:
    guards, reached = Guards(), list[str]()

    async def run() -> None:
        app = files_server(reached.append).streamable_http_app(**how)
        async with serving(app) as url, behind(url, guards) as address, Client(address, mode=mode) as client:
            tools = await client.list_tools()
            assert sorted(tool.name for tool in tools.tools) == ["fail", "read_file", "tidy"]
            made = (("read_file", "a"), ("tidy", "/"), ("fail", "b"), ("read_file", "other"))
            read, tidy, fail, changed = [heard(await client.call_tool(tool, {"path": path})) for tool, path in made]
        assert (read, fail[0], changed[1][0]) == ((False, ["text of a"]), True, "text of älter")
        assert tidy == (True, ["Not that."])

    asyncio.run(run())
    ends = [("read_file", Outcome.OK), ("tidy", Outcome.REFUSED), ("fail", Outcome.ERROR), ("read_file", Outcome.OK)]
    assert (reached, guards.ends()) == (["read a", "read älter"], ends)
    made = [e.output_novelty for e in guards.events if e.kind is Kind.COMPLETED and e.outcome is not Outcome.REFUSED]
    assert sorted(end.results for end in made if end is not None) == list(range(len(made)))
    proposed = {e.action: e.effect for e in guards.events if e.kind is Kind.PROPOSED}
    assert proposed["mcp__files__tidy"] is Effect.DESTRUCTIVE
    sessions = {e.session_id for e in guards.events}
    assert len(sessions) == 1
    assert (sessions == {"own"}) == (mode != "legacy" or "stateless_http" in how)
    assert [e.kind for e in guards.events][-1] is Kind.SESSION_ENDED


def test_each_session_of_mcp_is_one_unless_one_is_given_for_all() -> None:
    async def run(guards: Guards, **options: Any) -> None:
        async with (
            serving(files_server(list[str]().append).streamable_http_app()) as url,
            behind(url, guards, **options) as address,
            Client(address, mode="legacy") as one,
            Client(address, mode="legacy") as two,
        ):
            results = await asyncio.gather(*(c.call_tool("read_file", {"path": "a"}) for c in (one, two)))
            assert [bool(result.is_error) for result in results] == [False, False]

    apart, together = Guards(), Guards()
    asyncio.run(run(apart))
    asyncio.run(run(together, one_session=True))
    assert len({e.session_id for e in apart.events}) == 2
    assert {e.session_id for e in together.events} == {"own"}
    assert len(together.ends()) == 2


def test_when_the_broker_is_real_a_kill_is_obeyed_by_the_command(embedded: EmbeddedBroker, tmp_path: Path) -> None:
    reached: list[str] = []
    (tmp_path / "headers").write_text("Authorization: Bearer secret\n")
    seen: list[str | None] = []

    async def run() -> list[tuple[bool, list[str]]]:
        inner = files_server(reached.append).streamable_http_app()

        async def app(scope: Any, receive: Any, send: Any) -> None:
            seen.extend(value.decode() for name, value in scope.get("headers", []) if name == b"authorization")
            await inner(scope, receive, send)

        async with serving(app) as url:
            command = ["-m", "haltline.cli", "mcp-proxy", "--bootstrap", embedded.bootstrap, "--session", "s1"]
            command += ["--url", url, "--port", "0", "--header-file", str(tmp_path / "headers")]
            pipe = asyncio.subprocess.PIPE
            proxy = await asyncio.create_subprocess_exec(sys.executable, *command, stdout=pipe, env=ENVIRONMENT)
            address = (await some(proxy.stdout).readline()).decode().strip()
            async with Client(address) as client:
                output = [
                    heard(await client.call_tool(name, {"path": "a"})) for name in (*["delete_x"] * 3, "read_file")
                ]
            proxy.send_signal(signal.SIGTERM)
            assert await proxy.wait() == 0
            return output

    with StandIn(embedded.bootstrap, third_delete_kills()) as worker:
        output = asyncio.run(run())
        assert all(is_error for is_error, _ in output)  # there is no such tool, but it was asked about
        assert [text for _, (text,) in output[2:]] == ["KILL: for the model"] * 2
        wait_until(lambda: worker.of(Kind.SESSION_ENDED), "the session ends with the proxy")
        assert worker.outcomes("s1") == [Outcome.ERROR, Outcome.ERROR, Outcome.REFUSED, Outcome.REFUSED]
    assert reached == []
    assert set(seen) == {"Bearer secret"}


# What is not the SDK's: a server that repeats what came, and bodies of any shape.


def with_echo(
    talk: Callable[[Http], Awaitable[Any]],
    guards: Guards,
    answer: Callable[[web.Request], Awaitable[Any]] | None = None,
) -> tuple[Any, list[bytes]]:
    """Run `talk` with a client of a proxy for an echo server; return its result and the bodies the server received."""
    actual: list[bytes] = []

    async def echo(request: web.Request) -> Any:
        actual.append(await request.read())
        if answer is not None:
            return await answer(request)
        return web.Response(body=actual[-1], content_type="application/json")

    async def run() -> Any:
        app = web.Application()
        app.router.add_route("*", "/mcp", echo)
        async with (
            TestServer(app) as server,
            behind(str(server.make_url("/mcp")), guards) as address,
            Http(URL(address).origin()) as http,
        ):
            return await talk(http)

    return asyncio.run(run()), actual


async def post(http: Http, body: bytes, **headers: str) -> tuple[int, bytes]:
    named = {"Content-Type": "application/json", **headers}
    async with http.post("/mcp", data=body, headers=named, allow_redirects=False) as response:
        assert "Location" not in response.headers
        return response.status, await response.read()


def posted(body: bytes, guards: Guards, answer: Any = None, **headers: str) -> tuple[tuple[int, bytes], list[bytes]]:
    return with_echo(lambda http: post(http, body, **headers), guards, answer)


A_CALL = CALLS["a call"]
ALL_BLOCKED: Callable[[ActionEvent], Level] = lambda _: Level.BLOCK  # noqa: E731


@cases("body", CALLS)
def test_a_refused_call_never_reaches_the_server(body: bytes) -> None:
    guards = Guards(ALL_BLOCKED)
    (status, result), actual = posted(body, guards)
    assert actual == []
    assert (status, result[:1] in {b"{", b"[", b""}) in {(200, True), (202, True), (400, True)}, result


def test_a_call_that_is_compressed_is_checked_and_what_is_not_what_it_says_is_reported() -> None:
    gzipped = {"Content-Encoding": "gzip"}
    (status, result), actual = posted(gzip.compress(A_CALL), Guards(ALL_BLOCKED), **gzipped)
    assert (status, actual, b"isError" in result) == (200, [], True)
    (status, result), actual = posted(b"no gzip", Guards(), **gzipped)
    assert (status, actual, orjson.loads(result)["error"]["code"]) == (400, [], -32700)


def test_of_a_batch_what_is_allowed_goes_on_and_the_rest_is_answered() -> None:
    guards = Guards(lambda event: Level.BLOCK if event.action.endswith("rm") else Level.ALLOW)
    ls = CALL | {"id": 2, "params": {"name": "ls"}}
    (status, result), actual = posted(orjson.dumps([CALL, ls, {"id": 3, "method": "ping"}]), guards)
    assert (status, [m["id"] for m in orjson.loads(actual[0])]) == (200, [2, 3])
    assert {m["id"]: "result" in m for m in orjson.loads(result)} == {1: True, 2: False, 3: False}


def test_pages_in_a_browser_are_refused() -> None:
    own: list[dict[str, str]] = [{}, {"Origin": "http://127.0.0.1:5173"}, {"Host": "localhost:1"}]
    others = [{"Origin": origin} for origin in ("https://evil.example", "null", "http://[::")]

    async def talk(http: Http) -> list[int]:
        sent = (*own, *others, {"Host": "evil.example"})
        return [(await post(http, b'{"jsonrpc":"2.0","id":1,"method":"ping"}', **headers))[0] for headers in sent]

    statuses, reached = with_echo(talk, Guards())
    assert (statuses, len(reached)) == ([200] * 3 + [403] * 4, 3)


def test_what_is_no_request_of_the_protocol_is_reported() -> None:
    async def talk(http: Http) -> None:
        for method, path, status in (("POST", "/mcp/x", 404), ("GET", "/", 404), ("PUT", "/mcp", 405)):
            async with http.request(method, path, json=CALL) as response:
                message = (await response.json())["error"]["message"]
            assert response.status == status
            assert f"expected POST, GET or DELETE /mcp, got {method} {path}" in message

    assert with_echo(talk, Guards())[1] == []


def test_a_call_that_its_client_takes_back_by_going_away_is_taken_back_from_the_server_too() -> None:
    guards = Guards()
    ended: list[str] = []

    async def talk(http: Http) -> None:
        call = asyncio.create_task(post(http, A_CALL))
        await reached.wait()
        call.cancel()
        await left.wait()

    reached, left = asyncio.Event(), asyncio.Event()

    async def never(_: web.Request) -> web.Response:
        reached.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("the server's handler")
            left.set()
        return web.Response()

    with_echo(talk, guards, never)
    assert (ended, guards.ends()) == (["the server's handler"], [("rm", Outcome.UNKNOWN)])


def test_a_call_that_is_taken_back_while_it_waits_for_its_verdict_is_not_made() -> None:
    asked_for, taken_back = threading.Event(), threading.Event()

    def verdict(_: ActionEvent) -> Level:
        asked_for.set()
        assert taken_back.wait(20)
        return Level.ALLOW

    guards = Guards(verdict)
    made = Calls(FrameworkSession(guards(SETTINGS)), Tools())
    with ThreadPoolExecutor(1) as pool:
        call = pool.submit(made.ask, CALL)
        assert asked_for.wait(20)
        made.is_call({"method": "notifications/cancelled", "params": {"requestId": 2}})
        made.is_call({"method": "notifications/cancelled", "params": {"requestId": CALL["id"]}})
        taken_back.set()
        error = {"code": -32603, "message": "haltline: not made: it was taken back"}
        assert call.result(20).refusal == {"jsonrpc": "2.0", "id": 1, "error": error}
    assert guards.ends() == [("rm", Outcome.ERROR)]


@pytest.mark.parametrize("pieces", [1, 3, 1000])
@pytest.mark.parametrize("end", [b"\n\n", b"\r\n\r\n", b"\r\r"])
def test_a_stream_is_read_whatever_its_pieces(pieces: int, end: bytes) -> None:
    guards = Guards(lambda event: decision(Level.NUDGE, event, message="Think again."))
    message = orjson.dumps({"jsonrpc": "2.0", "id": 1, "result": {"content": []}})
    stream = b": comment" + end + b"id: 7" + end[: len(end) // 2] + b"data: " + message + end

    async def answer(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        for at in range(0, len(stream), pieces):
            await response.write(stream[at : at + pieces])
        return response

    (_, result), _ = posted(A_CALL, guards, answer)
    first, second = result.split(end, 1)
    number, data = second.strip().splitlines()
    assert (first, number) == (b": comment", b"id: 7")
    content = orjson.loads(data.removeprefix(b"data: "))["result"]["content"]
    assert content == [{"type": "text", "text": "Think again."}]
    assert guards.ends() == [("rm", Outcome.OK)]


def test_a_result_for_which_its_client_had_to_come_back_is_reported() -> None:
    guards, session = Guards(), {"Mcp-Session-Id": "a"}
    events = {
        "POST": b"id: 1\ndata: \n\ndata: {no JSON\n\n",
        "GET": b'id: 2\ndata: {"jsonrpc":"2.0","id":1,"result":{"content":[]}}\n\n',
    }

    async def answer(request: web.Request) -> web.Response:
        return web.Response(body=events[request.method], content_type="text/event-stream")

    async def talk(http: Http) -> bytes:
        await post(http, A_CALL, **session)
        assert guards.ends() == []
        async with http.get("/mcp", headers=session | {"Last-Event-ID": "1"}) as response:
            return await response.read()

    output, _ = with_echo(talk, guards, answer)
    assert b'"result"' in output
    assert guards.ends() == [("rm", Outcome.OK)]


def test_a_redirect_that_would_lead_past_the_guard_is_not_passed_on() -> None:
    guards, elsewhere = Guards(), "http://elsewhere.example/mcp"

    async def away(_: web.Request) -> web.Response:
        return web.Response(status=307, headers={"Location": elsewhere})

    (status, result), _ = posted(A_CALL, guards, away)
    assert (status, elsewhere in orjson.loads(result)["error"]["message"]) == (502, True)
    assert guards.ends() == [("rm", Outcome.UNKNOWN)]


@pytest.mark.parametrize("session", [{}, {"Mcp-Session-Id": "abc"}])
def test_a_call_whose_server_does_not_answer_has_ended(session: dict[str, str]) -> None:
    guards = Guards()

    async def run() -> tuple[int, bytes]:
        async with behind("http://127.0.0.1:9/mcp", guards) as address, Http(URL(address).origin()) as http:
            return await post(http, A_CALL, **session)

    status, result = asyncio.run(run())
    assert (status, orjson.loads(result)["error"]["code"]) == (502, -32603)
    assert guards.ends() == [("rm", Outcome.ERROR)]
