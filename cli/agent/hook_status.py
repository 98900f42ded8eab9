"""`haltline hook status`: where hooks are installed, which sessions are stopped, and how each may go on."""

import os
import sys
from collections.abc import Iterator, Mapping
from datetime import datetime

from haltline.cli.agent.hook_settings import AGENTS
from haltline.interventions.agent.integrations.hooks.installed import Installed
from haltline.interventions.agent.integrations.hooks.stored import Stored

_MOST = 50


def main(arguments: list[str]) -> int:
    """Print the status. Returns the exit code."""
    if arguments:
        print(f"haltline: hook: status: expected no arguments, got {' '.join(arguments)}", file=sys.stderr)
        return 2
    print("\n".join((*_hooks(os.environ), "", *_sessions(os.environ))))
    return 0


def _hooks(environ: Mapping[str, str]) -> Iterator[str]:
    notes = Installed(environ).notes()
    yield "Hooks:" if notes else "Hooks: none is installed (haltline hook install)"
    for note, is_same in sorted(notes):
        agent = next((name for name, one in AGENTS.items() if one.settings.rstrip("/") in note.file), "an agent")
        changed = "" if is_same else "; changed since: haltline hook install shows how"
        yield f"  {agent}: {note.file}, for sessions below {note.root}{changed}"


def _sessions(environ: Mapping[str, str]) -> Iterator[str]:
    stops = Stored.of_user(environ).stops()
    yield "Stopped sessions:" if stops else "Stopped sessions: none"
    for session_id, at_s, stop in stops[:_MOST]:
        when = datetime.fromtimestamp(at_s).astimezone().isoformat(" ", "minutes")
        if stop.is_local:
            how = f"haltline hook release {session_id or 'SESSION'}"
        else:
            how = f"an operator: haltline reset {session_id or 'SESSION'}"
        yield f"  {session_id or '(its id was not stored)'}: {'killed' if stop.is_kill else 'held'} {when}: {stop.text}"
        yield f"    to let it go on: {how}"
    if len(stops) > _MOST:
        yield f"  and {len(stops) - _MOST} more"
