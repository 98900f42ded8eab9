"""Keys of an intake: their scopes and limits."""

import asyncio
import gzip
import re
from pathlib import Path
from typing import Any

import orjson
import pytest
from aiohttp import ClientSession
from aiohttp.test_utils import TestServer
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2 as pb

from haltline.interventions.agent.settings import GuardSettings
from haltline.streams.intake.app import Intake
from haltline.streams.intake.keys import BadKeys, May, Scope, digest_of, read_keys
from haltline.streams.intake.requests import LITELLM
from haltline.streams.local.embedded_broker import EmbeddedBroker
from tests.builders import cases
from tests.docs.pages import DOCS, between, fences_of
from tests.interventions.agent.stand_in import StandIn
from tests.streams.intake.test_app_formats import request_of
from tests.streams.intake.test_litellm import asked
from tests.waiting import wait_until

SCOPES = {
    name: scope.model_copy(update={"sha256": digest_of(f"key-of-{name}")})
    for name, scope in {
        "acme": Scope(agents=("acme-*",), sessions=("acme-*",), missions=("acme-*",)),
        "asks": Scope(may=(May.VERDICTS,)),
        "tells": Scope(may=(May.PUBLISH,)),
        "scrapes": Scope(may=(May.METRICS,)),
        "slow": Scope(requests_per_minute=2),
        "small": Scope(max_body_bytes=512),
    }.items()
}
OURS = {"session_id": "acme-1", "agent_id": "acme-cleaner"}
CALL = OURS | {"action": "read_file", "args": {"path": "a"}}
EVENT = CALL | {"kind": "action.completed", "outcome": "ok"}
OK, NO_BROKER = 200, 501
"""An intake that decides itself has no broker for what it takes."""


def talked(requests: list[tuple[str, str, Any]], **headers: str) -> list[tuple[int, str, Any]]:
    """The status, the body and the headers of each request of a key's name, a path and an object; None: GET."""

    async def run() -> list[tuple[int, str, Any]]:
        intake = Intake(GuardSettings(mode="local"), token="token", keys=SCOPES)
        found = []
        async with TestServer(intake.app()) as server, ClientSession(server.make_url("/")) as http:
            for name, path, fields in requests:
                own = {"Authorization": f"Bearer {'token' if name == 'token' else f'key-of-{name}'}"} | headers
                method, body = ("GET", None) if fields is None else ("POST", orjson.dumps(fields))
                if headers.get("Content-Encoding") == "gzip" and body is not None:
                    body = gzip.compress(body)
                own |= {} if body is None else {"Content-Type": "application/json"}
                async with http.request(method, path, data=body, headers=own) as response:
                    found.append((response.status, await response.text(), dict(response.headers)))
        return found

    return asyncio.run(run())


@cases(
    "name, path, fields, status",
    {
        "the token is for everything": ("token", "/v1/verdict", CALL | {"session_id": "other"}, OK),
        "no key": ("nobody", "/v1/verdict", CALL, 401),
        "a verdict": ("acme", "/v1/verdict", CALL, OK),
        "a key for verdicts may ask": ("asks", "/v1/verdict", CALL, OK),
        "and may not publish": ("asks", "/v1/events", EVENT, 403),
        "nor read metrics": ("asks", "/metrics", None, 403),
        "a key for publishing may publish": ("tells", "/v1/events", EVENT, NO_BROKER),
        "and may not ask": ("tells", "/v1/verdict", CALL, 403),
        "nor answer LiteLLM": ("tells", LITELLM, asked(), 403),
        "a key for metrics reads them": ("scrapes", "/metrics", None, OK),
        "and nothing else": ("scrapes", "/v1/verdict", CALL, 403),
    },
)
def test_a_key_is_for_its_routes(name: str, path: str, fields: Any, status: int) -> None:
    ((found, body, _),) = talked([(name, path, fields)])
    assert found == status, body


@cases(
    "changes, named",
    {
        "a session of another": ({"session_id": "umbrella-1"}, "session_id"),
        "an agent of another": ({"agent_id": "umbrella"}, "agent_id"),
        "no agent, which is the intake's own": ({"agent_id": None}, "agent_id"),
        "a mission of another": ({"mission_id": "umbrella"}, "mission_id"),
        "below a session of another": ({"parent_session_id": "umbrella-1"}, "session_id"),
        "in the tree of another": ({"root_session_id": "umbrella-1"}, "session_id"),
    },
)
@pytest.mark.parametrize("path", ["/v1/verdict", "/v1/turn", "/v1/events"])
def test_what_is_outside_of_a_key_s_scope_is_refused_by_its_name(path: str, changes: Any, named: str) -> None:
    fields = {"/v1/verdict": CALL, "/v1/events": EVENT}.get(path, OURS) | changes
    sent = {name: value for name, value in fields.items() if value is not None}
    ((status, body, _),) = talked([("acme", path, sent)])
    assert status == 403
    assert re.search(rf"{named}: expected one of acme-\*, as key acme is for, got (none|')", body), body


