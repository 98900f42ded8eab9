"""The values of a program's expressions, and the calls in them: texts, paths, lists, objects, functions.

Misses: computed texts; files that are renamed by a computed name; methods of the program's own classes on an object of
    unknown type.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence

from haltline.detectors.commands.code import known_calls, meanings, results
from haltline.detectors.commands.code.structure import Function, Structure
from haltline.detectors.commands.code.tokens import Token, filled, fills
from haltline.detectors.commands.code.values import (
    MAX_TEXT_CHARS,
    MAX_TEXTS,
    NONE,
    CallSite,
    CodeCall,
    Value,
    joined,
    joined_paths,
)
from haltline.detectors.commands.effects import methods
from haltline.detectors.commands.model import ActEffect, listed
from haltline.detectors.commands.step_budget import StepBudget
from haltline.schemas import expressions as re

_MAX_DEPTH = 40
_MAX_CALLS = 1024
_BARE = frozenset(("unlink", "system", "exec", "rmtree", "remove_tree", "rmdir", "rm_rf", "popen"))
_BETWEEN_STATEMENTS = frozenset(listed("""
    if unless or and for foreach while until do then end is in as else not import from with return of instanceof
    rescue async await const let var
"""))  # fmt: skip
_CALLED_WITHOUT_BRACKETS = frozenset(("rmtree", "unlink", "rmdir", "delete_all", "destroy_all", "destroy"))
_CONSTANTS = frozenset(("True", "False", "None", "true", "false", "null", "nil", "undefined"))
DECLARES = frozenset(("const", "let", "var", "my", "local", "our", "val", "auto"))


class Findings:
    """The calls found so far; files that the program renamed are reported under their original names."""

    def __init__(self, work: StepBudget) -> None:
        self.calls: list[CodeCall] = []
        self.renamed: dict[str, str] = {}
        self._work = work

    def add(self, kind: str, name: str, texts: Sequence[str]) -> None:
        """Record a call for each of its possible arguments."""
        for text in texts[:MAX_TEXTS]:
            if len(self.calls) >= _MAX_CALLS or len(text) > MAX_TEXT_CHARS or not self._work.take(5):
                self._work.cut = True
            else:
                self.calls.append(CodeCall(kind, name, self._origin(text) if kind in ("path", "tree") else text))

    def _origin(self, path: str) -> str:
        self._work.take(len(self.renamed) // 4)
        for new, old in self.renamed.items():
            if path == new or path.startswith(f"{new}/"):
                return old + path[len(new) :]
        return path


class Expressions(Structure, ABC):
    """Reads expressions; `run` interprets the statements of a function's body."""

    def __init__(self, read: list[Token], work: StepBudget, program: meanings.Program) -> None:
        super().__init__(read)
        self.work = work
        self.program = program
        self.names = program.names
        self.found = Findings(work)
        self.functions: dict[str, Function] = {}
        self.stars: list[str] = []
        """Modules imported with `*`."""
        self.nested = 0

    @abstractmethod
    def calls_of(self, text: str) -> list[CodeCall]:
        """Return the calls of a program that this one executes."""

    @abstractmethod
    def run(self, at: int, end: int) -> None:
        """Interpret a range of tokens, statement by statement."""

    def loop(self, at: int) -> int:
        """`for x in values`, `for (const x of values)`, `for d, _, fs in os.walk(...)`."""
        after = at + 1
        variables: list[str] = []
        while after < self.end and after < at + 16 and not self.is_(after, "in", "of", "range"):
            if self.name_at(after) and self.name_at(after) not in DECLARES:
                variables.append(self.name_at(after))
            after += 1
        if not self.is_(after, "in", "of", "range"):
            return at + 1
        value, end = self.value(after + 1)
        for name in variables:
            self.names[name] = Value(value.texts, f"{value.ref}.item" if "." in value.ref else "")
        return end

    def value(self, at: int) -> tuple[Value, int]:
        """Return the value and the end of the expression at an index. Records the calls in it."""
        if self.nested > _MAX_DEPTH:
            self.work.cut = True
        if self.nested > _MAX_DEPTH or at >= self.end or not self.work.take():
            return NONE, at + 1
        self.nested += 1
        value, after = self._operand(at)
        while after < self.end and self.work.take():
            if self.is_(after, "+") or (self.is_(after, ".") and self.at(after + 1).kind == "text"):
                other, after = self._operand(after + 1)
                value = Value(joined(value, other), "", value.listed or other.listed)
            elif self.is_(after, "/") and value.texts:
                other, after = self._operand(after + 1)
                value = Value(joined_paths([value, other]), value.ref)
            elif self.is_(after, "%") and value.texts and "%" in value.texts[0]:
                other, after = self._operand(after + 1)
                shown = (other.texts or ("$",))[0].replace("\\", "/")
                value = Value(tuple(re.sub(r"%[sd]", shown, text) for text in value.texts))
            elif self.is_(after, "or", "||", "??", "?"):
                other, after = self._operand(after + 1)
                value = value if value.texts or value.ref else other
            else:
                break
        self.nested -= 1
        return value, after

    def _operand(self, at: int) -> tuple[Value, int]:
        at = self.past(at)
        if at >= self.end:
            return NONE, at
        token = self.tokens[at]
        if token.prefix == "qw":
            return self._behind(Value(tuple(token.text.split()[:MAX_TEXTS]), "[]", listed=True), at + 1)
        if token.kind == "text":
            texts = self.text_of(token)
            after = at + 1
            while self.at(after).kind == "text" and token.quote != "`":
                texts = (texts[0] + self.text_of(self.tokens[after])[0],)
                after += 1
            return self._behind(Value(texts), after)
        if token.kind == "name":
            return self._behind(self._named(token.text), at + 1)
        if token.kind == "mark" and token.text in "([{":
            return self._behind(self._group(at), self.closing(at) + 1)
        return Value(constant=token.text if token.kind == "number" else ""), at + 1

    def _named(self, name: str) -> Value:
        known = self.names.get(name)
        if known is not None:
            return known
        for module in self.stars[:8]:
            if _removes_or_runs(f"{module}.{name}"):
                return Value(ref=f"{module}.{name}")
        return Value(ref=name.lstrip("$@"), constant=name if name in _CONSTANTS else "")

    def text_of(self, token: Token) -> tuple[str, ...]:
        """Return the text of a string with the known values filled in."""
        return (filled(token.text, self._value_of) if fills(token) else token.text,)

    def _value_of(self, name: str) -> str | None:
        known = self.names.get(name)
        return known.texts[0] if known is not None and known.texts else None

    def _group(self, at: int) -> Value:
        """Return the value of a list, an object or an expression in brackets."""
        items, keywords = self._arguments(at)
        opening = self.tokens[at].text
        if opening == "(" and len(items) == 1:
            return items[0]
        if opening == "[" and len(items) == 1 and not items[0].texts:
            return Value(ref=items[0].ref)
        if opening == "{":
            return Value(tuple(_fields(keywords)[:MAX_TEXTS]), "{}", constant="" if items or keywords else "{}")
        texts = [text for item in (*items, *keywords.values()) for text in item.texts]
        return Value(tuple(texts[:MAX_TEXTS]), "[]", listed=True, constant="" if items else "[]")

    def _arguments(self, at: int) -> tuple[list[Value], dict[str, Value]]:
        """Return the positional and keyword arguments in the brackets that begin at an index."""
        items: list[Value] = []
        keywords: dict[str, Value] = {}
        here, close = at + 1, self.closing(at)
        while here < close and self.work.take():
            here = self.past(here)
            if here >= close:
                break
            key = self.tokens[here]
            if key.kind in ("name", "text") and self.is_(here + 1, "=", ":", "=>"):
                keywords[key.text], after = self.value(here + 2)
            elif key.text == ",":
                after = here + 1
            elif self.is_(here, "for"):
                after = self.loop(here)
            else:
                value, after = self.value(here)
                items.append(value)
            here = max(after, here + 1)
            while here < close and not self.is_(here, ",") and self.tokens[here].kind not in ("line", "name", "text"):
                here += 1
            here += self.is_(here, ",")
        return items, keywords

    def _behind(self, value: Value, at: int) -> tuple[Value, int]:
        """Return the value after the attributes, subscripts and calls that follow an expression."""
        begin = at
        while at < self.end and self.work.take():
            followed = self._followed(value, at)
            if followed is None:
                break
            value, at = followed
        self._changes_every_row(value.ref, begin, at)
        last = value.ref.rpartition(".")[2]
        if last in _CALLED_WITHOUT_BRACKETS and not self.is_(at - 1, ")"):
            if value.texts and last != "destroy":
                self.found.add("tree" if last == "rmtree" else "path", last, value.texts)
            elif last.endswith("_all") or last == "destroy":
                self._note(CallSite(value.ref))
        return value, at

    def _followed(self, value: Value, at: int) -> tuple[Value, int] | None:
        """Return the value after one attribute, subscript or call at an index; None if there is none."""
        here = at
        while self.at(here).kind == "line" and self.is_(here + 1, "."):
            here += 1
        name = self.name_at(here + 1) if self.is_(here, ".") else ""
        if name:
            return Value(value.texts, f"{value.ref}.{name}" if value.ref else name, value.listed), here + 2
        if self.is_(at, "("):
            return self._called(value, *self._arguments(at)), self.closing(at) + 1
        if self.is_(at, "[") and (value.ref or value.texts):
            return self._subscript(value, self._arguments(at)[0]), self.closing(at) + 1
        if self.at(at).quote == "`" and value.ref:
            return self._called(Value(ref=_tagged(value.ref)), [Value(self.text_of(self.tokens[at]))], {}), at + 1
        return self._called_bare(value, at) if self._is_called_bare(value.ref, at) else None

    def _subscript(self, value: Value, items: list[Value]) -> Value:
        texts = items[0].texts if items and items[0].texts else value.texts
        attribute = f"{value.ref.removesuffix('.__dict__')}.{texts[0]}" if texts else ""
        if attribute and _removes_or_runs(attribute):
            return Value(ref=attribute)
        return Value(texts, f"{value.ref}.item" if value.ref else "")

    def _is_called_bare(self, ref: str, at: int) -> bool:
        """Return whether a name is followed by arguments without brackets, as Perl and Ruby allow."""
        if not (ref in _BARE or ref.startswith(("FileUtils.", "File.", "Dir."))):
            return False
        token = self.at(at)
        return token.kind == "text" or (token.kind == "name" and token.text not in _BETWEEN_STATEMENTS)

    def _called_bare(self, value: Value, at: int) -> tuple[Value, int]:
        items: list[Value] = []
        while len(items) < MAX_TEXTS and self.at(at).kind in ("text", "name"):
            item, end = self.value(at)
            items.append(item)
            if not self.is_(end, ","):
                return self._called(value, items, {}), end
            at = end + 1
        return self._called(value, items, {}), at - 1

    def _changes_every_row(self, chain: str, begin: int, end: int) -> None:
        """Record a chain of calls that builds a statement without a condition, between two token indexes."""
        if methods.changes_every_row(chain):
            named = next((token.text for token in self.tokens[begin:end] if token.kind == "text"), "")
            about = chain.partition(".")[0] if chain[:1].isupper() or not named else named
            self.found.add(f"act:{ActEffect.OVERWRITES}", "update_every_row", (f"table={about}",))

    # Calls

    def _called(self, function: Value, items: list[Value], keywords: dict[str, Value]) -> Value:
        """Record a relevant call and return its result."""
        call = CallSite(function.ref, function.texts, items, keywords)
        known = results.reference(call)
        if known is not None and known.ref:
            return known
        defined = self.functions.get(call.last)
        if defined is not None and self.nested < _MAX_DEPTH // 4:
            return self._run_function(defined, call)
        if known is not None:
            return known
        passed_on = meanings.passed_on(call)
        if passed_on is not None:
            self._note(passed_on)
        self._note(call)
        return self._without_condition(call) or results.result(call)

    def _without_condition(self, call: CallSite) -> Value | None:
        """Return the statement without a condition that excludes no row: `.neq('id', 0)`; None for any other call."""
        plain = [text for item in call.items for text in (*item.texts[:1], *([item.constant] if item.constant else ()))]
        named = {name: value.texts[0] if value.texts else value.constant for name, value in call.keywords.items()}
        if "." in call.ref and methods.call_excludes_no_row(call.last, plain, named):
            return Value(call.base, f"{call.owner.removesuffix('.where')}.all")
        return None

    def _run_function(self, function: Function, call: CallSite) -> Value:
        before = {name: self.names.get(name) for name in function.parameters}
        self.names.update(zip(function.parameters, call.items, strict=False))
        self.names.update((name, value) for name, value in call.keywords.items() if name in before)
        self.nested += 8
        self.run(function.start, function.end)
        self.nested -= 8
        for name, value in before.items():
            if value is None:
                self.names.pop(name, None)
            else:
                self.names[name] = value
        return NONE

    def _note(self, call: CallSite) -> None:
        for kind, name, argument in meanings.meaning(call, self.program):
            if kind == "renamed":
                self.found.renamed[name] = argument
            elif kind != "code":
                self.found.add(kind, name, (argument,))
            else:
                self.found.calls += self.calls_of(argument)


def _fields(keywords: dict[str, Value]) -> list[str]:
    """Return the fields of an object as texts: a null character, the name, another one, the value."""
    return [
        f"\0{key}\0{text}"
        for key, value in keywords.items()
        for text in (
            (value.texts if key == "args" or value.ref == "{}" else value.texts[:1])
            or ((value.constant,) if value.constant else ())
        )
    ]


def _removes_or_runs(ref: str) -> bool:
    return known_calls.is_removal(ref) or known_calls.is_shell(ref)


def _tagged(ref: str) -> str:
    """Return the function that a template tag stands for: a command line for `$` and similar tags."""
    owner, _, last = ref.rpartition(".")
    if last in ("$", "sh", "execa", "execaCommand", "cmd") or ref in ("", "$"):
        return "execa"
    return f"{owner}.query".lstrip(".") if last in known_calls.TAGS_OF_SQL else ref
