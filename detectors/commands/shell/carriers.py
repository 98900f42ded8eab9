"""Programs that take a command line as an argument or on stdin: tmux, awk, make, git aliases, ansible.

Misses: programs that read the command from a file; keys sent to a terminal one by one; their less common options.
"""

import shlex
from collections.abc import Callable, Mapping

from haltline.detectors.commands.rows import words_of
from haltline.detectors.commands.shell.decoding import decoded_wide
from haltline.detectors.commands.shell.invocation import Invocation
from haltline.detectors.commands.shell.options import parse
from haltline.schemas import expressions as re

Carrier = Callable[[Invocation], list[str]]

_SYSTEM = re.compile(
    r"""system\(\s*"(?P<run>(?:[^"\\]|\\.)*+)"|(?<!\\)"(?P<read>(?:[^"\\]|\\.)*+)"\s*\|(?:&?\s*getline|\s*"\w*sh"(?P<fed>))"""
    r"""|\|\s*"(?P<to>(?:[^"\\]|\\.)*+)\"""",
)
_SED_RUNS = re.compile(
    r"(?:^|[;{}\d$/])\s*e\s+(?P<text>[^\n]+)|s(?P<mark>[/|,#])(?:(?!(?P=mark)).)*+(?P=mark)"
    r"(?P<put>(?:\\.|(?!(?P=mark)).)*+)(?P=mark)\w*e"
)
_LISP = re.compile(
    r'\((?:shell-command(?:-to-string)?|async-shell-command|compile)\s+"(?P<run>[^"]*+)"'
    r'|\((?:delete-directory|delete-file|move-file-to-trash)\s+"(?P<path>[^"]*+)"'
)
_VIM_DELETE = re.compile(r"""\bdelete\(\s*(["'])(?P<path>[^"']++)\1|\bsystem\(\s*(["'])(?P<run>[^"']++)\3""")
_TCL = re.compile(r"\bfile\s+delete\s+(?:-force\s+)?(?:--\s+)?(?P<path>[^\s;\]]++)|\bexec\s+(?P<run>[^\n;\]]++)")
_REMOVAL = re.compile(
    r"""(?:^|[\[=(]["']|\bcommands?=|\bshell\s|cmd\.run\s)\s*(?P<text>(?:sudo\s+(?:-\S+\s+){0,8})?(?:/\S{0,200}/)?rm\s+(?:--?\w\S*\s+){0,8}"""
    r"""-[a-zA-Z]*[rRf][^"\]]*+)"""
)
_FORCED = re.compile(r"-[a-zA-Z]*[rRf][a-zA-Z]*|--recursive|--force")
_SHELL_SCRIPT = re.compile(r'do shell script\s+"((?:[^"\\]|\\.)*)"')
_SCHEDULE = re.compile(r"^[ \t]*(?:@\w+|(?:[\d*,/-]\S*[ \t]+){5})(.+)$", re.MULTILINE)
_RECIPE = re.compile(r"^(?:\t| {2,})[@-]*(.+)$", re.MULTILINE)
_EX = re.compile(r"^[:+]?\s*(?:silent\s*)?!(.+)$")
_TMUX_VALUES = frozenset(("-t", "-s", "-n", "-c", "-x", "-y", "-F", "-e", "-L", "-S", "-f"))
_ABSENT = re.compile(r"state=absent")
_PLACE = re.compile(r"(?:path|dest|name)=(\S+)")


def _option(*names: str) -> Carrier:
    def carry(invocation: Invocation) -> list[str]:
        return list(parse(invocation.argv[1:], frozenset(names)).values(*names))

    return carry


def _input(invocation: Invocation) -> list[str]:
    return [invocation.stdin] if invocation.stdin is not None else []


def schedule(text: str) -> list[str]:
    """Return the command lines of a crontab."""
    return _SCHEDULE.findall(text)


def _crontab(invocation: Invocation) -> list[str]:
    return schedule(invocation.stdin or "")


def _tmux(invocation: Invocation) -> list[str]:
    operands = parse(invocation.argv[1:], _TMUX_VALUES).operands
    return [" ".join(word for word in operands[1:] if word not in ("Enter", "C-m", "ENTER"))] if operands[1:] else []


