"""What one call creates, renames and changes, by its tool, its text and its arguments."""

from collections.abc import Iterable
from functools import lru_cache

from haltline.detectors.commands import creations, file_destructions, files_written, remakers
from haltline.detectors.commands import may_create as text_may_create
from haltline.detectors.commands import renames as shell_renames
from haltline.detectors.commands.code.creations import code_creations
from haltline.detectors.commands.model import as_row
from haltline.detectors.commands.prefilter import may_destroy_by_code
from haltline.detectors.commands.sql import sql_creations, sql_renames
from haltline.detectors.features import command_effects, tool_name_severity
from haltline.detectors.features.observation_protocol import ToolCall
from haltline.detectors.features.tool import KnownTool
from haltline.detectors.features.tool_classifier import UNKNOWN, cwd_of, is_id, short_name, snake_case
from haltline.schemas import expressions as re
from haltline.schemas import tools
from haltline.schemas.events import Effect
from haltline.schemas.policy import Reading
from haltline.schemas.record import JsonObject
from haltline.schemas.tool_names import words

# Looked up for every event, which is slower as members of their class.
_EXEC, _WRITE, _POLL, _READ = Effect.EXEC, Effect.WRITE, Effect.POLL, Effect.READ
_PLAIN, _SHELL, _SQL = Reading.PLAIN, Reading.SHELL, Reading.SQL
_MAKES = frozenset((
    "create", "make", "write", "save", "new", "generate", "upload", "put", "copy", "clone", "provision", "build",
    "createfile", "writefile", "mkdir", "makedirs",
))  # fmt: skip
_MAKES_OR_CHANGES = frozenset(("save", "put", "write", "upload"))
"""These create the content of a file, but may only change an existing asset or row."""
_UNLESS_THERE = frozenset(("exists", "ensure", "upsert", "or"))
_UNLESS_THERE_ARGS = ("if_not_exists", "exist_ok", "exists_ok", "ignore_existing", "if_missing", "upsert")
"""With one of these it is unknown whether anything was created."""
_OPENS_IT = frozenset(("link", "links", "share", "invite", "permission"))
"""New ways for others to reach an existing object."""
_BEHIND_THE_THING = frozenset(("from", "in", "with", "for", "at", "on", "by", "using", "to", "of", "async"))
_ANY_THING = frozenset(("path", "file_path", "filename", "file", "name", "id", "key", "resource_id"))
"""Arguments that name a target of any kind."""
_FILES = re.compile(r"^\*\*\* Add File: (?P<file>.+)$", re.MULTILINE)
_RENAMES_SQL = re.compile(r"rename|swap", re.IGNORECASE)
_RENAMES = frozenset(("rename", "move", "mv"))
CONTENT_ARGS = tools.arguments("content")
_PUT_IN = tools.arguments("new")
_MAX_OF_FILE = 32
_FROM_ARGS = tools.arguments("from")
_TO_ARGS = tools.arguments("to")
_PROGRAM_FILES = (".py", ".sh", ".js", ".ts", ".rb", ".mjs")
CHANGING = frozenset({Effect.WRITE, Effect.MUTATE, Effect.DESTRUCTIVE})
_PLACES_CHARS = 4096
"""The part of a command line or program that is searched for renames and for directories where programs run."""
_STEPS = re.compile(
    r"(?:^|[_./:])(?:[glprj]?db|dlv|debug(?:ger)?(?!_(?:start|stop|add|attach|launch|quit|kill|set))|step(?:i|s|_.*)?|next(?:i|_.*)?|continue|advance|pager|scroll|(?:page|scroll)_.*|goto)"
    r"(?:$|[_./:])"
)
"""Names of tools that are called repeatedly to advance, and report their position."""
_DEBUGS = re.compile(r"\A\s*(?:(?:step|next)i?|continue|finish|[sn]i)\s*(?:\d+\s*)?$")
"""Input to a debugger."""


def files_of(act: ToolCall) -> list[tuple[str, list[list[str]]]]:
    """Return the files that an attempt writes, with the losses of running each; harmless files are omitted."""
    tool, args = act.tool, act.args
    if tool.effect is _EXEC:
        text = act.text
        writes = text.count(">") > text.count("2>&1") or "tee " in text
        if tool.reading is not _SHELL or not writes or not may_destroy_by_code(text):
            return []
        texts = files_written(text, cwd=cwd_of(act.event))
    elif tool.effect is _WRITE and args:
        text = _first_text(args, (*content_args(tool), *_put_in(tool)))
        target = act.targets[0]
        if not text or not target.startswith("path=") or not may_destroy_by_code(text):
            return []
        texts = {target[5:]: text}
    else:
        return []
    cut = act.event.unread_from is not None
    found: list[tuple[str, list[list[str]]]] = []
    for path, text in texts.items():
        losses = [as_row(d) for d in file_destructions(path, text, cwd=cwd_of(act.event))]
        if tool.effect is _WRITE and args and not args.keys().isdisjoint(_put_in(tool)):
            losses = [*act.written.get(path, ()), *losses][:_MAX_OF_FILE]  # the rest of the file is unchanged
        found.append((path, [*losses, ["unread", f"path={path}", "PLAIN"]] if cut else losses))
    return found


