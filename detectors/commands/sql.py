r"""What a text of SQL statements would destroy.

`delete_all_rows` and `update_all_rows` are statements without a condition that excludes any row; in something named as
production they are SEVERE, as dropping and truncating are.

Misses: statements that are built at run time; triggers and cascades; `OVERWRITE` of files; client commands
(`\i file`, `.read file`, `SOURCE`); dialect rules for backslashes in strings (a backslash escapes a quote
only before a letter or digit here).
"""

from collections.abc import Iterator, Sequence
from itertools import pairwise

from haltline.detectors.commands.effects import statements
from haltline.detectors.commands.model import LOSSES, MAX_COMMAND_CHARS, MAX_FOUND, Destruction, listed
from haltline.detectors.commands.rows import words_of
from haltline.detectors.commands.sql_tokens import END, Token, excludes_nothing, tokens_of
from haltline.detectors.commands.step_budget import StepBudget
from haltline.schemas import expressions as re

_MAX_DEPTH = 3
_MAX_TOKENS_OF_A_STATEMENT = 1000
_EXECUTING = words_of("words of SQL that run a text")
"""Words before texts that are executed. `SET @s = '...'` stores one for a `PREPARE`."""
_MAX_TOKENS_OF_A_CALL = 64
_PLACEHOLDER = re.compile(r"%(?:\d+\$)?[IsL]")
_VERBS = frozenset(listed("drop truncate delete update alter create"))
_BEFORE_A_STATEMENT = frozenset(listed("detach begin then else loop as analyze do go declare explain"))
_MAYBE = re.compile(r"drop|truncate|delete|update|overwrite|replace|vacuum|detach")
_MODIFIERS = words_of("words of SQL before a kind")
_KINDS = statements.OF_MANY_THINGS | words_of("kinds of objects in databases")
_NOT_DATA = frozenset(listed("constraint foreign primary index key default not identity check expression"))


_ROLLED_BACK = re.compile(r"\brollback(?:\s+(?:work|transaction|tran))?\s*+;?\s*+\Z", re.IGNORECASE)
_COMMITS = re.compile(r"\bcommit\b|\bend\s*;", re.IGNORECASE)
_MAX_END_CHARS = 64
_OF_ROWS = frozenset(("delete_rows", "delete_all_rows", "update_all_rows"))
"""Verbs that have no effect in a transaction that is rolled back, in any database."""


def sql_destructions(statement: str, *, work: StepBudget | None = None) -> tuple[Destruction, ...]:
    """Return what one or more SQL statements would destroy, in the order of the text. Never raises."""
    found = dict.fromkeys(_statements(statement[:MAX_COMMAND_CHARS], 0, work or StepBudget()))
    if found and _ROLLED_BACK.search(statement[-_MAX_END_CHARS:]) and not _COMMITS.search(statement):
        found = {one: None for one in found if one.verb not in _OF_ROWS}
    renamed = dict(sql_renames(statement)) if found and "rename" in statement.lower() else {}
    if renamed:
        origins = {one: renamed[one.target].split("=", 1) for one in found if one.target in renamed}
        found = {statements.loss(one.verb, *origins[one]) if one in origins else one: None for one in found}
    by_table = statements.acts(statement)
    if by_table:
        known = bool(found)  # the tokens describe the loss better
        found |= dict.fromkeys(one for one in by_table if not (known and one.effect in LOSSES))
    return tuple(found)[:MAX_FOUND]


def sql_creations(statement: str) -> tuple[str, ...]:
    """Return the targets that `CREATE ...` statements of a text would create, unless they replace something."""
    if "create" not in statement.lower():
        return ()
    tokens = tokens_of(statement[:MAX_COMMAND_CHARS])
    found = []
    for at in _starts(tokens):
        if tokens[at].text == "create" and _word_at(tokens, at + 1) != "or":
            kind, name, after = _object(tokens, at + 1)
            # With IF NOT EXISTS the object may exist before and belong to others.
            if name and not any(_word_at(tokens, i) == "exists" for i in range(at, after)):
                found.append(f"{kind}={name}")
    return tuple(found)


def sql_renames(statement: str) -> tuple[tuple[str, str], ...]:
    """Return the new and old target of each `ALTER ... RENAME TO` of a text."""
    tokens = tokens_of(statement[:MAX_COMMAND_CHARS])
    found = []
    for at, token in enumerate(tokens):
        if token.text in ("alter", "rename") and token.kind == "word":
            kind, old, after = _object(tokens, at + 1)
            names = (_word_at(tokens, after), _word_at(tokens, after + 1))
            if names in (("rename", "to"), ("swap", "with")) or (token.text == "rename" and names[0] == "to"):
                new, _ = _name(tokens, after + (1 if token.text == "rename" else 2))
                if new and old:
                    prefix = old.rpartition(".")[0]
                    found.append((f"{kind}={new}", f"{kind}={old}"))
                    if prefix and "." not in new:
                        found.append((f"{kind}={prefix}.{new}", f"{kind}={old}"))
        elif token.text == "sp_rename" and token.kind == "word":
            old, after = _name(tokens, at + 1)
            new, _ = _name(tokens, after + 1)
            if old and new:
                found.append((f"table={new}", f"table={old}"))
    return tuple(found)


