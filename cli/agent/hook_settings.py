"""`haltline hook install` and `uninstall`: add the hook to an agent's settings, or remove it."""

import argparse
import contextlib
import copy
import difflib
import json
import os
import shlex
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from haltline.cli import settings_file
from haltline.cli.agent import hook_client
from haltline.cli.agent.hook_request import CLAUDE_CODE
from haltline.interventions.agent.integrations.hooks.installed import PROGRAM, Installed, own_part
from haltline.schemas import expressions as re

EVENTS = {
    "SessionStart": None, "UserPromptSubmit": None, "PreToolUse": "*", "PostToolUse": "*", "PostToolUseFailure": "*",
    "PostToolBatch": None, "Stop": None, "SubagentStop": None, "SessionEnd": None,
}  # fmt: skip
"""The hooks of Claude Code, and their matchers."""
_CODEX = dict.fromkeys(("SessionStart", "UserPromptSubmit", "PreToolUse", "PostToolUse", "Stop", "SubagentStop"))
_GEMINI = dict.fromkeys(("SessionStart", "BeforeAgent", "AfterAgent", "SessionEnd")) | {
    "BeforeTool": "*", "AfterTool": "*",
}  # fmt: skip
_CLINE = ("TaskStart", "TaskResume", "TaskCancel", "TaskComplete", "UserPromptSubmit", "PreToolUse", "PostToolUse")


class Agent(NamedTuple):
    """The hook configuration of an agent."""

    settings: str
    """The file in a project; a folder ends with a slash."""
    of_user: str
    """The file for all projects of a user."""
    events: Mapping[str, str | None]
    """Event names and matchers; empty: the hooks are not in one JSON file."""
    timeout: int = 60
    then: str = ""
    """What the user has to do before the hooks run."""


AGENTS = {
    "claude-code": Agent(".claude/settings.json", "~/.claude/settings.json", EVENTS),
    "codex": Agent(
        ".codex/hooks.json",
        "~/.codex/hooks.json",
        _CODEX,
        then="Codex runs hooks that you have trusted: start it in this folder and review them, then or with /hooks",
    ),
    "gemini-cli": Agent(".gemini/settings.json", "~/.gemini/settings.json", _GEMINI, timeout=60_000),  # milliseconds
    "cline": Agent(
        ".clinerules/hooks/",
        "~/Documents/Cline/Hooks/",
        {},
        then="turn hooks on in the settings of Cline's extension; its command line runs them at once",
    ),
    "opencode": Agent(".opencode/plugins/", "~/.config/opencode/plugins/", {}),
}
"""The agents that have hooks, by their name in `scan`."""
Settings = dict[str, Any]
Change = tuple[Path, bytes | None, bytes | None]
"""A file, its present content and its new one; None: no file."""


_OPTIONS = re.compile(rb"hook_client\.py(.*)")


class BadSettings(Exception):
    """A settings file that cannot be changed: where, what was expected, what was given."""


def main(arguments: list[str], *, refusal: Callable[[str], str | None]) -> int:
    """Run `install ...` or `uninstall ...`. Returns the exit code: 0 done, 2 not possible.

    `refusal`: why nobody may uninstall the hook, change its options, or accept settings that were changed, if so.
    """
    parser = argparse.ArgumentParser(prog=f"haltline hook {arguments[0]}", description=__doc__)
    parser.add_argument("--for", dest="agent", choices=AGENTS, default=CLAUDE_CODE)
    parser.add_argument("--settings", metavar="FILE",
                        help="default: .claude/settings.json, or the agent's own file; "
                        "~/.claude/settings.json: every project; of cline and opencode a folder")  # fmt: skip
    parser.add_argument("--dry-run", action="store_true", help="show what would change, and change nothing")
    if arguments[0] == "install":
        parser.add_argument("--local", action="store_true", help="decide on this machine, without a broker")
        for name in ("--bootstrap", "--prefix", "--agent-id", "--client-config"):
            parser.add_argument(
                name, metavar="TEXT", help="written into the hook's command; default: the environment's"
            )
    options = vars(parser.parse_args(arguments[1:]))
    agent, settings, dry_run = options.pop("agent"), options.pop("settings"), options.pop("dry_run")
    place = Path(settings or AGENTS[agent].settings).expanduser()
    command = command_of(agent, options) if arguments[0] == "install" else None
    if command and not {".cache", "Caches", "cache"}.isdisjoint(Path(sys.prefix).parts):
        print(f"haltline: hook: {sys.prefix} is a cache, and the hook ends with it; install haltline first, as with "
              "`uv tool install haltline` or `pipx install haltline`", file=sys.stderr)  # fmt: skip
    try:
        changes = [*_changes(agent, place, command)]
        for change in changes:
            _show(*change)
        root = Path.home() if place == Path(AGENTS[agent].of_user).expanduser() else place.resolve().parent.parent
        noted = Installed(os.environ)
        is_personal = any(map(_is_weaker, changes)) or any(noted.changes(str(root)))
        if is_personal and not dry_run and (why := refusal(f"{arguments[0]} the hook")):
            print(f"haltline: hook: {why}; nothing was changed", file=sys.stderr)
            return 2
        for file, before, after in changes:
            if not dry_run and before != after:
                _write(file, before, after, keep=bool(command and AGENTS[agent].events))
                print(f"haltline: hook: {file}: {'written' if after is not None else 'deleted'}", file=sys.stderr)
        if not dry_run:
            local = [place.with_suffix(".local.json")] if agent == CLAUDE_CODE else []
            for file in [*local, *(change[0] for change in changes)]:
                noted.note(file.absolute(), None if command is None else root)
        if command and not dry_run:
            of_user = [Path.home() / ".claude/settings.json"] if agent == CLAUDE_CODE else []  # may end all hooks
            for file in [*of_user, *_of_guard()]:
                noted.note(file, Path.home())
            _tell_what_follows(agent, settings)
    except (BadSettings, OSError) as error:
        print(f"haltline: hook: {error}", file=sys.stderr)
        return 2
    return 0


