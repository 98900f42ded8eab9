"""What one call creates, renames and changes, by its tool, its text and its arguments."""

from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Any

import orjson

from haltline.detectors.commands import (
    creations,
    file_destructions,
    files_written,
    made_elsewhere,
    remakers,
    tool_name_severity,
)
from haltline.detectors.commands import may_create as text_may_create
from haltline.detectors.commands import renames as shell_renames
from haltline.detectors.commands.arguments import in_snake
from haltline.detectors.commands.code.creations import code_creations
from haltline.detectors.commands.model import as_row, placed
from haltline.detectors.commands.prefilter import may_destroy_by_file
from haltline.detectors.commands.rows import expression_of, words_of
from haltline.detectors.commands.shell.interpreter import invocations
from haltline.detectors.commands.sql import sql_creations, sql_renames
from haltline.detectors.commands.surroundings import placed_in, where_of_tool
from haltline.detectors.features import command_effects
from haltline.detectors.features.observation_protocol import Observed
from haltline.detectors.features.tool import KnownTool
from haltline.detectors.features.tool_classifier import UNKNOWN, is_id, short_name, snake_case
from haltline.schemas import expressions as re
from haltline.schemas import tools
from haltline.schemas.events import Effect
from haltline.schemas.policy import Reading
from haltline.schemas.record import JsonObject
from haltline.schemas.tool_names import destroying_verb, words

# Looked up for every event, which is slower as members of their class.
_EXEC, _WRITE, _POLL, _READ = Effect.EXEC, Effect.WRITE, Effect.POLL, Effect.READ
_PLAIN, _SHELL, _SQL = Reading.PLAIN, Reading.SHELL, Reading.SQL
_MAKES = words_of("verbs that make things")
_MAKES_OR_CHANGES = frozenset(("save", "put", "write", "upload"))
"""These create the content of a file, but may only change an existing asset or row."""
_CHANGES_TOO = frozenset(("save", "put", "write"))
"""An id in the answer to these is as likely that of an existing thing."""
_UNLESS_THERE = frozenset(("exists", "ensure", "upsert", "or"))
_UNLESS_THERE_ARGS = ("if_not_exists", "exist_ok", "exists_ok", "ignore_existing", "if_missing", "upsert")
"""With one of these it is unknown whether anything was created."""
_OPENS_IT = frozenset(("link", "links", "share", "invite", "permission"))
"""New ways for others to reach an existing object."""
_BEHIND_THE_THING = frozenset(("from", "in", "with", "for", "at", "on", "by", "using", "to", "of", "async"))
_ANY_THING = frozenset(("path", "file_path", "filename", "file", "name", "id", "key", "resource_id"))
"""Arguments that name a target of any kind."""
_PLACES_IN_FILE = ("line", "start_line", "end_line", "insert_line", "edits")
_FILES = re.compile(r"^\*\*\* Add File: (?P<file>.+)$", re.MULTILINE)
_RENAMES_SQL = re.compile(r"rename|swap", re.IGNORECASE)
_RENAMES = frozenset(("rename", "move", "mv"))
CONTENT_ARGS = tools.arguments("content")
_PUT_IN = tools.arguments("new")
_MAX_OF_FILE = 32
_FROM_ARGS = tools.arguments("from")
_TO_ARGS = tools.arguments("to")
_IDS = frozenset(("id", "uuid", "arn", "slug", "name", "key"))
_FIELD = re.compile(r"[\"']?\b([A-Za-z][\w-]{1,40})[\"']?\s{0,4}[:=]\s{0,4}[\"']?([\w./:-]{3,200})")
_KIND_END = re.compile(r"_(?:id|name|key|arn|slug|uuid|identifier)$")
_MADE_BY_AWS = expression_of("aws makes something")
_COMPOSE_UP = re.compile(r"\bdocker[ -]compose\s(?:[^|;&\n]{0,200}\s)?up\b")
_CREATED = re.compile(r"\b(Volume|Container)\s{1,8}\"?([\w.-]{1,128})\"?\s{1,8}Creat(?:ed|ing)\b")
_MADE_BY_KUBECTL = re.compile(r"^([a-z]{2,40}(?:\.[\w.-]{1,60})?)/([\w.-]{1,128}) created$", re.MULTILINE)
_MAX_IDS = 16
_PROGRAM_FILES = (".py", ".sh", ".js", ".ts", ".rb", ".mjs")
CHANGING = frozenset({Effect.WRITE, Effect.MUTATE, Effect.DESTRUCTIVE})
_PLACES_CHARS = 4096
"""The part of a command line or program that is searched for renames and for directories where programs run."""
_STEPS = expression_of("a tool steps through something")
"""Names of tools that are called repeatedly to advance, and report their position."""
_DEBUGS = re.compile(r"\A\s*(?:(?:step|next)i?|continue|finish|[sn]i)\s*(?:\d+\s*)?$")
"""Input to a debugger."""


