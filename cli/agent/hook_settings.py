"""`haltline hook install` and `uninstall`: add the hook to an agent's settings, or remove it."""

import argparse
import contextlib
import copy
import difflib
import json
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from hashlib import blake2b
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

    of_user: str
    """The file for all projects of a user; a folder ends with a slash."""
    shared: str
    """The file in a project, which a team commits."""
    events: Mapping[str, str | None]
    """Event names and matchers; empty: the hooks are not in one JSON file."""
    timeout: int = 60
    then: str = ""
    """What the user has to do before the hooks run."""
    private: str = ""
    """The file in a project that is one user's; empty: the agent has none."""


AGENTS = {
    "claude-code": Agent(
        "~/.claude/settings.json", ".claude/settings.json", EVENTS, private=".claude/settings.local.json"
    ),
    "codex": Agent(
        "~/.codex/hooks.json",
        ".codex/hooks.json",
        _CODEX,
        then="Codex runs hooks that you have trusted, also in `codex exec`: start `codex` once and review them, then "
        "or with /hooks",
    ),
    "gemini-cli": Agent("~/.gemini/settings.json", ".gemini/settings.json", _GEMINI, timeout=60_000),  # milliseconds
    "cline": Agent(
        "~/Documents/Cline/Hooks/",
        ".clinerules/hooks/",
        {},
        then="turn hooks on in the settings of Cline's extension; its command line runs them at once",
    ),
    "opencode": Agent("~/.config/opencode/plugins/", ".opencode/plugins/", {}),
}
"""The agents that have hooks, by their name in `scan`."""
Settings = dict[str, Any]
Change = tuple[Path, bytes | None, bytes | None]
"""A file, its present content and its new one; None: no file."""


_COMMAND = re.compile(rb"hook_client\.py|haltline hook")
_BETWEEN = re.compile(rb"[\s\"',;\]]+")


class BadSettings(Exception):
    """A settings file that cannot be changed: where, what was expected, what was given."""


def main(arguments: list[str], *, refusal: Callable[[str], str | None]) -> int:
    """Run `install ...` or `uninstall ...`. Returns the exit code: 0 done, 2 not possible.

    `refusal`: why nobody may uninstall the hook, change its options, or accept settings that were changed, if so.
    """
    parser = argparse.ArgumentParser(prog=f"haltline hook {arguments[0]}", description=__doc__)
    parser.add_argument("--for", dest="agent", choices=AGENTS, default=CLAUDE_CODE)
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--user", action="store_true", help="in the agent's settings for all your projects")
    where.add_argument("--settings", metavar="FILE", help="in this file; of cline and opencode, in this folder")
    parser.add_argument("--dry-run", action="store_true", help="show what would change, and change nothing")
    is_install = arguments[0] == "install"
    if is_install:
        parser.add_argument("--local", action="store_true", help="decide on this machine, without a broker")
        for name in ("--bootstrap", "--prefix", "--agent-id", "--client-config"):
            parser.add_argument(
                name, metavar="TEXT", help="written into the hook's command; default: the environment's"
            )
    options = vars(parser.parse_args(arguments[1:]))
    agent, dry_run = options.pop("agent"), options.pop("dry_run")
    if is_install and not {".cache", "Caches", "cache"}.isdisjoint(Path(sys.prefix).parts):
        print(f"haltline: hook: {sys.prefix} is a cache, and the hook ends with it; install haltline first, as with "
              "`uv tool install haltline` or `pipx install haltline`", file=sys.stderr)  # fmt: skip
    try:
        named = options.pop("settings") or (AGENTS[agent].of_user if options.pop("user") else None)
        plan = _plan(agent, options if is_install else None, _place(named) if named else None, dry_run=dry_run)
        for change in plan.changes:
            _show(*change)
        if not plan.changes:
            print(f"haltline: hook: no hook of {agent} is installed in {Path.cwd()}, or for all your projects")
        noted = Installed(os.environ)
        is_personal = _is_weaker(plan.changes) or any(any(noted.changes(str(root))) for root in plan.roots.values())
        if is_personal and not dry_run and (why := refusal(f"{arguments[0]} the hook")):
            print(f"haltline: hook: {why}; nothing was changed", file=sys.stderr)
            return 2
        if not dry_run:
            _carry_out(agent, plan, noted)
            if plan.place is not None:
                _tell_what_follows(agent, plan.place, named)
    except (BadSettings, OSError) as error:
        print(f"haltline: hook: {error}", file=sys.stderr)
        return 2
    return 0


class _Plan(NamedTuple):
    place: Path | None
    """Where the hook is installed; None: it is uninstalled."""
    changes: list[Change]
    roots: dict[Path, Path]
    """The folder below which sessions are guarded, by the place of the hook."""


