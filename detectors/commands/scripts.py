"""Small programs inside a command line: `python -c`, `python - <<EOF`, `node -e`, `ruby -e`, `perl -e`, `php -r`.

Looks for calls by their usual names with a literal argument, or with a variable that was set to a literal before.

Misses: paths that are computed, functions under another name, ORM calls, everything in a script file; what a string
of the program holds is only read when it goes to a shell or a database; escapes in strings stay as written.
"""

import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from haltline.detectors.commands.invocation import Invocation
from haltline.detectors.commands.options import parse

_STRING = (
    r"(?:[rRbBuUfF]{1,2})?(?:'''.*?(?:'''|\Z)|\"\"\".*?(?:\"\"\"|\Z)"
    r"|'(?:[^'\\\n]++|\\.)*+(?:'|(?=\n)|\Z)|\"(?:[^\"\\\n]++|\\.)*+(?:\"|(?=\n)|\Z)|`[^`]*+(?:`|\Z))"
)
_REQUIRED_FS = re.compile(r"require\(\s*+['\"](?:node:)?fs(?:/promises|-extra)?['\"]\s*+\)")
_TEMPORARY = "/tmp/tmp.XXXXXXXXXX"
_MAX_CALLS = 256


class Call(NamedTuple):
    """One call of a program that matters."""

    kind: str
    """`path` or `tree` (a path with all below it), `shell` or `sql` (a text that is run)."""

    name: str
    argument: str


@dataclass(frozen=True, slots=True)
class _Language:
    script_options: tuple[str, ...]
    pattern: re.Pattern[str]
    kinds: Mapping[str, str]


def _language(script_options: str, comment: str, **names: str) -> _Language:
    """`names`: kind -> the functions of that kind, as they are written."""
    kinds = {name: kind for kind, listed in names.items() for name in listed.split()}
    known = "|".join(re.escape(name) for name in sorted(kinds, key=len, reverse=True))
    pattern = re.compile(
        rf"""(?P<comment>{comment})
        |(?<![\w.'"-])(?P<call>{known})\b(?:\s*+\(\s*+|[ \t]++)(?P<argument>{_STRING}|\[[^\]\n]*+\]|\w+)
        |\bPath\(\s*(?P<path>{_STRING}|\w+)\s*\)\s*\.\s*(?P<method>unlink|rmdir)\(
        |(?<![\w.])(?P<variable>\w+)\.(?P<of_variable>unlink|rmdir)\(
        |(?<![\w.])(?P<name>\w+)[ \t]*=[ \t]*(?:(?:pathlib\.)?Path\(\s*)?(?P<value>{_STRING}|tempfile\.\w+)
        |\.(?P<sql>execute|executescript|sql|exec_driver_sql)\(\s*(?:text\(\s*)?(?P<statement>{_STRING})
        |{_STRING}""",
        re.VERBOSE | re.DOTALL,
    )
    return _Language(tuple(script_options.split()), pattern, kinds)


_LANGUAGES: Mapping[str, _Language] = {
    "python": _language(
        "-c",
        r"\#[^\n]*",
        path="os.remove os.unlink os.rmdir os.removedirs os.truncate",
        tree="shutil.rmtree rmtree",
        shell="os.system os.popen subprocess.run subprocess.call subprocess.check_call subprocess.check_output "
        "subprocess.Popen subprocess.getoutput",
    ),
    "node": _language(
        "-e --eval -p --print",
        r"//[^\n]*|/\*.*?(?:\*/|\Z)",
        path="fs.unlinkSync fs.unlink fs.rmdirSync fs.rmdir fs.promises.unlink unlinkSync",
        tree="fs.rmSync fs.rm fs.promises.rm fs.removeSync fs.emptyDirSync rmSync",
        shell="execSync exec child_process.execSync child_process.exec",
    ),
    "ruby": _language(
        "-e",
        r"\#[^\n]*",
        path="File.delete File.unlink Dir.delete Dir.rmdir Dir.unlink FileUtils.rm FileUtils.rm_f FileUtils.rmdir",
        tree="FileUtils.rm_rf FileUtils.rm_r FileUtils.remove_dir FileUtils.remove_entry FileUtils.rmtree",
        shell="system exec",
    ),
    "perl": _language("-e -E", r"\#[^\n]*", path="unlink rmdir", tree="rmtree remove_tree", shell="system exec"),
    "php": _language("-r", r"//[^\n]*|\#[^\n]*", path="unlink rmdir", shell="system exec shell_exec passthru"),
}
_SAME_LANGUAGE = {"ipython": "python", "pypy": "python", "deno": "node", "bun": "node"}


def calls(invocation: Invocation) -> list[Call]:
    """The calls that matter in the program text that an interpreter is given; empty for other programs."""
    language = _LANGUAGES.get(_SAME_LANGUAGE.get(invocation.name, invocation.name))
    text = _script(invocation, language) if language else None
    if language is None or text is None:
        return []
    text = _REQUIRED_FS.sub("fs", text)
    found: list[Call] = []
    variables: dict[str, str] = {}
    for match in language.pattern.finditer(text):
        if match["name"] is not None:
            variables[match["name"]] = _value(match["value"], variables)
        elif match["call"] is not None:
            found.append(Call(language.kinds[match["call"]], match["call"], _value(match["argument"], variables)))
        elif match["sql"] is not None:
            found.append(Call("sql", match["sql"], _value(match["statement"], variables)))
        elif match["method"] is not None:
            found.append(Call("path", match["method"], _value(match["path"], variables)))
        elif match["of_variable"] is not None:
            found.append(Call("path", match["of_variable"], _value(match["variable"], variables)))
        if len(found) >= _MAX_CALLS:
            break
    return found


def _script(invocation: Invocation, language: _Language) -> str | None:
    """The program text: of an option, or what is read from the input."""
    arguments = list(_until_script(invocation.argv[1:], language.script_options))
    options = parse(arguments, frozenset((*language.script_options, "-W", "-X", "-I", "-M")))
    texts = options.values(*language.script_options)
    if texts:
        return "\n".join(texts)
    operands = options.operands
    if not operands or operands[0] == "-" or operands[1:2] == ("shell",):
        return invocation.stdin
    return None


def _until_script(arguments: tuple[str, ...], script_options: tuple[str, ...]) -> Iterator[str]:
    """The interpreter's own arguments: what follows the program text is the program's."""
    taken = False
    for argument in arguments:
        yield argument
        if taken:
            return
        short = argument[:1] == "-" and argument[1:2] != "-" and f"-{argument[-1:]}" in script_options
        taken = argument in script_options or short


def _value(source: str, variables: Mapping[str, str]) -> str:
    """A literal without its quotes, a list as a command line, a known variable; else `$NAME`."""
    if source.startswith("["):
        return shlex.join(_unquoted(found[0]) for found in re.finditer(_STRING, source, re.DOTALL))
    if source.startswith("tempfile."):
        return _TEMPORARY
    if re.fullmatch(r"\w+", source):
        return variables.get(source, f"${source}")
    return _unquoted(source)


def _unquoted(literal: str) -> str:
    body = literal.lstrip("rRbBuUfF")
    prefix = literal[: len(literal) - len(body)].lower()
    for quote in ("'''", '"""', "'", '"', "`"):
        if body.startswith(quote):
            body = body[len(quote) :].removesuffix(quote)
            break
    return re.sub(r"\{(\w+)[^{}]*\}", r"$\1", body) if "f" in prefix else body