def files_of(act: Observed) -> list[tuple[str, list[list[str]]]]:
    """Return the files that an attempt writes, with the losses of running each."""
    tool, args = act.tool, act.args
    if tool.effect is _EXEC:
        text = act.text
        writes = text.count(">") > text.count("2>&1") or "tee " in text
        if tool.reading is not _SHELL or not writes or not may_destroy_by_file(text):
            return []
        texts = files_written(text, cwd=act.cwd)
    elif tool.effect is _WRITE and args:
        text = _first_text(args, (*content_args(tool), *_put_in(tool)))
        target = act.targets[0]
        if not text or not target.startswith("path="):
            return []
        texts = {target[5:]: text}
    else:
        return []
    cut = act.event.unread_from is not None
    found: list[tuple[str, list[list[str]]]] = []
    for path, text in texts.items():
        losses = [as_row(d) for d in file_destructions(path, text, cwd=act.cwd)]
        if tool.effect is _WRITE and args and not args.keys().isdisjoint(_put_in(tool)):
            losses = [*act.written.get(path, ()), *losses][:_MAX_OF_FILE]  # the rest of the file is unchanged
        found.append(
            (path, [*losses, ["unread", f"path={path}", "PLAIN"]] if cut and may_destroy_by_file(text) else losses)
        )
    return found


def creates(act: Observed) -> tuple[str, ...]:
    """Return the targets that an attempt creates: by a tool that creates or writes, a command line, or a program in it.

    Changing an object does not create it: adding a tag, inserting a row and editing a file create nothing.
    """
    tool, text = act.tool, act.line
    if tool.effect is _WRITE:
        made = _placed(_made_by_tool(act), act)
        return (*made, *_made_by_file(act, made)) if made else ()
    if not text:
        return ()
    if tool.reading is _SQL:
        return _placed(sql_creations(text), act)
    cwd = act.cwd
    by_code = code_creations(text, cwd=cwd)
    if tool.reading is _PLAIN or not text_may_create(text):
        return by_code
    by_code += made_elsewhere(text, cwd=cwd)
    written = command_effects.written_file(text)
    if written:
        return (tool_name_severity.target("path", written, cwd), *by_code)
    return (*creations(text, cwd=cwd), *by_code) if command_effects.may_create(text) else by_code


def _placed(made: tuple[str, ...], act: Observed) -> tuple[str, ...]:
    """Return what a tool makes, with where it does."""
    where = where_of_tool(act.args) if made and act.args else ""
    return tuple(placed(target, where) for target in made) if where else made


def _made_by_file(act: Observed, made: tuple[str, ...]) -> tuple[str, ...]:
    """Return what a program creates that is written to a new file, since it will probably be run."""
    if not made[0].endswith(_PROGRAM_FILES):
        return ()
    args = act.args or {}
    return code_creations(_first_text(args, content_args(act.tool)), cwd=act.cwd)


def content_args(tool: KnownTool) -> tuple[str, ...]:
    """Return the arguments that have the whole new content of what a tool writes."""
    return CONTENT_ARGS if tool.use is None else tool.use.content


def _put_in(tool: KnownTool) -> tuple[str, ...]:
    return _PUT_IN if tool.use is None else tool.use.new


def _first_text(args: JsonObject, names: Iterable[str]) -> str:
    return next((args[name] for name in names if isinstance(args.get(name), str)), "")


def _made_by_tool(act: Observed) -> tuple[str, ...]:
    args = in_snake(act.args or {})
    use = act.tool.use
    if use is not None and use.patch:
        return tuple(
            tool_name_severity.target("path", found["file"].strip(), act.cwd)
            for found in _FILES.finditer(_first_text(act.args or {}, use.patch))
        )
    if use is not None and (use.content or use.old):
        given = act.args or {}
        whole = not use.old or (_has_any(given, use.content) and not _has_any(given, (*use.old, *_PLACES_IN_FILE)))
        return act.targets if whole else ()
    name_words = words(short_name(act.action))
    if not _UNLESS_THERE.isdisjoint(name_words) or any(args.get(name) for name in _UNLESS_THERE_ARGS):
        return ()
    if name_words[:1] and name_words[0] not in _MAKES:
        return ()
    kind = act.targets[0].partition("=")[0]
    if name_words[-1:] and name_words[-1] in _OPENS_IT:
        return ()
    # `create_comment(asset_id=...)` creates a comment, `create_asset(asset_id=...)` the asset.
    if kind in _ANY_THING or len(name_words) < 2:
        return (*act.targets, *(own_name(act.action, target) for target in act.targets))
    thing = noun(act.action)
    named = [f"{thing}={args[name]}" for name in (thing, f"{thing}_name", f"{thing}_id") if is_id(args.get(name))]
    if name_words[0] in _MAKES_OR_CHANGES:
        return ()
    if named:
        return tuple(named)
    is_new = thing in kind or kind in thing
    return (*act.targets, *(own_name(act.action, target) for target in act.targets)) if is_new else ()


