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

from haltline.detectors.commands.prefilter import is_plain
from haltline.detectors.commands.shell.interpreter import invocations
from haltline.detectors.commands.shell.invocation import Invocation
from haltline.detectors.features.observation import Observation
from haltline.detectors.features.vocabulary import set_of
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
_OPERATOR = set_of("commands of an operator")
_GROUPS = {
    "hook": frozenset(("release", "uninstall", "remove", "off", "disable")),
    "policy": frozenset(("set", "apply", "publish", "put", "push")),
    "topics": frozenset(("delete", "remove")),
}
_STOPPERS = frozenset(("pkill", "killall", "kill", "skill"))
_SERVICES = frozenset(("systemctl", "service", "docker", "kubectl", "supervisorctl", "launchctl", "pm2", "initctl"))
_STOPS = set_of("verbs that stop a service")
_INSTALLERS = frozenset(("pip", "uv", "pipx", "poetry", "conda", "apt", "apt-get", "npm"))
_CHANGERS = frozenset(("rm", "mv", "sed", "tee", "truncate", "shred", "unlink", "chmod", "ln", "cp", "dd"))
_SETTINGS = re.compile(
    rf"{_HOOKS}|/haltline(?:-\d+)?/[\w*-]*\.(?:killed|sock|lock)"
    r"|haltline[\w./-]{0,200}(?:policy|rules|settings|client)[\w.-]{0,100}\.(?:ya?ml|json|toml|env|conf)"
    r"|/etc/haltline",
    re.IGNORECASE,
)
_TOPIC = re.compile(r"haltline\.(?:commands|control|interventions|policy|policies|decisions|actions)", re.IGNORECASE)
_CONSOLE = re.compile(r"haltline|x-haltline", re.IGNORECASE)
_VARIABLES = re.compile(
    r"(?:^|[;&|\n(])[ \t]*(?:(?:unset|export|env)[ \t]+(?:-\w+[ \t]+)*HALTLINE_\w+"
    r"|(?:env[ \t]+)?(?:[A-Za-z_]\w{0,60}=\S{0,200}[ \t]+){0,8}"
    r"HALTLINE_(?:MODE|OFF|DISABLED?|ENABLED?|BOOTSTRAP|SESSION|POLICY|FAIL)\w*=)"
)
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
    name, words = invocation.name, invocation.argv[1:]
    if not _HELP.isdisjoint(words):
        return
    if name == "python" and words[:1] == ("-m",) and words[1:2] and words[1].startswith("haltline"):
        name, words = "haltline", words[2:]
    operands = [word for word in words if not word.startswith("-")]
    about = [word for word in words if "haltline" in word.lower()]
    if name == "haltline" and operands:
        group = _GROUPS.get(operands[0])
        if operands[0] in _OPERATOR or (group is not None and not group.isdisjoint(operands[1:4])):
            yield f"haltline {' '.join(operands[:2])}"
    elif name in _STOPPERS and about:
        yield f"{name} {about[0]}"
    elif name in _SERVICES and about and not _STOPS.isdisjoint(operands):
        yield f"{name} {' '.join(operands[:3])}"
    elif name in _INSTALLERS and about and not {"uninstall", "remove", "purge"}.isdisjoint(operands):
        yield f"{name} uninstall {about[0]}"
    elif name.startswith("kafka") or name in ("kcat", "rpk", "kafkacat"):
        changes = name.endswith(("producer", "producer.sh")) or not {"--delete", "--alter", "-P", "produce"}.isdisjoint(
            words
        )
        yield from (f"{name} {word}" for word in words[:64] if changes and _TOPIC.search(word))
    elif name in ("curl", "http", "wget", "xh") and any(_CONSOLE.search(word) for word in words):
        if not {"-X", "--request", "-d", "--data", "--json", "POST", "PUT", "DELETE", "PATCH"}.isdisjoint(words):
            yield f"{name} {' '.join(words[-1:])}"
    elif name in _CHANGERS:
        in_place = name != "sed" or any(word.startswith(("-i", "--in-place")) for word in words)
        yield from (f"{name} {word}" for word in operands if in_place and _SETTINGS.search(word) is not None)
