"""The files, trees, tables, buckets and requests that a small program would delete, in any language.

One pass over the tokens of the text (`tokens`). It follows string literals, variables, import aliases, loops over
lists, functions that are called with literal arguments, and the usual ways to build a path. `results` says what a call
returns, `meanings` what it does. Python, JavaScript, Ruby, Perl, PHP, R, Go, Java, Rust and PowerShell are read by the
same rules, independent of the Python version.

Misses: computed paths and statements; methods of the program's own classes on an object of unknown type; functions
that are defined in one call and called in another; data that a program reads before it deletes it.
"""

from collections.abc import Iterator

from haltline.detectors.commands.code import known_calls, meanings, results
from haltline.detectors.commands.code.expressions import DECLARES, Expressions
from haltline.detectors.commands.code.structure import imported
from haltline.detectors.commands.code.targets import own_models
from haltline.detectors.commands.code.tokens import Token, tokens
from haltline.detectors.commands.code.values import (
    MAX_TEXT_CHARS,
    CodeCall,
    Value,
)
from haltline.detectors.commands.effects import methods
from haltline.detectors.commands.model import OPENED, listed
from haltline.detectors.commands.step_budget import StepBudget
from haltline.schemas import expressions as re

_MAX_CODE_DEPTH = 3
_DEFINES = frozenset(("def", "function", "func", "fn", "sub"))
_PRECEDES = frozenset(listed("return await new yield if elif else while try with async defer do"))
"""Words before a statement or an expression."""
_PERL_OPENS = re.compile(
    r"""\bopen\b\s*+\(?\s*+(?:my\s+|our\s+|local\s+)?[\$*]?(?P<handle>\w+)\s*,\s*(['"])\s*\+?>(?!>)(?=[^'"]*+\2)[:\w()-]*"""
    r"""(?:\2\s*,\s*(['"])(?P<path>[^'"\n]+)\3|\s*+(?P<glued>[^'"\n>]{1,300})\2)"""
)
"""`open(F, ">", "x")` and `open F, ">x"`."""
_OF_DATABASES = ("sql", "thing", "act:")


def calls(text: str, depth: int = 0, work: StepBudget | None = None) -> list[CodeCall]:
    """Return the relevant calls of a program, in order. Never raises."""
    work = work or StepBudget()
    program = meanings.Program(own_models(text), methods.reaches_out(text))
    reader = _Reader(tokens(text[: 4 * MAX_TEXT_CHARS], work), depth, work, program)
    reader.run(0, reader.end)
    reader.emptied()
    reader.found.calls += _opened_by_perl(text)
    found = list(dict.fromkeys(reader.found.calls))
    if found and known_calls.keeps_in_memory(text):
        return [call for call in found if not call.kind.startswith(_OF_DATABASES)]
    return found


def _opened_by_perl(text: str) -> Iterator[CodeCall]:
    """Yield the files that Perl opens for writing and never writes to."""
    for opened in _PERL_OPENS.finditer(text):
        handle = opened["handle"]
        if re.search(rf"(?:print|printf|say|syswrite)\b[\s({{]*\$?{handle}\b|\${handle}->", text) is None:
            yield CodeCall("path", OPENED, (opened["path"] or opened["glued"]).strip())