def _has_any(args: JsonObject, names: Iterable[str]) -> bool:
    return any(args.get(name) for name in names)


@lru_cache(maxsize=4096)
def noun(action: str) -> str:
    """Return what a tool such as `notion-create-pages` or `deleteBranch` is about, in the singular; empty: unknown."""
    parts = words(short_name(action))
    at = next((at for at, word in enumerate(parts) if word in _MAKES or destroying_verb(word)), -1)
    about = parts[at + 1 :]
    for at, word in enumerate(about[1:], 1):
        if word in _BEHIND_THE_THING:
            about = about[:at]
            break
    return _singular(about[-1]) if about else ""


def _singular(word: str) -> str:
    if word.endswith(("ses", "ches", "xes")) and word not in ("databases", "leases", "releases", "responses"):
        return word[:-2]
    return f"{word[:-3]}y" if word.endswith("ies") else word.removesuffix("s") if not word.endswith("ss") else word


def own_name(action: str, target: str) -> str:
    """Return a target under the thing that a tool's name is about, whatever its argument is called.

    `create_bucket(name=x)` creates the `bucket=x` that `delete_bucket(bucket_id=x)` is about.
    """
    kind, _, name = target.rpartition(",")[2].partition("=")
    return f"{noun(action) if kind in _ANY_THING else _KIND_END.sub('', kind)}={name}"


def made_by_answer(act: Observed) -> tuple[str, ...]:
    """Return the things whose ids the answer to a creating call gives: its own id, not those of what it belongs to."""
    answer = act.event.output_head or ""
    if not answer or act.failed:
        return ()
    if act.runs:
        return _made_by_program(act.line, answer)
    verb = next((word for word in words(short_name(act.action)) if word in _MAKES), "")
    if not verb or verb in _CHANGES_TOO or act.tool.effect in (_READ, _POLL, Effect.DESTRUCTIVE):
        return ()
    thing = noun(act.action)
    return _placed(tuple(f"{thing}={name}" for name in _ids(answer, thing)), act)


def _made_by_program(head: str, answer: str) -> tuple[str, ...]:
    if "compose" in head and _COMPOSE_UP.search(head) is not None:
        created = _CREATED.findall(answer[:_PLACES_CHARS])
        volumes = [f"volume={name}" for kind, name in created if kind == "Volume"]
        services = [service for kind, name in created if kind == "Container" for service in _services(name)]
        return _made_where(head, ("docker",), [*volumes, *(["volume=./*"] * bool(volumes)), *services], "")
    if "kubectl" in head or "oc " in head:
        names = [f"{kind.partition('.')[0]}/{name}" for kind, name in _MADE_BY_KUBECTL.findall(answer[:_PLACES_CHARS])]
        return _made_where(head, ("kubectl",), names, "k8s=") if names else ()
    made = _MADE_BY_AWS.search(head) if "aws" in head else None
    if made is None:
        return ()
    return _made_where(head, ("aws", "awslocal"), _ids(answer, _singular(made["thing"])), f"aws={made['service']}/")


def _services(container: str) -> Iterator[str]:
    """Yield what a container of a project may be called: `app-web-1`, as the service `web` or `app-web`."""
    yield from (f"container={container}", f"inside={container}")
    parts = container.replace("_", "-").split("-")[:-1]
    for at in range(len(parts)):
        yield f"inside={'-'.join(parts[at:])}@."


def _made_where(head: str, programs: tuple[str, ...], names: list[str], kind: str) -> tuple[str, ...]:
    """Return what a program says that it made, with where: by the first of these programs in the command line."""
    maker = next((one for one in invocations(head) if one.name in programs), None)
    namespace = "" if maker is None or maker.name != "kubectl" else maker.options("-n").value("-n", "--namespace")
    at = f"@{namespace}" if namespace else ""
    made = (f"{kind}{name}{at}" for name in names[:_MAX_IDS])
    return tuple(made if maker is None else (placed_in(target, maker) for target in made))


