"""Shell text into simple commands: words of parts, redirections, heredocs. Nothing is expanded here.

One pass from left to right. Unparsable text is taken literally; every text gives some commands.
Reserved words (`if`, `do`, `{`) stay in the words; groups `( )` are returned as markers, since they limit the scope
of a `cd`. `bashlex` was rejected: GPL, no `case`, `[[`, `$(( ))` or `time`, loses heredocs with a quoted delimiter,
140 microseconds for a line of 100 characters. tree-sitter's grammar finds the same, but takes seconds for 20 KB of
unusual text.

Misses: substitutions inside `${x:-$(cmd)}` and `$(( ))`, extended globs, aliases, history expansion.
"""

from collections.abc import Callable
from typing import Literal

from haltline.detectors.commands.shell.syntax import (
    Array,
    Item,
    Part,
    Redirect,
    Simple,
    Substitution,
    Text,
    Variable,
    Word,
)
from haltline.detectors.commands.step_budget import StepBudget
from haltline.schemas import expressions as re

MAX_NESTING = 6
"""The maximum depth of nested substitutions that are parsed as commands; deeper ones stay text."""


_RUN = re.compile(r"""[^ \t\r\n'"\\$`;&|()<>]+""")
_SEPARATES, _ENDS_WORD = "\n#;&|", " \t\r\n;&|)"
"""The first characters of separators, and the characters that end a word."""
_QUOTED_RUN = re.compile(r'[^"\\$`]+')
_ARITHMETIC = re.compile(r"\(\([^()]*+(?:\([^()]*+\)[^()]*+)*+\)\)")
_BRACES = re.compile(r"\{([^{}]*+(?:\{[^{}]*+\}[^{}]*+)*+)\}")
_ON_DRIVE = re.compile(r"(?:[A-Za-z]:|\.{1,2}(?=\\\w)|%\w{1,40}%)\\[^\s'\"`|&;<>()]*+")
"""A path of Windows, whose backslashes are no escapes but slashes: `C:\\data`, `.\\old`, `%TEMP%\\x`."""
_BLANK = re.compile(r"(?:[ \t\r]|\\\r?\n)+")
_REDIRECT = re.compile(r"(\d{0,10})(<<<|<<-?|<>|<&|>>|>&|>\||<|>)|(&>>?)")
_NAME = re.compile(r"[A-Za-z_]\w*|\d+|[@*#?$!-]", re.ASCII)
_BRACED = re.compile(r"\A([A-Za-z_]\w*|\d+|[@*])(?:\[[^\]{}$`]{0,32}\])?(:?[-=?+])?", re.ASCII)
_ASSIGNMENT = re.compile(r"\A[A-Za-z_]\w*\+?=\Z", re.ASCII)
_TO_BACKTICK = re.compile(r"[^`\\]*+(?:\\.?[^`\\]*+)*+", re.DOTALL)
_ESCAPED_INSIDE = re.compile(r"\\([`\\$])")
_TO_QUOTE = re.compile(r"[^'\\]*+(?:\\.?[^'\\]*+)*+", re.DOTALL)
_ANSI = re.compile(r"\\(?:x([0-9A-Fa-f]{1,2})|([0-7]{1,3})|u([0-9A-Fa-f]{1,4})|(.))", re.DOTALL)
_ANSI_LETTERS = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "e": "\x1b", "f": "\f", "v": "\v"}


def lex(text: str, *, nesting: int = 0, work: StepBudget | None = None) -> tuple[Item, ...]:
    """Return the commands of a shell text, in order. Never raises. `nesting` is the depth of enclosing texts."""
    return tuple(_Lexer(text, nesting, work or StepBudget()).program())


