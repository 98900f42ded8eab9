"""What one call destroys, by its tool, its text, its arguments and the files that it runs."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

from haltline.detectors.commands import (
    Badness,
    Destruction,
    begins_with_program,
    code_destructions,
    destructions,
    destructive_shapes,
    files_run,
    graphql,
    sql_destructions,
    tool_name_severity,
)
from haltline.detectors.commands import is_read_whole as text_is_read_whole
from haltline.detectors.commands.arguments import MAX_DEPTH, in_snake, objects_of
from haltline.detectors.commands.effects import requests
from haltline.detectors.commands.model import BLANK, LOSSES, ActEffect, of_row
from haltline.detectors.commands.paths import badness as path_badness
from haltline.detectors.commands.rows import expression_of, texts_of, words_of
from haltline.detectors.commands.script_files import original
from haltline.detectors.commands.step_budget import StepBudget
from haltline.detectors.commands.surroundings import is_own_server, names_production, raised, seen_by_tool
from haltline.detectors.features import tool_effects
from haltline.detectors.features.call_changes import content_args, noun, own_name
from haltline.detectors.features.observation_protocol import Observed
from haltline.detectors.features.tool import KnownTool
from haltline.detectors.features.tool_classifier import MAX_TARGETS, UNKNOWN, Classifier, short_name, text_of
from haltline.detectors.features.working_state import nobody_misses
from haltline.schemas import expressions as re
from haltline.schemas.events import Effect
from haltline.schemas.policy import Reading
from haltline.schemas.record import JsonObject
from haltline.schemas.tool_names import is_recreatable, words

# Looked up for every event, which is slower as members of their class.
_EXEC, _DESTRUCTIVE, _POLL, _READ = Effect.EXEC, Effect.DESTRUCTIVE, Effect.POLL, Effect.READ
_PLAIN, _SHELL, _SQL = Reading.PLAIN, Reading.SHELL, Reading.SQL
_ABOUT_TEXTS = frozenset(("search", "web", "grep", "docs", "find"))
"""Words of tools that search for a statement rather than execute it."""
_MEANT_TO_BE_EMPTY = ("__init__.py", "keep", "py.typed", ".nojekyll", ".gitignore", ".npmignore", ".log")
_EMPTY_BY_CUSTOM = texts_of("ends of files that are often created empty")
"""Types of files that are often created empty and filled later."""
_SUFFIX = re.compile(r"\.[A-Za-z]\w*$")
_IN_EVERY_PROJECT = re.compile(r"\A.*/(?:README|LICENSE|CHANGELOG|(?:main|app|index|settings|server|config)\.)[\w.]*$")
"""These are created once in a project, so an empty one is an emptied one."""
_DATABASE_WORDS = words_of("words of databases")
_STATEMENT = expression_of("a statement that destroys", re.IGNORECASE | re.DOTALL)
_TYPES = frozenset(("type", "fill", "typing", "keyboard", "autocomplete"))
"""Words of tools that type a text."""
_STATEMENT_HINT = re.compile(r"drop|truncate|delete|alter|update|merge|replace|overwrite", re.IGNORECASE)
_MAY_WRITE = frozenset((None, Effect.WRITE, Effect.MUTATE))
_OF_FILES = frozenset((Effect.READ, Effect.POLL, Effect.WRITE))


def may_destroy(action: str, tool: KnownTool, hint: Effect | None, args: JsonObject | None) -> bool:
    """Return whether an attempt that executes no text could be irreversible: cheap, with false positives."""
    if hint is _DESTRUCTIVE or tool.effect is _DESTRUCTIVE:
        return True
    if args is None:
        return False
    use = tool.use
    if use is not None and _says_all(tool, args):
        return any(name in args for name in use.patch) or any(map(_is_blank, map(args.get, use.content)))
    return (
        tool_effects.may_act(action)
        or destructive_shapes.telling(args)
        or (tool.effect in _MAY_WRITE and any(map(_is_blank, map(args.get, content_args(tool)))))
    )


def runs_into_loss(act: Observed, classifier: Classifier) -> bool:
    """Return whether the text that an attempt executes may be destructive; usually takes only the prefilter."""
    if act.tool.reading is not _SHELL or act.hint is _DESTRUCTIVE or (act.written and _may_run_written(act)):
        return True
    return bool(destructions(act.text, cwd=act.cwd) or _by_statement_or_name(act) or classifier.acts(act.text, act.cwd))


def _by_statement_or_name(act: Observed) -> tuple[Destruction, ...]:
    """Return the losses by a text as a statement for an open client, or after the program's name in the tool's name."""
    if act.tool.program or act.tool.reading is not _SHELL or not act.args:
        return ()
    if _STATEMENT.match(act.text) is not None:
        return sql_destructions(act.text)
    line = tool_effects.as_command_line(act.action, act.args)
    return destructions(line, cwd=act.cwd) if line and not begins_with_program(act.text) else ()


def destroys(act: Observed, classifier: Classifier) -> tuple[Destruction, ...]:
    """Return what an attempt would destroy, by its tool, the executed text and the calls in its arguments."""
    tool, hint = act.tool, act.hint
    if tool.effect is _EXEC and act.text:
        found = _losses_of(act.line, tool, act.cwd, classifier) or _by_statement_or_name(act)
        if tool.reading is _SQL:
            args = act.args or {}
            found = seen_by_tool(found, args)
            if found and names_production(args):
                found = tuple(raised(found))
        if not found and tool.reading is not _SHELL and "mutation" in act.text:
            found = _by_graphql(objects_of(act.args or {}))
        if not found and tool.reading is _PLAIN and "(" in act.text:
            found = tool_effects.clicks_of_program(act.text)
        if found or hint is not _DESTRUCTIVE:
            return found
    if tool.effect is _DESTRUCTIVE or hint is _DESTRUCTIVE:
        sure = hint is _DESTRUCTIVE or tool.use is not None or classifier.is_declared(act.action)
        found = _named(act.action, _about(act, classifier), sure=sure)
    elif act.args and tool.use is not None and _says_all(tool, act.event.args or {}):
        found = _removed(destructive_shapes.patched_away(act.args), act.cwd) or _emptied(
            act.action, act.args, tool, classifier, act.cwd
        )
    else:
        found = _by_shape(classifier, act.action, act.args, tool, act.cwd, 0) if act.args else ()
        if not found and act.args is not None and tool.effect is not _POLL:
            found = tool_effects.acts(act.action, act.args, lambda: classifier.things(act.args, act.cwd))
    if found and nobody_misses(act):
        return tuple(replace(one, badness=Badness.SCRATCH) if one.effect in LOSSES else one for one in found)
    return seen_by_tool(found, act.args or {})


def _says_all(tool: KnownTool, args: JsonObject) -> bool:
    """Return whether all arguments of a call are described, and none can name an act: it edits or reads files."""
    use = tool.use
    return use is not None and tool.effect in _OF_FILES and "url" not in use.known and use.known.issuperset(args)


def _about(act: Observed, classifier: Classifier) -> tuple[str, ...]:
    targets = act.targets
    if act.event.targets or (targets[0] != UNKNOWN and not _holds_lists(act.args)):
        return targets
    return _of_noun(act.action, classifier.things(act.args, act.cwd)) or targets


def _of_noun(action: str, targets: tuple[str, ...]) -> tuple[str, ...]:
    """Return the targets that a tool's name is about: the branch of `delete_branch(repo, branch)`, or all of them."""
    thing = noun(action)
    return tuple(one for one in targets if own_name(action, one).startswith(f"{thing}=")) or targets