def test_a_session_below_others_of_which_one_is_another_s_is_refused() -> None:
    ((status, body, _),) = talked([("acme", "/v1/verdict", CALL | {"ancestors": ["acme-0", "umbrella-1"]})])
    assert (status, "'umbrella-1'" in body) == (403, True)


@cases(
    "session_id, agent, action",
    {
        "of the key": ("acme-1", "acme-cleaner", "NONE"),
        "another session": ("umbrella-1", "acme-cleaner", "BLOCKED"),
        "another agent": ("acme-1", "umbrella", "BLOCKED"),
    },
)
def test_litellm_is_answered_with_blocked_so_that_no_setting_of_it_lets_the_turn_pass(
    session_id: str, agent: str, action: str
) -> None:
    fields = asked(session_id=session_id, request_data={"user_api_key_alias": agent})
    ((status, body, _),) = talked([("acme", LITELLM, fields)])
    answer = orjson.loads(body)
    assert (status, answer["action"]) == (OK, action)
    assert answer.get("blocked_reason", "out_of_scope: ").startswith("out_of_scope: ")


def test_a_key_has_its_own_rate_and_size() -> None:
    found = talked([(name, "/v1/verdict", CALL) for name in ("slow", "slow", "slow", "asks")])
    assert [status for status, _, _ in found] == [OK, OK, 429, OK]
    _, body, headers = found[2]
    assert "key slow: expected at most 2 requests a minute, got more" in body
    assert headers["Retry-After"] == "30"
    large = CALL | {"args": {"text": "x" * 600}}
    found = talked(
        [(name, "/v1/verdict", fields) for name, fields in (("small", CALL), ("small", large), ("asks", large))],
        **{"Content-Encoding": "gzip"},
    )
    assert [status for status, _, _ in found] == [OK, 413, OK]
    assert "expected at most 512 bytes, got more" in found[1][1]


def spans(session_id: str) -> bytes:
    """One span of a tool."""
    tool = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "read_file"}
    tool |= dict.fromkeys(("gen_ai.agent.name", "gen_ai.agent.id"), "acme-cleaner")
    return request_of(1, tool | {"gen_ai.conversation.id": session_id}).SerializeToString()


def test_spans_outside_of_the_scope_are_rejected(embedded: EmbeddedBroker) -> None:
    async def run() -> list[bytes]:
        found = []
        intake = Intake(GuardSettings(bootstrap=embedded.bootstrap, mode="blocking"), keys=SCOPES)
        headers = {"Authorization": "Bearer key-of-acme", "Content-Type": "application/x-protobuf"}
        async with TestServer(intake.app()) as server, ClientSession(server.make_url("/")) as http:
            for session_id in ("umbrella-1", "acme-1"):
                async with http.post("/v1/traces", data=spans(session_id), headers=headers) as response:
                    found.append(await response.read())
        return found

    with StandIn(embedded.bootstrap) as worker:
        answers = asyncio.run(run())
        wait_until(lambda: len(worker.events) == 1, "the span of the scope is an event")
    rejected = [pb.ExportTraceServiceResponse.FromString(one).partial_success.rejected_spans for one in answers]
    assert rejected == [1, 0]


@cases(
    "text, message",
    {
        "no TOML": ("[acme", "expected TOML, got "),
        "nothing": ("", "expected a table for each key, got none"),
        "a key in place of its digest": (
            '[acme]\nsha256 = "key"\n',
            "acme: sha256: expected 64 hex digits, got 3 other characters",
        ),
        "a route that does not exist": ("[acme]\nmay = ['kill']\n", "acme: may"),
        "no table": ("acme = 7\n", "acme: "),
        "one key twice": (
            f"[acme]\nsha256 = '{digest_of('a')}'\n[umbrella]\nsha256 = '{digest_of('a')}'\n",
            "umbrella: sha256: expected a key of its own, got that of acme",
        ),
    },
)
def test_a_file_that_cannot_be_used_is_refused_with_the_key_and_the_field(
    text: str, message: str, tmp_path: Path
) -> None:
    file = tmp_path / "keys.toml"
    file.write_text(text)
    with pytest.raises(BadKeys) as refused:
        read_keys(file)
    assert str(refused.value).startswith(f"{file}: {message}")


def test_the_keys_of_the_page_are_a_file_of_keys(tmp_path: Path) -> None:
    ((_, text),) = fences_of(between(DOCS / "gateways.md", "keys"))
    file = tmp_path / "keys.toml"
    file.write_text(text)
    scope = read_keys(file)["acme"]
    assert (scope.agents, scope.requests_per_minute, scope.max_body_bytes) == (("acme-*",), 600, 262_144)
