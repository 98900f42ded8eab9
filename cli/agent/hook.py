"""`haltline hook`: the command that a coding agent's hooks run. Standard library only: it starts with every tool call.

It passes the hook's input to this user's local service (`haltline agent`), which it starts if none runs, and continues
if it was suspended, and prints the answer (`interventions/agent/integrations/hooks/handler.py`). `hook_client.py` does
the same in a quarter of the time if one runs.
Without a service, calls that destroy something are refused, by what they would run and not only by their name, and
others are allowed; after a known kill, all are refused. The user reads why.
"""

import os
import sys

from haltline.cli import settings_file
from haltline.cli.agent import reaching
from haltline.cli.agent.hook_request import (
    MAX_BYTES,
    Reply,
    agent_of,
    environment,
    head_of,
    place,
    put,
    request_reply,
)

_USAGE = """\
usage: haltline hook [--for AGENT] [--local] [--bootstrap HOST:PORT] [--prefix TEXT] [--agent-id NAME]
                     [--client-config FILE]
       haltline hook install [--for AGENT] [--user | --settings FILE] [--dry-run] [the options above]
       haltline hook uninstall [--for AGENT] [--user | --settings FILE] [--dry-run]
       haltline hook status
       haltline hook release SESSION

Reads one hook of an agent (claude-code, codex, gemini-cli, cline or opencode) as JSON on standard input, publishes
it as an event, and answers a call with the decision: with --local that of this machine, else a worker's. `install`
adds the hook to settings that are yours alone and shows the change: with --user those of all your projects, else of
Claude Code .claude/settings.local.json in this folder (at a terminal it asks). `uninstall` takes it out. `status` lists
where hooks are, and the sessions that are stopped. `release` lets a session go on that was stopped with --local.
For a release, an uninstall and other options of an installed hook, a person types a code that the terminal shows; a
process below an agent is refused.
The options, and all other settings of a guard, can be set in the environment as well (HALTLINE_BOOTSTRAP ...), or in
the user's ~/.config/haltline/haltline.toml; a haltline.toml of the working directory is not read.
HALTLINE_HOOK_APPROVAL=ask: the user of the terminal answers calls that need an approval; deny: they are refused.

Exit codes: 0 answered; 1 no verdict could be obtained, and the call runs; 2 the input cannot be read as a hook, so
the call is not made (the agent blocks it, and shows the message to the model). `install`: 2 set up wrongly, or refused.

Example: haltline hook install --for codex --local
"""
_NOT_READ = "The call could not be parsed, so no verdict on it is available. Write it another way."


def main(arguments: list[str]) -> int:
    """Run the command with the arguments after `hook`. Returns the exit code."""
    if arguments[:1] in (["install"], ["uninstall"]):
        from haltline.cli.agent import hook_settings, persons

        return hook_settings.main(arguments, refusal=persons.refusal)
    if "-h" in arguments or "--help" in arguments:
        print(_USAGE, end="")
        return 0
    if arguments[:1] == ["status"]:
        from haltline.cli.agent import hook_status

        return hook_status.main(arguments[1:])
    if arguments[:1] == ["release"]:
        return _release(arguments[1:])
    raw = sys.stdin.buffer.read(MAX_BYTES + 1)
    try:
        return put(_answered(arguments, raw))
    except Exception as error:  # Python's own exit code 1 would let the call run
        print(f"haltline: hook: {_NOT_READ} ({error!r:.300})", file=sys.stderr)
        return 2


def _answered(arguments: list[str], raw: bytes) -> Reply:
    agent, head = agent_of(arguments), head_of(arguments, os.environ)
    try:
        reaching.make_folders(os.environ)
        path, why = place(arguments, os.environ), ""
        reaching.resume(path)
        reply = request_reply(path, head, raw)
        if reply is None and _is_hook(agent, raw):
            try:
                os.environ.update(environment(arguments))
                settings_file.apply("hook")
            except ValueError as error:
                why = str(error)
            reaching.start(path, why, os.environ)
            reply = request_reply(path, head, raw)
            why = why or "the local service ended before it answered"
    except OSError as error:
        reply, why = None, str(error)
    return reply or _by_policy(agent, raw, why)


def _is_hook(agent: str, raw: bytes) -> bool:
    """Return whether the input is worth starting a service."""
    from haltline.interventions.agent.integrations.hooks.dialects import DIALECTS

    try:
        return agent in DIALECTS and bool(DIALECTS[agent].hook_of(raw))
    except ValueError:
        return False


def _by_policy(agent: str, raw: bytes, why: str) -> Reply:
    """The answer without a service."""
    from haltline.interventions.agent.integrations.hooks.dialects import DIALECTS, event_of, reply_of
    from haltline.interventions.agent.integrations.hooks.stored import Stored
    from haltline.interventions.agent.integrations.hooks.unanswered import unanswered, unread

    if agent not in DIALECTS:
        why = f"--for: expected one of {', '.join(DIALECTS)}, got {agent!r}"
    dialect, stored, event = DIALECTS.get(agent, DIALECTS["claude-code"]), Stored.of_user(os.environ), ""
    try:
        hook = dialect.hook_of(raw)
        event = str(hook.get("hook_event_name"))
        answer = unanswered(stored, hook, why)
    except ValueError as error:
        answer = unread(stored, "", event_of(raw), str(error))
    reply = reply_of(dialect, event, answer)
    head, _, texts = reply.partition(b"\n")
    code, out, _ = map(int, head.split())
    return code, texts[:out], texts[out:]


def _release(sessions: list[str]) -> int:
    from haltline.cli.agent.persons import refusal
    from haltline.interventions.agent.integrations.hooks.stored import Stored

    if len(sessions) != 1 or sessions[0].startswith("-"):
        given = " ".join(sessions) or "none"
        print(f"haltline: hook: release: expected the id of one session that was stopped, got {given}", file=sys.stderr)
        return 2
    if why := refusal(f"release {sessions[0]}"):
        print(f"haltline: hook: {why}", file=sys.stderr)
        return 2
    session_id, was_stopped = sessions[0], Stored.of_user(os.environ).release(sessions[0])
    print(f"{session_id}: {'it may go on' if was_stopped else 'it was not stopped on this machine'}")
    return 0 if was_stopped else 1
