"""The calls of a small program in any language that remove, run, state or send something, with their literal arguments.

One pass over the tokens of the text (`tokens`), which follows literals only: strings, what a variable was last given,
lists, joined paths, and names under which something was imported. Which calls matter, rows say (`known_calls`).

Misses: computed paths and statements; control flow; a function's parameters, unless it is called with literals; data
that a program reads before it deletes it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

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
from haltline.detectors.commands.shell.decoding import from_base64
from haltline.detectors.commands.step_budget import StepBudget
from haltline.schemas import expressions as re

_MAX_CODE_DEPTH = 3
_MAX_FRAMES = 200
_MAX_CALLS = 1024
_MAX_REF_CHARS = 256
_DEFINES = frozenset(("def", "function", "func", "fn", "sub"))
_WITHOUT_VALUE = frozenset(listed("""
    return await new yield if elif else while try with async defer do const let var my our local val auto not unless
    foreach until then end in of as and or import from export case when rescue except finally class lambda
"""))  # fmt: skip
_ENDS = frozenset(("if", "unless", "else", "and", "or", "while", "until", "end", "do", "return"))
_BARE = frozenset(listed("unlink system exec rmtree remove_tree rmdir rm_rf popen open truncate"))
"""Functions that take arguments without brackets in Perl and Ruby, as those of `FileUtils`, `File` and `Dir` do."""
_BARE_METHODS = frozenset(listed("rmtree unlink rmdir delete_all destroy_all destroy"))
_CONSTANTS = frozenset(listed("True False None true false null nil undefined"))
_TEMPORARY = "/tmp/tmp.XXXXXXXXXX"
_HOLE = re.compile(r"\{(\w*)\}")
_OF_DATABASES = ("sql", "thing", "act:")
_TAGS = frozenset(("$", "sh", "execa", "execaCommand", "cmd", ""))
_BY_NAME = frozenset(("name", "text"))
_COMPARES = frozenset(("==", "!=", "<", ">", "<=", ">="))
_OPERATORS = frozenset("+/%") | _COMPARES


def calls(text: str, depth: int = 0, work: StepBudget | None = None) -> list[CodeCall]:
    """Return the relevant calls of a program, in order. Never raises."""
    work = work or StepBudget()
    reader = _Reader(tokens(text[: 4 * MAX_TEXT_CHARS], work), depth, work, methods.reaches_out(text))
    reader.run()
    found = list(dict.fromkeys(reader.found))
    if found and keeps_in_memory(text):
        return [call for call in found if not call.kind.startswith(_OF_DATABASES)]
    own = own_models(text) if found else frozenset()
    return [call for call in found if call.argument not in own]


@dataclass(slots=True)
class _Frame:
    """What stands in open brackets so far; a call's arguments if `call` is set."""

    opening: str = ""
    call: Value | None = None
    defines: str = ""
    """The function whose parameters these are."""
    begin: int = 0
    items: list[Value] = field(default_factory=list)
    named: dict[str, Value] = field(default_factory=dict)
    value: Value | None = None
    operator: str = ""
    before: Value = NONE
    """The operand before the operator."""
    key: str = ""
    targets: tuple[str, ...] = ()
    """The variables that get the value."""
    bare: Value | None = None
    """The function whose arguments follow without brackets."""
    returned: bool = False


