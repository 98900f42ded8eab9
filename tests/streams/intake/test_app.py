import asyncio
import gzip
import json
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pytest
from aiohttp import ClientSession
from aiohttp.test_utils import TestServer
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2 as pb

from haltline.interventions.agent.settings import GuardSettings
from haltline.schemas import cloudevents, otel
from haltline.schemas.decisions import Level
from haltline.schemas.events import Kind
from haltline.streams.intake import otlp
from haltline.streams.intake.app import Intake
from haltline.streams.intake.otlp import MAX_SPANS, NotOtlp, spans_of
from haltline.streams.local.embedded_broker import EmbeddedBroker
from tests.interventions.agent.stand_in import StandIn, third_delete_kills
from tests.streams.intake.test_app_formats import request_of
from tests.streams.intaking import asking, serving, with_intake
from tests.streams.mangling import ODD, mangled
from tests.waiting import wait_until

BOMB = gzip.compress(b" " * 64 * 1024 * 1024)
TOOL = {"kind": "action.proposed", "session_id": "s1", "action": "bash"}
SECRETS = {"args": {"password": "hunter2"}, "targets": ["url=http://a:pw123@b"], "error": "token=abcdef"}
CLOUD = {
    "specversion": "1.0", "id": "e1", "source": "a", "subject": "s1", "type": "model.turn",
    "time": "2025-06-16T12:00:00Z",
}  # fmt: skip
JSON, LINES, CE = "application/json", "application/x-ndjson", "application/cloudevents+json"
ACCEPTED: list[tuple[Any, str, int]] = [
    ({"events": [TOOL, TOOL]}, JSON, 2),
    ([TOOL], JSON, 1),
    (TOOL, JSON, 1),
    (orjson.dumps(TOOL) + b"\n\n" + orjson.dumps(TOOL), LINES, 2),
    (CLOUD, CE, 1),
    ([CLOUD | {"id": "e2"}, CLOUD | {"id": "e3"}], "application/cloudevents-batch+json", 2),
    ([], JSON, 0),
    (TOOL | SECRETS, JSON, 1),
]


def test_events_are_accepted_when_the_broker_has_them(embedded: EmbeddedBroker) -> None:
    asked = [("/v1/events", body, {"Content-Type": kind}) for body, kind, _ in ACCEPTED]
    with StandIn(embedded.bootstrap) as worker:
        result = with_intake(embedded.bootstrap, asking(*asked))
        assert result == [(202, {"accepted": count}) for *_, count in ACCEPTED]
        wait_until(lambda: len(worker.events) == sum(count for *_, count in ACCEPTED), "the worker reads them")
        assert {e.session_id for e in worker.events} == {"s1"}
        assert len({e.event_id for e in worker.events}) == len(worker.events)
        (read,) = [event for event in worker.events if event.error]
        assert (read.args, read.error) == ({"password": "[redacted:password]"}, "token=[redacted:token]")
        assert "pw123" not in read.targets[0]
        assert read.args_digest is not None


UNREADABLE: list[tuple[Any, str, int, str]] = [
    (b"{", JSON, 400, "the body: expected JSON, got"),
    (7, JSON, 400, "the body: expected a list of events, got int"),
    ({"events": [TOOL, {"session_id": "s1"}]}, JSON, 400, "events[1]: invalid: kind"),
    ({"events": [TOOL | {"time": "noon"}]}, JSON, 400, "events[0]: invalid: time"),
    ([7], JSON, 400, "events[0]: "),
    ([TOOL] * 1001, JSON, 413, "expected at most 1000 events, got 1001"),
    (TOOL, "text/plain", 415, "Content-Type: expected JSON, got 'text/plain'"),
    (b"{\n", LINES, 400, "events[0]: "),
    ({"id": 7}, CE, 400, "events[0]: "),
    (b"[" + b"{}," * 600_000 + b"{}]", JSON, 413, "500000 values"),
    (b'{"a": NaN}', JSON, 400, "expected JSON"),
    (b"[" * 200_000, JSON, 400, "expected JSON"),
]
PACKED: list[tuple[bytes, str, str, int, str]] = [
    (b"x", JSON, "x", 415, "Content-Encoding: expected"),
    (b"x", "text/plain", "gzip", 415, "Content-Type"),
    (BOMB, JSON, "gzip", 413, "expected at most"),
]