def _plan(agent: str, options: dict[str, Any] | None, named: Path | None, *, dry_run: bool) -> _Plan:
    """What changes. `options`: of the hook that is installed; None: it is uninstalled.

    An installation takes out of this folder's other files what is there of ours, as the last release put it into files
    that a team commits; an uninstallation takes out all that guards a session in this folder.
    """
    known = _known_places(agent)
    if options is None:
        place, others = None, [named] if named else known
    else:
        place = named or _chosen(agent, dry_run=dry_run)
        others = known[:-1] if named in (None, known[-1]) else []
    changes = [
        change
        for other in others
        if other != place
        for change in _changes(agent, other, None)
        if change[1] != change[2]
    ]
    if options is not None and place is not None:
        changes += _changes(agent, place, _line_of(agent, options, place))
    places = [*others, *([place] if place else [])]
    return _Plan(place, changes, {one: _root_of(agent, one) for one in places})


def _carry_out(agent: str, plan: _Plan, noted: Installed) -> None:
    one = AGENTS[agent]
    for file, before, after in plan.changes:
        if before != after:
            _write(file, before, after, keep=file == plan.place and bool(one.events))
            print(f"haltline: hook: {file}: {'written' if after is not None else 'deleted'}", file=sys.stderr)
    written = [file for file, _, _ in plan.changes]
    for place, root in plan.roots.items():
        of_project = [_place(one.private), _place(one.shared)] if one.private and place != _place(one.of_user) else []
        beside = [place.parent / file.name for file in of_project]  # they may end all hooks
        for file in dict.fromkeys([*beside, *(file for file in written if place in (file, file.parent))]):
            noted.note(file.absolute(), None if plan.place is None else root)
    if plan.place is not None:
        of_user = [Path.home() / ".claude/settings.json"] if agent == CLAUDE_CODE else []  # may end all hooks
        for file in [*of_user, *_of_guard()]:
            noted.note(file, Path.home())


def _place(name: str) -> Path:
    return Path(name).expanduser()


def _known_places(agent: str) -> list[Path]:
    """Where hooks of the agent may be that guard a session in this folder; the user's own file is the last."""
    one = AGENTS[agent]
    return [_place(name) for name in (one.private, one.shared, one.of_user) if name]


def _root_of(agent: str, place: Path) -> Path:
    """The folder below which sessions are guarded by a place."""
    return Path.home() if place == _place(AGENTS[agent].of_user) else place.resolve().parent.parent


def _chosen(agent: str, *, dry_run: bool) -> Path:
    """Where a hook is installed for which no place is named: where only this user is concerned."""
    one = AGENTS[agent]
    private, of_user = _place(one.private), _place(one.of_user)
    if not one.private:
        return of_user
    is_there = [place for place in (private, of_user) if PROGRAM.search(_text_of(place))]
    if is_there:
        return is_there[0]
    if not dry_run and sys.stdin.isatty() and sys.stdout.isatty():
        asked = f"Guard 1: all your projects ({one.of_user}), or 2: this one, for you alone ({one.private})? [1] "
        return private if input(asked).strip() == "2" else of_user
    return private


