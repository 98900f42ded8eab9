"""Editors and stream editors whose script removes all, or nearly all, content of a file.

Edits of lines (`3d`, `/import os/d`, `s/a/b/`) are normal work. Misses: scripts in files; keys that are typed.
"""

from collections.abc import Callable, Iterator, Mapping

from haltline.detectors.commands.files import AWK_NEVER, lost_path
from haltline.detectors.commands.model import Destruction
from haltline.detectors.commands.shell.invocation import Invocation
from haltline.detectors.commands.shell.options import parse
from haltline.schemas import expressions as re

Reader = Callable[[Invocation], Iterator[Destruction]]

_SED_EMPTIES = re.compile(
    r"\A\s*(?:(?:[0-5]?,\s*(?:\$|\d{4,})|[0-5],\$)\s*+!?\s*+[dD]|[dD]|[01]~1\s*d|\$!d|[1-5]!d|[1-5]?q|Q)\s*"
)
_SED_BY_LINE = re.compile(
    r"\A\s*(?:/(?P<of>(?:[^/\\]|\\.)*)/I?\s*+(?P<other>!?)\s*+[dD]|s(?P<mark>[/|,#@])(?P<all>.*)(?P=mark)(?P=mark)g?)\s*"
)
"""Commands for the lines that match a pattern."""
_LINES = ("id,name,day", "1,Ada L,20-01", "x", "# a: b = c", '{"a": [1]}', "ZZ 9 (k)", "42")
"""Examples of lines in any file: a command that removes all of them removes nearly everything."""
_MAX_PATTERN_CHARS = 40
_EX_EMPTIES = re.compile(
    r"\A(?::?\s*(?:silent!?\s*)?(?:%|1,\$|0,\$|,|1,\.)\s*d(?:el(?:ete)?)?\s*[_a-z\"]?\s*(?:\|.*)?|.*\bnorm(?:al)?!?\s+(?:gg\s*\"?_?dG|ggVG\s*\"?_?[dxc]|:?%d).*|g/\^?\.?\*?/d.*)"
)
_LISP_EMPTIES = re.compile(r"erase-buffer|delete-region\s+\(point-min\)|kill-region\s+\(point-min\)")
_PRINTS = re.compile(r"\bprint|\bputs\b|\$_\s*\.?=\s*[^\"'\s;]|\bsay\b|s/|tr/|y/")
_PRINTS_NEVER = re.compile(r"print\s+if\s+(?:0|false|nil)\b|if\s+\$\.\s*<\s*1\b")
_CLEARS = re.compile(
    r"\$_\s*=\s*(?:\"\"|''|undef|q\(\))|\bundef\s+\$_|s([/|,{])\^?\.[*+]\$?(?:\\n)?\1\1|\$_\.(?:clear|replace\(\"\"\))"
)
_VALUED = frozenset(("-c", "--cmd", "-S", "-s", "-u", "-w", "-W", "-i"))
_BLOCK = re.compile(r"\{[^}]{0,300}\}")
"""Commands for the lines of one address."""
_IN_PLACE = re.compile(r"--in-place.*|-[nErszpalw0]*i\S*")
_MAX_WORDS = 256


def _scripts(argv: tuple[str, ...], options: tuple[str, ...]) -> tuple[list[str], list[str]]:
    """Return the scripts and the operands of a stream editor."""
    scripts: list[str] = []
    operands: list[str] = []
    words = iter(argv[:_MAX_WORDS])
    for word in words:
        if word in options or (re.fullmatch(r"-[a-zA-Z]*e", word) and "-e" in options):
            scripts.append(next(words, ""))
        elif word.startswith("--expression="):
            scripts.append(word.partition("=")[2])
        elif not word.startswith("-") or word == "-":
            operands.append(word)
    if not scripts and operands:
        scripts.append(operands.pop(0))
    return scripts, operands


def _takes_every_line(command: str) -> bool:
    """Return whether a command of sed deletes, or empties, each of `_LINES`."""
    found = _SED_BY_LINE.fullmatch(command)
    text = (found["of"] or found["all"] or "") if found is not None else ""
    if found is None or len(text) > _MAX_PATTERN_CHARS or re.search(r"\)\\?[*+?{]|\[:|(?:[*+].*){4}", text):
        return False
    try:
        pattern = re.compile_given(text)
    except re.error:
        return False
    if found["mark"]:
        return text != "" and all(pattern.sub("", line) == "" for line in _LINES)
    return all((pattern.search(line) is None) is bool(found["other"]) for line in _LINES)


