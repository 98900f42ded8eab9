"""Checks for uses of a framework that `haltline init` does not change and that would stay unguarded."""

import ast
from collections.abc import Iterable, Iterator
from typing import Final

from haltline.cli.frameworks.rows import Change, Framework, WithBlock, WrapKeyword
from haltline.cli.frameworks.source import CannotEdit, Scope, Source

_COPIES: Final = frozenset({"dataclasses.replace", "copy.replace"})
_OF_LISTS: Final = frozenset({"append", "extend", "insert"})


def is_one(name: str, modules: Iterable[str], calls: Iterable[str]) -> bool:
    """Return whether a dotted name is one of the calls in one of the modules."""
    return any(name.startswith(f"{one}.") for one in modules) and any(name.endswith(f".{call}") for call in calls)


def keyword_of(call: ast.Call, name: str) -> ast.keyword | None:
    """The keyword argument of this name, or None."""
    return next((one for one in call.keywords if one.arg == name), None)


def check_uses(source: Source, framework: Framework) -> None:
    """Raises CannotEdit for a use of a guarded name that is not a call, import or annotation."""
    changes = [change for edit in framework.edits for change in edit]
    calls = {name for one in changes if not isinstance(one, WithBlock) for name in one.calls}
    owners = {owner for name in calls if (owner := name.rpartition(".")[0])} - calls
    methods = {name for one in changes if isinstance(one, WithBlock) for name in one.methods}
    _check_imports(source, framework, calls | owners)
    called = {id(one) for call in source.calls for one in _chain(call.func)}
    # A method of a class to guard, such as Agent.from_file, may create an agent too.
    called -= {
        id(one)
        for call in source.calls
        if not is_one(source.dotted(call.func), framework.imports, calls)
        for one in _chain(call.func)
        if isinstance(one, ast.Name | ast.Attribute) and is_one(source.dotted(one), framework.imports, calls)
    }
    allowed = called | _annotations(source)
    for node in _in_order(source):
        name, is_owner = source.dotted(node), isinstance(source.parents.get(node), ast.Attribute)
        is_bare = not is_owner and (name in framework.imports or is_one(name, framework.imports, owners))
        is_method = isinstance(node, ast.Attribute) and node.attr in methods
        if id(node) in allowed or not (is_bare or is_method or is_one(name, framework.imports, calls)):
            continue
        where = " in an f-string" if any(isinstance(one, ast.JoinedStr) for one in source.above(node)) else ""
        what = f"{ast.unparse(node)} only in calls that can be changed"
        raise CannotEdit(f"line {node.lineno}: expected {what}, got another use{where}")


def check_keywords(source: Source, change: WrapKeyword, calls: list[ast.Call]) -> None:
    """Raises CannotEdit for arguments that may contain tools outside of the changed keyword."""
    for call in calls:
        if any(one.arg is None for one in call.keywords):
            raise CannotEdit(f"line {call.lineno}: expected arguments by name, got **, which may hold {change.keyword}")
        if len(call.args) > 1 or any(isinstance(one, ast.Starred) for one in call.args):
            raise CannotEdit(f"line {call.lineno}: expected arguments by name, got several by place")
        _check_unguarded(call, change)
    for call in source.every_call:
        is_copy = isinstance(call.func, ast.Attribute) and call.func.attr in change.copies
        if not is_copy and source.dotted(call.func) not in _COPIES:
            continue
        if any(one.arg in (None, change.keyword) for one in call.keywords):
            raise CannotEdit(f"line {call.lineno}: expected a copy without {change.keyword} of its own, got one")
        _check_unguarded(call, change)
    for node in _in_order(source):
        if isinstance(node, ast.Attribute) and node.attr in (change.keyword, *change.unguarded):
            above = source.parents.get(node)
            if isinstance(node.value, ast.Name) and node.value.id == "self":
                continue  # not an agent: classes derived from one are refused
            if not isinstance(node.ctx, ast.Load) or (isinstance(above, ast.Attribute) and above.attr in _OF_LISTS):
                raise CannotEdit(f"line {node.lineno}: expected {node.attr} only where the agent is made, got a change")


def check_calls(source: Source, framework: Framework, places: list[tuple[Change, list[ast.Call]]]) -> None:
    """Raises CannotEdit for an unchanged call that neither contains a changed one nor is part of one."""
    changed = [call for _, found in places for call in found]
    ids = set(map(id, changed))
    of_ways = {name for edit in framework.edits for one in edit if not isinstance(one, WithBlock) for name in one.calls}
    by_keyword = {name for change, _ in places if isinstance(change, WrapKeyword) for name in change.calls}
    for call in source.calls:
        name = source.dotted(call.func)
        if not is_one(name, framework.imports, of_ways) or is_one(name, framework.imports, by_keyword):
            continue  # a call without the keyword has no tools
        if id(call) not in ids and not any(
            _is_part(source, call, one) or _is_part(source, one, call) for one in changed
        ):
            raise CannotEdit(f"line {call.lineno}: expected one agent with all others as a part of it, got another")