def _screen(invocation: Invocation) -> list[str]:
    words = list(invocation.argv[1:])
    while words and words[0].startswith("-"):
        takes = words[0][-1:] in "Sctpe" and len(words) > 1
        if words[0] == "-X" and len(words) > 2:
            return [" ".join(words[2:])]
        words = words[2 if takes else 1 :]
    return [shlex.join(words)] if words else []


def recipes(text: str) -> list[str]:
    """Return the command lines of a Makefile."""
    return _RECIPE.findall(text)


def _make(invocation: Invocation) -> list[str]:
    return recipes(invocation.stdin) if invocation.stdin is not None and "-" in invocation.argv else []


def _awk(invocation: Invocation) -> list[str]:
    return [
        (found["run"] or found["read"] or found["to"] or "").replace('\\"', '"')
        for argument in invocation.argv[1:4]
        for found in _SYSTEM.finditer(argument)
    ]


def _sed(invocation: Invocation) -> list[str]:
    return [
        (found["text"] or found["put"] or "").replace("\\", "")
        for argument in invocation.argv[1:]
        for found in _SED_RUNS.finditer(argument)
    ]


def _by_pattern(pattern: re.Pattern[str]) -> Carrier:
    """Return a carrier for programs whose own language names the command to run or the path to delete."""

    def carry(invocation: Invocation) -> list[str]:
        return [
            found["run"] or f"rm -rf {shlex.quote(found['path'])}"
            for text in (*invocation.argv[1:], invocation.stdin or "")
            for found in pattern.finditer(text)
        ]

    return carry


def carried(invocation: Invocation) -> list[str]:
    """Return the deleting command lines among the arguments of any program: one argument, or the trailing arguments.

    Examples: `hyperfine 'rm -rf /data/x'`, `bwrap --bind / / rm -rf /data/x`. Only some programs are known to run their
    arguments, but an argument that begins like this rarely has another purpose, unless the program handles texts.
    """
    if invocation.name in _FOR_TEXTS:
        return []
    found: list[str] = []
    for at, word in enumerate(invocation.argv[1:_MAX_WORDS], 1):
        if len(word) > 5 and "rm" in word and " " in word:
            removal = _REMOVAL.search(word)
            if removal is not None:
                found.append(removal["text"])
        elif word == "rm" and invocation.name not in _WITH_RM:
            words = invocation.argv[at:]
            if len(words) > 2 and _FORCED.fullmatch(words[1]) and any("/" in argument for argument in words[2:]):
                found.append(shlex.join(words))
    return found


def _vim(invocation: Invocation) -> list[str]:
    by_shell = [found[1] for argument in invocation.argv[1:] for found in (_EX.match(argument),) if found]
    return by_shell + _by_pattern(_VIM_DELETE)(invocation)


def _git(invocation: Invocation) -> list[str]:
    found: list[str] = []
    for argument in invocation.argv[1:]:
        name, equals, value = argument.partition("=")
        if equals and name.startswith(("alias.", "core.")) and value.startswith("!"):
            found.append(value[1:])
    return found


def _tar(invocation: Invocation) -> list[str]:
    return [
        argument.partition("exec=")[2] or argument.partition("=")[2]
        for argument in invocation.argv[1:]
        if "checkpoint-action=exec=" in argument or argument.startswith(("--to-command=", "--use-compress-program="))
    ]


def _ansible(invocation: Invocation) -> list[str]:
    options = invocation.options("-m -a -i -u --module-name --args")
    module = options.value("-m", "--module-name") or "command"
    arguments = options.value("-a", "--args") or ""
    if module.rpartition(".")[2] in ("shell", "command", "raw", "script"):
        return [arguments]
    if _ABSENT.search(arguments):
        return [f"rm -rf {shlex.quote(place)}" for place in _PLACE.findall(arguments)]
    return []


def _expect(invocation: Invocation) -> list[str]:
    return [found for text in _option("-c")(invocation) for found in re.findall(r"(?:spawn|exec)\s+([^;\n]+)", text)]


def _powershell(invocation: Invocation) -> list[str]:
    words = invocation.argv[1:]
    for at, word in enumerate(words):
        if "-encodedcommand".startswith(word.lower()) and len(word) > 1:
            return [decoded_wide("".join(words[at + 1 : at + 2]))]
        if word.lower() in ("-command", "-c", "/c") or not word.startswith(("-", "/")):
            return [" ".join(words[at + (word[:1] in "-/") :]).replace("\\", "/")]
    return _input(invocation)