class _Reader(Expressions):
    def __init__(self, read: list[Token], depth: int, work: StepBudget, program: meanings.Program) -> None:
        super().__init__(read, work, program)
        self.depth = depth
        self.opened: dict[str, tuple[tuple[str, ...], int]] = {}
        """The files opened for overwriting, and the index of the first token after the call, by variable name."""

    def run(self, at: int, end: int) -> None:
        """Interpret a range of tokens, statement by statement."""
        while at < end and self.work.take():
            at = max(self._statement(at), at + 1)

    # Statements

    def _statement(self, at: int) -> int:
        token = self.tokens[at]
        if token.kind == "text":
            if token.quote == "`" and not self.is_(at - 1, "(", ",", "=", "+", ":"):
                self.found.add("shell", "`", self.text_of(token))
            return self.value(at)[1]
        if token.kind != "name":
            return self.value(at)[1] if token.kind == "mark" and token.text in "[(" else at + 1
        word = token.text
        if word in ("import", "from") and not self.is_(at + 1, "("):
            return self._import(at)
        if word in DECLARES:
            return self._taken_apart(at + 1) if self.is_(at + 1, "{") else at + 1
        if word == "for":
            return self.loop(at)
        if word in _DEFINES and self.name_at(at + 1) not in ("", "main"):
            return self._function(at)
        return at + 1 if word in _PRECEDES else self._assignment_or_expression(word, at)

    def _assignment_or_expression(self, word: str, at: int) -> int:
        if self.is_(at + 1, "=") or (self.is_(at + 1, ":") and self.is_(at + 3, "=")):
            value, after = self.value(at + (2 if self.is_(at + 1, "=") else 4))
            self._give_name(word, value, after)
            return after
        value, after = self.value(at)
        if self.is_(after, "as") and self.name_at(after + 1):
            self._give_name(self.name_at(after + 1), value, after + 2)
            return after + 2
        if value.ref in ("open_w", "open_w.close") and not self._is_written(after):
            self.found.add("path", OPENED, value.texts)
        return after

    def _is_written(self, at: int) -> bool:
        """Return whether the opened file is written in a block or by a method: `{ |f| f.puts 1 }`, `:write(x)`."""
        if self.is_(at, "{"):
            return not self.is_(at + 1, "}")
        return self.is_(at, "do") or (self.is_(at, ":") and self.name_at(at + 1) != "close")

    def _give_name(self, name: str, value: Value, at: int) -> None:
        if value.ref == "open_w":  # whether anything is written to it is known later
            self.opened[name] = (value.texts, at)
            value = Value(value.texts, "opened")
        self.names[name] = value

    def calls_of(self, text: str) -> list[CodeCall]:
        return calls(text, self.depth + 1, self.work) if self.depth < _MAX_CODE_DEPTH else []

    def emptied(self) -> None:
        """Record the files that are opened for overwriting and never written to."""
        for name, (files, start) in self.opened.items():
            if not self.work.take(self.end // 8):
                return
            if all(self._writes_nothing(at) for at in range(start, self.end) if self.name_at(at) == name):
                self.found.add("path", OPENED, files)

    def _writes_nothing(self, at: int) -> bool:
        if not self.is_(at + 1, "."):
            return self.is_(at - 1, "(") and self.name_at(at - 2) in meanings.CLOSES
        called, given = self.name_at(at + 2), self.at(at + 4)
        blank = called == "write" and given.kind == "text" and not given.text and not given.prefix
        return blank or called in ("close", "flush", "truncate", "seek")

    def _taken_apart(self, at: int) -> int:
        """`const { rmSync: tidy, rm } = require('fs')`."""
        after = at
        while after < self.end and not self.is_(after, "}"):
            after += 1
        if not self.is_(after + 1, "="):
            return at + 1
        value, end = self.value(after + 2)
        texts = [token.text for token in self.tokens[at + 1 : after] if token.kind != "line"]
        for one in " ".join(texts).split(","):
            name, _, alias = (part.strip() for part in one.partition(":"))
            if name:
                self.names[alias or name] = Value(ref=f"{value.ref}.{name}")
        return end

    def _import(self, at: int) -> int:
        """`import a.b as c`, `from a import b as c, d`, `import { b as c } from 'a'`."""
        line, after = self.import_line(at + 1)
        word, texts, module = self.tokens[at].text, [token.text for token in line], ""
        if word == "from" and "import" in texts:
            cut = texts.index("import")
            module, texts = "".join(texts[:cut]), texts[cut + 1 :]
        elif "from" in texts and line[-1].kind == "text":
            module, texts = results.module(line[-1].text), texts[: texts.index("from")]
        if module and "*" in texts:
            self.stars.append(module)
        whole = not module or "*" in texts or (word == "import" and "{" not in texts)
        for name, alias in imported(texts):
            bound = name.partition(".")[0]
            known = (module or name) if whole else f"{module}.{name}"
            self.names[alias or bound] = Value(ref=known if alias or module else bound)
        return after

    def _function(self, at: int) -> int:
        """Record a function; its body counts when it is called."""
        function = self.function(at)
        self.functions[self.name_at(at + 1)] = function
        return function.end
