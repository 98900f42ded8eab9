"""The routes about calls: a session's start and end, verdicts, results, and turns of the model.

Each takes the JSON object of a request, and returns a status and a JSON value. Raises Bad for an unusable request.
"""

import uuid
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from haltline.interventions.agent.described import CutArguments, DescribedError, DescribedOutput
from haltline.interventions.agent.frame.session import Answer, FrameworkSession
from haltline.interventions.agent.held_secrets import MAX_SENT
from haltline.interventions.agent.refused import Refused
from haltline.interventions.agent.service.problems import Bad, bad_values, object_of, text_of, text_or_none
from haltline.interventions.agent.service.sessions import Sessions
from haltline.interventions.agent.service.verbs import fields_of
from haltline.schemas import expressions as re
from haltline.schemas.events import Kind, Novelty, Outcome, SentSecret, Usage
from haltline.streams.intake.repeated import Reply
from haltline.streams.intake.requests import key_of_request
from haltline.streams.runtime.metrics import Children

_MAX_ID_CHARS: Final = 256
_DIGEST: Final = re.compile(r"[0-9a-f]{8,64}")
_MAX_BYTES: Final = 2**53
_MAX_NAMED: Final = 10
"""The most unknown fields that one answer names."""
NOT_BEGINNING: Final = frozenset({"/v1/result", "/v1/end"})
"""Routes about sessions and calls of earlier requests."""
_OF_SESSION: Final = (
    "session_id", "agent_id", "mission_id", "parent_session_id", "root_session_id", "ancestors", "session_mode", "task",
    "prompt",
)  # fmt: skip
_OF_CALL: Final = (
    "action", "args", "targets", "effect", "loop_key", "call_id", "mode", "unread_from", "args_digest", "secrets_sent",
    "kind",
)  # fmt: skip
_OF_VERDICT: Final = frozenset((*_OF_SESSION, *_OF_CALL))
_FAILURES: Final = frozenset({Outcome.ERROR, Outcome.TIMEOUT, Outcome.UNKNOWN})


class Calls:
    """The calls of all sessions of one intake."""

    def __init__(self, sessions: Sessions, verdicts: Children) -> None:
        self._sessions = sessions
        self._verdicts = verdicts

    def routes(self) -> dict[str, Callable[[dict[str, Any]], Awaitable[Reply]]]:
        """The handlers by path."""
        return {
            "/v1/start": self._start,
            "/v1/verdict": self._verdict,
            "/v1/result": self._result,
            "/v1/turn": self._turn,
            "/v1/end": self._end,
        }

    @property
    def again(self) -> dict[str, Callable[[dict[str, Any], Reply], Reply]]:
        """By path: the answer to a request that is sent again, from its object and its first answer."""
        return {"/v1/verdict": self._verdict_again}

    def count(self, refused: Refused | None) -> None:
        """Count a verdict."""
        self._verdicts["allowed" if refused is None else refused.code,].inc()

    def _session(self, fields: dict[str, Any]) -> FrameworkSession:
        """Return the session of a request; the request may start another prompt of its user."""
        prompt = text_or_none(fields, "prompt")
        session = self._sessions.of(fields, key_of_request())
        if prompt is not None:
            session.guard.prompt(prompt)
        return session

    async def _start(self, fields: dict[str, Any]) -> Reply:
        self._session(fields).guard.start()
        return 200, {}

    async def _end(self, fields: dict[str, Any]) -> Reply:
        session_id = text_of(fields, "session_id")
        if not await self._sessions.end(session_id, key_of_request()):
            raise Bad(404, f"session_id: expected an open session, got {session_id!r:.80}")
        return 200, {}

    async def _verdict(self, fields: dict[str, Any]) -> Reply:
        if unknown := sorted(fields.keys() - _OF_VERDICT):
            known = ", ".join((*_OF_SESSION, *_OF_CALL))
            raise Bad(400, *(f"{name:.80}: expected a field of {known}, got another" for name in unknown[:_MAX_NAMED]))
        if fields.get("kind") == Kind.MODEL_TURN:
            return await self._turn_verdict(fields)
        name = text_of(fields, "action")
        args = None if fields.get("args") is None else object_of(fields["args"], "args")
        targets = fields.get("targets", [])
        if not isinstance(targets, list) or not all(isinstance(target, str) for target in targets):
            raise Bad(400, "targets: expected a list of texts, got something else")
        effect, loop_key = (text_or_none(fields, one) for one in ("effect", "loop_key"))
        call_id = str(fields.get("call_id") or uuid.uuid4().hex)[:_MAX_ID_CHARS]
        mode: Any = self._sessions.mode_of(fields, "mode")
        session = self._session(fields)
        try:
            answer = await session.propose_async(
                call_id,
                name,
                args,
                targets=targets,
                effect=effect,
                mode=mode,
                asks=True,
                loop_key=loop_key,
                cut=_cut_of(fields),
                secrets_sent=_secrets_sent_of(fields),
            )
        except ValueError as error:  # an unknown effect
            raise Bad(400, str(error)) from None
        self.count(answer.refused)
        return 200, reply_of(answer, call_id, killed=session.guard.killed)

    def _verdict_again(self, fields: dict[str, Any], reply: Reply) -> Reply:
        """Return the answer to a repeated request. A permission holds until the call ends or its session is stopped.

        Raises Bad when the call has ended.
        """
        status, verdict = reply
        if not verdict["allowed"]:
            return reply
        session = self._sessions.known(text_of(fields, "session_id"), key_of_request())
        call_id = verdict.get("call_id")
        if session is None or (call_id is not None and not session.is_open(call_id)):
            raise Bad(422, "Idempotency-Key: expected one for each call, got that of a call that has ended")
        refused = session.guard.stopped
        if refused is None:
            return reply
        self.count(refused)
        return status, reply_of(Answer(refused), call_id, killed=session.guard.killed)

    async def _turn_verdict(self, fields: dict[str, Any]) -> Reply:
        """Answer whether the model may take its next turn."""
        session = self._session(fields)
        try:
            await session.before_turn_async()
            answer = Answer()
        except Refused as refused:
            answer = Answer(refused)
        self.count(answer.refused)
        return 200, reply_of(answer, None, killed=session.guard.killed)

    async def _turn(self, fields: dict[str, Any]) -> Reply:
        """Report a turn of the model."""
        usage = None if fields.get("usage") is None else object_of(fields["usage"], "usage")
        output = text_or_none(fields, "output")
        if unknown := sorted(map(str, (usage or {}).keys() - Usage.model_fields.keys())):
            known = ", ".join(Usage.model_fields)
            raise Bad(400, f"usage: expected fields of {known}, got {', '.join(unknown)!r:.80}")
        try:
            used = None if usage is None else Usage(**usage)
        except ValueError as error:
            raise bad_values(error, "usage.") from None
        described = _described(fields)
        self._session(fields).turn(used, output if described is None else described)
        return 200, {}

    async def _result(self, fields: dict[str, Any]) -> Reply:
        session_id, call_id = text_of(fields, "session_id"), text_of(fields, "call_id")
        novelty = _novelty_of(fields)
        described = _described(fields, novelty)
        value = fields.get("output") if described is None else described
        error, session = _error_of(fields, novelty), self._sessions.known(session_id, key_of_request())
        if session is None or not session.complete(call_id, value, error=error):
            raise Bad(404, f"call_id: expected a call of session {session_id} with a verdict, got {call_id!r:.80}")
        return 200, {}


