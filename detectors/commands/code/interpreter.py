"""The files, trees, tables, buckets and requests that a small program would delete, in any language.

One pass over the tokens of the text (`tokens`). It follows string literals, variables, import aliases, loops over
lists, functions that are called with literal arguments, and the usual ways to build a path. `known_calls` lists the
relevant calls. Python, JavaScript, Ruby, Perl, PHP, R, Go, Java, Rust and PowerShell are read by the same rules,
independent of the Python version.

Misses: computed paths and statements; methods of the program's own classes on an object of unknown type; functions
that are defined in one call and called in another; data that a program reads before it deletes it.
"""

import base64
import binascii
import re
import shlex
from itertools import islice, product
from typing import NamedTuple

from haltline.detectors.commands.code import known_calls
from haltline.detectors.commands.code.targets import named_by, own_models
from haltline.detectors.commands.code.tokens import Token, filled, fills, tokens
from haltline.detectors.commands.effects import methods, requests
from haltline.detectors.commands.model import OPENED, ActEffect, listed
from haltline.detectors.commands.step_budget import StepBudget
from haltline.schemas.tool_names import destroying_verb

MAX_CALLS = 1024
_MAX_DEPTH = 40
_MAX_TEXTS = 64
_MAX_TEXT_CHARS = 64 * 1024
_TEMPORARY = "/tmp/tmp.XXXXXXXXXX"
_PATH_MAKERS = frozenset(listed("""
    Path pathlib.Path PurePath File Path.of Paths.get str os.fspath String bytes os.path.abspath os.path.expanduser
    path.resolve Pathname Pathname.new File.new text sqlalchemy.text list sorted tuple iter set reversed enumerate
    io.StringIO expanduser os.path.realpath URL new
"""))  # fmt: skip
_JOINS = frozenset(listed("os.path.join path.join join File.join posixpath.join filepath.Join path.posix.join"))
_LISTINGS = frozenset(listed("glob.glob glob.iglob os.listdir os.scandir os.walk fs.readdirSync Dir.glob glob"))
_BELOW = frozenset(("iterdir", "glob", "rglob", "walk"))
_PASSES = frozenset(listed("decode encode strip lower upper as_posix resolve absolute expanduser format"))
_MODULES = frozenset(("__import__", "importlib.import_module", "require", "import"))
_RENAMES = frozenset(listed("os.rename os.replace shutil.move fs.renameSync fs.rename File.rename FileUtils.mv"))
_DECODES = frozenset(
    ("base64.b64decode", "b64decode", "atob", "base64.decodebytes", "Buffer.from", "Base64.decode64", "base64_decode")
)
_BARE = frozenset(("unlink", "system", "exec", "rmtree", "remove_tree", "rmdir", "rm_rf", "popen"))
_DECLARES = frozenset(("const", "let", "var", "my", "local", "our", "val", "auto"))
_LOST_THERE = re.compile(r"/(?:var/)?tmp(?:/|$)|/dev/shm|.*/\.?Trash/")
_DONE_WITH = frozenset(("ReceiptHandle", "receipt_handle", "Entries", "ack_ids", "ack_id", "lock_token"))
"""Arguments of calls that acknowledge a message."""
_OF_EACH = frozenset(("each", "find_each", "map", "for_each"))
_HTTP = frozenset(("POST", "PUT", "PATCH"))
_OPENERS = frozenset(("openSync", "fopen", "createWriteStream"))
_PERL_OPENS = re.compile(
    r"""\bopen\b\s*\(?\s*(?:my\s+|our\s+|local\s+)?[\$*]?(?P<handle>\w+)\s*,\s*(['"])\s*\+?>(?!>)[:\w()-]*"""
    r"""(?:\2\s*,\s*(['"])(?P<path>[^'"\n]+)\3|\s*(?P<glued>[^'"\n>]+)\2)"""
)
"""`open(F, ">", "x")` and `open F, ">x"`."""
_TEMPS = re.compile(r"tempfile\.\w+|mkdtemp|mktemp|\w*[tT]mp[dD]ir\w*|os\.tmpdir")


_BY_TEXT = frozenset(listed("array_map array_walk call_user_func call_user_func_array method send public_send"))
_BETWEEN_STATEMENTS = frozenset(listed("""
    if unless or and for foreach while until do then end is in as else not import from with return of instanceof
    rescue async await const let var
"""))  # fmt: skip
_CALLED_WITHOUT_BRACKETS = frozenset(("rmtree", "unlink", "rmdir", "delete_all", "destroy_all", "destroy"))
_CLOSES = frozenset(("fclose", "closeSync", "close"))
_WRITES_WHOLE = frozenset(
    listed("""
    writeFileSync writeFile file_put_contents outputFileSync outputFile WriteAllText write_file writeTextFile
    writeTextFileSync
""")
)
_NOTHING = frozenset(("Buffer.alloc", "Buffer.from", "Uint8Array", "Blob", "TextEncoder.encode"))
"""Calls that return an empty value when called without arguments."""
_OF_TABLES = re.compile(r"\bTable\b|__table__|sequelize|schema", re.IGNORECASE)
_DELETES = re.compile(r"^(?:sqlalchemy\.)?delete\.\w|\w\.delete$")
_COMMAND = re.compile(r"\s*(?:sudo\s+)?[\w./-]+(?:\s|$)")


