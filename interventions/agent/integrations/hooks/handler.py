"""The hooks of coding agents in the local service: each hook is a process, and a guard starts in a second.

A hook connects to the service's socket, sends its agent's name and its input, and prints the reply. The first hook
starts the service (`cli/agent/hook.py`); if it is killed, the next hook starts another. Over Kafka, that one reads the
restrictions in force from the `control` topic. Without, it goes on from what is stored in the user's home after each
hook: the counts of the session, and its stop, which is in force until the session is released.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, cast

from haltline.interventions.agent.frame.session import not_checked
from haltline.interventions.agent.integrations.claude_code.hooks import OnApproval, Sessions
from haltline.interventions.agent.integrations.claude_code.stops import Earlier
from haltline.interventions.agent.integrations.hooks.ancestors import Process, folder_of, of_hook
from haltline.interventions.agent.integrations.hooks.dialects import DIALECTS, Answer, denied, event_of, reply_of
from haltline.interventions.agent.integrations.hooks.installed import Change, Installed
from haltline.interventions.agent.integrations.hooks.stored import Stored
from haltline.interventions.agent.integrations.hooks.unanswered import not_decided, refused_unjudged, unanswered, unread
from haltline.interventions.agent.service.limited import Limited, Overdue
from haltline.interventions.agent.settings import GuardSettings
from haltline.interventions.agent.transport.transport_factory import with_policy_read

log: Final = logging.getLogger("haltline.hook")

IDLE_S: Final = 1800.0
PING: Final = "\0ping"
"""Sent instead of an agent's name. No argument has such a name."""
ATTENDED: Final = "attended"
"""Follows the agent's name if a person writes the prompts of this agent."""
_OF_PROCESS: Final = frozenset({"SessionStart", "UserPromptSubmit"})
"""Hooks at which the process of a session may be another one; a prompt that an agent writes ends no hold."""
_CHANGED = "If you changed it, haltline hook install notes it as it is now; if not, look what did."
Make = Callable[[str, Earlier], Sessions]
"""Creates the guards of one session of an agent, by the agent's name and what is stored of the session."""


@dataclass
class _Held:
    """A session."""

    sessions: Sessions
    used_s: float = 0.0
    busy: int = 0
    place: str = ""
    """The folder in which it began."""
    late: list[str] = field(default_factory=list)
    """Hints that wait for a result."""
    reported: set[Change] = field(default_factory=set)
    """Changed settings that its user knows of."""