def reply_of(answer: Answer, call_id: str | None, *, killed: bool) -> dict[str, Any]:
    """Return the verdict on a call or a turn as JSON, with its hints, each once."""
    fields = fields_of(answer, call_id)
    changes = {name: fields.pop(name) for name in ("put", "remove") if name in fields}
    reply = {"allowed": answer.refused is None, "killed": killed} | fields
    return reply | ({"change_arguments": changes} if changes else {})


def _cut_of(fields: Mapping[str, Any]) -> CutArguments | None:
    """Return the truncation of arguments reported by a client; None: they are complete."""
    unread_from = fields.get("unread_from")
    if unread_from is None:
        return None
    return CutArguments(_digest(fields.get("args_digest"), "args_digest"), _count(unread_from, "unread_from"))


def _secrets_sent_of(fields: Mapping[str, Any]) -> list[SentSecret]:
    """Return secrets that a client has recognized and removed from arguments."""
    given = fields.get("secrets_sent")
    if given is None:
        return []
    if not isinstance(given, list) or len(given) > MAX_SENT or not all(isinstance(one, dict) for one in given):
        raise Bad(400, f"secrets_sent: expected at most {MAX_SENT} objects, got {given!r:.80}")
    try:
        return [
            SentSecret(
                kind=text_of(one, "kind"),
                digest=_digest(one.get("digest"), "secrets_sent.digest"),
                elsewhere=one.get("elsewhere"),
            )
            for one in given
        ]
    except ValueError as error:
        raise bad_values(error, "secrets_sent.") from None


def _novelty_of(fields: Mapping[str, Any]) -> Novelty | None:
    """Return the client's counts of new words in a result that only it has completely; None: absent."""
    if fields.get("novelty") is None:
        return None
    given = object_of(fields["novelty"], "novelty")
    counted = {
        name: _count(given.get(name), f"novelty.{name}")
        for name, field in Novelty.model_fields.items()
        if field.is_required() or given.get(name) is not None
    }
    return Novelty(**counted)


def _described(fields: Mapping[str, Any], novelty: Novelty | None = None) -> DescribedOutput | None:
    """Return an output described by digest, size and beginning."""
    if fields.get("described") is None:
        return None
    described = object_of(fields["described"], "described")
    digest, repeats = described.get("digest"), described.get("repeats")
    return DescribedOutput(
        None if digest is None else _digest(digest, "described.digest"),
        _count(described.get("bytes"), "described.bytes"),
        text_or_none(described, "head", "described.head"),
        novelty,
        None if repeats is None else _count(repeats, "described.repeats"),
    )


def _error_of(fields: Mapping[str, Any], novelty: Novelty | None) -> DescribedError | str | None:
    """Return the error of a call, from `error` or from `described` and `outcome`."""
    error, outcome = fields.get("error"), fields.get("outcome")
    if outcome is None:
        return None if error is None else str(error)
    if outcome == Outcome.OK:
        return None
    if outcome not in _FAILURES:
        raise Bad(400, f"outcome: expected one of ok, {', '.join(sorted(_FAILURES))}, got {outcome!r:.80}")
    return DescribedError(Outcome(outcome), "" if error is None else str(error), novelty)


def _digest(value: Any, name: str) -> str:
    if not isinstance(value, str) or _DIGEST.fullmatch(value) is None:
        raise Bad(400, f"{name}: expected 8 to 64 hex digits, got {value!r:.80}")
    return value


def _count(value: Any, name: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= _MAX_BYTES:
        raise Bad(400, f"{name}: expected a whole number from 0, got {value!r:.80}")
    return value
