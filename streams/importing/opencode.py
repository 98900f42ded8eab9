"""opencode: sessions, messages and their parts, as rows of a database since 2026, as a file for each before."""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final

from haltline.interventions.agent.user_files import open_file
from haltline.streams.importing.database import rows, sessions, value_in
from haltline.streams.importing.reading import MAX_LINE_BYTES, Content, Source
from haltline.streams.importing.steps import Part, Step, TokenNames, ended, prompted, proposed, turn_of
from haltline.streams.importing.values import inside, moment_of_ms, objects

TABLES: Final = frozenset({"session", "message", "part"})
"""The tables of such a database."""
_TOKENS = TokenNames(
    "tokens.input tokens.cache.read tokens.cache.write",
    "tokens.output tokens.reasoning",
    "tokens.cache.read",
    "cost",
    "tokens.cache.write",
)
_PARTS = "SELECT message_id, data FROM part WHERE session_id = ? ORDER BY id"
_MESSAGES = "SELECT id, data FROM message WHERE session_id = ? ORDER BY time_created, id"


def shows(content: Content) -> bool:
    """Return whether the file is a session; its messages are in other folders."""
    return str(inside(content.value, "id")).startswith("ses_") and "directory" in content.value


def parts(source: Source) -> Iterator[Part]:
    """Yield the session of a file, `storage/session/PROJECT/SESSION.json`."""
    storage = source.path.parent.parent.parent
    for session in source.lines:
        named = session.get("id")
        messages = _files(storage / "message" / source.path.stem)
        of_message = ((message, _files(storage / "part" / name)) for name, message in messages)
        found = ((message, [part for _, part in listed]) for message, listed in of_message)
        yield Part(named, _steps(found))


def parts_of_database(path: Path) -> Iterator[Part]:
    """Yield the sessions of a database. Raises NotReadable for a damaged file."""
    for session_id, folder in list(sessions(path, "session", "directory")):
        yield Part(session_id, _steps(_stored(path, str(session_id))), folder)


def _stored(path: Path, session_id: str) -> Iterator[tuple[dict[str, Any], list[dict[str, Any]]]]:
    of_message: dict[object, list[dict[str, Any]]] = defaultdict(list)
    for message_id, data in rows(path, _PARTS, session_id):
        of_message[message_id] += objects([value_in(data)])
    for message_id, data in rows(path, _MESSAGES, session_id):
        yield from ((message, of_message[message_id]) for message in objects([value_in(data)]))


def _files(folder: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the objects of a folder with the names of their files, which are sorted by time."""
    for file in sorted(folder.glob("*.json")):
        try:
            with open_file(file) as opened:
                value = value_in(opened.read(MAX_LINE_BYTES).decode(errors="replace"))
        except OSError:
            continue
        if isinstance(value, dict):
            yield file.stem, value


def _steps(messages: Iterable[tuple[dict[str, Any], list[dict[str, Any]]]]) -> Iterator[Step]:
    for message, found in messages:
        time_ms = moment_of_ms(inside(message, "time", "created"))
        written = [one for one in found if one.get("type") == "text" and one.get("synthetic") is not True]
        text = "\n".join(str(one.get("text")) for one in written)
        if message.get("role") == "user" and written:
            yield prompted(text, time_ms)
        elif message.get("role") == "assistant":
            yield from turn_of(message, _TOKENS, message.get("modelID"), text, time_ms)
            for part in found:
                if part.get("type") == "tool":
                    yield from _call(part, time_ms)


def _call(part: dict[str, Any], time_ms: int | None) -> Iterator[Step]:
    state = part.get("state")
    args, status = inside(state, "input"), inside(state, "status")
    call_id = part.get("callID")
    began_ms = moment_of_ms(inside(state, "time", "start")) or time_ms
    yield proposed(call_id, part.get("tool"), args, began_ms)
    if status in ("completed", "error"):
        failed = status == "error" or inside(state, "metadata", "exit") not in (None, 0)
        output = inside(state, "error") if status == "error" else inside(state, "output")
        yield ended(call_id, output, moment_of_ms(inside(state, "time", "end")) or began_ms, failed=failed)