class HookHandler:
    """Answers hooks, for any number of sessions."""

    def __init__(
        self, make: Make, stored: Stored, installed: Installed, *, idle_s: float = IDLE_S, why: str = ""
    ) -> None:
        """`why`: the reason that there are no verdicts, if so. `idle_s`: when a session without hooks has ended."""
        self._make = make
        self._stored = stored
        self._installed = installed
        self._idle_s = idle_s
        self._why = why
        self._held: dict[str, _Held] = {}
        self._since_ns = time.time_ns()
        self._released_ns: dict[str, int] = {}
        """Releases of sessions since then."""

    def __len__(self) -> int:
        return len(self._held)

    def knows(self, head: str) -> bool:
        """Return whether this is the first line of a hook."""
        agent = head.partition(" ")[0]
        return agent in DIALECTS or agent == PING

    async def close(self) -> None:
        """End every session."""
        for session_id in [*self._held]:
            await self._end(session_id)

    async def end_idle(self) -> None:
        """End the sessions that are idle: their agents ended without a record."""
        until_s = asyncio.get_running_loop().time() - self._idle_s
        for session_id in [name for name, held in self._held.items() if held.used_s < until_s and not held.busy]:
            await self._end(session_id)

    async def _end(self, session_id: str) -> None:
        held = self._held.pop(session_id, None)
        if held is not None:
            await held.sessions.close()
            if not self._is_released(session_id):
                self._stored.keep(session_id, held.sessions.stored())

    def _is_released(self, session_id: str) -> bool:
        """Return whether the session's user has released it since this was last asked, or since this process began."""
        released_ns = self._stored.released_ns(session_id)
        is_new = released_ns > self._released_ns.get(session_id, self._since_ns)
        if is_new:
            self._released_ns[session_id] = released_ns
        return is_new

    async def reply(self, head: str, raw: bytes, peer: int = 0) -> bytes:
        """Return the reply to a hook: its first line, and its input. `peer`: the process that sent it; 0: not known."""
        agent, _, marks = head.partition(" ")
        is_attended = marks == ATTENDED
        dialect = DIALECTS.get(agent)
        if dialect is None:
            return b"0 0 0\n" if agent == PING else b""
        session_id = event = ""
        try:
            hook = dialect.hook_of(raw)
            session_id, event = hook["session_id"], str(hook.get("hook_event_name") or "")
            if self._why:
                answer = unanswered(self._stored, hook, self._why)
            else:
                answer = await self._answer(agent, hook, peer, is_attended=is_attended)
        except ValueError as error:  # including invalid JSON
            event = event or event_of(raw)
            answer = unread(self._stored, session_id, event, str(error))
        except Exception:
            log.exception("haltline: session %s: a hook could not be answered", session_id)
            refused = denied(str(not_checked())) if event == "PreToolUse" else {}
            answer = Answer(refused, "the local service failed: see its log", 0 if refused else 1)
        return reply_of(dialect, event, answer)

    async def _answer(self, agent: str, hook: dict[str, Any], peer: int, *, is_attended: bool) -> Answer:
        session_id, event = hook["session_id"], hook.get("hook_event_name")
        if self._is_released(session_id):
            await self._release(session_id)
        held = self._held.get(session_id)
        if held is None:
            held = _Held(
                self._make(agent, self._stored.earlier(session_id)), place=str(hook.get("cwd") or folder_of(peer))
            )
            self._held[session_id] = held
        hook.setdefault("cwd", held.place)
        held.busy += 1
        is_attended = is_attended or hook.get("is_attended") is True
        if event in _OF_PROCESS or not held.used_s:
            is_attended &= await asyncio.to_thread(self._note_agent, session_id, peer) is None
        try:
            out = await Limited(held.sessions.answer(hook, is_attended=is_attended))
        except Overdue as overdue:
            if held.sessions.stored() is not None:  # the next hook goes on from what was stored before this one
                self._held.pop(session_id, None)
            return unanswered(self._stored, hook, str(overdue))
        finally:
            held.busy -= 1
            held.used_s = asyncio.get_running_loop().time()
        stop = held.sessions.stop
        self._stored.stop(session_id, stop)
        self._stored.keep(session_id, held.sessions.stored())
        if event == "PreToolUse" and stop is None and (why := held.sessions.degraded):
            out = out or refused_unjudged(hook)
            out |= not_decided(self._stored, session_id, why)
        if event != "SessionEnd":
            _report_changes(held, set(self._installed.changes(held.place)), out)
        if DIALECTS[agent].hints_late:
            _delay(event, out, held.late)
        if event == "SessionEnd":
            self._held.pop(session_id, None)
            if stop is not None:  # the only text that a program without a terminal prints
                return Answer(out, stop.text_for(session_id), 1)
        return Answer(out)

    def _note_agent(self, session_id: str, peer: int) -> Process | None:
        """Store which process is the session's agent. Returns the agent that started it, if one did."""
        agent, above = of_hook(peer, self._stored.agents())
        if agent is not None:
            self._stored.note_agent(session_id, agent.started)
        return above

    async def _release(self, session_id: str) -> None:
        """Let a session begin anew that its user has released, in whichever folder this process serves."""
        await self._end(session_id)
        self._stored.forget(session_id)
        from haltline.interventions.agent.transport.local_decider import forget_kill  # noqa: PLC0415 - as its use

        forget_kill(session_id)


def _report_changes(held: _Held, changed: set[Change], out: dict[str, Any]) -> None:
    """Report newly changed settings, to the user in the output of a hook, and to the topic."""
    files = sorted({change.file for change in changed - held.reported})
    held.reported = changed
    for file in files:
        held.sessions.settings_changed(file)
        reported = f"haltline: {file} is not as it was when the hook was installed. {_CHANGED}"
        out["systemMessage"] = "\n".join(filter(None, (out.get("systemMessage"), reported)))


def _delay(event: object, out: dict[str, Any], late: list[str]) -> None:
    """Keep the hint of a call, and add waiting hints to the output of a result."""
    if event == "PreToolUse" and (hint := out.get("hookSpecificOutput", {}).get("additionalContext")):
        late.append(hint)
    elif event in {"PostToolUse", "PostToolUseFailure"} and late and not out:
        out["hookSpecificOutput"] = {"hookEventName": "PostToolUse", "additionalContext": "\n".join(late)}
        late.clear()


def settings_of(environ: Mapping[str, str]) -> tuple[GuardSettings, OnApproval]:
    """Return the settings of the guards: a hook waits for its verdict, and by default not for an operator.

    Without a broker, a call that needs approval is by default put to the user of the terminal. Raises ValueError for an
    invalid value, and OSError if the file of client settings cannot be read.
    """
    defaults = {"HALTLINE_MODE": "blocking", "HALTLINE_APPROVAL_WAIT_S": "0"}
    is_alone = environ.get("HALTLINE_MODE") == "local" and "HALTLINE_BOOTSTRAP" not in environ
    approval = environ.get("HALTLINE_HOOK_APPROVAL", "ask" if is_alone else "deny")
    if approval not in {"deny", "ask"}:
        raise ValueError(f"HALTLINE_HOOK_APPROVAL: expected deny or ask, got {approval!r}")
    # The session is the hook's; the one in the environment is its parent.
    named = {name: value for name, value in environ.items() if name != "HALTLINE_SESSION_ID"}
    above = environ.get("HALTLINE_PARENT_SESSION_ID") or environ.get("HALTLINE_SESSION_ID")
    settings = GuardSettings.from_env(defaults | named, parent_session_id=above)
    return with_policy_read(settings), cast("OnApproval", approval)