class _Lexer:
    def __init__(self, text: str, nesting: int, work: StepBudget) -> None:
        self.text = text
        self.work = work
        self.at = 0
        self.nesting = nesting
        self.items: list[Item] = []
        self.current = Simple()
        self.heredocs: list[tuple[Simple, int, str, bool, bool]] = []
        self.in_word: dict[str, Callable[[], Part | None]] = {
            "\\": self._escape,
            "'": self._single,
            "$": self._dollar,
            "`": self._backticks,
        }

    def program(self, *, nested: bool = False) -> list[Item]:
        """Read commands to the end of the text, or if nested, to the closing `)`."""
        outer, self.items = self.items, []
        interrupted, self.current = self.current, Simple()
        open_groups = 0
        text, end, work = self.text, len(self.text), self.work
        while self.at < end and work.take():
            char = text[self.at]
            if char in " \t\r\\" and (blank := _BLANK.match(text, self.at)) is not None:
                self.at = blank.end()
            elif char == ")":
                if nested and open_groups == 0:
                    self.at += 1
                    break
                open_groups -= open_groups > 0
                self._group(")")
            elif char == "(":
                open_groups += self._open_group()
            elif not (char in _SEPARATES and self._separator(char)) and not (
                (char in "<>&" or char.isdigit()) and self._redirect()
            ):
                self._word_or_nothing()
        self._finish()
        done, self.items, self.current = self.items, outer, interrupted
        return done

    def _finish(self, *, pipe: bool = False) -> None:
        if self.current.words or self.current.redirects:
            self.items.append(self.current)
            self.current = Simple(piped=pipe)
        else:
            # `a | \n b` and `a | (b)`: the pipe continues after the newline or bracket
            self.current.piped = pipe or self.current.piped

    def _separator(self, char: str) -> bool:
        """Read a newline, `;`, `&`, `|`, a doubled separator, or a comment."""
        text, at = self.text, self.at
        if char == "\n":
            self.at += 1
            self._finish()
            self._read_heredocs()
        elif char == "#":
            end = text.find("\n", at)
            self.at = len(text) if end < 0 else end
        elif char == ";":
            self.at += 1
            self._finish()
        elif char == "&":
            if text.startswith("&>", at):
                return False
            self.at += 2 if text.startswith("&&", at) else 1
            self._finish()
        elif char == "|":
            doubled = text.startswith("||", at)
            self.at += 2 if doubled or text.startswith("|&", at) else 1
            self._finish(pipe=not doubled)
        else:
            return False
        return True

    def _group(self, marker: Literal["(", ")"]) -> None:
        self.at += 1
        self._finish()
        self.items.append(marker)

    def _open_group(self) -> int:
        """Read the start of a subshell; skip a function's `()` and an arithmetic command."""
        if self.current.words and self.text.startswith("()", self.at):
            self.at += 2
            self.current = Simple()
            return 0
        arithmetic = _ARITHMETIC.match(self.text, self.at)
        if arithmetic:
            self.at = arithmetic.end()
            self._finish()
            return 0
        self._group("(")
        return 1

    def _redirect(self) -> bool:
        found = _REDIRECT.match(self.text, self.at)
        if found is None:
            return False
        operator = found[2] or found[3]
        if operator in ("<", ">") and self.text.startswith("(", found.end()):
            return False
        self.at = found.end()
        self._skip_blanks()
        start = self.at
        target = self._word()
        if operator in ("<<", "<<-"):
            raw = self.text[start : self.at]
            delimiter = "".join(part.value for part in target if isinstance(part, Text)) if target else raw
            quoted = any(char in raw for char in "'\"\\")
            self.heredocs.append((self.current, len(self.current.redirects), delimiter, quoted, operator == "<<-"))
            self.current.redirects.append(Redirect(found[1] or "", "<<", ()))
        elif target:
            self.current.redirects.append(Redirect(found[1] or "", operator, target))
        return True

    def _read_heredocs(self) -> None:
        waiting, self.heredocs = self.heredocs, []
        for simple, index, delimiter, quoted, tabs in waiting:
            lines: list[str] = [] if tabs else self._lines_before(delimiter)
            while self.at < len(self.text) and self.work.take():
                end = self.text.find("\n", self.at)
                end = len(self.text) if end < 0 else end
                line = self.text[self.at : end].removesuffix("\r")
                self.at = end + 1
                if tabs:
                    line = line.lstrip("\t")
                if line == delimiter:
                    break
                lines.append(line)
            body = "\n".join(lines)
            simple.redirects[index] = Redirect(
                simple.redirects[index].descriptor,
                "<<",
                (Text(body, quoted=True),)
                if quoted
                else _Lexer(body, self.nesting, self.work).double_quoted(closing=""),
            )

    def _lines_before(self, delimiter: str) -> list[str]:
        """Return the lines before the delimiter's line in one step; empty if the lines must be read one by one."""
        text, start = self.text, self.at
        end = text.find(f"\n{delimiter}\n", start - 1)
        if end < start or "\n" in delimiter or text.find("\r", start, end + len(delimiter) + 2) >= 0:
            return []
        lines = text[start:end].split("\n")
        if self.work.left < len(lines):
            return []
        self.work.take(len(lines))
        self.at = end + 1
        return lines

    def _skip_blanks(self) -> None:
        blank = _BLANK.match(self.text, self.at)
        if blank:
            self.at = blank.end()

    def _word_or_nothing(self) -> None:
        start = self.at
        word = self._word()
        if word:
            self.current.words.append(word)
        elif self.at == start:
            self.at += 1  # nothing can begin with this character: skip it

    def _word(self) -> Word:
        parts: list[Part] = []
        on_drive = _ON_DRIVE.match(self.text, self.at)
        if on_drive is not None:
            self.at = on_drive.end()
            parts.append(Text(on_drive[0].replace("\\\\", "\\").replace("\\", "/"), quoted=True))
        text, length, work = self.text, len(self.text), self.work
        while self.at < length and work.take():
            char = text[self.at]
            if char in _ENDS_WORD:
                break
            run = _RUN.match(text, self.at)
            if run:
                self.at = run.end()
                parts.append(Text(run[0], quoted=False))
            elif char == '"':
                self.at += 1
                parts += self.double_quoted() or (Text("", quoted=True),)
            elif char in self.in_word:
                part = self.in_word[char]()
                if part is not None:
                    parts.append(part)
            elif char in "<>" and not parts and text.startswith("(", self.at + 1):
                self.at += 1
                parts.append(self._commands(is_file=char == "<"))
            elif char == "(" and len(parts) == 1 and _is_assignment(parts[0]) and self.nesting < MAX_NESTING:
                parts.append(self._array())
            else:
                break
        return tuple(parts)

    def _escape(self) -> Part | None:
        escaped = self.text[self.at + 1 : self.at + 2]
        self.at += 2
        return None if escaped == "\n" else Text(escaped or "\\", quoted=True)

    def _single(self) -> Part:
        end = self.text.find("'", self.at + 1)
        end = len(self.text) if end < 0 else end
        value = self.text[self.at + 1 : end]
        self.at = end + 1
        return Text(value, quoted=True)

    def double_quoted(self, *, closing: str = '"') -> Word:
        """Read the parts up to the closing quote, inclusive, or to the end; a heredoc has no closing quote."""
        parts: list[Part] = []
        while self.at < len(self.text) and self.work.take():
            run = _QUOTED_RUN.match(self.text, self.at)
            if run:
                self.at = run.end()
                parts.append(Text(run[0], quoted=True))
                continue
            char = self.text[self.at]
            if char == '"':
                self.at += 1
                if closing:
                    break
                parts.append(Text('"', quoted=True))
            elif char == "\\":
                escaped = self.text[self.at + 1 : self.at + 2]
                self.at += 2
                kept = escaped if escaped and escaped in closing + "\\$`" else "\\" + escaped
                parts.append(Text("" if escaped == "\n" else kept, quoted=True))
            elif char == "$":
                parts.append(self._dollar(quoted=True))
            else:
                parts.append(self._backticks(quoted=True))
        return tuple(parts)

    def _dollar(self, *, quoted: bool = False) -> Part:
        text, start = self.text, self.at
        self.at += 1
        following = text[self.at : self.at + 1]
        if following == "(":
            arithmetic = _ARITHMETIC.match(text, self.at)
            if arithmetic:
                self.at = arithmetic.end()
                return Variable("((", quoted, altered=True)
            return self._commands(quoted=quoted)
        if following == "{":
            return self._braced(quoted)
        if following == "'" and not quoted:
            return self._ansi()
        if following == '"' and not quoted:
            return Text("", quoted=True)  # a translatable string: the quotes follow
        name = _NAME.match(text, self.at)
        if name is None:
            return Text("$", quoted)
        self.at = name.end()
        return Variable(text[start + 1 : self.at], quoted)

    def _commands(self, *, quoted: bool = False, is_file: bool = False) -> Part:
        """Read the substitution whose `(` is next."""
        if self.nesting >= MAX_NESTING:
            self.at += 1
            self.work.cut = True
            return Text("$(", quoted=True)
        self.at += 1
        self.nesting += 1
        items = tuple(self.program(nested=True))
        self.nesting -= 1
        return Substitution(items, quoted, is_file)

    def _backticks(self, *, quoted: bool = False) -> Part:
        end = _to_end(_TO_BACKTICK, self.text, self.at + 1)
        if quoted and end >= len(self.text):  # unclosed: PowerShell's escape, such as "a`nb"
            self.at += 2 if self.text[self.at + 1 : self.at + 2] in ("n", "r", "t") else 1
            return Text(" ", quoted=True)
        inner = self.text[self.at + 1 : end]
        self.at = end + 1
        if self.nesting >= MAX_NESTING:
            self.work.cut = True
            return Text(inner, quoted=True)
        plain = _ESCAPED_INSIDE.sub(r"\1", inner) if "\\" in inner else inner
        return Substitution(lex(plain, nesting=self.nesting + 1, work=self.work), quoted)

    def _braced(self, quoted: bool) -> Part:
        """Read `${...}`: the known part of its value; the rest is skipped."""
        braces = _BRACES.match(self.text, self.at)
        if braces is None:
            return Text("$", quoted)  # no closing brace: not an expansion
        self.at = braces.end()
        inner = braces[1]
        found = _BRACED.match(inner)
        if found is None:
            return Variable(inner, quoted, altered=True)
        name, operator, rest = found[1], found[2], inner[found.end() :]
        if operator in (":-", "-", ":=", "="):
            return Variable(name, quoted, default=rest.strip("'\""))
        return Variable(name, quoted, altered=bool(rest) and operator not in (":?", "?"))

    def _ansi(self) -> Part:
        end = _to_end(_TO_QUOTE, self.text, self.at + 1)
        value = _ANSI.sub(_ansi_char, self.text[self.at + 1 : end])
        self.at = end + 1
        return Text(value, quoted=True)

    def _array(self) -> Part:
        self.at += 1
        self.nesting += 1
        words: list[Word] = []
        while self.at < len(self.text) and self.text[self.at] != ")" and self.work.take():
            word = self._word()
            if word:
                words.append(word)
            else:
                self.at += 1
        self.at += 1
        self.nesting -= 1
        return Array(tuple(words))


def _to_end(pattern: re.Pattern[str], text: str, at: int) -> int:
    found = pattern.match(text, at)
    return found.end() if found is not None else at


def _is_assignment(part: Part) -> bool:
    return isinstance(part, Text) and not part.quoted and _ASSIGNMENT.match(part.value) is not None


def _ansi_char(found: re.Match[str]) -> str:
    code = found[1] or found[3]
    if code:
        number = int(code, 16)
        # Half of a surrogate pair is no character, and a text with it cannot be encoded.
        return "\ufffd" if 0xD800 <= number <= 0xDFFF or number > 0x10FFFF else chr(number)
    if found[2]:
        return chr(int(found[2], 8) & 0xFF)
    return _ANSI_LETTERS.get(found[4], found[4])