def _holds_lists(args: JsonObject | None) -> bool:
    return args is not None and any(isinstance(value, list) for value in args.values())


def _named(action: str, targets: tuple[str, ...], *, sure: bool = False) -> tuple[Destruction, ...]:
    """Return the losses by a tool's name; `sure`: the policy, the producer or a description says that it destroys."""
    verb = short_name(action) or "destroy"
    found: list[Destruction] = []
    for what in targets[:MAX_TARGETS]:
        bad = tool_name_severity.badness(verb, what)
        if sure or tool_name_severity.is_certain(verb, what):
            found.append(Destruction(verb, what, bad))
        else:
            found.append(Destruction(verb, what, min(bad, Badness.PLAIN), guessed=True))
    return tuple(found)


def _by_shape(  # noqa: PLR0917 - it calls itself
    classifier: Classifier, action: str, args: JsonObject, tool: KnownTool, cwd: str | None, depth: int
) -> tuple[Destruction, ...]:
    """Return what the arguments of a call destroy although its name does not show it."""
    if tool.effect is _POLL:
        return ()
    args = in_snake(args)
    objects = tuple(objects_of(args))
    place = destructive_shapes.http_delete(args, objects) if tool.effect is not _READ or "method" in args else ""
    if place and is_own_server(place):
        return ()
    if place:
        return (requests.deletion(place),)
    found: list[Destruction] = []
    for name, inner in destructive_shapes.inner_calls(args, action) if depth < MAX_DEPTH else ():
        found += _of_inner(classifier, name or action, inner, cwd, depth + 1)
    if found:
        return tuple(dict.fromkeys(found))[:MAX_TARGETS]
    mutations = _by_graphql(objects)
    if mutations:
        return mutations
    patched = _removed(destructive_shapes.patched_away(args), cwd)
    if patched:
        return patched
    statement = _statement(action, args, tool)
    if statement:
        return sql_destructions(statement)
    if tool.effect is _READ or tool.program == "find" or tool_effects.is_click(action):
        return ()
    types = not _TYPES.isdisjoint(words(action))
    verb = "" if types else destructive_shapes.operation(action, objects, weak=tool.effect is None)
    if verb:
        about = classifier.things(args, cwd) or (UNKNOWN,)
        named = _named(f"{verb}_{'_'.join(words(short_name(action))[-1:])}", about)
        return tuple(replace(one, badness=min(one.badness, Badness.PLAIN), guessed=True) for one in named)
    emptied = _emptied(action, args, tool, classifier, cwd)
    return emptied or (_by_texts(args, objects, cwd) if tool.effect is None or tool.effect is Effect.MUTATE else ())


