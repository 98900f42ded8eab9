"""The routes of the last release, `/v1/start`, `verdict`, `result`, `turn` and `end`, answered by the verbs of `/v2`.

Each request names its session, and begins it where it is not known. A request with an `Idempotency-Key` that is sent
again is the same; with `Prefer: wait=SECONDS`, a verdict that takes longer is answered 202 `{"waiting": true}`.
"""

import asyncio
import uuid
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any, Final, TypeAlias

from haltline.interventions.agent.service.problems import Bad, text_of
from haltline.interventions.agent.service.sessions import Sessions
from haltline.interventions.agent.service.verbs import Verbs
from haltline.schemas import expressions as re
from haltline.streams.intake.keys import Key

ROUTES: Final = ("start", "verdict", "result", "turn", "end")
_NOT_BEGINNING: Final = frozenset({"result", "end"})
"""Routes about sessions and calls of earlier requests."""
_OF_SESSION: Final = (
    "agent_id", "mission_id", "parent_session_id", "root_session_id", "ancestors", "session_mode", "task", "prompt",
)  # fmt: skip
_MAX_KEPT: Final = 4096
_MAX_WAIT_S: Final = 60.0
_LEASE_S: Final = 86_400
_KEY: Final = re.compile(r"[A-Za-z0-9_-]{16,128}")
_WAIT: Final = re.compile(r"(?:^|[,;\s])wait=(\d{1,4})(?=$|[,;\s])", re.IGNORECASE)

Reply: TypeAlias = tuple[int, dict[str, Any]]
"""A status, and a JSON object."""


class Earlier:
    """The clients of these routes. For the event loop only."""

    def __init__(self, verbs: Verbs, sessions: Sessions, agent_id: str) -> None:
        """`agent_id`: of sessions that name none."""
        self._verbs = verbs
        self._sessions = sessions
        self._agent_id = agent_id
        self._tokens: OrderedDict[tuple[Key, str], asyncio.Future[dict[str, Any]]] = OrderedDict()
        self._ids: OrderedDict[tuple[Key, str, str], tuple[str | None, str]] = OrderedDict()
        """The key of the last request with a call's id, and the id at the verbs."""
        self._reported: OrderedDict[tuple[Key, str, str], None] = OrderedDict()

    async def answer(self, route: str, given: dict[str, Any], headers: Mapping[str, str], key: Key) -> Reply:
        """Return the answer to a request. Raises Bad."""
        once = headers.get("Idempotency-Key")
        if once is not None and _KEY.fullmatch(once) is None:
            raise Bad(400, f"Idempotency-Key: expected 16 to 128 letters, digits, - or _, got {once!r:.80}")
        session_id = text_of(given, "session_id")
        if self._sessions.known(session_id, key) is None:
            self._tokens.pop((key, session_id), None)
        is_new = (key, session_id) not in self._tokens
        key.check_request(given, self._agent_id if is_new and route not in _NOT_BEGINNING else None)
        if once is not None and (key, route, once) in self._reported:
            return 200, {}
        if is_new and route in _NOT_BEGINNING:
            raise Bad(404, f"session_id: expected an open session, got {session_id!r:.80}")
        token = await self._begun(session_id, given, key)
        fields = {name: value for name, value in given.items() if name not in {*_OF_SESSION, "session_id"}}
        if route == "verdict":
            if fields.pop("kind", None) == "model.turn":
                answer = await self._verbs.answer("turn", {"token": token, "asks": True}, key)
                return 200, _verdict(answer)
            fields |= {"token": token, "mode": self._sessions.mode_of(fields.get("mode"))}
            call_id = str(fields.get("call_id") or once or uuid.uuid4().hex)[:256]
            fields["call_id"] = self._id_of((key, session_id, call_id), once)
            status, reply = await self._decided(fields, _wait_s(headers), key)
            return status, reply | ({"call_id": call_id} if "call_id" in reply else {})
        if route == "turn":
            await self._verbs.answer("turn", {"token": token, **fields}, key)
        elif route == "result":
            _, fields["call_id"] = self._ids.get((key, session_id, text_of(given, "call_id")), ("", given["call_id"]))
            await self._verbs.answer("end", {"token": token, **fields}, key)
        elif route == "end":
            self._tokens.pop((key, session_id), None)
            await self._verbs.answer("close", {"token": token}, key)
        if once is not None:
            _keep(self._reported, (key, route, once), None)
        return 200, {}

    def _id_of(self, call: tuple[Key, str, str], once: str | None) -> str:
        """Return the id of a call at the verbs: without a key for requests sent again, its own may come again."""
        known = self._ids.get(call)
        if known is None or once is None or known[0] != once:
            _keep(self._ids, call, (once, call[2] if known is None else uuid.uuid4().hex))
        return self._ids[call][1]

    async def _begun(self, session_id: str, given: Mapping[str, Any], key: Key) -> str:
        """Return the token of a session; a request may also bring another prompt of its user."""
        if (begun := self._tokens.get((key, session_id))) is None:
            fields = {name: given[name] for name in _OF_SESSION if given.get(name) is not None}
            if (mode := fields.pop("session_mode", None)) is not None:
                fields["mode"] = mode
            fields |= {"session_id": session_id, "lease_s": _LEASE_S}
            begun = asyncio.ensure_future(self._verbs.answer("begin", fields, key))  # once, for requests at one time
            _keep(self._tokens, (key, session_id), begun)
        elif given.get("prompt") is not None:
            await self._verbs.answer("turn", {"token": (await begun)["token"], "prompt": given["prompt"]}, key)
        try:
            return str((await asyncio.shield(begun))["token"])
        except Bad:
            self._tokens.pop((key, session_id), None)
            raise

    async def _decided(self, fields: dict[str, Any], wait_s: float | None, key: Key) -> Reply:
        while True:
            answer = await self._verbs.answer("propose", fields | {"wait_s": wait_s and max(wait_s, 0.01)}, key)
            if answer["answer"] == "wait":
                pause_s = answer["wait_ms"] / 1000
                await asyncio.sleep(pause_s if wait_s is None else min(pause_s, wait_s))
            elif answer["answer"] != "pending":
                return 200, _verdict(answer)
            if wait_s is not None:
                return 202, {"waiting": True}


def _verdict(answer: dict[str, Any]) -> dict[str, Any]:
    verdict = answer.pop("answer")
    changes = {name: answer.pop(name) for name in ("put", "remove") if name in answer}
    verdict = {"allowed": verdict in {"allow", "change", "reinforce"}, "killed": verdict == "stop"} | answer
    return verdict | ({"change_arguments": changes} if changes else {})


def _wait_s(headers: Mapping[str, str]) -> float | None:
    wait = _WAIT.search(headers.get("Prefer", ""))
    return None if wait is None else min(float(wait[1]), _MAX_WAIT_S)


def _keep(kept: "OrderedDict[Any, Any]", name: object, value: object) -> None:
    kept[name] = value
    while len(kept) > _MAX_KEPT:
        kept.popitem(last=False)