def check_places(source: Source, places: list[tuple[Change, list[ast.Call]]]) -> None:
    """Raises CannotEdit for a call that does not run with its statement, such as a default argument."""
    for change, found in places:
        for call in found:
            below: ast.AST = call
            for node in source.above(call):
                if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and below not in node.body:
                    raise CannotEdit(
                        f"line {call.lineno}: expected the agent in a statement of its own, got it in the "
                        f"signature or a decorator of {node.name}"
                    )
                below = node
        if isinstance(change, WithBlock):
            for call in source.calls:
                if isinstance(call.func, ast.Attribute) and call.func.attr in change.methods:
                    _check_runs_there(source, call, is_async="async" in call.func.attr or call.func.attr[0] == "a")


def _check_runs_there(source: Source, call: ast.Call, *, is_async: bool) -> None:
    later = f"line {call.lineno}: expected a call that its statement makes, got one that runs later"
    above = list(source.above(call))[1:]
    inside = above[: next(n for n, one in enumerate(above) if isinstance(one, ast.stmt))]
    if any(isinstance(one, ast.Lambda | ast.GeneratorExp) for one in inside):
        raise CannotEdit(later)
    if is_async and not any(isinstance(one, ast.Await | ast.Call) for one in inside):
        raise CannotEdit(later)


def _check_unguarded(call: ast.Call, change: WrapKeyword) -> None:
    for name in change.unguarded:
        if keyword_of(call, name) is not None:
            raise CannotEdit(f"line {call.lineno}: expected no {name}=, whose tools cannot be guarded, got one")


def _check_imports(source: Source, framework: Framework, names: set[str]) -> None:
    """Raises CannotEdit for a name that is imported twice, and for a star import."""
    for node in ast.walk(source.tree):
        if not isinstance(node, ast.ImportFrom) or node.level or not node.module:
            continue
        for one in node.names:
            whole = f"{node.module}.{one.name}"
            if one.name == "*" and any(f"{node.module}.".startswith(f"{of}.") for of in framework.imports):
                raise CannotEdit(f"line {node.lineno}: expected imports by name, got *")
            if source.imported[one.asname or one.name] != whole and is_one(whole, framework.imports, names):
                raise CannotEdit(f"line {node.lineno}: expected one import of {one.asname or one.name}, got several")


def _chain(expression: ast.expr) -> Iterator[ast.expr]:
    """A dotted name and its prefixes, without type parameters."""
    yield expression
    while isinstance(expression, ast.Attribute | ast.Subscript):
        expression = expression.value
        yield expression


def _annotations(source: Source) -> set[int]:
    """The ids of nodes in annotations, except in calls, which run."""
    found: set[int] = set()
    for node in ast.walk(source.tree):
        for name in ("annotation", "returns"):
            annotation = getattr(node, name, None)
            if isinstance(annotation, ast.expr):
                calls = [one for one in ast.walk(annotation) if isinstance(one, ast.Call)]
                found |= {id(one) for one in ast.walk(annotation)}
                found -= {id(one) for call in calls for one in ast.walk(call)}
    return found


def _in_order(source: Source) -> list[ast.Name | ast.Attribute]:
    found = [node for node in ast.walk(source.tree) if isinstance(node, ast.Name | ast.Attribute)]
    return sorted(found, key=lambda one: (one.lineno, one.col_offset))


def _is_part(source: Source, part: ast.Call, whole: ast.Call) -> bool:
    """Return whether a call, or the name it is assigned to, is an argument of another call in the same function."""
    inside = {one for value in (*whole.args, *whole.keywords) for one in ast.walk(value)}
    if part in inside:
        return True
    above = source.parents.get(part)
    targets = (
        above.targets if isinstance(above, ast.Assign) else [above.target] if isinstance(above, ast.AnnAssign) else []
    )
    names = {one.id for one in targets if isinstance(one, ast.Name)}
    of_part, of_whole = (next(one for one in source.above(call) if isinstance(one, Scope)) for call in (part, whole))
    is_near = of_part is of_whole or isinstance(of_part, ast.Module)
    return is_near and any(isinstance(one, ast.Name) and one.id in names for one in inside)
