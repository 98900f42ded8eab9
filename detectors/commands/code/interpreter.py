"""The calls of a small program in any language that remove, run, state or send something, with their literal arguments.

One pass over the tokens of the text (`tokens`), which follows literals only: strings, what a variable was last given,
lists, joined paths, and names under which something was imported. Which calls matter, rows say (`known_calls`).

Misses: computed paths and statements; control flow; a function's parameters, unless it is called with literals; data
that a program reads before it deletes it.
"""

from collections.abc import Sequence

from haltline.detectors.commands.code import meanings
from haltline.detectors.commands.code.known_calls import keeps_in_memory, kinds, own_models, removes_or_runs
from haltline.detectors.commands.code.tokens import Token, filled, fills, tokens
from haltline.detectors.commands.code.values import (
    MAX_TEXT_CHARS,
    MAX_TEXTS,
    NONE,
    Call,
    CodeCall,
    Value,
    joined,
    joined_paths,
)
from haltline.detectors.commands.effects import methods
from haltline.detectors.commands.model import OPENED, ActEffect, listed
from haltline.detectors.commands.rows import expression_of, words_of
from haltline.detectors.commands.shell.decoding import from_base64
from haltline.detectors.commands.step_budget import StepBudget
from haltline.schemas import expressions as re

_MAX_CODE_DEPTH = 3
_MAX_NESTING = 60
_MAX_CALLS = 1024
_MAX_REF_CHARS = 256
_DEFINES = frozenset(("def", "function", "func", "fn", "sub"))
_WITHOUT_VALUE = words_of("words of programs without a value")
_BEFORE_TARGETS = _WITHOUT_VALUE - {"import", "from", "for", "foreach"}
_SEPARATES = frozenset(("if", "unless", "else", "and", "or", "while", "until", "end", "do", "as", "for", "in", "of"))
"""Words after a value that begin something else."""
_BARE = frozenset(listed("unlink system exec rmtree remove_tree rmdir rm_rf popen open truncate"))
"""Functions that take arguments without brackets in Perl and Ruby, as those of `FileUtils`, `File` and `Dir` do."""
_BARE_METHODS = frozenset(listed("rmtree unlink rmdir delete_all destroy_all destroy"))
_CONSTANTS = frozenset(listed("True False None true false null nil undefined"))
_TEMPORARY = "/tmp/tmp.XXXXXXXXXX"
_IMPORTS = expression_of("an import")
_HOLE = re.compile(r"\{(\w*)\}")
_OF_DATABASES = ("sql", "thing", "act:")
_TAGS = frozenset(("$", "sh", "execa", "execaCommand", "cmd", ""))
_COMPARES = frozenset(("==", "!=", "<", ">", "<=", ">="))
_OPERATORS = frozenset("+/%.") | _COMPARES
_UNARY = frozenset(("@", "*", "!", "&", "|", "$", "\\", "-", "?", "||", "&&", "->"))
_CLOSING = frozenset(")]}")
_MARKS = frozenset(("mark", "name"))
_BEHIND_TARGETS = frozenset((".", ",", "=", "+=", ":"))
_CONTINUES = frozenset((".", "(", "[", "@", "*"))
"""Marks behind a value that may belong to it."""
_MAX_AHEAD = 32
_GIVES = frozenset(("=", "=>", ":"))
_END = Token("end", "")


def calls(text: str, depth: int = 0, work: StepBudget | None = None) -> list[CodeCall]:
    """Return the relevant calls of a program, in order. Never raises."""
    work = work or StepBudget()
    text = text[: 4 * MAX_TEXT_CHARS]
    reader = _Reader(tokens(text, work), depth, work, methods.reaches_out(text))
    reader.imports(text)
    reader.run()
    found = list(dict.fromkeys(reader.found))
    if found and keeps_in_memory(text):
        return [call for call in found if not call.kind.startswith(_OF_DATABASES)]
    own = own_models(text) if found else frozenset()
    return [call for call in found if call.argument not in own]