def _ids(answer: str, thing: str) -> list[str]:
    """Return the ids in an answer that are those of the thing, by the names of its fields."""
    try:
        waiting: list[Any] = [orjson.loads(answer)]
    except orjson.JSONDecodeError:
        found = _FIELD.findall(answer[:_PLACES_CHARS])
        return [name for key, name in found if plain_key(key) in _keys_of(thing)][:_MAX_IDS]
    names: list[str] = []
    for _ in range(_MAX_IDS * 2):
        if not waiting:
            break
        inner = waiting.pop(0)
        if isinstance(inner, list):
            waiting += inner[:_MAX_IDS]
        elif isinstance(inner, dict):
            for key, value in inner.items():
                known = plain_key(str(key))
                if isinstance(value, dict | list):
                    if _singular(known) in (thing, "result", "data", "item", "response"):
                        waiting.append(value)
                elif is_id(value) and (known in _IDS or known in _keys_of(thing)):
                    names.append(str(value))
    return names[:_MAX_IDS]


def plain_key(key: str) -> str:
    """Return the name of a field without what differs between spellings."""
    return key.lower().replace("_", "").replace("-", "")


def _keys_of(thing: str) -> frozenset[str]:
    return frozenset(f"{thing}{end}" for end in ("id", "name", "arn", "key", "identifier")) if thing else frozenset()


def renames(act: Observed) -> tuple[tuple[str, str], ...]:
    """Return the renames of an attempt: each new target with the previous one."""
    tool, text = act.tool, act.text
    if tool.effect is _EXEC:
        if tool.reading is _SHELL:
            if "mv " in text or "ln " in text:
                return shell_renames(text[:_PLACES_CHARS], cwd=act.cwd)
            return ()
        return sql_renames(text) if tool.reading is _SQL and _RENAMES_SQL.search(text) is not None else ()
    args = act.args
    if not args or tool.effect is _READ or not _is_renaming(act.action):
        return ()
    cwd = act.cwd
    new = next((args[name] for name in _TO_ARGS if is_id(args.get(name))), None)
    old = next((args[name] for name in _FROM_ARGS if is_id(args.get(name))), None)
    if new is None:
        return ()
    if old is not None:
        kind = "path" if "/" in str(old) or "file" in act.action.lower() else "name"
        return ((tool_name_severity.target(kind, new, cwd), tool_name_severity.target(kind, old, cwd)),)
    origin = act.targets[0]
    kind = origin.partition("=")[0]
    return ((tool_name_severity.target(kind, new, cwd), origin),) if origin != UNKNOWN else ()


@lru_cache(maxsize=1024)
def _is_renaming(action: str) -> bool:
    return not _RENAMES.isdisjoint(words(short_name(action)))


def changes(hint: Effect | None, tool: KnownTool, text: str) -> bool:
    """Return whether the action changes anything that a later one could see. An unknown tool is assumed to."""
    effect = tool.effect or hint
    if effect is not _EXEC:
        return effect is None or effect in CHANGING or hint in CHANGING
    if tool.reading is _SHELL:
        return command_effects.changes(text)
    return command_effects.changes_sql(text) if tool.reading is _SQL else command_effects.changes_by_code(text)


def may_have_changed(tool: KnownTool, text: str) -> bool:
    """Return whether a failed execution may have changed something: only if it writes before its last part.

    A failed statement is rolled back as a whole; how far a program got before it failed is unknown.
    """
    if tool.reading is _SHELL:
        return command_effects.changes_before_end(text)
    return tool.reading is _PLAIN and command_effects.changes_by_code(text)


def places(act: Observed) -> tuple[str, ...]:
    """Return the directories where programs run after all destructions of an attempt; empty text if unknown."""
    tool, text, cwd = act.tool, act.text, act.cwd
    if tool.effect is _WRITE:
        named_places = [t[5:].rpartition("/")[0] for t in act.targets if t.startswith("path=")]
        return tuple(place for place in named_places if place) or ("",)
    if tool.reading is _SHELL:
        return remakers(text[:_PLACES_CHARS], cwd=cwd)
    return () if act.destroys else (cwd or "", *command_effects.folders(text[:_PLACES_CHARS]))


def steps_through(action: str, text: str) -> bool:
    """Return whether the action steps through something, such as a debugger, a pager or a cursor."""
    return _names_a_step(action) or (text != "" and _DEBUGS.match(text) is not None)


@lru_cache(maxsize=1024)
def _names_a_step(action: str) -> bool:
    return _STEPS.search(snake_case(action)) is not None
