"""Puts the agent in a user's Python program behind a guard: inserts the imports, the guard, and its use."""

import ast
from typing import Final

from haltline.cli.frameworks.rows import (
    AddItem,
    AddStatement,
    Change,
    Framework,
    SetKeyword,
    WithBlock,
    WrapCall,
    WrapKeyword,
)
from haltline.cli.frameworks.source import CannotEdit, Scope, Source, normal
from haltline.cli.frameworks.uses import check_calls, check_keywords, check_places, check_uses, is_one, keyword_of

MAX_BYTES: Final = 1_000_000
"""Maximum size of a program in bytes."""
_STEP: Final = "    "


def is_guarded(text: str) -> bool:
    """Return whether a program imports haltline. Raises CannotEdit if it is not a Python program."""
    return any(name.partition(".")[0] == "haltline" for name in Source(normal(text)[0]).modules)


def guarded_program(text: str, framework: Framework, agent_id: str, *, app: str = "app") -> str:
    """The program behind a guard. Raises CannotEdit with the reason if that is not safely possible.

    `app` is an identifier: the application's name, for frameworks that require one.
    """
    plain, line_end = normal(text)
    source = Source(plain)
    check_uses(source, framework)
    places: list[tuple[Change, list[ast.Call]]] = []
    for edit in framework.edits:
        places = [(change, _places(source, framework, change)) for change in edit]
        if all(found for _, found in places):
            break
    else:
        raise CannotEdit(f"expected {_expected(framework)}, got no such call")
    check_calls(source, framework, places)
    check_places(source, places)
    calls = [call for _, found in places for call in found]
    code = " ".join([*framework.setup, *map(repr, edit)])
    added = [change for change in edit if isinstance(change, AddStatement)]
    guard = _name_of_guard(source, framework, [*framework.names_in(code), *(n for one in added for n in one.names)])
    for change, found in places:
        for call in found:
            if isinstance(change, AddStatement):
                _add_statement(source, call, change.statement.format(target=change.target, guard=guard, app=app))
            else:
                _apply(source, change, call, guard)
    imports = [*(line for one in added for line in one.imports), *framework.import_lines(code)]
    setup = [_construction(guard, agent_id), *(one.format(guard=guard) for one in framework.setup)]
    _build_guard(source, calls, setup, imports)
    return source.result().replace("\n", line_end)


def lines_to_add(framework: Framework, agent_id: str) -> str:
    """The lines to add by hand, in the order of a program."""
    if not framework.adapter:
        setup = [line.format(agent_id=agent_id) for line in framework.setup]
        return "\n".join([*setup, framework.how])
    setup = [line.format(guard="guard") for line in framework.setup]
    imports = framework.import_lines(" ".join([*framework.setup, framework.how]))
    return "\n".join([*imports, "", _construction("guard", agent_id), *setup, framework.how])


def _expected(framework: Framework) -> str:
    names = [
        ", ".join(getattr(change, "calls", ()) or [f"a call of .{one}" for one in getattr(change, "methods", ())])
        or f"{getattr(change, 'target', '')} = ...(...)"
        for edit in framework.edits
        for change in edit
    ]
    return f"a call of {framework.title} ({'; '.join(names)})" if names else "a program that can be edited"


def _construction(guard: str, agent_id: str) -> str:
    return f'{guard} = Guard(GuardSettings.from_env(agent_id="{agent_id}"))'


def _name_of_guard(source: Source, framework: Framework, names: list[str]) -> str:
    """A name that the program does not bind. Raises CannotEdit if it binds a name that the lines need."""
    needed = {"Guard", "GuardSettings", *names, *(line.partition(" ")[0] for line in framework.setup)}
    for name in sorted(needed & source.bound.keys()):
        raise CannotEdit(f"line {source.bound[name]}: expected no {name} of the program's own, got one")
    return next(name for name in ("guard", "haltline_guard", "_haltline_guard") if name not in source.bound)


def _places(source: Source, framework: Framework, change: Change) -> list[ast.Call]:
    """The calls that a change applies to."""
    if isinstance(change, WithBlock):
        methods = [c for c in source.calls if isinstance(c.func, ast.Attribute) and c.func.attr in change.methods]
        return list({source.statement_of(call): call for call in methods}.values())  # one block for each statement
    if isinstance(change, AddStatement):
        return _assigned(source, change.target)
    found = [call for call in source.calls if is_one(source.dotted(call.func), framework.imports, change.calls)]
    if isinstance(change, WrapKeyword):
        check_keywords(source, change, found)
        return [call for call in found if keyword_of(call, change.keyword) is not None]
    if isinstance(change, WrapCall) and change.outermost:
        return [call for call in found if keyword_of(call, change.outermost) is not None] or found
    return found


def _assigned(source: Source, target: str) -> list[ast.Call]:
    """The call that is assigned to this name in the module. Raises CannotEdit for other bindings or several."""
    names = [one for one in ast.walk(source.tree) if isinstance(one, ast.Name) and one.id == target]
    names = [one for one in names if not isinstance(one.ctx, ast.Load)]
    if not names:
        return []
    above = source.parents[names[0]]
    targets = above.targets if isinstance(above, ast.Assign) else [getattr(above, "target", None)]
    value = getattr(above, "value", None)
    if names == targets and above in source.tree.body and isinstance(value, ast.Call):
        return [value]
    raise CannotEdit(f"line {names[0].lineno}: expected {target} made once, by a call, in a statement of the module")