def test_what_cannot_be_read_or_is_too_much_is_reported_and_nothing_is_accepted(embedded: EmbeddedBroker) -> None:
    asked = [("/v1/events", body, {"Content-Type": kind}) for body, kind, *_ in UNREADABLE]
    asked += [("/v1/events", body, {"Content-Type": kind, "Content-Encoding": how}) for body, kind, how, *_ in PACKED]
    with StandIn(embedded.bootstrap) as worker:
        *found, _ = with_intake(embedded.bootstrap, asking(*asked, ("/v1/events", TOOL | {"session_id": "s2"})))
        for (*_, status, expected), (actual, result) in zip([*UNREADABLE, *PACKED], found, strict=True):
            assert (actual, expected in result["errors"][0]) == (status, True), result
        wait_until(lambda: worker.events, "a good one is read")
        assert {e.session_id for e in worker.events} == {"s2"}


ASKED = {"session_id": "s", "action": "a"}
QUESTIONS: list[tuple[str, Any, int, str]] = [
    ("/v1/end", {"session_id": "s"}, 404, "session_id: expected an open session, got 's'"),
    ("/v1/verdict", [], 400, "the body: expected an object, got list"),
    ("/v1/verdict", {"action": "a"}, 400, "session_id: expected a text, got None"),
    ("/v1/verdict", {"session_id": "s"}, 400, "action: expected a value, got none"),
    ("/v1/verdict", ASKED | {"target": []}, 400, "target: expected no such field, got []"),
    ("/v1/verdict", ASKED | {"args": 7}, 400, "args: expected another value"),
    ("/v1/verdict", {"session_id": "t", "action": "a", "agent_id": 7}, 400, "agent_id"),
    ("/v1/result", {"session_id": "s", "call_id": "c"}, 404, "call_id: expected a call that was allowed"),
    ("/v1/traces", {"resourceSpans": 7}, 400, "expected an OTLP request"),
    ("/v1/verdict", ASKED | {"mode": "fast"}, 400, "mode: expected another value"),
    ("/v1/verdict", ASKED | {"mode": "local"}, 400, "got 'local': this service decides by"),
    ("/v1/turn", {"session_id": "s", "usage": {"input_tokens": -1}}, 400, "usage.input_tokens: expected"),
    ("/v1/turn", {"session_id": "s", "usage": {"prompt_tokens": 9}}, 400, "file_ops, got 'prompt_tokens'"),
    ("/v1/nothing", {}, 404, "expected POST /v1/events, /v1/traces, /v2/begin, /v2/propose, /v2/end"),
    ("/healthz", {}, 405, "got POST /healthz"),
]


def test_a_question_that_cannot_be_read_is_reported_and_no_token_has_to_be_meant(embedded: EmbeddedBroker) -> None:
    found = with_intake(embedded.bootstrap, asking(*(asked[:2] for asked in QUESTIONS)), close_budget_s=0.0)
    for (path, _, status, expected), (actual, result) in zip(QUESTIONS, found, strict=True):
        assert (actual, expected in str(result.get("errors"))) == (status, True), (path, result)
    hosts = {
        "localhost:1": 202,  # by its name
        "[::1]": 202,  # by another address of this machine
        "rebound.example": 421,  # by a name that was made to lead here
        "[": 421,  # by something that is no name
    }
    asked: list[Any] = [("/v1/events", [], {"Host": host, "Authorization": "Bearer x"}) for host in hosts]
    found = with_intake(embedded.bootstrap, asking(*asked))
    assert [status for status, _ in found] == list(hosts.values())
    internal: Any = ("/v1/events", [], {"Host": "intake.internal", "Authorization": "Bearer secret"})
    ((status, _),) = with_intake(embedded.bootstrap, asking(internal), token="secret")
    assert status == 202