def _tell_what_follows(agent: str, settings: str | None) -> None:
    which = [] if agent == CLAUDE_CODE else ["--for", agent]
    which += ["--settings", settings] if settings else []
    back = shlex.join(["haltline", "hook", "uninstall", *which])
    print(f"haltline: hook: sessions that begin from now on are guarded; {back} ends that", file=sys.stderr)
    if AGENTS[agent].then:
        print(f"haltline: hook: {AGENTS[agent].then}", file=sys.stderr)


def command_of(agent: str, options: dict[str, Any]) -> list[str]:
    """The command that a hook runs, with absolute paths, because hooks do not have a shell's PATH."""
    words = [] if agent == CLAUDE_CODE else ["--for", agent]
    for name, value in options.items():
        words += [] if not value else [f"--{name}"] if value is True else [f"--{name.replace('_', '-')}", value]
    return [sys.executable, "-I", "-S", hook_client.__file__, *words]


def _changes(agent: str, place: Path, command: list[str] | None) -> Iterator[Change]:
    """The changes by `install` (with a command) or `uninstall` (without one). Raises BadSettings and OSError."""
    events, timeout = AGENTS[agent].events, AGENTS[agent].timeout
    if events:
        before = place.read_bytes() if place.exists() else None
        if command is not None:
            yield place, before, installed(before, shlex.join(command), str(place), events, timeout)
        else:
            yield place, before, uninstalled(before, _kept(place), str(place))
        return
    texts = {name: f"#!/bin/sh\nexec {shlex.join(command or [])}\n" for name in _CLINE}
    if agent == "opencode":
        plugin = Path(__file__).with_name("opencode_plugin.js").read_text(encoding="utf-8")
        texts = {"haltline.js": plugin.replace("COMMAND = []", f"COMMAND = {json.dumps(command)}")}
    for name, text in texts.items():
        before = (place / name).read_bytes() if (place / name).exists() else None
        is_ours = before is None or b"haltline hook" in before or PROGRAM.search(before.decode(errors="replace"))
        if command is None:
            yield place / name, before, None if is_ours else before
        elif is_ours:
            yield place / name, before, text.encode()
        else:
            raise BadSettings(
                f"{place / name}: expected no hook of another program there, got one; nothing was changed"
            )


def _is_weaker(change: Change) -> bool:
    """Return whether the hook is taken out of a file, or gets other options."""
    had, has = (set(_OPTIONS.findall(own_part(text or b""))) for text in change[1:])
    return bool(had) and had != has


def _of_guard() -> Iterator[Path]:
    """Yield the files from which the guard has its settings: the user's, and the policy."""
    yield Path(os.environ.get(settings_file.VARIABLE) or settings_file.user_file(os.environ))
    with contextlib.suppress(settings_file.BadSettings):  # the hook tells
        found = settings_file.load(os.environ, beside_agent=True).get("HALTLINE_AGENT_POLICY")
        policy = Path(os.environ.get("HALTLINE_AGENT_POLICY") or (found.value if found else ""))
        if policy.is_file():  # else it is a preset's name
            yield policy.absolute()


