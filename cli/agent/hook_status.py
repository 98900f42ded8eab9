"""`haltline hook status`: where hooks are installed, which sessions are stopped, and how each may go on."""

import os
import sys
from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

from haltline.cli.agent.hook_settings import AGENTS
from haltline.interventions.agent.integrations.hooks.installed import PROGRAM, Installed
from haltline.interventions.agent.integrations.hooks.stored import Stored
from haltline.interventions.agent.user_files import open_file

_MOST = 50
_MAX_BYTES = 1 << 20
_CLIENT = "/hook_client.py"


class Hook(NamedTuple):
    """A place with hooks of ours."""

    agent: str
    place: Path
    """The settings file, or the folder of the hooks."""
    root: str
    """Sessions below it are guarded."""
    remark: str = ""
    """What is wrong with it, and what to do."""


def main(arguments: list[str]) -> int:
    """Print the status. Returns the exit code."""
    if arguments:
        print(f"haltline: hook: status: expected no arguments, got {' '.join(arguments)}", file=sys.stderr)
        return 2
    print("\n".join((*_lines(os.environ), "", *_sessions(os.environ))))
    return 0


def hooks(environ: Mapping[str, str]) -> list[Hook]:
    """Return the hooks that were installed anywhere, and those in this folder and in the user's own settings."""
    found: dict[Path, Hook] = {}
    for note, is_same in sorted(Installed(environ).notes()):
        file = Path(note.file)
        for agent, one in AGENTS.items():
            names = [one.private, one.shared, one.of_user.removeprefix("~/")]
            if not any(name and name.rstrip("/") in note.file for name in names):
                continue
            place = file if one.events else file.parent
            text = _text_of(file)
            remark = _missing(text) if PROGRAM.search(text) else ""
            if not is_same:
                remark = "changed since it was installed: haltline hook install shows how"
            if remark or PROGRAM.search(text):
                found.setdefault(place, Hook(agent, place, note.root, remark))
            break
    for agent, one in AGENTS.items():
        for name, root in ((one.of_user, Path.home()), (one.private, Path.cwd()), (one.shared, Path.cwd())):
            place = Path(name).expanduser().absolute()
            for file in [place] if one.events else sorted(place.glob("*")):
                if name and place not in found and PROGRAM.search(text := _text_of(file)):
                    found[place] = Hook(agent, place, str(root), _missing(text))
    return list(found.values())


def _text_of(file: Path) -> str:
    try:
        with open_file(file) as opened:
            return opened.read(_MAX_BYTES).decode(errors="replace").replace('"', " ")
    except OSError:
        return ""


def _missing(text: str) -> str:
    """The remark on a hook whose program is not there; empty: it is there."""
    words = (*text.split("'"), *text.split())
    gone = [one for one in words if one.startswith("/") and one.endswith(_CLIENT) and not Path(one).exists()]
    return f"{gone[0]} is not there, so no call is checked: haltline hook install" if gone else ""


def _lines(environ: Mapping[str, str]) -> Iterator[str]:
    found = hooks(environ)
    yield "Hooks:" if found else "Hooks: none is installed (haltline hook install)"
    for agent, place, root, remark in found:
        yield f"  {agent}: {place}, for sessions below {root}{remark and f'; {remark}'}"


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