def _removed(files: Iterable[str], cwd: str | None) -> tuple[Destruction, ...]:
    return _named("delete_file", tuple(tool_name_severity.target("path", file, cwd) for file in files), sure=True)


def _by_texts(args: JsonObject, objects: Sequence[Mapping[str, Any]], cwd: str | None) -> tuple[Destruction, ...]:
    """Return the losses by texts that begin like a command line or statement, in a call of a little-known tool."""
    found: list[Destruction] = []
    for _, text in destructive_shapes.texts(args):
        if destructive_shapes.is_removal(text):
            found += destructions(text, cwd=cwd)
        elif _STATEMENT_HINT.search(text) is not None and _STATEMENT.match(text) is not None:
            found += sql_destructions(text)
    for program in destructive_shapes.programs(objects):
        found += code_destructions(program, cwd=cwd)
    return tuple(dict.fromkeys(found))[:MAX_TARGETS]


def _of_inner(
    classifier: Classifier, action: str, args: JsonObject, cwd: str | None, depth: int
) -> tuple[Destruction, ...]:
    tool = classifier.tool_of(action, args)
    if tool.use is not None:
        args = tool.use.used(args)
    if tool.effect is _DESTRUCTIVE:
        return _named(action, _of_noun(action, classifier.things(args, cwd)) or (UNKNOWN,), sure=tool.use is not None)
    text = text_of(args, tool) if tool.effect is _EXEC else ""
    found = _losses_of(text, tool, cwd, classifier) if text else ()
    found = found or _by_shape(classifier, action, args, tool, cwd, depth)
    return found or tool_effects.acts(action, args, lambda: classifier.things(args, cwd))


def _by_graphql(objects: Iterable[Mapping[str, Any]]) -> tuple[Destruction, ...]:
    return tuple(deed.loss() for deed in graphql.graphql(objects))


_STATEMENT_ARGS = ("query", "sql", "statement", "sql_text", "q", "stmt", "consulta", "abfrage", "requete")


def _statement(action: str, args: JsonObject, tool: KnownTool) -> str:
    """Return a destructive statement in an argument of a tool whose name indicates only reading, or no database."""
    for name in _STATEMENT_ARGS:
        text = args.get(name)
        if not isinstance(text, str) or _STATEMENT_HINT.search(text) is None:
            continue
        database_words = _DATABASE_WORDS.intersection(words(action))
        if tool.effect is _READ and not database_words and not _ABOUT_TEXTS.isdisjoint(words(action)):
            continue
        if (database_words and tool.effect is not _READ) or _STATEMENT.match(text) is not None:
            return text
    return ""


_MAKES_FILES = frozenset(("write", "overwrite", "save", "edit", "put", "replace", "update", "create"))