def _text_of(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def _tell_what_follows(agent: str, place: Path, named: str | None) -> None:
    def tell(text: str) -> None:
        print(f"haltline: hook: {text}", file=sys.stderr)

    one = AGENTS[agent]
    which = [] if agent == CLAUDE_CODE else ["--for", agent]
    if place == _place(one.of_user):
        whose = "in all your projects"
    else:
        whose = f"below {_root_of(agent, place)}"
        tell(f"for all your projects: {shlex.join(['haltline', 'hook', 'install', *which, '--user', '...'])}")
    back = shlex.join(["haltline", "hook", "uninstall", *which, *(["--settings", named] if named else [])])
    tell(f"sessions that begin from now on {whose} are guarded; {back} ends that")
    if _is_shared(agent, place) and shutil.which("haltline") is None:
        tell(f"{place}: its command is `haltline`, which is not on your PATH: no call is checked until it is")
    elif place == _place(one.private) and _is_seen_by_git(place):
        tell(f"git does not ignore {place}, and it names a program of this machine: leave it out of commits")
    if one.then:
        tell(one.then)


def _is_seen_by_git(file: Path) -> bool:
    """Return whether the file lies in a repository that does not ignore it."""
    try:
        return subprocess.run(["git", "check-ignore", "-q", file], capture_output=True, check=False).returncode == 1
    except OSError:
        return False


def _is_shared(agent: str, place: Path) -> bool:
    """Return whether a team commits the file."""
    shared = Path(AGENTS[agent].shared).parts
    return place.parts[-len(shared) :] == shared and place.resolve() != _place(AGENTS[agent].of_user).resolve()


def _line_of(agent: str, options: dict[str, Any], place: Path) -> str:
    """The command line of a hook. Where haltline is not installed, it passes silently.

    It has absolute paths, because hooks do not have a shell's PATH, except in a file that others have too.
    """
    command = command_of(agent, options)
    if _is_shared(agent, place):
        whole = shlex.join(["haltline", "hook", *command[4:]])
        return f"command -v haltline >/dev/null 2>&1 || exit 0; exec {whole}"
    python, client = shlex.quote(command[0]), shlex.quote(command[3])
    return f"test -x {python} && test -f {client} || exit 0; exec {shlex.join(command)}"


def command_of(agent: str, options: dict[str, Any]) -> list[str]:
    """The command that a hook runs, with absolute paths, because hooks do not have a shell's PATH."""
    words = [] if agent == CLAUDE_CODE else ["--for", agent]
    for name, value in options.items():
        words += [] if not value else [f"--{name}"] if value is True else [f"--{name.replace('_', '-')}", value]
    return [sys.executable, "-I", "-S", hook_client.__file__, *words]


def _changes(agent: str, place: Path, line: str | None) -> Iterator[Change]:
    """The changes by `install` (with a command line) or `uninstall` (without). Raises BadSettings and OSError."""
    events, timeout = AGENTS[agent].events, AGENTS[agent].timeout
    if events:
        before = place.read_bytes() if place.exists() else None
        if line is not None:
            yield place, before, installed(before, line, str(place), events, timeout)
        else:
            yield place, before, uninstalled(before, _kept(place), str(place))
        return
    texts = dict.fromkeys(_CLINE, f"#!/bin/sh\n{line}\n")
    if agent == "opencode":
        plugin = Path(__file__).with_name("opencode_plugin.js").read_text(encoding="utf-8")
        texts = {"haltline.js": plugin.replace("COMMAND = []", f"COMMAND = {json.dumps(['/bin/sh', '-c', line])}")}
    for name, text in texts.items():
        before = (place / name).read_bytes() if (place / name).exists() else None
        is_ours = before is None or b"haltline hook" in before or PROGRAM.search(before.decode(errors="replace"))
        if line is None:
            yield place / name, before, None if is_ours else before
        elif is_ours:
            yield place / name, before, text.encode()
        else:
            raise BadSettings(
                f"{place / name}: expected no hook of another program there, got one; nothing was changed"
            )


def _is_weaker(changes: Sequence[Change]) -> bool:
    """Return whether the hook is taken out, or gets other options. If it moves, its new file takes the old one's."""

    def options_in(texts: Iterable[bytes | None]) -> set[bytes]:
        lines = (_COMMAND.split(line) for text in texts for line in own_part(text or b"").splitlines())
        return {b" ".join(filter(None, _BETWEEN.split(line[-1]))) for line in lines if len(line) > 1}

    had, has = options_in(change[1] for change in changes), options_in(change[2] for change in changes)
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
    """The file for the content before `install`, outside of the project."""
    return Path.home() / ".config/haltline/before" / blake2b(os.fsencode(file.absolute()), digest_size=16).hexdigest()


def _keep_of_last_release(file: Path) -> Path:
    return file.with_name(f"{file.name}.before-haltline")


def _kept(file: Path) -> tuple[bytes | None] | None:
    """The content before `install`; an empty backup stands for no file. None: not known."""
    kept = next((one for one in (_keep_of_last_release(file), _keep(file)) if one.exists()), None)
    return None if kept is None else (kept.read_bytes() or None,)


def _show(file: Path, before: bytes | None, after: bytes | None) -> None:
    old, new = ([] if text is None else text.decode(errors="replace").splitlines() for text in (before, after))
    was, becomes = ("/dev/null" if text is None else str(file) for text in (before, after))
    diff = list(difflib.unified_diff(old, new, was, becomes, lineterm=""))
    print("\n".join(diff) if diff else f"{file}: nothing to change")


def _write(file: Path, before: bytes | None, after: bytes | None, *, keep: bool) -> None:
    kept = _keep(file)
    if keep and _kept(file) is None:  # a second install: the first one has the original
        kept.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
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
        _keep_of_last_release(file).unlink(missing_ok=True)


def _replace(file: Path, text: bytes) -> None:
    """Replace the file atomically. Follows a link and keeps the mode."""
    file = file.resolve()
    new = file.with_name(f".{file.name}.{os.getpid()}")
    new.write_bytes(text)
    if file.exists():
        new.chmod(file.stat().st_mode & 0o7777)
    new.replace(file)