_OF_DATABASES = frozenset(("sql", "thing"))


class Call(NamedTuple):
    """One relevant call of a program."""

    kind: str
    """`path` or `tree` (a path with everything below it), `shell` or `sql` (a text that is executed), `url` (deleted),
    `thing` (`kind=name`), `away` (a path that is moved), `request` (a URL; `name` is the method), `act:EFFECT`,
    `opaque` (an executed text that is unknown)."""

    name: str
    argument: str


class Value(NamedTuple):
    """The possible values of an expression: texts, the name that it refers to, whether it is a list."""

    texts: tuple[str, ...] = ()
    ref: str = ""
    listed: bool = False
    constant: str = ""
    """The source of a number, a boolean, a null value, `[]` or `{}`."""


_NONE = Value()
_CONSTANTS = frozenset(("True", "False", "None", "true", "false", "null", "nil", "undefined"))


class _Function(NamedTuple):
    parameters: tuple[str, ...]
    start: int
    end: int


def calls(text: str, depth: int = 0, work: StepBudget | None = None) -> list[Call]:
    """Return the relevant calls of a program, in order. Never raises."""
    work = work or StepBudget()
    program = _Program(tokens(text[: 4 * _MAX_TEXT_CHARS], work), depth, work)
    program.own = own_models(text)
    program.reaches_out = methods.reaches_out(text)
    program.run(0, len(program.tokens))
    program.emptied()
    for opened in _PERL_OPENS.finditer(text):
        if (
            re.search(rf"(?:print|printf|say|syswrite)\b[\s({{]*\$?{opened['handle']}\b|\${opened['handle']}->", text)
            is None
        ):
            program.found.append(Call("path", OPENED, (opened["path"] or opened["glued"]).strip()))
    found = list(dict.fromkeys(program.found))
    if found and known_calls.keeps_in_memory(text):
        return [call for call in found if call.kind not in _OF_DATABASES and not call.kind.startswith("act:")]
    return found