def test_with_the_broker_away_it_says_so_and_spans_are_counted_before_they_are_made() -> None:
    async def talk() -> int:
        settings = GuardSettings(bootstrap="127.0.0.1:9", mode="blocking", close_budget_s=0)
        async with (
            TestServer(Intake(settings).app()) as server,
            ClientSession(server.make_url("/")) as http,
            http.get("/healthz") as response,
        ):
            return response.status

    assert asyncio.run(talk()) == 503
    body = orjson.dumps({"resourceSpans": [{"scopeSpans": [{"spans": [{}] * (MAX_SPANS + 1)}]}]})
    with pytest.raises(NotOtlp, match=f"expected at most {MAX_SPANS} spans"):
        spans_of(body, JSON)


EXAMPLE = Path(__file__).resolve().parents[3] / "examples" / "http_agent.mjs"


def test_an_agent_in_javascript_is_stopped_at_its_third_delete(embedded: EmbeddedBroker) -> None:
    if subprocess.run(["node", "-e", "fetch"], capture_output=True, check=False).returncode:
        pytest.skip("needs node 18 or newer")
    command = [sys.executable, "-m", "haltline.cli", "intake", "--bootstrap", embedded.bootstrap, "--port", "0"]
    with StandIn(embedded.bootstrap, third_delete_kills()) as worker:
        with subprocess.Popen([*command, "--budget", "20"], stdout=subprocess.PIPE, text=True) as intake:
            assert intake.stdout is not None
            address = intake.stdout.readline().strip()
            done = subprocess.run(["node", str(EXAMPLE), address], capture_output=True, text=True, check=False)
            intake.send_signal(signal.SIGTERM)
        assert intake.returncode == 0
        printed = [*["deleted fact_sales"] * 2, "stopped: session_killed_loop_guard"]
        assert done.stdout.splitlines() == printed, done.stderr
        assert worker.of(Kind.MODEL_TURN)
        assert Level.KILL.value in {f.decision_id.split("-")[0] for f in worker.feedback}


LEAF = st.integers() | st.floats() | st.text(max_size=8)
VALUES = ODD | LEAF | st.lists(LEAF, max_size=2) | st.sampled_from(("\ud800", "s1", "1.0", "model.turn"))
EVENT: dict[str, Any] = {
    "kind": "action.completed", "session_id": "s1", "agent_id": "a", "action": "bash", "args": {"command": "ls"},
    "time": "2025-06-16T12:00:00Z", "usage": {"input_tokens": 7}, "targets": ["x=1"], "error": "no", "v": 1,
    "output_head": "x", "task": {"goal": "tidy"}, "duration_ms": 0.5, "event_id": "e",
}  # fmt: skip
MORE = {
    "session_id": "s2", "action": "bash", "call_id": "c", "agent_id": "a", "mode": "async", "session_mode": "async",
    "loop_key": "k", "parent_session_id": "s1", "ancestors": ["s0"], "mission_id": "m", "task": {"goal": "tidy"},
    "args": {"command": "ls"}, "outcome": "ok", "error": "no", "usage": {"input_tokens": 7},
}  # fmt: skip
SPAN = {
    "traceId": "t", "spanId": "1", "parentSpanId": "1", "name": "bash", "kind": 2,
    "status": {"code": 2, "message": "no"}, "startTimeUnixNano": "1750000000000000000",
    "endTimeUnixNano": "1750000001000000000",
    "attributes": [{"key": "gen_ai.operation.name", "value": {"stringValue": "execute_tool"}},
                   {"key": "gen_ai.conversation.id", "value": {"stringValue": "s1"}}],
}  # fmt: skip
DATA, BATCH = CLOUD | {"data": {"action": "m"}}, "application/cloudevents-batch+json"
GOOD: dict[tuple[str, str], Any] = {
    ("/v1/events", JSON): [EVENT, EVENT],
    ("/v1/events", LINES): [EVENT, EVENT],
    ("/v1/events", cloudevents.STRUCTURED): DATA,
    ("/v1/events", BATCH): [DATA, DATA],
    **{(f"/v1/{route}", JSON): MORE for route in ("verdict", "result", "turn", "start", "end")},
    ("/v1/traces", JSON): {"resourceSpans": [{"scopeSpans": [{"spans": [SPAN, SPAN]}]}]},
    ("/v1/traces", otlp.PROTOBUF): request_of(2).SerializeToString(),
}
HEADERS = st.sampled_from(({}, {"ce-specversion": "1.0", "ce-id": "1"}, {"ce-type": "%FF"}, {"ce-time": "noon"}))