def _emptied(
    action: str, args: JsonObject, tool: KnownTool, classifier: Classifier, cwd: str | None
) -> tuple[Destruction, ...]:
    """Return what a tool sets to null, or overwrites with empty content."""
    named = words(short_name(action)) or ("",)
    lead = named[0]
    if lead == "set" and "value" in args and args["value"] is None and not is_recreatable(action):
        return _named(f"unset_{short_name(action)}", classifier.things(args, cwd) or (UNKNOWN,))
    if tool.use is not None:
        makes = not any(args.get(name) for name in tool.use.new)
    else:
        makes = lead in _MAKES_FILES or named[-1] in _MAKES_FILES or str(args.get("action")) in _MAKES_FILES
    if not makes or not any(map(_is_blank, map(args.get, content_args(tool)))):
        return ()
    return tuple(
        replace(one, verb=_emptying(one.target), effect=ActEffect.OVERWRITES)
        for one in _named("empty_file", classifier.things(args, cwd), sure=tool.use is not None)
        if not one.target.endswith(_MEANT_TO_BE_EMPTY) and (lead != "create" or _is_file(one.target))
    )


def _is_file(target: str) -> bool:
    return target.startswith("path=") and _SUFFIX.search(target) is not None


def _emptying(target: str) -> str:
    """Return the verb of a file that is written without content."""
    new = target.endswith(_EMPTY_BY_CUSTOM) and not target.startswith(_OF_DATA)
    return BLANK if new and _IN_EVERY_PROJECT.match(target) is None else "empty_file"


def _is_blank(content: Any) -> bool:
    return isinstance(content, str) and not content.strip()


_OF_DATA = ("path=/data/", "path=/srv/", "path=/etc/", "path=/var/lib/", "path=/var/www/", "path=/mnt/")
"""Directories whose files are not usually created empty."""


def _losses_of(text: str, tool: KnownTool, cwd: str | None, classifier: Classifier) -> tuple[Destruction, ...]:
    if tool.reading is _SHELL:
        own = classifier.acts(text, cwd)
        if not own:
            return destructions(text, cwd=cwd)
        programs = {one.verb.partition("_")[0] for one in own}  # a guess at one of these is the same act
        return (*own, *(one for one in destructions(text, cwd=cwd) if one.verb.partition("_")[0] not in programs))
    return _of_sql(text)[0] if tool.reading is _SQL else code_destructions(text, cwd=cwd)


@lru_cache(maxsize=16)
def _of_sql(text: str) -> tuple[tuple[Destruction, ...], bool]:
    """Return what statements destroy, and whether all of them were read."""
    work = StepBudget()
    return sql_destructions(text, work=work), not work.cut


def is_read_whole(text: str, reading: Reading, cwd: str | None) -> bool:
    """Return whether a text that is executed is within all limits of parsing."""
    if reading is _SQL:
        return _of_sql(text)[1]
    return text_is_read_whole(text, cwd=cwd, by_code=reading is not _SHELL)


def destroyed_by_files(act: Observed) -> tuple[Destruction, ...]:
    """Return the losses by files that the session wrote before and that an attempt runs."""
    if act.tool.reading is not _SHELL or not _may_run_written(act):
        return ()
    found: list[Destruction] = []
    for file in files_run(act.text, cwd=act.cwd):
        for path, losses in act.written.items():
            if path == file or (path[:1] != file[:1] and (path.endswith(f"/{file}") or file.endswith(f"/{path}"))):
                found += [of_row(row) for row in losses if row[0] != "unread"]
    return tuple(dict.fromkeys(found))


def _may_run_written(act: Observed) -> bool:
    text = act.text
    return any(
        path.rpartition("/")[2].partition(".")[0] in text or path.endswith(("akefile", "justfile", "package.json"))
        for path in act.written
    )


def known_as(destruction: Destruction, renamed: dict[str, str]) -> Destruction:
    """Return the loss of a renamed target under its original name."""
    target = original(destruction.target, renamed)
    if not target:
        return destruction
    bad = tool_name_severity.badness(destruction.verb, target)
    if target.startswith("path="):
        bad = path_badness(target[5:], everything=True)
    elif destruction.badness is Badness.SEVERE:
        bad = Badness.SEVERE  # under any name
    return replace(destruction, target=target, badness=bad)


def held(destruction: Destruction, renamed: dict[str, str]) -> list[Destruction]:
    """Return the losses of targets that were moved into a deleted directory, under their original names."""
    if not destruction.target.startswith("path="):
        return []
    below = f"{destruction.target.removesuffix('/*')}/"
    return [
        replace(destruction, target=origin, badness=path_badness(origin.removeprefix("path="), everything=True))
        for new, origin in renamed.items()
        if new.startswith(below) and len(new) > len(below) and not new.endswith("/")
    ]
