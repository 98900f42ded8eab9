"""The session acts on its own supervision: as its own operator, by stopping haltline, or by editing its settings.

The plain forms only: `haltline hook` refuses a release from below an agent whatever the command line says, and tells a
change of its settings however it was made.

Fires: `own_release` (critical) on an attempt to run an operator's command of haltline (`reset`, `approve`, `batch`,
    `kill`, `lift` ...), to stop, remove or uninstall it, to write to its topics, to change its settings, its policy or
    the agent's hook, or to send a change to its console.
Quiet: reading its state (`haltline status`, `pgrep haltline`), its help, text about it, work on its source code.
Misses: what a program, a substitution or a pipe does to it; a guard under another name; the broker itself.
"""

from collections.abc import Iterator
from typing import ClassVar

from msgspec.structs import replace as replaced

from haltline.detectors.commands.effects import rows
from haltline.detectors.commands.prefilter import is_plain
from haltline.detectors.commands.rows import expression_of, rows_of
from haltline.detectors.commands.shell.interpreter import invocations
from haltline.detectors.commands.shell.invocation import Invocation
from haltline.detectors.features.observation import Observation
from haltline.detectors.framework.base import Attempts, OfAttempts, settings
from haltline.schemas import expressions as re
from haltline.schemas import tools
from haltline.schemas.events import Effect
from haltline.schemas.findings import Finding, Severity
from haltline.schemas.policy import Reading

_HOOKS = (
    r"\.(?:claude|gemini)/settings(?:\.local)?\.json|\.codex/hooks\.json|\.clinerules/hooks/|/Cline/Hooks/"
    r"|opencode/plugins?/haltline"
)
"""Where coding agents configure their hooks."""
_HINT = re.compile(rf"haltline|{_HOOKS}", re.IGNORECASE)
_HINTS = ("haltline", "/settings", "/hooks")
"""Every match contains one of these, in lower case."""
_READ_CHARS = 64 * 1024
_TABLE = rows.table("\n".join(f"destroys | {row}" for row in rows_of("supervision")))
_CHANGERS = frozenset(("rm", "mv", "sed", "tee", "truncate", "shred", "unlink", "chmod", "ln", "cp", "dd"))
_SETTINGS = re.compile(
    rf"{_HOOKS}|/haltline(?:-\d+)?/[\w*-]*\.(?:killed|sock|lock)"
    r"|haltline[\w./-]{0,200}(?:policy|rules|settings|client)[\w.-]{0,100}\.(?:ya?ml|json|toml|env|conf)"
    r"|/etc/haltline",
    re.IGNORECASE,
)
_CONSOLE = re.compile(r"haltline|x-haltline", re.IGNORECASE)
_VARIABLES = expression_of("a variable of haltline is set")
_HELP = frozenset(("--help", "-h", "--version", "--dry-run"))


@settings
class OwnRelease(OfAttempts[Attempts]):
    """Any attempt of a session to act as its own operator."""

    id: ClassVar[str] = "own_release"

    def concerns(self, act: Observation) -> bool:
        """Attempts whose text or arguments name haltline, or the hook's settings."""
        if act.text:
            return _hints(act.text[:_READ_CHARS])
        args = act.args
        return args is not None and any(isinstance(v, str) and _hints(v[:512]) for v in args.values())

    def observe(self, state: Attempts, act: Observation) -> Finding | None:
        """Report what the session does to its supervision."""
        what = _of_text(act) if act.text else _of_tool(act)
        if not what:
            return None
        state.attempts += 1
        return self.finding(
            "own_release",
            Severity.CRITICAL,
            f"the session acts on its own supervision: {what:.120}",
            (act.evidence,),
            values={"attempts": state.attempts},
            target="haltline",
        )


def _of_tool(act: Observation) -> str:
    args = act.args or {}
    effect = act.effect
    if effect is Effect.READ or effect is Effect.POLL:
        return ""
    for target in act.targets:
        if target.startswith("path=") and _SETTINGS.search(target) is not None:
            return f"{act.action} of {target[5:]}"
    for name in tools.arguments("place"):
        place = args.get(name)
        if isinstance(place, str) and "://" in place and _CONSOLE.search(place.partition("?")[0]) is not None:
            method = str(args.get("method", "")).upper()
            if method not in ("", "GET", "HEAD", "OPTIONS") or "post" in act.action.lower():
                return f"{method or 'POST'} {place}"
    return ""


def _hints(text: str) -> bool:
    """Return whether a text names haltline or a hook's settings; nearly always in a third of the pattern's time."""
    if not is_plain(text):
        return _HINT.search(text) is not None
    low = text.lower()
    return _HINTS[0] in low or ((_HINTS[1] in low or _HINTS[2] in low) and _HINT.search(low) is not None)


def _of_text(act: Observation) -> str:
    if act.tool.reading is not Reading.SHELL:
        return ""
    text = act.text[:_READ_CHARS]
    variables = _VARIABLES.search(text)
    if variables is not None:
        return variables[0].strip()
    return next((what for invocation in invocations(text) for what in _of_invocation(invocation)), "")


def _of_invocation(invocation: Invocation) -> Iterator[str]:
    yield from (f"write of {file}" for _, file in invocation.writes if _SETTINGS.search(file) is not None)
    argv = invocation.argv
    if not _HELP.isdisjoint(argv):
        return
    if argv[:2] == ("python", "-m") and argv[2:3] and argv[2].startswith("haltline"):
        invocation = replaced(invocation, argv=("haltline", *argv[3:]))
    yield from (" ".join(invocation.argv[:3]) for _ in rows.matching(_TABLE, invocation))
    name, operands = invocation.name, [word for word in argv[1:] if not word.startswith("-")]
    if name in _CHANGERS and (name != "sed" or any(word.startswith(("-i", "--in-place")) for word in argv)):
        yield from (f"{name} {word}" for word in operands if _SETTINGS.search(word) is not None)