class _Program:
    def __init__(self, read: list[Token], depth: int, work: StepBudget) -> None:
        self.tokens = read
        self.work = work
        self.depth = depth
        self.closings = self._pairs()
        self.found: list[Call] = []
        self.names: dict[str, Value] = {}
        self.functions: dict[str, _Function] = {}
        self.renamed: dict[str, str] = {}
        self.stars: list[str] = []
        """Modules imported with `*`."""
        self.opened: dict[str, tuple[tuple[str, ...], int]] = {}
        """The files opened for overwriting, and the index of the first token after the call, by variable name."""
        self.nested = 0
        self.own: frozenset[str] = frozenset()
        """Models whose tables the program itself creates."""
        self.reaches_out = False
        """Whether the program has a client of a remote service."""

    def run(self, at: int, end: int) -> None:
        """Interpret a range of tokens, statement by statement."""
        while at < end and self.work.take():
            at = max(self._statement(at), at + 1)

    def _is(self, at: int, *marks: str) -> bool:
        return at < len(self.tokens) and self.tokens[at].text in marks and self.tokens[at].kind in ("mark", "name")

    def _name_at(self, at: int) -> str:
        return self.tokens[at].text if at < len(self.tokens) and self.tokens[at].kind == "name" else ""

    def _statement(self, at: int) -> int:
        token = self.tokens[at]
        if token.kind == "text":
            if token.quote == "`" and not self._is(at - 1, "(", ",", "=", "+", ":"):
                self._add("shell", "`", self._texts(token))
            return self._value(at)[1]
        if token.kind != "name":
            return self._value(at)[1] if token.kind == "mark" and token.text in "[(" else at + 1
        word = token.text
        if word in ("import", "from") and not self._is(at + 1, "("):
            return self._import(at)
        if word in _DECLARES and self._is(at + 1, "{"):
            return self._taken_apart(at + 1)
        if word in _DECLARES:
            return at + 1
        if word == "for":
            return self._for(at)
        if (
            word in ("def", "function", "func", "fn", "sub")
            and self._name_at(at + 1)
            and self._name_at(at + 1) != "main"
        ):
            return self._function(at)
        if word in (
            "return",
            "await",
            "new",
            "yield",
            "if",
            "elif",
            "else",
            "while",
            "try",
            "with",
            "async",
            "defer",
            "do",
        ):
            return at + 1
        if self._is(at + 1, "=") or (self._is(at + 1, ":") and self._is(at + 3, "=")):
            value, after = self._value(at + (2 if self._is(at + 1, "=") else 4))
            self._give_name(word, value, after)
            return after
        value, after = self._value(at)
        if self._is(after, "as") and self._name_at(after + 1):
            self._give_name(self._name_at(after + 1), value, after + 2)
            return after + 2
        if value.ref in ("open_w", "open_w.close") and not self._is_written(after):
            self._add("path", OPENED, value.texts)
        return after

    def _is_written(self, at: int) -> bool:
        """Return whether the opened file is written in a block or by a method: `{ |f| f.puts 1 }`, `:write(x)`."""
        if self._is(at, "{"):
            return not self._is(at + 1, "}")
        return self._is(at, "do") or (self._is(at, ":") and self._name_at(at + 1) != "close")

    def _give_name(self, name: str, value: Value, at: int) -> None:
        if value.ref == "open_w":  # whether anything is written to it is known later
            self.opened[name] = (value.texts, at)
            value = Value(value.texts, "opened")
        self.names[name] = value

    def emptied(self) -> None:
        """Record the files that are opened for overwriting and never written to."""
        for name, (files, start) in self.opened.items():
            if not self.work.take(len(self.tokens) // 8):
                return
            if all(self._writes_nothing(at) for at in range(start, len(self.tokens)) if self._name_at(at) == name):
                self._add("path", OPENED, files)

    def _writes_nothing(self, at: int) -> bool:
        if not self._is(at + 1, "."):
            return self._is(at - 1, "(") and self._name_at(at - 2) in _CLOSES
        called = self._name_at(at + 2)
        nothing = (
            called == "write"
            and at + 4 < len(self.tokens)
            and self.tokens[at + 4] == Token("text", "", "", self.tokens[at + 4].quote)
        )
        return nothing or called in ("close", "flush", "truncate", "seek")

    def _import(self, at: int) -> int:
        """`import a.b as c`, `from a import b as c, d`, `import { b as c } from 'a'`."""
        after = at + 1
        line: list[Token] = []
        while after < len(self.tokens) and len(line) < 200:
            token = self.tokens[after]
            if token.text == ";" or (token.kind == "line" and not (line and line[-1].text in (",", "(", "{"))):
                break
            if token.kind != "line":
                line.append(token)
            after += 1
        texts = [token.text for token in line]
        module = ""
        if self.tokens[at].text == "from" and "import" in texts:
            cut = texts.index("import")
            module, texts = "".join(texts[:cut]), texts[cut + 1 :]
        elif "from" in texts and line[-1].kind == "text":
            module, texts = _module(line[-1].text), texts[: texts.index("from")]
        name, alias, kept = "", "", False
        by_default = "{" not in texts and self.tokens[at].text == "import" and module != ""
        for word in [*texts, ","]:
            if word == "*" and module:
                self.stars.append(module)
            if word in (",", "{", "}", "(", ")", "*", ":"):
                if name:
                    whole = not module or "*" in texts or by_default
                    known = (module or name) if whole else f"{module}.{name}"
                    self.names[alias or name.partition(".")[0]] = Value(
                        ref=known if alias or module else name.partition(".")[0]
                    )
                name, alias, kept = "", "", False
            elif word == "as":
                kept = True
            elif kept:
                alias = word
            else:
                name += word
        return after

    def _taken_apart(self, at: int) -> int:
        """`const { rmSync: tidy, rm } = require('fs')`."""
        after = at
        while after < len(self.tokens) and not self._is(after, "}"):
            after += 1
        if not self._is(after + 1, "="):
            return at + 1
        value, end = self._value(after + 2)
        texts = [token.text for token in self.tokens[at + 1 : after] if token.kind != "line"]
        for one in " ".join(texts).split(","):
            name, _, alias = (part.strip() for part in one.partition(":"))
            if name:
                self.names[alias or name] = Value(ref=f"{value.ref}.{name}")
        return end

    def _for(self, at: int) -> int:
        """`for x in values`, `for (const x of values)`, `for d, _, fs in os.walk(...)`."""
        after = at + 1
        listed: list[str] = []
        while after < len(self.tokens) and after < at + 16 and not self._is(after, "in", "of", "range"):
            if self._name_at(after) and self._name_at(after) not in _DECLARES:
                listed.append(self._name_at(after))
            after += 1
        if not self._is(after, "in", "of", "range"):
            return at + 1
        value, end = self._value(after + 1)
        for name in listed:
            self.names[name] = Value(value.texts, f"{value.ref}.item" if "." in value.ref else "")
        return end

    def _function(self, at: int) -> int:
        """Record a function; its body counts when it is called."""
        name, after = self._name_at(at + 1), at + 2
        parameters: list[str] = []
        if self._is(after, "("):
            close = self._closing(after)
            depth_of_type = False
            for token in self.tokens[after + 1 : close]:
                if token.text in (",", "("):
                    depth_of_type = False
                elif token.text in (":", "="):
                    depth_of_type = True
                elif token.kind == "name" and not depth_of_type:
                    parameters.append(token.text)
                    depth_of_type = True
            after = close + 1
        start = after
        while (
            after < len(self.tokens) and self.tokens[after].text not in ("{", ":") and self.tokens[after].kind != "line"
        ):
            after += 1
        end = self._closing(after) if self._is(after, "{") else self._end_of_block(at, after)
        self.functions[name] = _Function(tuple(p for p in parameters if p != "self"), start, end)
        return end

    def _end_of_block(self, at: int, after: int) -> int:
        before = at
        while before >= 0 and self.tokens[before].kind != "line":
            before -= 1
        moved_in = len(self.tokens[before].text) if before >= 0 else 0
        first = after + 1
        if first < len(self.tokens) and self.tokens[first].kind != "line":  # on one line
            while first < len(self.tokens) and self.tokens[first].kind != "line":
                first += 1
            return first
        while first < len(self.tokens):
            token = self.tokens[first]
            is_code = first + 1 < len(self.tokens) and self.tokens[first + 1].kind != "line"
            if token.kind == "line" and is_code and len(token.text) <= moved_in:
                return first
            first += 1
        return first

    def _closing(self, at: int) -> int:
        return self.closings.get(at, len(self.tokens))

    def _pairs(self) -> dict[int, int]:
        """Return the index of the closing bracket by the index of the opening one."""
        found: dict[int, int] = {}
        opened: list[int] = []
        for at, token in enumerate(self.tokens):
            if token.kind == "mark":
                if token.text in "([{":
                    opened.append(at)
                elif token.text in ")]}" and opened:
                    found[opened.pop()] = at
        return found

    # Expressions

    def _value(self, at: int) -> tuple[Value, int]:
        """Return the value and the end of the expression at an index. Records the calls in it."""
        if self.nested > _MAX_DEPTH:
            self.work.cut = True
        if self.nested > _MAX_DEPTH or at >= len(self.tokens) or not self.work.take():
            return Value(), at + 1
        self.nested += 1
        value, after = self._operand(at)
        while after < len(self.tokens) and self.work.take():
            if self._is(after, "+") or (
                self._is(after, ".") and after + 1 < len(self.tokens) and self.tokens[after + 1].kind == "text"
            ):
                other, after = self._operand(after + 1)
                value = Value(_joined(value, other, ""), "", value.listed or other.listed)
            elif self._is(after, "/") and value.texts:
                other, after = self._operand(after + 1)
                value = Value(_joined(value, other, "/"), value.ref)
            elif self._is(after, "%") and value.texts and "%" in value.texts[0]:
                other, after = self._operand(after + 1)
                value = Value(
                    tuple(re.sub(r"%[sd]", (other.texts or ("$",))[0].replace("\\", "/"), t) for t in value.texts)
                )
            elif self._is(after, "or", "||", "??", "?"):
                other, after = self._operand(after + 1)
                value = value if value.texts or value.ref else other
            else:
                break
        self.nested -= 1
        return value, after

    def _operand(self, at: int) -> tuple[Value, int]:
        at = self._past(at)
        if at >= len(self.tokens):
            return Value(), at
        token = self.tokens[at]
        if token.kind == "text":
            if token.prefix == "qw":
                return self._behind(Value(tuple(token.text.split()[:_MAX_TEXTS]), "[]", listed=True), at + 1)
            texts = self._texts(token)
            after = at + 1
            while after < len(self.tokens) and self.tokens[after].kind == "text" and token.quote != "`":
                texts = (texts[0] + self._texts(self.tokens[after])[0],)
                after += 1
            return self._behind(Value(texts), after)
        if token.kind == "name":
            return self._behind(self._named(token.text), at + 1)
        if token.kind == "mark" and token.text in "([{":
            value, after = self._group(at)
            return self._behind(value, after)
        return Value(constant=token.text if token.kind == "number" else ""), at + 1

    def _past(self, at: int) -> int:
        while at < len(self.tokens) and (
            self.tokens[at].kind == "line"
            or self.tokens[at].text in ("new", "await", "not", "!", "@", "*", "&", "async", "return")
        ):
            at += 1
        return at

    def _named(self, name: str) -> Value:
        known = self.names.get(name)
        if known is not None:
            return known
        for module in self.stars[:8]:
            whole = f"{module}.{name}"
            if known_calls.is_removal(whole) or known_calls.is_shell(whole):
                return Value(ref=whole)
        return Value(ref=name.lstrip("$@"), constant=name if name in _CONSTANTS else "")

    def _texts(self, token: Token) -> tuple[str, ...]:
        if not fills(token):
            return (token.text,)
        return (filled(token.text, self._text_of),)

    def _text_of(self, name: str) -> str | None:
        known = self.names.get(name)
        return known.texts[0] if known is not None and known.texts else None

    def _group(self, at: int) -> tuple[Value, int]:
        """Return the value of a list, an object or an expression in brackets."""
        close = self._closing(at)
        items, keywords = self._arguments(at, close)
        if self.tokens[at].text == "(" and len(items) == 1:
            return items[0], close + 1
        if self.tokens[at].text == "[" and len(items) == 1 and not items[0].texts:
            return Value(ref=items[0].ref), close + 1
        texts = [text for item in (*items, *keywords.values()) for text in item.texts]
        if self.tokens[at].text == "{":
            names = [
                f"\0{key}\0{text}"
                for key, value in keywords.items()
                for text in (
                    (value.texts if key == "args" or value.ref == "{}" else value.texts[:1])
                    or ((value.constant,) if value.constant else ())
                )
            ]
            return Value(tuple(names[:_MAX_TEXTS]), "{}", constant="" if items or keywords else "{}"), close + 1
        return Value(tuple(texts[:_MAX_TEXTS]), "[]", listed=True, constant="" if items else "[]"), close + 1

    def _arguments(self, at: int, close: int) -> tuple[list[Value], dict[str, Value]]:
        items: list[Value] = []
        keywords: dict[str, Value] = {}
        here = at + 1
        while here < close and self.work.take():
            here = self._past(here)
            if here >= close:
                break
            key = self.tokens[here]
            if key.kind in ("name", "text") and self._is(here + 1, "=", ":", "=>"):
                value, after = self._value(here + 2)
                keywords[key.text] = value
            elif key.text == ",":
                after = here + 1
            elif self._is(here, "for"):
                after = self._for(here)
            else:
                value, after = self._value(here)
                items.append(value)
            here = max(after, here + 1)
            while here < close and not self._is(here, ",") and self.tokens[here].kind not in ("line", "name", "text"):
                here += 1
            if self._is(here, ","):
                here += 1
        return items, keywords

    def _behind(self, value: Value, at: int) -> tuple[Value, int]:  # noqa: PLR0912 - one case after another
        """Return the value after the attributes, subscripts and calls that follow an expression."""
        begin = at
        while at < len(self.tokens) and self.work.take():
            here = at
            while here < len(self.tokens) and self.tokens[here].kind == "line" and self._is(here + 1, "."):
                here += 1
            if self._is(here, ".") and self._name_at(here + 1):
                name = self._name_at(here + 1)
                value = Value(value.texts, f"{value.ref}.{name}" if value.ref else name, value.listed)
                at = here + 2
            elif self._is(at, "("):
                close = self._closing(at)
                items, keywords = self._arguments(at, close)
                value = self._called(value, items, keywords)
                at = close + 1
            elif self._is(at, "[") and (value.ref or value.texts):
                close = self._closing(at)
                items, _ = self._arguments(at, close)
                texts = items[0].texts if items and items[0].texts else value.texts
                owner = value.ref.removesuffix(".__dict__")
                attribute = f"{owner}.{texts[0]}" if texts else ""
                if attribute and (known_calls.is_removal(attribute) or known_calls.is_shell(attribute)):
                    value = Value(ref=attribute)
                else:
                    value = Value(texts, f"{value.ref}.item" if value.ref else "")
                at = close + 1
            elif (
                at < len(self.tokens) and self.tokens[at].kind == "text" and self.tokens[at].quote == "`" and value.ref
            ):
                value = self._called(Value(ref=_tagged(value.ref)), [Value(self._texts(self.tokens[at]))], {})
                at += 1
            elif self._is_called_bare(value.ref, at):
                items = []
                here = at
                while (
                    here < len(self.tokens) and len(items) < _MAX_TEXTS and self.tokens[here].kind in ("text", "name")
                ):
                    item, here = self._value(here)
                    items.append(item)
                    at = here
                    if not self._is(here, ","):
                        break
                    here += 1
                value = self._called(value, items, {})
            else:
                break
        self._changes_every_row(value.ref, begin, at)
        last = value.ref.rpartition(".")[2]
        if last in _CALLED_WITHOUT_BRACKETS and not self._is(at - 1, ")"):
            if value.texts and last != "destroy":
                self._add("tree" if last == "rmtree" else "path", last, value.texts)
            elif last.endswith("_all") or last == "destroy":
                self._note(value.ref, (), [], {})
        return value, at

    def _changes_every_row(self, chain: str, begin: int, end: int) -> None:
        """Record a chain of calls that builds a statement without a condition, between two token indexes."""
        if methods.changes_every_row(chain):
            named = next((token.text for token in self.tokens[begin:end] if token.kind == "text"), "")
            about = chain.partition(".")[0] if chain[:1].isupper() or not named else named
            self._add(f"act:{ActEffect.OVERWRITES}", "update_every_row", (f"table={about}",))

    def _is_called_bare(self, ref: str, at: int) -> bool:
        """Return whether a name is followed by arguments without brackets, as Perl and Ruby allow."""
        if at >= len(self.tokens) or not (ref in _BARE or ref.startswith(("FileUtils.", "File.", "Dir."))):
            return False
        token = self.tokens[at]
        return token.kind == "text" or (token.kind == "name" and token.text not in _BETWEEN_STATEMENTS)

    def _called(self, function: Value, items: list[Value], keywords: dict[str, Value]) -> Value:
        """Record a relevant call and return its result."""
        ref, base = function.ref, function.texts
        last = ref.rpartition(".")[2]
        first = items[0] if items else next(iter(keywords.values()), Value())
        if ref in ("getattr", "Reflect.get") and len(items) > 1 and items[1].texts:
            return Value(items[0].texts, f"{items[0].ref}.{items[1].texts[0]}")
        if ref in _MODULES and first.texts:
            return Value(ref=_module(first.texts[0]))
        defined = self.functions.get(last)
        if defined is not None and self.nested < _MAX_DEPTH // 4:
            return self._run_function(defined, items, keywords)
        if _TEMPS.fullmatch(ref) is not None:
            return Value((_TEMPORARY,))
        self._hand_over(ref, base, items, keywords)
        self._note(ref, base, items, keywords)
        plain = [text for item in items for text in (*item.texts[:1], *([item.constant] if item.constant else ()))]
        named = {name: value.texts[0] if value.texts else value.constant for name, value in keywords.items()}
        if "." in ref and methods.call_excludes_no_row(last, plain, named):
            return Value(base, f"{ref.rpartition('.')[0].removesuffix('.where')}.all")
        return self._given(ref, base, items, keywords)

    def _hand_over(self, ref: str, base: tuple[str, ...], items: list[Value], keywords: dict[str, Value]) -> None:
        """Call a function that is passed as an argument with the arguments after it: `map(os.remove, files)`."""
        if ref in ("getattr", "hasattr", "print", "isinstance", "callable", "patch", "mock.patch", "help"):
            return
        for at, item in enumerate((*items, *(value for name, value in keywords.items() if name == "target"))):
            named = item.texts[0] if ref in _BY_TEXT and item.texts and not item.ref else item.ref
            if (item.texts and ref not in _BY_TEXT) or not (
                known_calls.is_removal(named) or named in known_calls.SHELLS
            ):
                continue
            given = [keywords["args"]] if "args" in keywords else items[at + 1 :]
            if not given and base:
                given = [Value(base)]
            if given:
                self._note(named, (), given, {})
            return

    def _given(  # noqa: PLR0912 - one case after another
        self, ref: str, base: tuple[str, ...], items: list[Value], keywords: dict[str, Value]
    ) -> Value:
        last = ref.rpartition(".")[2]
        first = items[0] if items else Value()
        if ref in _JOINS or last == "joinpath":
            value = Value(base) if last == "joinpath" else Value(("",)) if not items else items[0]
            for item in items if last == "joinpath" else items[1:]:
                value = Value(_joined(value, item, "/"))
            return value
        if ref in _LISTINGS and (first.texts or ref != "glob"):
            return Value(tuple(t if "*" in t else f"{t}/*" for t in first.texts))
        if last in _BELOW and base:
            return Value(tuple(f"{t}/*" for t in base), "Path")
        if ref in _DECODES:
            return Value(tuple(decoded(text) for text in first.texts))
        if last in ("promisify", "partial", "bind", "wraps", "callbackify") and first.ref:
            return Value(ref=first.ref)
        if ref in ("delete", "sqlalchemy.delete") and first.ref and not first.texts:
            return Value(ref=f"delete.{first.ref}")
        if last == "split" and base:
            return Value(tuple(base[0].split()), "[]", listed=True)
        if last in ("with_suffix", "with_name", "relative_to"):
            return Value((), ref)
        if last == "format" and base:
            return Value(tuple(_formatted(text, items, keywords) for text in base), ref)
        if last in _PASSES and base:
            return Value(base, ref)
        if ref in _PATH_MAKERS and first.texts:
            value = first
            for item in items[1:]:
                value = Value(_joined(value, item, "/"))
            return Value(value.texts, ref, value.listed)
        if (ref in ("open", "File.open", "io.open") or last in _OPENERS) and first.texts:
            mode = (items[1] if len(items) > 1 else keywords.get("mode", _NONE)).texts
            anew = mode[0].startswith("w") if mode else last == "createWriteStream"
            return Value(first.texts, "open_w" if anew else "open")
        texts = first.texts or next((value.texts for value in keywords.values() if value.texts), ())
        return Value(texts or base, ref)

    def _run_function(self, function: _Function, items: list[Value], keywords: dict[str, Value]) -> Value:
        before = {name: self.names.get(name) for name in function.parameters}
        bound = dict(zip(function.parameters, items, strict=False)) | {
            name: value for name, value in keywords.items() if name in function.parameters
        }
        self.names.update(bound)
        self.nested += 8
        self.run(function.start, function.end)
        self.nested -= 8
        for name, value in before.items():
            if value is None:
                self.names.pop(name, None)
            else:
                self.names[name] = value
        return Value()

    def _note(  # noqa: PLR0912 - one case after another
        self, ref: str, base: tuple[str, ...], items: list[Value], keywords: dict[str, Value]
    ) -> None:
        last = ref.rpartition(".")[2]
        first = items[0] if items else next(iter(keywords.values()), Value())
        if known_calls.is_removal(ref):
            kind = "path" if ref in known_calls.PATHS and "recursive" not in keywords else "tree"
            self._add(kind, ref, first.texts or (f"${first.ref}" if first.ref else "$unknown",))
        elif known_calls.is_shell(ref) or ref in known_calls.CODES:
            given = keywords.get("args") or keywords.get("command") or keywords.get("cmd")
            self._runs(ref, items or ([given] if given is not None else []))
        elif ref in ("Bun.file.delete", "Bun.file.unlink"):
            self._add("path", ref, base)
        elif last in ("unlink", "rmdir") and not base and first.texts[:1] and first.texts[0].startswith("/"):
            self._add("path", last, first.texts)
        elif last in ("unlink", "rmdir", "rmtree", "deleteDir", "deleteRecursively") and (base or not items):
            if base or ref.count(".") == 1 or not items:
                self._add(
                    "tree" if last in ("rmtree", "deleteDir", "deleteRecursively") else "path",
                    last,
                    base or (f"${ref.partition('.')[0]}",),
                )
        elif ref in _RENAMES and len(items) > 1 and items[0].texts and items[1].texts:
            self.renamed[items[1].texts[0]] = items[0].texts[0]
            if _LOST_THERE.match(items[1].texts[0]) and items[0].texts[0].startswith(("/", "~")):
                self._add("away", "move_to_temporary", items[0].texts[:1])
        elif last in ("rename", "replace") and base and first.texts and ref.startswith(("Path", "pathlib")):
            self.renamed[first.texts[0]] = base[0]
        elif ref == "truncate" and first.texts and len(items) > 1:
            self._add("path", ref, first.texts)
        elif last == "truncate" or (
            last in ("write_text", "write_bytes", "writeFileSync") and first.texts == ("",) and base
        ):
            self._add("path", "truncate", base if last != "truncate" or ref.startswith("open") else ())
            if last == "truncate" and not ref.startswith("open"):
                self._request_or_thing(ref, base, items, keywords)
        elif ref == "open_w.write" and first.texts == ("",):
            self._add("path", "truncate", base)
        elif last in _CLOSES and first.ref == "open_w":
            self._add("path", OPENED, first.texts)
        elif ref == "open_w.close" or (ref == "open_w.end" and not items):
            self._add("path", OPENED, base)
        elif (
            (last in _WRITES_WHOLE or ref in ("File.write", "IO.write", "Bun.write"))
            and len(items) > 1
            and (items[1].texts == ("",) or (items[1].ref in _NOTHING and not items[1].texts))
            and first.texts
        ):
            self._add("path", "truncate", first.texts)
        elif last in ("to_sql", "saveAsTable", "insertInto", "save", "parquet", "csv", "json", "orc"):
            self._replaces(base, items, keywords)
        elif ref.startswith("sh.") and self.names.get("sh", Value()).ref == "sh":
            self._add("shell", ref, (shlex.join([last, *(t for item in items for t in item.texts)]),))
        elif ref in ("remove", "rm") and first.texts and ("/" in first.texts[0]):
            self._add("tree", ref, first.texts)
        else:
            self._request_or_thing(ref, base, items, keywords)

    def _request(self, last: str, methods: set[str], place: str, texts: list[str]) -> bool:
        """Record an irreversible request. Return whether the call is one."""
        method = last.upper() if last.upper() in _HTTP else next(iter(methods & _HTTP), "")
        body = " ".join(
            '"{}": "{}"'.format(*text.split("\0")[-2:]) if "\0" in text else text for text in texts if text != place
        )
        if method and requests.act(method, place, body) is not None:
            self._add("request", method, (place,))
            return True
        return False

    def _replaces(self, base: tuple[str, ...], items: list[Value], keywords: dict[str, Value]) -> None:
        """Record data frames written over a table or a folder, if an argument requests replacement."""
        how = (
            *base,
            *(text for name in ("if_exists", "mode", "overwrite") for text in keywords.get(name, _NONE).texts),
        )
        name = (items[0] if items else keywords.get("name", keywords.get("path", _NONE))).texts
        if name and not {"replace", "overwrite"}.isdisjoint(how):
            if "/" in name[0]:
                self._add("tree", "overwrite", name[:1])
            else:
                self._add("thing", "replace_table", (f"table={name[0]}",))

    def _runs(self, ref: str, items: list[Value]) -> None:
        texts: tuple[str, ...] = ()
        if items and items[0].listed:
            texts = (shlex.join(items[0].texts),) if items[0].texts else ()
        elif (known_calls.takes_words(ref) or (ref in ("system", "exec") and all(i.texts for i in items))) and len(
            items
        ) > 1:
            words = [
                t.removeprefix("\0args\0") for item in items for t in item.texts if t[:1] != "\0" or t[:6] == "\0args\0"
            ]
            texts = (shlex.join(words[1:] if words[1:2] == words[:1] else words),)
        elif items:
            texts = items[0].texts
        if ref in known_calls.CODES:
            for text in texts if self.depth < 3 else ():
                self.found += calls(text, self.depth + 1, self.work)
        self._add("shell", ref, texts)
        if not texts and ref in known_calls.CODES:
            self._add("opaque", ref, ("",))

    def _request_or_thing(  # noqa: PLR0912 - one case after another
        self, ref: str, base: tuple[str, ...], items: list[Value], keywords: dict[str, Value]
    ) -> None:
        last = ref.rpartition(".")[2]
        first = items[0] if items else Value()
        texts = [text for item in (*items, *keywords.values()) for text in item.texts]
        method = {t.rpartition("\0")[2].upper() for t in texts if t.startswith("\0method\0")} | {
            t.upper()
            for given in (*(items if last == "curl_setopt" else items[:1]), keywords.get("method", Value()))
            for t in given.texts
            if len(t) < 8
        }
        places = [t for t in texts if t.startswith(("http://", "https://", "/", "$"))]
        places += [t.rpartition("\0")[2] for t in texts if t.startswith(("\0url\0", "\0path\0"))]
        if "DELETE" in method and places:
            self._add("url", "http_delete", tuple(places[:1]))
        elif places and "://" in places[0] and self._request(last, method, places[0], texts):
            return
        elif (
            last in ("delete", "Delete")
            and first.texts
            and first.texts[0].startswith(("http://", "https://", "/" if _REQUESTS.search(ref) else "/api"))
        ):
            self._add("url", "http_delete", first.texts)
        elif last in known_calls.CALLS_TOOLS and _is_deed(first.texts[:1]) and (len(items) > 1 or keywords):
            self._add("thing", first.texts[0], named_by(first.texts[0], (), items[1:], keywords))
        elif last in known_calls.RUNS and any(_COMMAND.match(text) for text in first.texts):
            self._add("shell", ref, first.texts)
            self._add("sql", ref, first.texts)
        elif ".git." in f".{ref}" and first.texts and last in ("reset", "clean", "push", "checkout", "branch", "rm"):
            self._add("shell", ref, (shlex.join(["git", last, *(t for item in items for t in item.texts)]),))
        elif last in _OF_EACH and any(item.ref in ("destroy", "delete") for item in items):  # `each(&:destroy)`
            self._add("thing", "destroy_each", (f"model={ref.partition('.')[0]}",))
        elif last == "run_cell_magic" and len(items) > 2 and first.texts[:1] in (("bash",), ("sh",), ("script",)):
            self._add("shell", ref, items[2].texts)
        elif known_calls.runs_sql(ref) and first.ref and not first.texts and _DELETES.search(first.ref) is not None:
            table = first.ref.removeprefix("sqlalchemy.").removeprefix("delete.").removesuffix(".delete")
            self._add("thing", "delete_rows", (f"table={table}",))
        elif known_calls.runs_sql(ref) and (first.texts or keywords or (len(items) > 1 and items[1].texts)):
            self._add("sql", ref, tuple(t.rpartition("\0")[2] for t in (first.texts or texts)))
            if len(items) > 1 and items[1].texts:  # the connection comes first, as in R
                self._add("sql", ref, items[1].texts[:1])
        else:
            verb = known_calls.takes_away(ref, named=bool(keywords))
            if ref.partition(".")[0] in self.own or not _DONE_WITH.isdisjoint(keywords):
                return
            if not verb:
                self._sets(ref, base, items, keywords)
                return
            if verb and not (last in ("drop", "Drop") and (items or keywords) and not _OF_TABLES.search(ref)):
                given = [] if last in ("drop", "Drop") else items
                self._add("thing", verb, named_by(ref, base, given, keywords))

    def _sets(self, ref: str, base: tuple[str, ...], items: list[Value], keywords: dict[str, Value]) -> None:
        """Record a client method that spends, sends, exposes, or sets a destructive option, by the tables of tools."""
        owner, _, last = ref.rpartition(".")
        if not owner and not keywords and last != "mail" and not last.endswith("Command"):
            return
        given = {
            name: value.texts[0] if value.texts else value.constant
            for name, value in keywords.items()
            if value.texts or value.constant
        }
        # `\0a\0\0b\0c` is c at the path a, b
        for text in (text for value in (*items, *keywords.values()) for text in value.texts if "\0" in text):
            *outer, name, told = text.split("\0")
            given |= dict.fromkeys(filter(None, outer), "") | {name: told}
        everything = bool(items) and (items[0].constant == "{}" or not (items[0].texts or items[0].ref))
        found = methods.of_method(
            owner,
            last,
            given,
            [text for item in items for text in item.texts[:1]],
            everything=everything,
            reaches_out=self.reaches_out,
        )
        if found is not None:
            by_args = (
                not found[0].startswith("update")
                or ref.endswith("update.values")
                or any(name[:1].isupper() for name in given)
            )
            about = named_by(ref, base, items if by_args else [], keywords if by_args else {})
            self._add(f"act:{found[1]}", found[0], about[:1])

    def _add(self, kind: str, name: str, texts: tuple[str, ...]) -> None:
        for text in texts[:_MAX_TEXTS]:
            if len(self.found) >= MAX_CALLS or len(text) > _MAX_TEXT_CHARS or not self.work.take(5):
                self.work.cut = True
            else:
                self.found.append(Call(kind, name, self._origin(text) if kind in ("path", "tree") else text))

    def _origin(self, path: str) -> str:
        self.work.take(len(self.renamed) // 4)
        for new, old in self.renamed.items():
            if path == new or path.startswith(f"{new}/"):
                return old + path[len(new) :]
        return path


_REQUESTS = re.compile(r"http|axios|faraday|\b(?:got|ky|session)\b", re.IGNORECASE)
"""Names of HTTP clients."""


def _is_deed(texts: tuple[str, ...]) -> bool:
    """Return whether a text is the name of a destructive tool."""
    return bool(texts) and _TOOL.fullmatch(texts[0]) is not None and destroying_verb(texts[0]) != ""


_TOOL = re.compile(r"[A-Za-z][\w.-]{3,63}")


def _tagged(ref: str) -> str:
    """Return the function that a template tag stands for: a command line for `$` and similar tags."""
    last = ref.rpartition(".")[2]
    if last in ("$", "sh", "execa", "execaCommand", "cmd") or ref in ("", "$"):
        return "execa"
    return f"{ref.rpartition('.')[0]}.query".lstrip(".") if last in known_calls.TAGS_OF_SQL else ref


def decoded(text: str) -> str:
    """Return the text that base64 encodes; empty if it is invalid."""
    try:
        return base64.b64decode(text, validate=False).decode(errors="replace")
    except (binascii.Error, ValueError):
        return ""


def _formatted(text: str, items: list[Value], keywords: dict[str, Value]) -> str:
    """`'DROP TABLE {}'.format(name)`."""
    given = iter(items)

    def fill(found: re.Match[str]) -> str:
        name = found[1]
        value = keywords.get(name, _NONE) if name and not name.isdigit() else next(given, _NONE)
        return value.texts[0] if value.texts else found[0]

    return _HOLE.sub(fill, text)[:_MAX_TEXT_CHARS]


_HOLE = re.compile(r"\{(\w*)\}")


def _joined(one: Value, other: Value, between: str) -> tuple[str, ...]:
    left = one.texts or ((f"${one.ref}",) if one.ref else ("$",))
    right = other.texts or ((f"${other.ref}",) if other.ref else ("$",))
    if between:
        return tuple(
            b if b.startswith("/") else f"{a.rstrip('/')}/{b}" for a, b in islice(product(left, right), _MAX_TEXTS)
        )
    if one.listed or other.listed:
        return (*left, *right)[:_MAX_TEXTS]
    return tuple(f"{a}{b}"[:_MAX_TEXT_CHARS] for a, b in islice(product(left, right), _MAX_TEXTS))


def _module(name: str) -> str:
    plain = name.removeprefix("node:").removesuffix("-extra")
    return {"fs/promises": "fs.promises", "fs": "fs"}.get(plain, plain)