def creates(act: ToolCall) -> tuple[str, ...]:
    """Return the targets that an attempt creates: by a tool that creates or writes, a command line, or a program in it.

    Changing an object does not create it: adding a tag, inserting a row and editing a file create nothing.
    """
    tool, text = act.tool, act.text
    if tool.effect is _WRITE:
        made = _made_by_tool(act)
        return (*made, *_made_by_file(act, made)) if made else ()
    if not text:
        return ()
    if tool.reading is _SQL:
        return sql_creations(text)
    cwd = cwd_of(act.event)
    by_code = code_creations(text, cwd=cwd)
    if tool.reading is _PLAIN or not text_may_create(text):
        return by_code
    written = command_effects.written_file(text)
    if written:
        return (tool_name_severity.target("path", written, cwd), *by_code)
    return (*creations(text, cwd=cwd), *by_code) if command_effects.may_create(text) else by_code


def _made_by_file(act: ToolCall, made: tuple[str, ...]) -> tuple[str, ...]:
    """Return what a program creates that is written to a new file, since it will probably be run."""
    if not made[0].endswith(_PROGRAM_FILES):
        return ()
    args = act.args or {}
    return code_creations(_first_text(args, content_args(act.tool)), cwd=cwd_of(act.event))


def content_args(tool: KnownTool) -> tuple[str, ...]:
    """Return the arguments that have the whole new content of what a tool writes."""
    return CONTENT_ARGS if tool.use is None else tool.use.content


def _put_in(tool: KnownTool) -> tuple[str, ...]:
    return _PUT_IN if tool.use is None else tool.use.new


def _first_text(args: JsonObject, names: Iterable[str]) -> str:
    return next((args[name] for name in names if isinstance(args.get(name), str)), "")


def _made_by_tool(act: ToolCall) -> tuple[str, ...]:
    args = act.args or {}
    use = act.tool.use
    if use is not None and use.patch:
        return tuple(
            tool_name_severity.target("path", found["file"].strip(), cwd_of(act.event))
            for found in _FILES.finditer(_first_text(args, use.patch))
        )
    if use is not None and (use.content or use.old):
        return () if use.old else act.targets
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
        return act.targets
    made = name_words[1:]
    for at, word in enumerate(made[1:], 1):
        if word in _BEHIND_THE_THING:
            made = made[:at]
            break
    is_new = name_words[0] not in _MAKES_OR_CHANGES and (made[-1] in kind or kind in made[-1])
    return act.targets if is_new else ()


def renames(act: ToolCall) -> tuple[tuple[str, str], ...]:
    """Return the renames of an attempt: each new target with the previous one."""
    tool, text = act.tool, act.text
    if tool.effect is _EXEC:
        if tool.reading is _SHELL:
            if "mv " in text or "ln " in text:
                return shell_renames(text[:_PLACES_CHARS], cwd=cwd_of(act.event))
            return ()
        return sql_renames(text) if tool.reading is _SQL and _RENAMES_SQL.search(text) is not None else ()
    args = act.args
    if not args or tool.effect is _READ or not _is_renaming(act.action):
        return ()
    cwd = cwd_of(act.event)
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


def produces(tool: KnownTool, text: str) -> bool:
    """Return whether the action runs a program or writes, so that it may leave unnamed files."""
    if tool.effect is _EXEC:
        return tool.reading is _PLAIN or (tool.reading is _SHELL and command_effects.produces(text))
    return tool.effect is _WRITE


def places(act: ToolCall) -> tuple[str, ...]:
    """Return the directories where programs run after all destructions of an attempt; empty text if unknown."""
    tool, text, cwd = act.tool, act.text, cwd_of(act.event)
    if tool.effect is _WRITE:
        named_places = [t[5:].rpartition("/")[0] for t in act.targets if t.startswith("path=")]
        return tuple(place for place in named_places if place) or ("",)
    if tool.reading is _SHELL:
        return remakers(text[:_PLACES_CHARS], cwd=cwd)
    return () if act.destroys else (cwd or "", *command_effects.folders(text[:_PLACES_CHARS]))


def waits(hint: Effect | None, tool: KnownTool, text: str) -> bool:
    """Return whether the action checks something that is expected to change by itself."""
    return tool.effect is _POLL or hint is _POLL or (text != "" and command_effects.waits(text))


def steps_through(action: str, text: str) -> bool:
    """Return whether the action steps through something, such as a debugger, a pager or a cursor."""
    return _names_a_step(action) or (text != "" and _DEBUGS.match(text) is not None)


@lru_cache(maxsize=1024)
def _names_a_step(action: str) -> bool:
    return _STEPS.search(snake_case(action)) is not None