def _add_statement(source: Source, call: ast.Call, text: str) -> None:
    statement = source.statement_of(call)
    end = source.line_start((statement.end_lineno or statement.lineno) + 1)
    is_last = source.text[end - 1] != "\n"
    source.insert(end, f"\n{text}" if is_last else f"{text}\n")


def _scope(source: Source, calls: list[ast.Call]) -> Scope:
    """The function that contains all calls, or the module."""
    chains = [[one for one in source.above(call) if isinstance(one, Scope)] for call in calls]
    return next(one for one in chains[0] if all(one in chain for chain in chains))


def _apply(source: Source, change: Change, call: ast.Call, guard: str) -> None:
    if isinstance(change, WithBlock):
        _put_in_block(source, call, change.header.format(guard=guard))
    elif isinstance(change, WrapCall):
        begin, end = source.span(call.func if change.is_function else call)
        source.insert(begin, change.before)
        source.insert(end, change.after.format(guard=guard))
    elif isinstance(change, WrapKeyword):
        keyword = keyword_of(call, change.keyword)
        if keyword is None or not isinstance(keyword.value, ast.List | ast.Name | ast.Attribute | ast.Call):
            raise CannotEdit(f"line {call.lineno}: expected {change.keyword}= with a list, a name or a call")
        begin, end = source.span(keyword.value)
        source.insert(begin, change.before)
        source.insert(end, change.after)
    elif isinstance(change, SetKeyword):
        if keyword_of(call, change.keyword) is not None:
            raise CannotEdit(f"line {call.lineno}: expected no {change.keyword}= yet, got one")
        _add_keyword(source, call, f"{change.keyword}={change.value.format(guard=guard)}")
    elif isinstance(change, AddItem):
        _add_item(source, call, change, change.item.format(guard=guard))


def _add_item(source: Source, call: ast.Call, change: AddItem, item: str) -> None:
    keyword = keyword_of(call, change.keyword)
    if keyword is None:
        _add_keyword(source, call, f"{change.keyword}=[{item}]")
        return
    if not isinstance(keyword.value, ast.List):
        raise CannotEdit(f"line {call.lineno}: expected a list for {change.keyword}=, got something else")
    # First, so that the guard is the outermost: it sees a call before anything else changes it.
    begin = source.span(keyword.value)[0] + 1
    source.insert(begin, f"{item}, " if keyword.value.elts else item)


def _add_keyword(source: Source, call: ast.Call, text: str) -> None:
    """Append a keyword argument in the format of the other arguments."""
    if any(one.arg is None for one in call.keywords):
        raise CannotEdit(f"line {call.lineno}: expected arguments by name, got **, which may hold the same one")
    last, close, has_arguments, has_comma = source.closing(call)
    line_of_last, line_of_close = source.text.count("\n", 0, last) + 1, source.text.count("\n", 0, close) + 1
    if has_comma and line_of_last < line_of_close:  # one argument per line
        first = [*call.args, *(one.value for one in call.keywords)][0]
        line = source.text.split("\n")[first.lineno - 1]
        indent = line[: len(line) - len(line.lstrip())]
        source.insert(source.line_start(line_of_last + 1), f"{indent}{text},\n")
    elif has_comma:
        source.insert(last, f" {text}")
    else:
        source.insert(last, f", {text}" if has_arguments else text)


def _put_in_block(source: Source, call: ast.Call, header: str) -> None:
    statement = source.statement_of(call)
    if not isinstance(statement, ast.Expr | ast.Assign | ast.AnnAssign | ast.Return):
        raise CannotEdit(f"line {call.lineno}: expected a statement of its own, such as result = crew.kickoff()")
    indent = source.indent(statement)
    lines = list(source.lines_of(statement))
    source.insert(source.line_start(lines[0]), f"{indent}{header}\n")
    for line in lines:
        source.insert(source.line_start(line), _STEP)


def _build_guard(source: Source, calls: list[ast.Call], setup: list[str], imports: list[str]) -> None:
    """Insert the imports, and the guard before the first statement of the scope that needs it."""
    inside = {one for call in calls for one in source.above(call)}
    statement = next(one for one in _scope(source, calls).body if one in inside)
    indent = source.indent(statement)
    line = source.first_line(statement)
    text = "".join(f"{indent}{one}\n" for one in setup)
    if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        text += "\n\n"
    source.insert(source.line_start(line), text, first=True)
    _add_imports(source, imports, line)


def _add_imports(source: Source, imports: list[str], before: int) -> None:
    """Insert the imports after those at the program's beginning, or after its docstring."""
    last = 0
    for statement in source.tree.body:
        is_text = isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
        if not isinstance(statement, ast.Import | ast.ImportFrom) and not (is_text and last == 0):
            break
        last = statement.end_lineno or statement.lineno
    lines = "".join(f"{line}\n" for line in imports)
    if last == 0:
        first = source.first_line(source.tree.body[0])
        source.insert(source.line_start(first), f"{lines}\n\n", first=True)
    elif last >= before:
        raise CannotEdit(f"line {before}: expected the agent on a line of its own, after the imports")
    else:
        source.insert(source.line_start(last + 1), f"\n{lines}", first=True)  # before the guard at the same place