class _Reader:
    def __init__(self, read: list[Token], depth: int, work: StepBudget, reaches_out: bool) -> None:
        self.tokens, self.depth, self.work, self.reaches_out = read, depth, work, reaches_out
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
        self.stack = [_Frame()]

    def at(self, at: int) -> Token:
        return self.tokens[at] if 0 <= at < len(self.tokens) else Token("end", "")

    def is_(self, at: int, *marks: str) -> bool:
        token = self.at(at)
        return token.text in marks and token.kind in ("mark", "name")

    def run(self) -> None:
        at = 0
        while at < len(self.tokens) and self.work.take():
            at = self._step(at)
        while self.stack:
            self._finish()
            self.stack.pop()
        self._add("path", OPENED, [text for texts in self.opened for text in texts])

    # One token after another

    def _step(self, at: int) -> int:
        token, frame = self.tokens[at], self.stack[-1]
        if token.kind == "text":
            self._text(token, at)
        elif token.kind == "number":
            self._operand(Value(constant=token.text))
        elif token.kind == "line":
            if len(self.stack) == 1 and not self.is_(at + 1, "."):
                self._finish()
        elif token.kind == "name":
            return self._name(token.text, at)
        elif token.text == ".":
            frame.operator = "." if self.at(at + 1).kind == "text" else frame.operator
            frame.before, frame.value = (
                (frame.value or NONE, None) if frame.operator == "." else (frame.before, frame.value)
            )
        elif token.text in "([{":
            self._open(token.text, at)
        elif token.text in ")]}":
            self._close(token.text)
        else:
            self._mark(token.text, at)
        return at + 1

    def _text(self, token: Token, at: int) -> None:
        frame = self.stack[-1]
        if token.prefix == "qw":
            self._operand(Value(tuple(token.text.split()[:MAX_TEXTS]), listed=True))
            return
        text = filled(token.text, self._value_of) if fills(token) else token.text
        if token.quote == "`" and frame.value is not None and frame.value.ref and not frame.operator:
            ref = "execa" if self.is_(at - 1, "$") else _tagged(frame.value.ref)
            frame.value = self._called(Call(ref, frame.value.texts, [Value((text,))]))
        elif token.quote == "`" and not self.is_(at - 1, "(", ",", "=", "+", ":", "."):
            self._add("shell", "`", [text])
        elif self.at(at - 1).kind == "text" and frame.value is not None and frame.value.texts:
            frame.value = frame.value._replace(texts=(frame.value.texts[0] + text,))
        else:
            self._operand(Value((text,)))

    def _name(self, word: str, at: int) -> int:
        frame = self.stack[-1]
        if self.is_(at - 1, ".") and frame.value is not None:
            frame.value = self._member(frame.value, word)
            if frame.value.ref.rpartition(".")[2] in _BARE_METHODS and not self.is_(at + 1, "(", "."):
                self._without_brackets(frame.value)
        elif word in ("import", "from") and not self.is_(at + 1, "("):
            return self._import(at)
        elif word in ("for", "foreach"):
            return self._loop(at)
        elif word in _DEFINES and self.at(at + 1).kind == "name" and self.is_(at + 2, "("):
            self._finish()
            self._push(_Frame("(", defines=self.at(at + 1).text))
            return at + 3
        elif word == "as" and frame.value is not None and self.at(at + 1).kind == "name":
            self._give((self.at(at + 1).text,), frame.value)
            return at + 2
        elif word in _WITHOUT_VALUE:
            if word in ("or", "and", "my", "our", "local") or (
                word == "if" and frame.value is not None and len(self.stack) > 1
            ):
                return at + 1
            if word in _ENDS or frame.value is not None:
                self._finish(ends=frame.opening != "(" or word in _ENDS)
            frame.returned = word in ("return", "yield")
        else:
            self._operand(self._named(word))
        return at + 1

    def _mark(self, mark: str, at: int) -> None:
        frame = self.stack[-1]
        if mark == ",":
            self._finish(ends=frame.bare is None)
        elif mark == ";":
            self._finish()
        elif mark in ("=", ":", "=>") and (key := self._key(at)):
            if mark == "=" and frame.call is None:
                self._take_apart()
                frame.targets = (key,)
            frame.key = key if mark != "=" or frame.call is not None else ""
            frame.value = None
        elif mark == "=" and frame.value is not None:
            self._take_apart()
            frame.value = None
        elif mark in _OPERATORS and frame.value is not None:
            frame.operator, frame.before, frame.value = mark, self._whole(), None
        elif mark in ("||", "?", "@", "*", "!", "&", "|", "$", "\\"):
            return
        else:
            self._finish(ends=mark == ":" and len(self.stack) == 1)

    def _key(self, at: int) -> str:
        """Return the name or text before a mark that gives it a value: `name=`, `"Key":`, `:name =>`, `self.x =`."""
        frame, token = self.stack[-1], self.at(at - 1)
        if token.kind not in _BY_NAME or (self.is_(at, ":") and len(self.stack) == 1 and not self.is_(at + 1, "=")):
            return ""
        whole = frame.value.ref if frame.value is not None else ""
        return whole if token.kind == "name" and whole.endswith(f".{token.text}") else token.text

    def _operand(self, value: Value) -> None:
        frame = self.stack[-1]
        if frame.value is not None:
            if frame.value.ref == "glob" and value.texts:
                value = Value(tuple(text if "*" in text else f"{text}/*" for text in value.texts))
            elif self._takes_bare(frame.value) and (value.texts or value.ref):
                frame.bare, frame.value = frame.value, None
            else:
                self._finish()
        frame.value = value

    def _takes_bare(self, value: Value) -> bool:
        return self.stack[-1].bare is None and (
            value.ref in _BARE or value.ref.startswith(("FileUtils.", "File.", "Dir."))
        )

    # Brackets

    def _push(self, frame: _Frame) -> None:
        if len(self.stack) > _MAX_FRAMES:
            self.work.cut = True
            self.work.left = 0
        self.stack.append(frame)

    def _open(self, opening: str, at: int) -> None:
        frame = self.stack[-1]
        value = frame.value
        if opening == "{" and value is not None:
            if value.ref == "open_w" and not self.is_(at + 1, "}"):
                self.opened.pop(value.texts, None)
            self._finish()
            value = None
        self._push(_Frame(opening, value if opening in "([" else None, begin=at))

    def _close(self, closing: str) -> None:
        self._finish()
        if len(self.stack) == 1:
            return
        inner = self.stack.pop()
        frame = self.stack[-1]
        if inner.defines:
            for place, item in enumerate(inner.items):
                self.parameters[item.ref] = (inner.defines, place)
            return
        if inner.call is None:
            self._operand_or_end(_group(inner), closing)
            for item in (*inner.items, *inner.named.values()):
                if item.ref == "open_w" and inner.opening != "(":
                    self.opened.pop(item.texts, None)
        elif inner.opening == "[":
            frame.value = _subscript(inner.call, inner.items)
        else:
            named = dict(inner.named)
            for item in inner.items:
                named.update(item.named)
            for item in inner.named.values():
                named.update(item.named)
            frame.value = self._called(Call(inner.call.ref, inner.call.texts, inner.items, named))

    def _operand_or_end(self, value: Value, closing: str) -> None:
        self._operand(value)
        if closing == "}" and not (value.named or value.texts or value.constant):
            self.stack[-1].value = None  # a block

    # Values

    def _whole(self) -> Value:
        """Return the value of the operands so far, and forget the operator."""
        frame = self.stack[-1]
        value, operator, before = frame.value or NONE, frame.operator, frame.before
        frame.operator, frame.before = "", NONE
        if not operator:
            return value
        self.work.take(1 + sum(map(len, before.texts)) // 64 * max(1, len(value.texts)))
        if operator in "+.":
            return joined(before, value)
        if operator in _COMPARES:
            return Value(before.texts, before.ref)
        if operator == "/":
            return Value(joined_paths([before, value]), before.ref) if before.texts else value
        if before.texts and "%" in before.texts[0]:
            shown = (value.texts or ("$",))[0].replace("\\", "/")
            return Value(tuple(re.sub(r"%[sd]", lambda _: shown, text)[:MAX_TEXT_CHARS] for text in before.texts))
        return before

    def _finish(self, *, ends: bool = True) -> None:
        """End an expression: it is an argument, or the value of variables; `ends` the statement, too."""
        frame = self.stack[-1]
        if frame.value is not None or frame.operator:
            value = self._whole()
            if frame.targets:
                self._give(frame.targets, value)
            elif frame.key:
                frame.named[frame.key] = value
            else:
                frame.items.append(value)
            if frame.returned and value.ref == "open_w":
                self.opened.pop(value.texts, None)
            self._changes_every_row(value)
        frame.value, frame.key, frame.targets, frame.returned = None, "", (), False
        if frame.bare is not None and ends:
            bare, frame.bare = frame.bare, None
            items, frame.items = frame.items, []
            if items:
                self._called(Call(bare.ref, bare.texts, items))
        elif len(self.stack) == 1 and frame.bare is None:
            frame.items.clear()

    def _give(self, names: Sequence[str], value: Value) -> None:
        for name in names:
            self.names[name] = value

    def _take_apart(self) -> None:
        """`const { rmSync: tidy, rm } = require('fs')`: the names stand for the fields."""
        value = self.stack[-1].value
        for field_, local in value.named if value is not None else ():
            if local.ref:
                self.names[local.ref] = Value(ref=field_)

    def _named(self, word: str) -> Value:
        known = self.names.get(word)
        if known is not None:
            return known
        for module in self.modules[:8]:
            if removes_or_runs(f"{module}.{word}"):
                return Value(ref=f"{module}.{word}")
        return Value(ref=word.lstrip("$@"), constant=word if word in _CONSTANTS else "")

    def _member(self, value: Value, word: str) -> Value:
        ref = f"{value.ref}.{word}" if value.ref else word
        known = self.names.get(ref)
        return known if known is not None else Value(value.texts, ref[-_MAX_REF_CHARS:], value.listed)

    def _value_of(self, name: str) -> str | None:
        known = self.names.get(name)
        return known.texts[0][:4096] if known is not None and known.texts else None

    def _loop(self, at: int) -> int:
        """`for x in values`, `for (const x of values)`: the names stand for the values."""
        self._finish(ends=False)
        names: list[str] = []
        for after in range(at + 1, min(at + 16, len(self.tokens))):
            if self.is_(after, "in", "of", "range"):
                self.stack[-1].targets = tuple(names)
                return after + 1
            if self.at(after).kind == "name" and self.at(after).text not in _WITHOUT_VALUE:
                names.append(self.at(after).text)
        return at + 1

    def _import(self, at: int) -> int:
        """`import a.b as c`, `from a import b as c, d`, `import { b as c } from 'a'`."""
        self._finish()
        after = at + 1
        while after < min(len(self.tokens), at + 200) and self.at(after).kind != "line" and not self.is_(after, ";"):
            after += 1
            if self.is_(after, ")", "}"):
                break
            if self.at(after).kind == "line" and any(self.is_(back, "(", "{") for back in range(at, after)):
                after += 1
        line = [token for token in self.tokens[at + 1 : after + 8] if token.kind != "line"]
        texts = [token.text for token in self.tokens[at + 1 : after] if token.kind != "line"]
        module = ""
        if self.is_(at, "from") and "import" in texts:
            cut = texts.index("import")
            module, texts = "".join(texts[:cut]), texts[cut + 1 :]
            if "*" in texts:
                self.modules.append(module)
        elif "{" in texts:
            module = next((_module(token.text) for token in line if token.kind == "text"), "")
        joined_texts = "".join(f" {text} " if text in ("as", "from") else text for text in texts)
        for one in joined_texts.strip("{}() ").split(","):
            name, _, alias = (part.strip() for part in one.partition(" as "))
            name, _, source = (part.strip() for part in name.partition(" from "))
            if name.replace(".", "").isidentifier() and (module or alias):
                self.names[alias or name] = Value(ref=f"{module}.{name}".lstrip("."))
            elif source and name.isidentifier():
                self.names[name] = Value(ref=_module(source))
        return after

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

    def _changes_every_row(self, value: Value) -> None:
        """Record a chain of calls that builds a statement without a condition."""
        if methods.changes_every_row(value.ref):
            about = (value.texts or ("",))[0] if not value.ref[:1].isupper() else ""
            about = about or value.ref.partition(".")[0]
            self._add(f"act:{ActEffect.OVERWRITES}", "update_every_row", (f"table={about}",))


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


def _group(frame: _Frame) -> Value:
    """Return the value of a list, an object or an expression in brackets."""
    if frame.opening == "(" and len(frame.items) == 1 and not frame.named:
        return frame.items[0]
    if frame.opening == "[" and len(frame.items) == 1 and not frame.items[0].texts:
        return frame.items[0]
    fields = dict(frame.named)
    for item in (*frame.items, *frame.named.values()):
        fields.update(item.named)
    if frame.opening == "{":
        named = (*fields.items(), *((item.ref, item) for item in frame.items if item.ref and not item.texts))
        return Value((), constant="" if frame.items or frame.named else "{}", named=named[:MAX_TEXTS])
    texts = [text for item in (*frame.items, *frame.named.values()) for text in item.texts]
    return Value(tuple(texts[:MAX_TEXTS]), "", True, "" if frame.items else "[]", tuple(fields.items())[:MAX_TEXTS])


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
