"""Claude Code's hooks: from a hook's input to its output.

Claude Code runs all hooks at once and applies the strictest answer. A call without objections therefore gets no answer:
`allow` would skip the question of Claude Code itself, or of its user's rules.

A stopped session ends its turn. Releases before 2.1.300 or so ignore `continue: false` beside the denial of a call, so
`PostToolBatch`, which comes after all calls of a model's message, says it again. A killed session ends at the first
refused call; a held one after the model has read why and had a turn for its report, at the next.
"""

import asyncio
import contextlib
import os
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, Final, Literal

from haltline.interventions.agent.enforcement.refusal_cause import APPROVAL_PENDING
from haltline.interventions.agent.frame.session import Answer, FrameworkSession
from haltline.interventions.agent.guard import Guard
from haltline.interventions.agent.integrations.claude_code.stops import Earlier, Stop
from haltline.interventions.agent.integrations.claude_code.transcript import Transcript, results_in
from haltline.interventions.agent.producers.any_json import text_of_blocks, written
from haltline.interventions.agent.refused import Refused
from haltline.interventions.agent.settings import DEFAULT_AGENT, GuardSettings
from haltline.interventions.levels.default_levels import HELD_CODE
from haltline.interventions.state.texts import line_of
from haltline.schemas.decisions import Level

JsonObject = dict[str, Any]
OnApproval = Literal["deny", "ask"]
"""The answer to a call that waits for an operator's approval: `ask` asks the user of the terminal."""


def agent_id_of(agent: str) -> str:
    """Return an id per machine: counts and kills of an agent must not span all users."""
    return f"{agent}@{socket.gethostname()}"[:128]


AGENT_ID: Final = agent_id_of("claude-code")
_MAX_ID_CHARS = 200
_RESULTS = frozenset({"PostToolUse", "PostToolUseFailure"})