def _statements(text: str, depth: int, work: StepBudget) -> Iterator[Destruction]:
    if _MAYBE.search(text.lower()) is None:
        return
    tokens = tokens_of(text, work)
    for at in _starts(tokens):
        end = next((i for i in range(at, min(at + _MAX_TOKENS_OF_A_STATEMENT, len(tokens))) if tokens[i] == END), at)
        if not work.take(10 + (end - at) // 2):
            return
        if tokens[at].text in _READERS:
            yield from _READERS[tokens[at].text](tokens, at)
    if depth < _MAX_DEPTH:
        for before, token in pairwise(tokens):
            # DO $$ ... $$ and EXECUTE '...' execute their text. The body of a CREATE FUNCTION is not executed.
            if before.text in ("do", "execute", "exec", "immediate") and token.kind == "dollar":
                yield from _statements(token.text, depth + 1, work)
        for run in _texts_run(tokens):
            yield from _statements(run, depth + 1, work)
    elif any(token.text in _EXECUTING for token in tokens):
        work.cut = True


def _texts_run(tokens: Sequence[Token]) -> Iterator[str]:
    """Yield the texts that a statement executes: `EXECUTE 'DROP ' || 'TABLE x'`, `PREPARE p FROM '...'`."""
    done = 0
    for start, word in enumerate(tokens):
        if word.kind != "word" or word.text not in _EXECUTING or start < done:
            continue
        if word.text == "set" and not _word_at(tokens, start + 1).startswith("@"):
            continue
        at = start + 1
        while at < min(start + _MAX_TOKENS_OF_A_CALL, len(tokens)) and tokens[at] != END:
            if tokens[at].kind != "string":
                at += 1
                continue
            text = ""
            while at < len(tokens) and tokens[at].kind == "string":  # `||` and `+` are no tokens
                text += tokens[at].text.replace("''", "'")
                at += 1
            if text.endswith((" ", '"', ".")) and at < len(tokens) and tokens[at].kind == "word":
                text += _name(tokens, at)[0]  # a variable, by its name
            if _MAYBE.search(text.lower()) is not None:
                yield _formatted(text, tokens, at)
        done = at


def _formatted(text: str, tokens: Sequence[Token], at: int) -> str:
    """Return `format('DROP TABLE %I', 'x')` with its arguments filled in."""
    while "%" in text and at + 1 < len(tokens) and tokens[at].text == "," and tokens[at + 1].kind in ("string", "word"):
        filled = _PLACEHOLDER.sub(lambda _, value=tokens[at + 1].text: value, text, count=1)  # type: ignore[misc] # bound now
        if filled == text:
            break
        text, at = filled, at + 2
    return text


def _starts(tokens: Sequence[Token]) -> Iterator[int]:
    """Yield the start of statements that may destroy or create; skips the bodies of routines that are only defined."""
    in_routine = False
    for at, token in enumerate(tokens):
        if token.kind != "word":
            continue
        before = tokens[at - 1] if at else END
        if in_routine:
            in_routine = token.text not in ("end", "delimiter")
        elif token.text in _VERBS and _may_precede(before):
            if token.text == "create" and _defines_routine(tokens, at):
                in_routine = any(_word_at(tokens, i) == "begin" for i in range(at, min(at + 64, len(tokens))))
            yield at


def _may_precede(before: Token) -> bool:
    return (before.kind == "mark" and before.text in ";()") or (
        before.kind == "word" and before.text in _BEFORE_A_STATEMENT and before.text != "explain"
    )


def _defines_routine(tokens: Sequence[Token], at: int) -> bool:
    words = {tokens[i].text for i in range(at, min(at + 8, len(tokens)))}
    return not words.isdisjoint(("function", "procedure", "trigger", "event"))


def _word_at(tokens: Sequence[Token], at: int) -> str:
    return tokens[at].text if 0 <= at < len(tokens) and tokens[at].kind == "word" else ""


def _name(tokens: Sequence[Token], at: int) -> tuple[str, int]:
    """Return the dotted name at an index, in lower case without quotes, and the index after it."""
    parts = []
    while at < len(tokens) and tokens[at].kind in ("word", "quoted", "string"):
        parts.append(tokens[at].text)
        at += 1
        if at >= len(tokens) or tokens[at].text != ".":
            break
        at += 1
    return ".".join(parts), at


def _object(tokens: Sequence[Token], at: int) -> tuple[str, str, int]:
    """Return kind and name in `[TEMPORARY] TABLE [IF [NOT] EXISTS] name`, and the index after; empty if it is none."""
    kind = ""
    while _word_at(tokens, at) in _MODIFIERS:
        at += 1
    if _word_at(tokens, at) in _KINDS:
        kind = tokens[at].text
        at += 1
    while _word_at(tokens, at) in ("if", "not", "exists", "concurrently", "by", "only"):
        at += 1
    name, at = _name(tokens, at) if kind else ("", at)
    return kind, name, at


def _drop(tokens: Sequence[Token], at: int) -> Iterator[Destruction]:
    temporary = _word_at(tokens, at + 1) in ("temporary", "temp")
    kind, name, at = _object(tokens, at + 1)
    while name:
        yield statements.loss(f"drop_{kind}", "database" if kind == "keyspace" else kind, name, temporary=temporary)
        name, at = _name(tokens, at + 1) if at < len(tokens) and tokens[at].text == "," else ("", at)


def _truncate(tokens: Sequence[Token], at: int) -> Iterator[Destruction]:
    at += 1
    while _word_at(tokens, at) in ("table", "only", "if", "exists", "database"):
        at += 1
    name, at = _name(tokens, at)
    while name:
        yield statements.loss("truncate_table", "table", name)
        name, at = _name(tokens, at + 1) if at < len(tokens) and tokens[at].text == "," else ("", at)


def _delete(tokens: Sequence[Token], at: int) -> Iterator[Destruction]:
    start = at + 1
    while start < len(tokens) and _word_at(tokens, start) not in ("from", "") and start < at + 4:
        start += 1  # DELETE t1 FROM t1 JOIN ..., DELETE LOW_PRIORITY FROM
    if _word_at(tokens, start) != "from":
        start = at  # FROM is optional in some dialects
    start += 1
    while _word_at(tokens, start) == "only":
        start += 1
    name, end = _name(tokens, start)
    if name and _word_at(tokens, at + 1) not in ("on", "cascade"):
        yield _rows("delete", name, tokens, end)


def _update(tokens: Sequence[Token], at: int) -> Iterator[Destruction]:
    start = at + 1
    while _word_at(tokens, start) in ("only", "low_priority", "ignore"):
        start += 1
    name, end = _name(tokens, start)
    if name and any(_word_at(tokens, i) in ("set", "unset") for i in range(end, min(end + 8, len(tokens)))):
        rows = _rows("update", name, tokens, end)
        if rows.verb == "update_all_rows":
            yield rows


def _rows(verb: str, name: str, tokens: Sequence[Token], at: int) -> Destruction:
    condition = _condition(tokens, at)
    if condition is None or excludes_nothing(condition):
        return statements.loss(f"{verb}_all_rows", "table", name)
    return statements.loss(f"{verb}_rows", "table", name, whole=False)


def _condition(tokens: Sequence[Token], at: int) -> tuple[str, ...] | None:
    """Return the words of the WHERE of the current statement; None if there is none."""
    depth = 0
    words: list[str] | None = None
    end = min(len(tokens), at + _MAX_TOKENS_OF_A_STATEMENT)
    while at < end:
        kind, text = tokens[at]
        depth += (text == "(") - (text == ")") if kind == "mark" else 0
        if depth < 0 or (kind == "mark" and text == ";") or (words is not None and len(words) > 12):
            break
        if words is not None:
            if text in ("returning", "order", "limit"):
                break
            words.append(f"'{text}'" if kind == "string" else text)
        elif depth == 0 and kind == "word" and text in ("where", "using"):
            words = []
        at += 1
    return None if words is None else tuple(words)


def _alter(tokens: Sequence[Token], at: int) -> Iterator[Destruction]:
    kind, table, at = _object(tokens, at + 1)
    if kind != "table" or not table:
        return
    depth = 0
    end = min(len(tokens), at + _MAX_TOKENS_OF_A_STATEMENT)
    while at < end and tokens[at] != END:
        depth += (tokens[at].text == "(") - (tokens[at].text == ")")
        before = tokens[at - 1]
        starts = before.text == "," or at - 1 <= 0 or before.kind in ("word", "quoted", "string")
        if depth == 0 and starts and _word_at(tokens, at) == "drop" and _word_at(tokens, at + 1) not in _NOT_DATA:
            yield from _dropped_part(tokens, at + 1, table, before)
        elif depth == 0 and _word_at(tokens, at) == "delete" and _word_at(tokens, at + 1) == "where":
            yield _rows("delete", table, tokens, at + 1)
        elif _word_at(tokens, at) == "truncate" and _word_at(tokens, at + 1) in ("partition", "subpartition"):
            yield statements.loss("truncate_partition", "table", table)
        at += 1


def _dropped_part(tokens: Sequence[Token], at: int, table: str, before: Token) -> Iterator[Destruction]:
    if before.kind == "word" and before.text in ("column", "alter", "add"):
        return  # a column with that name
    if _word_at(tokens, at) in ("partition", "subpartition"):
        yield statements.loss("drop_partition", "table", table)
        return
    while _word_at(tokens, at) in ("column", "columns", "if", "exists"):
        at += 1
    name, _ = _name(tokens, at)
    if name:
        yield statements.loss("drop_column", "column", f"{table}.{name}")


_READERS = {"drop": _drop, "truncate": _truncate, "delete": _delete, "update": _update, "alter": _alter}