def _cmd(invocation: Invocation) -> list[str]:
    words = invocation.argv[1:]
    for at, word in enumerate(words):
        if word.lower() in ("/c", "/k"):
            return [" ".join(words[at + 1 :]).replace("\\", "/")]
    return []


def _osascript(invocation: Invocation) -> list[str]:
    return [found.replace('\\"', '"') for argument in invocation.argv[1:] for found in _SHELL_SCRIPT.findall(argument)]


def _fd(invocation: Invocation) -> list[str]:
    words = invocation.argv[1:]
    for at, word in enumerate(words):
        if word in ("-x", "-X", "--exec", "--exec-batch"):
            operands = [w for w in words[:at] if not w.startswith("-")]
            places = operands[1:] or ["."]
            command = [w for w in words[at + 1 :] if w != ";"]
            filled = command if "{}" in command else [*command, "{}"]
            return [shlex.join([f"{place}/**" if w == "{}" else w for w in filled]) for place in places]
    return []


def _each_object(invocation: Invocation) -> list[str]:
    """`gci /data/x | % { Remove-Item $_.FullName }`."""
    block = " ".join(invocation.argv[1:]).strip(" {}")
    upstream = invocation.upstream
    places = [word for word in upstream.argv[1:] if not word.startswith("-")] if upstream is not None else []
    each = f"{places[0]}/*" if places else "$_"
    return [re.sub(r"\$_(?:\.\w+)*|\$PSItem(?:\.\w+)*", each.replace("\\", "/"), block)] if block else []


def _started(invocation: Invocation) -> list[str]:
    """`Start-Process rm -ArgumentList '-rf','/data/x'`."""
    words = [part for word in invocation.argv[1:] for part in word.split(",")]
    return [
        shlex.join(
            word for word in words if word.lower() not in ("-argumentlist", "-filepath", "-wait", "-nonewwindow")
        )
    ]


def _block(invocation: Invocation) -> list[str]:
    """`Invoke-Command -ComputerName db1 { Remove-Item x }`."""
    return [" ".join(invocation.argv[1:]).partition("{")[2].rpartition("}")[0]]


def _for_files(invocation: Invocation) -> list[str]:
    """`forfiles /p FOLDER /c "cmd /c del @path"`."""
    words = [word.lower() for word in invocation.argv]
    given = {word: invocation.argv[at + 1] for at, word in enumerate(words[:-1]) if word in ("/p", "/c")}
    return [re.sub(r"@(?:path|file)", lambda _: f"{given.get('/p', '.')}/*", given.get("/c", ""))]


def _rest(invocation: Invocation) -> list[str]:
    return [" ".join(invocation.argv[1:])]


_MAX_WORDS = 256
_FOR_TEXTS = words_of("programs whose arguments are texts")
"""Programs that search for, print or store their arguments, and those whose arguments are parsed as commands anyway."""
_WITH_RM = words_of("programs with an rm of their own")
"""Programs with an `rm` subcommand."""

CARRIERS: Mapping[str, Carrier] = {
    "script": _option("-c", "--command"),
    "at": _input,
    "batch": _input,
    "crontab": _crontab,
    "tmux": _tmux,
    "screen": _screen,
    "sed": _sed,
    "gsed": _sed,
    "emacs": _by_pattern(_LISP),
    **dict.fromkeys(("tclsh", "wish"), _by_pattern(_TCL)),
    **dict.fromkeys(("nix-shell", "nix"), _option("--run", "--command", "-c")),
    **dict.fromkeys(("foreach-object", "%", "foreach"), _each_object),
    **dict.fromkeys(("start-process", "saps"), _started),
    "make": _make,
    "gmake": _make,
    **dict.fromkeys(("awk", "gawk", "mawk", "nawk"), _awk),
    **dict.fromkeys(("vim", "vi", "nvim", "ex", "vim.tiny"), _vim),
    "git": _git,
    "tar": _tar,
    "ansible": _ansible,
    "expect": _expect,
    **dict.fromkeys(("pwsh", "powershell"), _powershell),
    "cmd": _cmd,
    "osascript": _osascript,
    "forfiles": _for_files,
    **dict.fromkeys(("invoke-command", "icm", "start-job"), _block),
    **dict.fromkeys(("fd", "fdfind"), _fd),
    **dict.fromkeys(("invoke-expression", "iex"), _rest),
}