class Sessions:
    """The guards of one session of Claude Code and of its subagents, each of which is a session below it."""

    guard_type: ClassVar[type[Guard]] = Guard
    """The class of its guards."""

    def __init__(
        self,
        settings: GuardSettings,
        *,
        on_approval: OnApproval = "deny",
        agent_id: str = AGENT_ID,
        has_batches: bool = True,
        is_cut_off: bool = False,
        is_local: bool = False,
        earlier: Earlier | None = None,
    ) -> None:
        """`agent_id`: used if the settings have none. `has_batches`: the agent runs `PostToolBatch`.

        `is_cut_off`: the end of a turn says nothing, so a call before it is refused with the reason.

        `is_local`: decided on here alone, so that only this machine's user can release it.
        """
        self._settings = settings
        self._agent_id = agent_id
        self._on_approval = on_approval
        self._has_batches = has_batches
        self._is_cut_off = is_cut_off
        self._earlier = earlier or Earlier()
        self._is_local = is_local
        self._sessions: dict[str, FrameworkSession] = {}
        self._transcripts: dict[str, Transcript] = {}
        self._main_id = ""
        """The id of the session that is no subagent's."""
        self._stop = self._earlier.stop
        self._is_enforced = False
        """The stop is known to the guard, which may lift it; else only an earlier process knew it."""
        self._was_refused = False
        """A call was refused because the session is held."""
        self._state: bytes | None = None

    @property
    def stop(self) -> Stop | None:
        """The stop of the session; None: it may go on."""
        main = self._main_session
        if main is None:
            return self._stop
        refused = main.guard.stopped
        if refused is not None:
            if self._stop is None or main.guard.killed > self._stop.is_kill:
                self._stop, self._was_refused = self._new_stop(main.guard, refused), False
            self._is_enforced = True
        elif self._is_enforced or (main.guard.ready and not self._is_local):
            self._stop, self._is_enforced, self._was_refused = None, False, False
        return self._stop

    @property
    def _main_session(self) -> FrameworkSession | None:
        return self._sessions.get(self._main_id)

    def settings_changed(self, file: str) -> None:
        """Report that settings of the hook are not as they were when it was installed."""
        if (main := self._main_session) is not None:
            main.guard.settings_changed(file)

    def stored(self) -> bytes | None:
        """Return the counts of the session for a later process; None unless it is decided on here."""
        main = self._main_session
        return self._state if main is None or not self._is_local else main.guard.stored()

    @property
    def degraded(self) -> str | None:
        """Why the session's calls are not decided on; None: they are, as always in mode `local`."""
        if self._settings.mode == "local":
            return None
        return next(filter(None, (session.guard.degraded for session in self._sessions.values())), None)

    @property
    def ready(self) -> bool:
        """Whether the restrictions in force are known for every guard."""
        return all(session.guard.ready for session in self._sessions.values())

    async def answer(self, hook: Mapping[str, Any], *, is_attended: bool = True) -> JsonObject:
        """Return the output of a hook; empty for no objection.

        `is_attended`: a person writes the prompts; else they do not end a hold.

        Raises: ValueError: a required field is missing or invalid.
        """
        event = _text(hook, "hook_event_name")
        if event == "SessionStart":
            await self._begin(hook)
        session = await self._session(hook)
        if event == "PreToolUse":
            return await self._on_call(hook, session)
        if event == "SessionEnd":
            await self._tell_last_turns(hook, session, for_answer=False)
            await self.close()
            return {}
        if event == "SubagentStop" and "agent_id" in hook:
            await self._tell_last_turns(hook, session)
            self._sessions.pop(session.guard.session_id, None)
            await session.end_async()
            return {}
        if event == "UserPromptSubmit":
            self._on_prompt(hook, session, is_attended=is_attended)
        elif event in _RESULTS:
            failed = str(hook.get("error") or "failed") if event == "PostToolUseFailure" else None
            result = text_of_blocks(hook.get("tool_response"))
            if not session.complete(_call_id(hook), result, error=failed):  # another process handled the call
                session.guard.has_read(str(hook.get("tool_name")), _args_of(hook), failed or result)
        elif event in {"Stop", "SubagentStop"}:
            if event == "Stop":
                await self._tell_last_turns(hook, session)
            else:  # of a subagent without an id, as in older releases: its agent continues
                await self._tell_turns(hook, session)
            session.abandon()  # a call that the user did not allow has no end event
        return await self._if_stopped(event, session)

    async def _on_call(self, hook: Mapping[str, Any], session: FrameworkSession) -> JsonObject:
        await self._tell_turns(hook, session)
        stop = self._stop_of(session)
        if stop is not None and self._is_local and not self._is_enforced:
            return self._refusal(stop, hook)
        folder = hook.get("cwd")
        answer = await session.propose_async(
            _call_id(hook),
            _text(hook, "tool_name"),
            _args_of(hook),
            folder=folder if isinstance(folder, str) and os.path.isabs(folder) else "",
        )
        stop = self._stop_of(session)
        if stop is not None and (answer.refused is not None or not self._is_enforced):
            return self._refusal(stop, hook)
        return self._verdict(hook, answer)

    def _on_prompt(self, hook: Mapping[str, Any], session: FrameworkSession, *, is_attended: bool) -> None:
        self._transcript(hook)  # later lines belong to this run
        stop = self._stop_of(session)
        if stop is None or (is_attended and not stop.is_kill):
            session.guard.prompt(str(hook.get("prompt") or ""))

    async def _if_stopped(self, event: str, session: FrameworkSession) -> JsonObject:
        """Return what ends the turn of a stopped session; empty if the session goes on."""
        stop = self._stop_of(session)
        if stop is None or (event in _RESULTS and stop.may_report):
            return {}
        if event == "SessionStart":
            return {"systemMessage": stop.text_for(self._main_id)}
        if event == "PostToolBatch" and stop.may_report and self._is_enforced and await _may_turn(session):
            return {}
        return halted(stop.text_for(self._main_id))

    async def close(self) -> None:
        """End every session."""
        self._state = self.stored()  # without the end, as it may be resumed
        sessions, self._sessions = self._sessions, {}
        for session in reversed(sessions.values()):  # subagents before their agent
            await session.end_async()

    async def _begin(self, hook: Mapping[str, Any]) -> None:
        """Start a session; if it was killed, read the restrictions again, as an operator may have released it."""
        session_id = _session_id(hook)
        session = self._sessions.get(session_id)
        if session is not None and session.guard.killed and not self._is_local:
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
        if parent is None:
            self._main_id = session_id
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
            if parent is None and self._earlier.state is not None:
                with contextlib.suppress(ValueError):  # of another release, which it begins anew with
                    session.guard.go_on(self._earlier.state)
                    session.guard.start()
                self._earlier = Earlier()
            if agent is None:
                await asyncio.to_thread(_recall, session.guard, hook)  # takes about a second, without blocking others
        return session

    def _stop_of(self, session: FrameworkSession) -> Stop | None:
        """Return the stop of the session; for a subagent, also of it alone."""
        stop = self.stop
        if stop is not None or session is self._main_session:
            return stop
        refused = session.guard.stopped
        return None if refused is None else self._new_stop(session.guard, refused)

    def _new_stop(self, guard: Guard, refused: Refused) -> Stop:
        is_kill = guard.killed
        return Stop(refused.reason, is_kill, not is_kill and refused.code == HELD_CODE, self._is_local)

    def _refusal(self, stop: Stop, hook: Mapping[str, Any]) -> JsonObject:
        """Return the answer to a call of a stopped session; it ends the turn if the model has read the cause before."""
        ends = not (stop.may_report or self._is_cut_off) or (self._was_refused and not self._has_batches)
        self._was_refused = True
        return stopped_answer(stop.text_for(_session_id(hook)), ends=ends)

    def _verdict(self, hook: Mapping[str, Any], answer: Answer) -> JsonObject:
        output: JsonObject = {"hookEventName": "PreToolUse"}
        refused = answer.refused
        if refused is not None:
            waits = _awaits_a_person(refused) and self._on_approval == "ask"
            reason = answer.refusal
            if waits and self._settings.mode == "local" and refused.decision is not None:
                reason = f"haltline: {line_of(refused.decision)}"  # the other text is for a session without a user
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
        """Report the turns since the last prompt; one without usage if the transcript has none.

        At the end of a turn, wait for the answer; at the end of the session, at most for the call before it.
        """
        transcript = self._transcript(hook)
        if transcript is None:
            lacks = for_answer
        else:
            for turn in await transcript.wait(for_answer=for_answer):
                session.turn(turn.usage, turn.text)
            lacks = transcript.lacks_turn(for_answer=for_answer)
            if (rest := transcript.end()) is not None:
                session.turn(rest.usage, rest.text)
        if lacks:
            session.turn()

    async def _tell_turns(self, hook: Mapping[str, Any], session: FrameworkSession) -> None:
        if (transcript := self._transcript(hook)) is not None:
            for turn in await transcript.read():
                session.turn(turn.usage, turn.text)
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


def _awaits_a_person(refused: Refused) -> bool:
    """Return whether a person may allow the refused call: it was paused, or a result before it asked for that."""
    decision = refused.decision
    return refused.code == APPROVAL_PENDING or (decision is not None and decision.level is Level.PAUSE)


async def _may_turn(session: FrameworkSession) -> bool:
    try:
        await session.before_turn_async()
    except Refused:
        return False
    return True


def stopped_answer(text: str, *, ends: bool = True) -> JsonObject:
    """Return the answer to a call of a stopped session. `ends`: with the fields that end the turn."""
    output = {"hookEventName": "PreToolUse", "permissionDecision": "deny", "permissionDecisionReason": text}
    return (halted(text) if ends else {}) | {"hookSpecificOutput": output}


def halted(text: str) -> JsonObject:
    """Return the fields that end the whole turn, not only the call."""
    return {"continue": False, "stopReason": text}


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