def installed(
    before: bytes | None, command: str, where: str, events: Mapping[str, str | None] = EVENTS, timeout: int = 60
) -> bytes:
    """The file's content with our hooks, which replace earlier ones of ours.

    Raises:
        BadSettings: the agent could not read the file.

    """
    settings = without(parsed(before, where), where)
    hooks = settings.setdefault("hooks", {})
    for event, matcher in events.items():
        entry: Settings = {} if matcher is None else {"matcher": matcher}
        entry["hooks"] = [{"type": "command", "command": command, "timeout": timeout}]
        hooks.setdefault(event, []).append(entry)
    return _text(settings)


def uninstalled(before: bytes | None, kept: tuple[bytes | None] | None, where: str) -> bytes | None:
    """The file's content without our hooks; None: no file. Identical to the original if nothing else has changed.

    `kept` is the content before `install`, if known. Raises BadSettings like `installed`.
    """
    if before is None:
        return None
    settings = parsed(before, where)
    left = without(settings, where)
    if left == settings:
        return before
    if kept is not None and _without_empty_hooks(parsed(kept[0], where)) == _without_empty_hooks(left):
        return kept[0]
    return _text(left)


def parsed(text: bytes | None, where: str) -> Settings:
    """The settings in a file. Raises BadSettings if they are not a JSON object."""
    if text is None or not text.strip():
        return {}
    try:
        settings = json.loads(text)
    except ValueError as error:
        raise BadSettings(f"{where}: expected JSON, got {error}; nothing was changed") from None
    if not isinstance(settings, dict):
        raise BadSettings(f"{where}: expected a JSON object, got {type(settings).__name__}; nothing was changed")
    return settings


def without(settings: Settings, where: str) -> Settings:
    """A copy without our hooks and the empty parts that they leave."""
    settings = copy.deepcopy(settings)
    hooks = settings.get("hooks", {})
    if not isinstance(hooks, dict):
        raise BadSettings(f"{where}: hooks: expected an object, got {type(hooks).__name__}; nothing was changed")
    for event in list(hooks):
        entries = hooks[event]
        if not isinstance(entries, list):
            raise BadSettings(f"{where}: hooks: {event}: expected a list, got {type(entries).__name__}")
        left = [entry for entry in map(_without_ours, entries) if entry is not None]
        if left != entries:
            hooks[event] = left
            if not left:
                del hooks[event]
                if not hooks:
                    del settings["hooks"]
    return settings


def _without_empty_hooks(settings: Settings) -> Settings:
    """The settings without empty hooks: several forms mean that there are none."""
    hooks = {event: entries for event, entries in settings.get("hooks", {}).items() if entries}
    return {name: value for name, value in settings.items() if name != "hooks"} | ({"hooks": hooks} if hooks else {})


def _without_ours(entry: Any) -> Any:
    hooks = entry.get("hooks") if isinstance(entry, dict) else None
    if not isinstance(hooks, list):
        return entry
    left = [h for h in hooks if not (isinstance(h, dict) and PROGRAM.search(str(h.get("command", ""))))]
    return entry if left == hooks else {**entry, "hooks": left} if left else None


def _text(settings: Settings) -> bytes:
    return (json.dumps(settings, indent=2, ensure_ascii=False) + "\n").encode()


def _keep(file: Path) -> Path:
    return file.with_name(f"{file.name}.before-haltline")


def _kept(file: Path) -> tuple[bytes | None] | None:
    """The content before `install`; an empty backup stands for no file. None: not known."""
    kept = _keep(file)
    return (kept.read_bytes() or None,) if kept.exists() else None


def _show(file: Path, before: bytes | None, after: bytes | None) -> None:
    old, new = ([] if text is None else text.decode(errors="replace").splitlines() for text in (before, after))
    was, becomes = ("/dev/null" if text is None else str(file) for text in (before, after))
    diff = list(difflib.unified_diff(old, new, was, becomes, lineterm=""))
    print("\n".join(diff) if diff else f"{file}: nothing to change")


def _write(file: Path, before: bytes | None, after: bytes | None, *, keep: bool) -> None:
    kept = _keep(file)
    if keep:
        file.parent.mkdir(parents=True, exist_ok=True)
        if not kept.exists():  # a second install: the first one has the original
            _replace(kept, before or b"")
    if after is None:
        file.unlink()
    else:
        file.parent.mkdir(parents=True, exist_ok=True)
        _replace(file, after)
        if after.startswith(b"#!"):
            file.chmod(0o755)
    if not keep:
        kept.unlink(missing_ok=True)


def _replace(file: Path, text: bytes) -> None:
    """Replace the file atomically. Follows a link and keeps the mode."""
    file = file.resolve()
    new = file.with_name(f".{file.name}.{os.getpid()}")
    new.write_bytes(text)
    if file.exists():
        new.chmod(file.stat().st_mode & 0o7777)
    new.replace(file)