class _Reader:
    def __init__(self, read: list[Token], depth: int, work: StepBudget, reaches_out: bool) -> None:
        self.tokens = [*read, *[_END] * _MAX_AHEAD]
        self.end = len(read)
        self.depth, self.work, self.reaches_out = depth, work, reaches_out
        self.at = 0
        self.nesting = 0
        """How many brackets are open: lines end nothing inside of them."""
        self.names: dict[str, Value] = {}
        self.modules: list[str] = []
        """Modules imported with `*`."""
        self.renamed: dict[str, str] = {}
        self.opened: dict[tuple[str, ...], None] = {}
        """The files that were opened anew and that nothing was written to so far."""
        self.parameters: dict[str, tuple[str, int]] = {}
        """The function and the position of each parameter."""
        self.of_functions: dict[str, list[Call]] = {}
        """The calls inside functions of the program that name a parameter."""
        self.found: list[CodeCall] = []

    def imports(self, text: str) -> None:
        """Note under which names things are imported: `from a import b as c`, `import { b as c } from 'a'`."""
        for found in _IMPORTS.finditer(text) if "import" in text else ():
            module = found["module"] or _module(found["source"] or "")
            listed = found["names"] or found["fields"] or found["plain"] or f"{module} as {found['one'] or ''}"
            if "*" in listed and module:
                self.modules.append(module)
            for one in listed.strip("() \n").split(","):
                name, _, alias = (part.strip() for part in one.partition(" as "))
                if name.replace(".", "").isidentifier() and (alias or found["plain"] is None):
                    whole = name if found["plain"] or found["one"] else f"{module}.{name}"
                    self.names[alias or name] = Value(ref=whole)

    def run(self) -> None:
        while self.at < self.end and self.work.take():
            before = self.at
            self._assigned()
            self.at += self.at == before  # nothing begins here
        self._add("path", OPENED, [text for texts in self.opened for text in texts])

    # Tokens

    def token(self, ahead: int = 0) -> Token:
        return self.tokens[self.at + ahead]

    def is_(self, *marks: str, ahead: int = 0) -> bool:
        token = self.tokens[self.at + ahead]
        return token.text in marks and token.kind in _MARKS

    def _skip_lines(self) -> None:
        while self.token().kind == "line":
            self.at += 1

    def _goes_on(self) -> bool:
        """Skip lines if what follows them belongs to the expression: an operator in brackets, a member anywhere."""
        ahead = 0
        while self.tokens[self.at + ahead].kind == "line":
            ahead += 1
        token = self.tokens[self.at + ahead]
        if token.kind != "mark" or (ahead and token.text != "." and not self.nesting):
            return False
        self.at += ahead if token.text in _OPERATORS else 0
        return token.text in _OPERATORS

    # Expressions

    def _assigned(self) -> Value | None:
        """Read an expression with the variables that get its value: `x: str = ...`, `my $x = ...`, `a, b = ...`."""
        names = self._targets()
        if not names:
            return self._expression()
        grows = self.is_("+=", ahead=-1)
        value = self._expression() or NONE
        for at, name in enumerate(names):
            if at and self.is_(","):
                self.at += 1
                value = self._expression() or NONE
            self.names[name] = joined(self.names.get(name, NONE), value) if grows else value
        return value

    def _targets(self) -> list[str]:
        """Return the variables before `=`, and go behind it; none, and go nowhere, without `=`."""
        token = self.token()
        if token.kind != "name" or (token.text not in _BEFORE_TARGETS and self.token(1).text not in _BEHIND_TARGETS):
            return []
        start, names = self.at, list[str]()
        while self.token().kind == "name" and self.token().text in _BEFORE_TARGETS:
            self.at += 1
        while self.token().kind == "name" and self.token().text not in _WITHOUT_VALUE:
            name = self.token().text
            while self.is_(".", ahead=1) and self.token(2).kind == "name":
                name = f"{name}.{self.token(2).text}"
                self.at += 2
            names.append(name)
            self.at += 1
            if not self.is_(","):
                break
            self.at += 1
        typed = next((ahead for ahead in range(1, 8) if self.is_("=", ahead=ahead)), 0) if self.is_(":") else 0
        if typed and all(self.token(ahead).kind != "line" for ahead in range(typed)):
            self.at += typed
        if names and self.is_("=", "+="):
            self.at += 1
            return names
        self.at = start
        return []

    def _expression(self) -> Value | None:
        value = self._operand()
        if value is None:
            return None
        while self.work.take() and self._goes_on():
            mark = self.token().text
            self.at += 1
            self._skip_lines()
            other = self._operand() or NONE
            self.work.take(1 + sum(map(len, value.texts)) // 64 * max(1, len(other.texts)))
            value = _combined(mark, value, other)
        after = self.token().text
        if after == "as" and self.token(1).kind == "name":
            self.names[self.token(1).text] = value
            self.at += 2
        elif value.named and (after == "=" or (after == ":" and self.is_("=", ahead=1))):
            self._take_apart(value)
        if "update" in value.ref and methods.changes_every_row(value.ref):
            about = (value.texts or ("",))[0] if not value.ref[:1].isupper() else ""
            about = about or value.ref.partition(".")[0]
            self._add(f"act:{ActEffect.OVERWRITES}", "update_every_row", (f"table={about}",))
        return value

    def _operand(self) -> Value | None:
        returned = False
        while True:
            token = self.token()
            if token.kind == "name" and token.text in ("import", "from") and not self.is_("(", ahead=1):
                self._skip_import()
                return None
            if token.kind == "name" and token.text in _WITHOUT_VALUE:
                if token.text in ("for", "foreach"):
                    self.at += 1
                    self._loop()
                    return None
                returned = token.text in ("return", "yield")
            elif token.kind != "mark" or token.text not in _UNARY:
                break
            self.at += 1
            if not self.work.take():
                return None
        value = self._first()
        if value is None:
            return None
        value = self._with_members(value)
        if returned and value.ref == "open_w":
            self.opened.pop(value.texts, None)
        return value

    def _first(self) -> Value | None:
        """Read what an operand begins with."""
        token = self.token()
        if token.kind in ("line", "end") or (token.kind == "mark" and token.text not in "([{"):
            return None
        if token.kind == "mark":
            return self._group()
        self.at += 1
        if token.kind == "number":
            return Value(constant=token.text)
        if token.kind == "text":
            return self._text(token)
        if token.text in _DEFINES and self.token().kind == "name" and self.is_("(", ahead=1):
            defined = self.token().text
            self.at += 1
            parameters, _ = self._bracketed()
            self.parameters.update((item.ref, (defined, place)) for place, item in enumerate(parameters))
            for item in parameters:
                self.names.pop(item.ref, None)
            return None
        return self._named(token.text)

    def _text(self, token: Token) -> Value:
        if token.prefix == "qw":
            return Value(tuple(token.text.split()[:MAX_TEXTS]), listed=True)
        text = self._filled(token)
        if token.quote == "`":
            before = self.token(-2)
            if before.kind != "mark" or before.text not in "(,=+:.":
                self._add("shell", "`", [text])
                return NONE
        while self.work.take():
            self.at += bool(self.nesting and self.token().kind == "line" and self.token(1).kind == "text")
            if self.token().kind != "text" or self.token().quote == "`":
                break
            text += self._filled(self.token())
            self.at += 1
        return Value((text,))

    def _filled(self, token: Token) -> str:
        return filled(token.text, self._value_of) if fills(token) else token.text

    def _value_of(self, name: str) -> str | None:
        known = self.names.get(name)
        return known.texts[0][:4096] if known is not None and known.texts else None

    def _named(self, word: str) -> Value:
        known = self.names.get(word)
        if known is not None:
            return known
        for module in self.modules[:8]:
            if removes_or_runs(f"{module}.{word}"):
                return Value(ref=f"{module}.{word}")
        return Value(ref=word.lstrip("$@"), constant=word if word in _CONSTANTS else "")

    def _with_members(self, value: Value) -> Value:
        """Read the members, calls and subscripts behind a value."""
        while self.work.take():
            token = self.token()
            if token.kind == "mark" and token.text not in _CONTINUES:
                break
            member = self.token(1).kind == "name" and self.token(1).text[0] != "$"  # `"a" . $b` is a text in PHP
            if (token.kind != "line" or self._goes_on()) and self.is_(".") and member:
                value = self._member(value, self.token(1).text)
                self.at += 2
            elif self.is_("("):
                items, named = self._bracketed()
                value = self._called(Call(value.ref, value.texts, items, named))
            elif self.is_("["):
                value = _subscript(value, self._bracketed()[0])
            elif token.kind == "text" and token.quote == "`" and value.ref and not value.texts:
                self.at += 1
                value = self._called(Call(_tagged(value.ref), value.texts, [Value((self._filled(token),))]))
            elif value.ref == "glob" and token.kind == "text":
                self.at += 1
                return Value((token.text if "*" in token.text else f"{token.text}/*",))
            elif self._takes_bare(value):
                return self._called(Call(value.ref, value.texts, self._bare_items()))
            else:
                break
        if value.ref == "open_w" and self.is_("{") and not self.is_("}", ahead=1):  # `File.open(p, "w") { |f| ... }`
            self.opened.pop(value.texts, None)
        return value

    def _takes_bare(self, value: Value) -> bool:
        """Return whether a function's arguments follow without brackets, as in Perl and Ruby: `unlink $x, "y"`."""
        bare = value.ref in _BARE or value.ref.startswith(("FileUtils.", "File.", "Dir."))
        token = self.token()
        word = token.kind == "name" and (token.text not in _SEPARATES or token.text in ("my", "our"))
        return bare and not value.texts and (token.kind == "text" or word or self.is_("@", "*", "["))

    def _bare_items(self) -> list[Value]:
        items: list[Value] = []
        while self.work.take():
            value = self._expression()
            if value is not None:
                items.append(value)
            if not self.is_(","):
                break
            self.at += 1
            self._skip_lines()
        return items

    # Brackets

    def _group(self) -> Value:
        """Read a list, an object, a block or an expression in brackets."""
        opening = self.token().text
        items, named = self._bracketed()
        if opening != "(":
            for item in (*items, *named.values()):
                if item.ref == "open_w":
                    self.opened.pop(item.texts, None)
        if len(items) == 1 and ((opening == "(" and not named) or (opening == "[" and not items[0].texts)):
            return items[0]
        fields = named | {name: value for item in (*items, *named.values()) for name, value in item.named}
        if opening == "{":
            own = (*fields.items(), *((item.ref, item) for item in items if item.ref and not item.texts))
            return Value((), constant="" if items or named else "{}", named=own[:MAX_TEXTS])
        texts = [text for item in (*items, *named.values()) for text in item.texts]
        return Value(tuple(texts[:MAX_TEXTS]), "", True, "" if items else "[]", tuple(fields.items())[:MAX_TEXTS])

    def _bracketed(self) -> tuple[list[Value], dict[str, Value]]:
        """Read what stands in brackets: values, and those with a name; the fields of objects among them count."""
        block = self.is_("{")
        self.at += 1
        items, named = list[Value](), dict[str, Value]()
        if self.nesting >= _MAX_NESTING:
            self.work.cut, self.work.left = True, 0
        self.nesting += 1
        while self.at < self.end and self.work.take():
            if self.token().kind == "mark" and self.token().text in _CLOSING:
                self.at += 1
                break
            before, key = self.at, self._key(block=block)
            value = self._assigned() if block and not key else self._expression()
            if value is not None and key:
                named[key] = value
            elif value is not None:
                items.append(value)
            self.at += self.at == before  # a separator
        self.nesting -= 1
        return items, named

    def _key(self, *, block: bool) -> str:
        """Return the name or text that a mark gives a value, and go behind both: `name=`, `"Key":`, `:name =>`."""
        token = self.token()
        if token.kind not in ("name", "text") or not self.is_(*_GIVES, ahead=1) or (block and self.is_("=", ahead=1)):
            return ""
        self.at += 2
        self._skip_lines()
        return token.text

    # Statements

    def _take_apart(self, value: Value) -> None:
        """`const { rmSync: tidy, rm } = require('fs')`: the names stand for the fields."""
        for field, local in value.named:
            if local.ref:
                self.names[local.ref] = Value(ref=field)

    def _member(self, value: Value, word: str) -> Value:
        ref = f"{value.ref}.{word}" if value.ref else word
        known = self.names.get(ref)
        member = known if known is not None else Value(value.texts, ref[-_MAX_REF_CHARS:], value.listed)
        if word in _BARE_METHODS and not self.is_("(", ".", ahead=2):
            self._without_brackets(member)
        return member

    def _loop(self) -> None:
        """`for x in values`, `for (const x of values)`: the names stand for the values."""
        names: list[str] = []
        for ahead in range(15):
            if self.is_("in", "of", "range", ahead=ahead):
                self.at += ahead + 1
                value = self._expression() or NONE
                self.names.update(dict.fromkeys(names, value))
                return
            if self.token(ahead).kind == "name" and self.token(ahead).text not in _WITHOUT_VALUE:
                names.append(self.token(ahead).text)

    def _skip_import(self) -> None:
        brackets = False
        while self.work.take() and self.token().kind != "end" and not self.is_(";"):
            if self.token().kind == "line" and not brackets:
                break
            brackets = (brackets or self.is_("(", "{")) and not self.is_(")", "}")
            self.at += 1

    # Calls

    def _without_brackets(self, value: Value) -> None:
        """`Pathname("x").rmtree`, `User.destroy_all`."""
        last = value.ref.rpartition(".")[2]
        if value.texts and last != "destroy":
            self._add("tree" if last == "rmtree" else "path", last, value.texts)
        elif last.endswith("_all") or last == "destroy":
            self._note(Call(value.ref))

    def _called(self, call: Call) -> Value:
        """Record a relevant call and return its result."""
        for item in (*call.items, *call.named.values()):
            call.named.update(item.named)
        what = kinds(call.ref)
        if "member" in what and len(call.items) > 1 and call.items[1].texts:
            return Value(call.first.texts, f"{call.first.ref}.{call.items[1].texts[0]}")
        if "module" in what and call.target.texts:
            return Value(ref=_module(call.target.texts[0]))
        self._touches_opened(call, what)
        passed_on = meanings.passed_on(call)
        for one in (call,) if passed_on is None else (passed_on, call):
            self._note(one)
        for inner in self.of_functions.pop(call.ref, ()):
            place = next((self.parameters[item.ref][1] for item in inner.items if item.ref in self.parameters), 0)
            given = call.items[place] if place < len(call.items) else call.target
            self._note(Call(inner.ref, inner.base, [given]))
        return self._result(call, what)

    def _touches_opened(self, call: Call, what: frozenset[str]) -> None:
        """Keep which opened files stay empty."""
        blank = call.last == "write" and call.first.texts == ("",)
        if call.ref.startswith("open_w.") and "closes" not in what and not blank:
            self.opened.pop(call.base, None)
        if "closes" not in what:
            for item in (*call.items, *call.named.values()):
                if item.ref == "open_w":
                    self.opened.pop(item.texts, None)

    def _note(self, call: Call) -> None:
        owner = self.parameters.get(call.first.ref) if not call.first.texts else None
        if owner is not None and removes_or_runs(call.ref):
            self.of_functions.setdefault(owner[0], []).append(call)
            return
        for kind, name, argument in meanings.meaning(call, self.reaches_out):
            if kind == "renamed":
                self.renamed[name] = argument
            elif kind == "code":
                self.found += calls(argument, self.depth + 1, self.work) if self.depth < _MAX_CODE_DEPTH else []
            else:
                self._add(kind, name, (argument,))

    def _add(self, kind: str, name: str, texts: Sequence[str]) -> None:
        for text in texts[:MAX_TEXTS]:
            if (
                len(self.found) >= _MAX_CALLS
                or len(text) > MAX_TEXT_CHARS
                or not self.work.take(5 + len(self.renamed) // 4)
            ):
                self.work.cut = True
                return
            if kind in ("path", "tree"):
                for new, old in self.renamed.items():
                    if text == new or text.startswith(f"{new}/"):
                        text = old + text[len(new) :]  # noqa: PLW2901 - the file's name before
                        break
            self.found.append(CodeCall(kind, name, text))

    def _result(self, call: Call, what: frozenset[str]) -> Value:  # noqa: PLR0912 - one kind after another
        """Return what a call returns; by default its first text, or that of the object whose method is called."""
        plain = [text for item in call.items for text in (*item.texts[:1], *filter(None, (item.constant,)))]
        given = {name: value.texts[0] if value.texts else value.constant for name, value in call.named.items()}
        if "." in call.ref and methods.call_excludes_no_row(call.last, plain, given):
            return Value(call.base, f"{call.owner.removesuffix('.where')}.all")
        if "joined" in what and call.items:
            parts = [Value(call.base), *call.items] if call.last == "joinpath" else call.items
            return Value(joined_paths(parts), call.ref, len(call.items) == 1 and call.first.listed)
        if "listing" in what and (call.first.texts or call.base):
            return Value(tuple(text if "*" in text else f"{text}/*" for text in call.base or call.first.texts), "Path")
        if "decoded" in what:
            return Value(tuple(from_base64(text) or "" for text in call.first.texts))
        if "home" in what:
            return Value(("~",))
        if "temporary" in what:
            return Value((_TEMPORARY,))
        if "same" in what and call.first.ref:
            return Value(ref=call.first.ref)
        if "unknown" in what:
            return Value((), call.ref)
        if "formatted" in what and call.base:
            return Value(tuple(_formatted(text, call) for text in call.base), call.ref)
        if call.last == "split" and call.base:
            return Value(tuple(call.base[0].split()[:MAX_TEXTS]), listed=True)
        if "opens" in what and (opened := _opened(call)):
            if opened.ref == "open_w":
                self.opened[opened.texts] = None
            return opened
        if call.last == "delete" and call.first.ref and not call.first.texts and call.owner in ("", "sqlalchemy"):
            return Value(ref=f"delete.{call.first.ref}")
        if call.last in ("update", "set", "values") and call.base:
            return Value(call.base, call.ref)
        texts = call.first.texts or next((value.texts for value in call.named.values() if value.texts), ())
        return Value(texts or call.base, call.ref)


def _combined(mark: str, before: Value, value: Value) -> Value:
    """Return the value of two operands."""
    if mark in "+.":
        return joined(before, value)
    if mark in _COMPARES:
        return Value(before.texts, before.ref)
    if mark == "/":
        return Value(joined_paths([before, value]), before.ref) if before.texts else value
    if before.texts and "%" in before.texts[0]:
        shown = (value.texts or ("$",))[0].replace("\\", "/")
        return Value(tuple(re.sub(r"%[sd]", lambda _: shown, text)[:MAX_TEXT_CHARS] for text in before.texts))
    return before


def _opened(call: Call) -> Value | None:
    """Return the file that a call opens: `open(p, "w")`, `open(F, ">", p)`, `open F, ">p"`."""
    texts = [text for item in call.items for text in item.texts[:1]]
    shell_like = next((at for at, text in enumerate(texts) if text.startswith((">", "+>"))), None)
    if shell_like is not None and not texts[shell_like].startswith(">>"):
        name = texts[shell_like].lstrip("+> ") or "".join(texts[shell_like + 1 : shell_like + 2])
        return Value((name,), "open_w") if name and not name.startswith((":", "&")) else None
    if not call.first.texts:
        return None
    mode = texts[1] if len(texts) > 1 else "".join(call.named.get("mode", NONE).texts[:1])
    anew = mode.startswith("w") if mode else call.last == "createWriteStream"
    return Value(call.first.texts, "open_w" if anew else "open")


def _formatted(text: str, call: Call) -> str:
    given = iter(call.items)

    def fill(found: re.Match[str]) -> str:
        name = found[1]
        value = call.named.get(name, NONE) if name and not name.isdigit() else next(given, NONE)
        return value.texts[0][:4096] if value.texts else found[0]

    return _HOLE.sub(fill, text)[:MAX_TEXT_CHARS]


def _subscript(value: Value, items: Sequence[Value]) -> Value:
    texts = items[0].texts if items and items[0].texts else value.texts
    attribute = f"{value.ref.removesuffix('.__dict__')}.{texts[0]}" if texts else ""
    if attribute and removes_or_runs(attribute):
        return Value(ref=attribute)
    return Value(texts, f"{value.ref}.item"[-_MAX_REF_CHARS:] if value.ref else "")


def _module(name: str) -> str:
    """Return the usual name of a module: `fs` of `node:fs` and `fs-extra`."""
    plain = name.removeprefix("node:").removesuffix("-extra")
    return "fs.promises" if plain == "fs/promises" else plain


def _tagged(ref: str) -> str:
    """Return the function that a template tag stands for: a command line for `$` and similar tags."""
    return "execa" if ref.rpartition(".")[2] in _TAGS else ref
