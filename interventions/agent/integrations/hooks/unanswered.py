"""Answers to hooks without a verdict: by the guard's fail policy, and by the last known kill."""

import contextlib
import json
import os
from hashlib import blake2b
from pathlib import Path
from typing import Any, NamedTuple

from haltline.interventions.agent.integrations.claude_code.hooks import stopped_answer
from haltline.interventions.agent.integrations.hooks.dialects import NOT_CALLS, Answer, denied
from haltline.interventions.agent.refused import Refused
from haltline.interventions.agent.rules.known_effects import known_effect
from haltline.interventions.agent.settings import GuardSettings

_NOBODY = "No verdict on this call is available, and it could do harm. Report it instead."
_NO_DECISIONS = (
    "no decisions are available for this session. Calls of tools with destructive names are refused; all others run."
)
_UNREADABLE = "The call could not be parsed, so no verdict on it is available. Write it another way."


class Stop(NamedTuple):
    """The stop of a session."""

    refused: Refused
    is_local: bool
    """Whether it was decided on this machine, so that its user can release it."""


class Notes:
    """Stored states of sessions, in the folder of their companions: which are stopped, and whose user was notified."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def stopped(self, session_id: str) -> Stop | None:
        """Return the stop of a session, as last known."""
        try:
            known = json.loads(self._file(session_id, "killed").read_bytes())
            return Stop(Refused(str(known["code"]), str(known["reason"])), bool(known.get("is_local")))
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def stop(self, session_id: str, stopped: Stop | None) -> None:
        """Store its stop; None: it no longer is stopped."""
        file = self._file(session_id, "killed")
        with contextlib.suppress(OSError):  # without the file, only this process knows it
            if stopped is None:
                file.unlink(missing_ok=True)
            else:
                known = {"code": stopped.refused.code, "reason": stopped.refused.reason, "is_local": stopped.is_local}
                file.write_text(json.dumps(known), encoding="utf-8")

    def notify_once(self, session_id: str, why: str) -> dict[str, Any]:
        """Return a notice to the user that no verdicts are available, and why; empty after the first time."""
        try:
            os.close(os.open(self._file(session_id, "notified"), os.O_CREAT | os.O_EXCL, 0o600))
        except OSError:
            return {}
        return {"systemMessage": f"haltline: {_NO_DECISIONS} {why}"}

    def _file(self, session_id: str, kind: str) -> Path:
        return self._folder / f"{blake2b(session_id.encode(errors='replace'), digest_size=16).hexdigest()}.{kind}"


def unanswered(notes: Notes, hook: dict[str, Any], why: str) -> Answer:
    """Return the answer to a hook without a verdict."""
    session_id = str(hook.get("session_id"))
    stopped = notes.stopped(session_id)
    if hook.get("hook_event_name") == "PreToolUse" and (stopped is not None or _closed(str(hook.get("tool_name", "")))):
        return _refusal(session_id, stopped, _NOBODY, why)
    if notice := notes.notify_once(session_id, why):
        return Answer(notice, why)  # with another exit code the output would be ignored
    is_call = hook.get("hook_event_name") == "PreToolUse"
    return Answer({}, why + ("\nhaltline: hook: no decision on this call; it runs" if is_call else ""), 1)


def unread(notes: Notes, session_id: str, event: str, why: str) -> Answer:
    """Return the answer to an unreadable hook: a call is not made, as the worker does not see it."""
    if event in NOT_CALLS:
        return Answer({}, why, 1)  # there is no call to refuse; for a Stop, 2 would mean: continue
    stopped = notes.stopped(session_id)
    if not event and stopped is None:
        return Answer({}, f"{_UNREADABLE} ({why})", 2)
    answer = _refusal(session_id, stopped, _UNREADABLE, why)
    # With 2 the output is ignored, which would not end the whole turn of a killed session.
    return answer if stopped is not None else Answer(answer.out, f"{_UNREADABLE} ({why})", 2)


def with_release(out: dict[str, Any], session_id: str, *, is_local: bool) -> dict[str, Any]:
    """Return an output with the command that releases the session, if it ends a turn and the user may release it."""
    if not is_local or "stopReason" not in out:
        return out
    return out | {"stopReason": f"{out['stopReason']} To let it go on: haltline hook release {session_id}"}


def _refusal(session_id: str, stopped: Stop | None, otherwise: str, why: str) -> Answer:
    if stopped is None:
        return Answer(denied(f"no_verdict: {otherwise}"), why)
    return Answer(with_release(stopped_answer(stopped.refused), session_id, is_local=stopped.is_local), why)


def _closed(tool: str) -> bool:
    """Return whether such a call is refused without a verdict."""
    try:
        closed_from = GuardSettings.from_env(bootstrap="unused").fail_closed_from
    except (ValueError, OSError):
        closed_from = GuardSettings(bootstrap="unused").fail_closed_from
    return closed_from is not None and known_effect(tool, None) >= closed_from
