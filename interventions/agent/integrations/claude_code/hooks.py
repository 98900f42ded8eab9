"""Claude Code's hooks: from a hook's input to its output.

Claude Code runs all hooks at once and applies the strictest answer. A call without objections therefore gets no answer:
`allow` would skip the question of Claude Code itself, or of its user's rules.
"""

import asyncio
import contextlib
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, Final, Literal

from haltline.interventions.agent.enforcement.pending_approvals import APPROVAL_PENDING
from haltline.interventions.agent.frame.session import Answer, FrameworkSession
from haltline.interventions.agent.guard import Guard
from haltline.interventions.agent.integrations.claude_code.transcript import Transcript, results_in
from haltline.interventions.agent.producers.any_json import text_of_blocks, written
from haltline.interventions.agent.refused import Refused
from haltline.interventions.agent.settings import DEFAULT_AGENT, GuardSettings

JsonObject = dict[str, Any]
OnApproval = Literal["deny", "ask"]
"""The answer to a call that waits for an operator's approval: `ask` asks the user of the terminal."""


def agent_id_of(agent: str) -> str:
    """Return an id per machine: counts and kills of an agent must not span all users."""
    return f"{agent}@{socket.gethostname()}"[:128]


AGENT_ID: Final = agent_id_of("claude-code")
_MAX_ID_CHARS = 200


class Sessions:
    """The guards of one session of Claude Code and of its subagents, each of which is a session below it."""

    guard_type: ClassVar[type[Guard]] = Guard
    """The class of its guards."""

    def __init__(self, settings: GuardSettings, *, on_approval: OnApproval = "deny", agent_id: str = AGENT_ID) -> None:
        """`agent_id`: used if the settings have none."""
        self._settings = settings
        self._agent_id = agent_id
        self._on_approval = on_approval
        self._sessions: dict[str, FrameworkSession] = {}
        self._transcripts: dict[str, Transcript] = {}

    @property
    def stopped(self) -> Refused | None:
        """Why the session was stopped; None: it was not."""
        for session in self._sessions.values():
            if session.guard.killed:
                return session.guard.stopped
        return None

    @property
    def degraded(self) -> str | None:
        """Why the session's calls are not decided on; None: they are."""
        return next(filter(None, (session.guard.degraded for session in self._sessions.values())), None)

    @property
    def ready(self) -> bool:
        """Whether the restrictions in force are known for every guard."""
        return all(session.guard.ready for session in self._sessions.values())

    async def answer(self, hook: Mapping[str, Any]) -> JsonObject:
        """Return the output of a hook; empty for no objection.

        Raises: ValueError: a required field is missing or invalid.
        """
        event = _text(hook, "hook_event_name")
        if event == "SessionStart":
            await self._begin(hook)
        session = await self._session(hook)
        if event == "UserPromptSubmit":
            self._transcript(hook)  # later lines belong to this run
            session.guard.prompt(str(hook.get("prompt") or ""))
        elif event == "PreToolUse":
            self._tell_turns(hook, session)
            answer = await session.propose_async(_call_id(hook), _text(hook, "tool_name"), _args_of(hook))
            return self._verdict(hook, session, answer)
        if event in {"PostToolUse", "PostToolUseFailure"}:
            failed = str(hook.get("error") or "failed") if event == "PostToolUseFailure" else None
            result = text_of_blocks(hook.get("tool_response"))
            if not session.complete(_call_id(hook), result, error=failed):  # another process handled the call
                session.guard.has_read(str(hook.get("tool_name")), _args_of(hook), failed or result)
        elif event == "SubagentStop" and "agent_id" in hook:
            await self._tell_last_turns(hook, session)
            self._sessions.pop(session.guard.session_id, None)
            await session.end_async()
            return {}
        elif event in {"Stop", "SubagentStop"}:
            if event == "Stop":
                await self._tell_last_turns(hook, session)
            else:  # of a subagent without an id, as in older releases: its agent continues
                self._tell_turns(hook, session)
            session.abandon()  # a call that the user did not allow has no end event
        elif event == "SessionEnd":
            await self._tell_last_turns(hook, session, for_answer=False)
            await self.close()
            return {}
        stopped = session.guard.stopped
        return {} if stopped is None else _halt(stopped)

    async def close(self) -> None:
        """End every session."""
        sessions, self._sessions = self._sessions, {}
        for session in reversed(sessions.values()):  # subagents before their agent
            await session.end_async()

    async def _begin(self, hook: Mapping[str, Any]) -> None:
        """Start a session; if it was killed, read the restrictions again, as an operator may have released it."""
        session_id = _session_id(hook)
        session = self._sessions.get(session_id)
        if session is not None and session.guard.killed:
            del self._sessions[session_id]
            await session.end_async()
        (await self._session(hook)).guard.start()
        self._transcript(hook)

    async def _session(self, hook: Mapping[str, Any]) -> FrameworkSession:
        session_id = _session_id(hook)
        agent_id = self._settings.agent_id if self._settings.agent_id != DEFAULT_AGENT else self._agent_id
        parent = None
        if isinstance(subagent := hook.get("agent_id"), str) and subagent:
            parent, session_id = session_id, f"{session_id}/{subagent}"[:256]
            agent_id = f"{agent_id}/{hook.get('agent_type') or 'subagent'}"[:256]
        session = self._sessions.get(session_id)
        if session is None:
            above, agent = self._settings, self._sessions.get(parent or "")
            session = FrameworkSession(
                self.guard_type(
                    above.changed(
                        session_id=session_id,
                        agent_id=agent_id,
                        parent_session_id=parent or above.parent_session_id,
                        root_session_id=above.root_session_id or parent or above.parent_session_id,
                        ancestors=(*above.ancestors, *filter(None, (above.parent_session_id,))),
                    ),
                    parent=None if agent is None else agent.guard,
                )
            )
            self._sessions[session_id] = session
            if agent is None:
                await asyncio.to_thread(_recall, session.guard, hook)  # takes about a second, without blocking others
        return session

    def _verdict(self, hook: Mapping[str, Any], session: FrameworkSession, answer: Answer) -> JsonObject:
        output: JsonObject = {"hookEventName": "PreToolUse"}
        refused = answer.refused
        if refused is not None:
            if session.guard.stopped is not None:
                return stopped_answer(refused)
            waits = refused.code == APPROVAL_PENDING and self._on_approval == "ask"
            reason = answer.refusal
            if waits and self._settings.mode == "local" and refused.decision is not None:
                reason = f"haltline: {refused.decision.reason}"  # the other text is for a session without a user
            output |= {"permissionDecision": "ask" if waits else "deny", "permissionDecisionReason": reason}
            return {"hookSpecificOutput": output}
        if answer.changes:
            args = hook.get("tool_input")
            free = hook.get("permission_mode") == "bypassPermissions"  # the user would not be asked anyway
            output |= {
                "permissionDecision": "allow" if free else "ask",
                "permissionDecisionReason": answer.hints or "haltline: allowed with these arguments only",
                "updatedInput": answer.changes.of(args if isinstance(args, dict) else {}),
            }
        if answer.hints:
            output["additionalContext"] = answer.hints
        return {"hookSpecificOutput": output} if len(output) > 1 else {}

    async def _tell_last_turns(
        self, hook: Mapping[str, Any], session: FrameworkSession, *, for_answer: bool = True
    ) -> None:
        """Report the usage since the last prompt; one turn without usage if the transcript does not have it.

        At the end of a turn, wait for the answer; at the end of the session, at most for the call before it.
        """
        transcript = self._transcript(hook)
        if transcript is None:
            lacks = for_answer
        else:
            for usage in await transcript.wait(for_answer=for_answer):
                session.turn(usage)
            lacks = transcript.lacks_turn(for_answer=for_answer)
            if (rest := transcript.end()) is not None:
                session.turn(rest)
        if lacks:
            session.turn()

    def _tell_turns(self, hook: Mapping[str, Any], session: FrameworkSession) -> None:
        transcript = self._transcript(hook)
        for usage in () if transcript is None else transcript.read():
            session.turn(usage)
        if transcript is not None:
            transcript.is_expected = True

    def _transcript(self, hook: Mapping[str, Any]) -> Transcript | None:
        """Return the transcript of the hook's agent; a subagent's is named only at its end."""
        subagent = "agent_id" in hook
        path = hook.get("agent_transcript_path") if subagent else hook.get("transcript_path")
        if not isinstance(path, str):
            return None
        if path not in self._transcripts:
            self._transcripts[path] = Transcript(Path(path), subagent=subagent)
        return self._transcripts[path]