def sed(invocation: Invocation) -> Iterator[Destruction]:
    """`sed -i d FILE`: checks whether a command of the script removes every line."""
    words = invocation.argv[1:]
    scripts, files = _scripts(words, ("-e", "--expression"))
    if not any(_IN_PLACE.fullmatch(word) for word in words):
        if invocation.stdin == "" or files == ["/dev/null"]:
            for found in filter(None, (re.fullmatch(r"\A\s*w\s+(\S+)\s*", script) for script in scripts)):
                yield lost_path("truncate", invocation, found[1])
        return
    commands = [part for script in scripts for part in re.split(r"[;\n]", _BLOCK.sub("", script))]
    quiet = any(re.fullmatch(r"-[a-zA-Z]*n[a-zA-Z]*|--quiet|--silent", word) for word in words)
    says_nothing = quiet and not any(re.search(r"[pPwW=]\s*$|[pw]\b", part) for part in commands)
    if says_nothing or any(_SED_EMPTIES.fullmatch(part) or _takes_every_line(part) for part in commands):
        for file in files:
            yield lost_path("truncate", invocation, file)


def _by_line(invocation: Invocation) -> Iterator[Destruction]:
    """`perl -i -ne ''`, `ruby -i -ne ''`."""
    words = invocation.argv[1:]
    flags = "".join(word[1:] for word in words if re.fullmatch(r"-[a-zA-Z0-9.~]+", word))
    if "i" not in flags or not ("n" in flags or "p" in flags):
        return
    scripts, files = _scripts(words, ("-e", "-E"))
    script = ";".join(scripts)
    if ("p" not in flags and (not _PRINTS.search(script) or _PRINTS_NEVER.search(script))) or _CLEARS.search(script):
        for file in files:
            yield lost_path("truncate", invocation, file)


_AWK_WRITES = re.compile(
    r"""\bprintf?\b(?P<printed>[^;{}|>\n]{0,300})>(?!>)\s*(?:"(?P<file>[^"\n]+)"|(?P<own>FILENAME\b))"""
)
_AWK_RULE = re.compile(r"(?<![^{};])[^{};]*\{[^{}]*\}")
_AWK_VALUED = frozenset(("-F", "-v", "-f", "-i"))


def _awk(invocation: Invocation) -> Iterator[Destruction]:
    """`awk -i inplace 0 FILE`; `print > FILE` without content, or into the input file."""
    options = parse(invocation.argv[1:_MAX_WORDS], _AWK_VALUED)
    program, *files = options.operands or ("",)
    files = [file for file in files if not re.match(r"\A\w+=", file)]
    if "inplace" in options.values("-i") and (
        AWK_NEVER.match(program)
        or re.fullmatch(r"\A\s*/\^?\$\^?/\s*", program)
        or (re.search(r"print|getline", program) is None and _AWK_RULE.sub("", program).strip(" ;\n") == "")
    ):
        for file in files:
            yield lost_path("truncate", invocation, file)
    for found in _AWK_WRITES.finditer(program):
        printed = found["printed"].strip(" ()")
        if found["own"]:
            yield from (lost_path("truncate", invocation, file) for file in files)
        elif (
            found["file"] in files
            or printed == '""'
            or (printed == "" and program.lstrip().startswith(("BEGIN", "END")))
        ):
            yield lost_path("truncate", invocation, found["file"])


def _line_editor(invocation: Invocation) -> Iterator[Destruction]:
    """`ed FILE` with commands on stdin; `ex`, `vim` with `-c` and `+`; Emacs with `--eval`."""
    words = invocation.argv[1:_MAX_WORDS]
    commands: list[str] = re.split(r"[\n|]|\\n", invocation.stdin or "")
    files: list[str] = []
    given = iter(words)
    for word in given:
        if word in ("-c", "--cmd", "--eval", "-eval", "--execute") or re.fullmatch(r"-[a-zA-Z]*c", word):
            commands.append(next(given, ""))
        elif word.startswith("+") and len(word) > 1:
            commands.append(word[1:])
        elif word in ("-S", "-u", "-i", "-W", "-w", "-l"):
            next(given, "")
        elif not word.startswith("-"):
            files.append(word)
    if any(_EX_EMPTIES.fullmatch(command.strip()) or _LISP_EMPTIES.search(command) for command in commands):
        for file in files:
            yield lost_path("truncate", invocation, file)


TOOLS: Mapping[str, Reader] = {
    **dict.fromkeys(("sed", "gsed"), sed),
    **dict.fromkeys(("perl", "ruby"), _by_line),
    **dict.fromkeys(("gawk", "awk"), _awk),
    **dict.fromkeys(("ed", "ex", "vi", "vim", "nvim", "vim.tiny", "view", "emacs", "micro", "kak"), _line_editor),
}