@st.composite
def requests(draw: st.DrawFn) -> tuple[str, bytes, dict[str, str]]:
    """A path, a body that is good but for some places, and headers."""
    path, kind = draw(st.sampled_from(sorted(GOOD)))
    good, places = GOOD[path, kind], draw(st.integers(0, 3))
    if isinstance(good, bytes):
        raw = bytearray(good)
        for _ in range(places):
            raw[draw(st.integers(0, len(raw) - 1))] = draw(st.integers(0, 255))
        body = bytes(raw[: draw(st.integers(0, len(raw)))])
    else:
        for _ in range(places):
            good = mangled(good, draw, VALUES)
        each = good if kind == LINES and isinstance(good, list) else [good]
        body = draw(st.just(b"\n".join(json.dumps(one).encode() for one in each)) | st.binary(max_size=20))
    return path, body, draw(HEADERS) | {"Content-Type": draw(st.sampled_from((kind, kind, kind, "text/plain", "")))}


OTHER = {"key": "mcp.method.name", "value": {"stringValue": "tools/call"}}
ODD_SPAN = {"resourceSpans": [{"scopeSpans": [{"spans": [{"attributes": [OTHER], "kind": [2]}]}]}]}


@pytest.mark.hypothesis
def test_every_request_has_a_clear_answer_and_what_was_accepted_is_on_the_topic(embedded: EmbeddedBroker) -> None:
    accepted = 0

    async def run() -> None:
        quick = serving(embedded.bootstrap, budget_s=0.01, start_budget_s=0.0, close_budget_s=10.0)
        async with quick as address, ClientSession(address) as http:
            loop = asyncio.get_running_loop()

            async def ask(path: str, body: bytes, headers: dict[str, str]) -> tuple[int, str, bytes]:
                async with http.post(path, data=body, headers=headers) as response:
                    return response.status, response.content_type, await response.read()

            wait = asyncio.run_coroutine_threadsafe
            await asyncio.to_thread(_ask_all, lambda *request: wait(ask(*request), loop).result(30))

    def _ask_all(ask: Callable[[str, bytes, dict[str, str]], tuple[int, str, bytes]]) -> None:
        @given(request=requests(), is_compressed=st.booleans())
        @example(request=("/v1/events", json.dumps(EVENT).encode(), {"Content-Type": JSON}), is_compressed=True)
        @example(request=("/v1/traces", json.dumps(ODD_SPAN).encode(), {"Content-Type": JSON}), is_compressed=False)
        @settings(max_examples=50, suppress_health_check=list(HealthCheck))
        def any_request(request: tuple[str, bytes, dict[str, str]], is_compressed: bool) -> None:
            nonlocal accepted
            path, body, headers = request
            kind, sent = headers["Content-Type"], body
            if is_compressed:
                sent, headers = gzip.compress(body), headers | {"Content-Encoding": "gzip"}
            status, answered, result = ask(path, sent, headers)
            assert status in {200, 202, 400, 404, 413, 415}, result
            if status == 202:
                accepted += orjson.loads(result)["accepted"]
            elif status == 200 and path == "/v1/traces":
                accepted += len(otel.of_agents(otlp.spans_of(body, kind))) - _rejected(kind, result)
            elif status >= 400:
                is_text = answered == otlp.PROTOBUF
                reported = result.decode(errors="replace") if is_text else orjson.loads(result)["errors"][0]
                assert re.search("expected|invalid|needs|not_json", reported), reported

        any_request()

    with StandIn(embedded.bootstrap) as worker:
        asyncio.run(run())
        what = "every event that was accepted, and no other, is on the topic; those of guards are numbered"
        wait_until(lambda: len([e for e in worker.events if e.seq is None]) == accepted, what)
        assert accepted > 0


def _rejected(kind: str, data: bytes) -> int:
    if kind == otlp.PROTOBUF:
        return pb.ExportTraceServiceResponse.FromString(data).partial_success.rejected_spans
    return int(orjson.loads(data).get("partialSuccess", {}).get("rejectedSpans", 0))