def _recall(guard: Guard, hook: Mapping[str, Any]) -> None:
    """Read the earlier results of the session from its transcript, after a restart of this process."""
    path = hook.get("transcript_path")
    if isinstance(path, str) and Path(path).is_file():
        with contextlib.suppress(OSError):
            for call, result in results_in(Path(path)):
                guard.has_read(call.name, call.args, result)


def stopped_answer(refused: Refused) -> JsonObject:
    """Return the answer to a call of a stopped session."""
    output = {"hookEventName": "PreToolUse", "permissionDecision": "deny", "permissionDecisionReason": str(refused)}
    return _halt(refused) | {"hookSpecificOutput": output}


def _halt(refused: Refused) -> JsonObject:
    """Return the fields that end the whole turn, not only the call."""
    return {"continue": False, "stopReason": f"haltline: {refused}"}


def _session_id(hook: Mapping[str, Any]) -> str:
    return _text(hook, "session_id")[:_MAX_ID_CHARS]


def _args_of(hook: Mapping[str, Any]) -> JsonObject:
    args = hook.get("tool_input")
    return args if isinstance(args, dict) else {} if args is None else {"tool_input": args}


def _call_id(hook: Mapping[str, Any]) -> str:
    given = hook.get("tool_use_id")
    if isinstance(given, str) and given:
        return given
    # Older releases give none: then two equal concurrent calls count as one.
    return f"{hook.get('tool_name')}:{hash(written(hook.get('tool_input'), sort_keys=True)):x}"


def _text(hook: Mapping[str, Any], name: str) -> str:
    value = hook.get(name)
    if not isinstance(value, str) or not value:
        raise ValueError(f"hook: {name}: expected a text, got {value!r:.80}")
    return value
