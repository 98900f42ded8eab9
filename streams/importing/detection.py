"""Detection of the format of a recording, by its content."""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from haltline.streams.importing import (
    amp,
    atif,
    claude_code,
    cline,
    codex,
    copilot_cli,
    cursor,
    droid,
    gemini_cli,
    goose,
    kimi,
    opencode,
    openhands,
    pi,
    qwen_code,
    swe,
    trae,
)
from haltline.streams.importing.database import tables
from haltline.streams.importing.reading import Content, Source
from haltline.streams.importing.steps import Part
from haltline.streams.importing.values import objects

Record = dict[str, Any]


class History(NamedTuple):
    """A format of an agent's own history."""

    shows: Callable[[Content], bool]
    """Return whether a file is of this format, and of no other."""
    parts: Callable[[Source], Iterator[Part]]
    """Yield the sessions of a file; some formats also use its path, or other files of its folder."""


HISTORIES: Final[Mapping[str, History]] = {
    "openhands": History(openhands.shows, openhands.parts),
    "swe-agent": History(swe.shows_swe_agent, swe.swe_agent_parts),
    "mini-swe-agent": History(swe.shows_mini_swe_agent, swe.mini_swe_agent_parts),
    "amp": History(amp.shows, amp.parts),
    "atif": History(atif.shows, atif.parts),
    "cline": History(cline.shows, cline.parts),
    "codex": History(codex.shows, codex.parts),
    "copilot-cli": History(copilot_cli.shows, copilot_cli.parts),
    "droid": History(droid.shows, droid.parts),
    "gemini-cli": History(gemini_cli.shows, gemini_cli.parts),
    "goose": History(goose.shows, goose.parts),
    "kimi": History(kimi.shows, kimi.parts),
    "opencode": History(opencode.shows, opencode.parts),
    "pi": History(pi.shows, pi.parts),
    "qwen-code": History(qwen_code.shows, qwen_code.parts),
    "claude-code": History(claude_code.shows, claude_code.parts),
    "trae-agent": History(trae.shows, trae.parts),
}


class Database(NamedTuple):
    """A format that is a database."""

    tables: frozenset[str]
    """Tables that only databases of this format have."""
    parts: Callable[[Path], Iterator[Part]]


DATABASES: Final[Mapping[str, Database]] = {
    "cursor": Database(cursor.TABLES, cursor.parts_of_database),
    "goose": Database(goose.TABLES, goose.parts_of_database),
    "opencode": Database(opencode.TABLES, opencode.parts_of_database),
}


def spans_of(request: Record) -> list[Record]:
    """Return the spans of a request in OTLP/JSON."""
    scopes = [s for resource in objects(request.get("resourceSpans")) for s in objects(resource.get("scopeSpans"))]
    return [span for scope in scopes for span in objects(scope.get("spans"))]


def form_of(content: Content) -> str | None:
    """Return the format of a file with this content; None: unknown."""
    return next((name for name, is_it in DETECTORS.items() if is_it(content)), None)


def form_of_database(path: Path) -> str | None:
    """Return the format of a database; None: unknown. Raises NotReadable for a damaged file."""
    found = tables(path)
    return next((name for name, of in DATABASES.items() if of.tables <= found), None)


def _is_otel(content: Content) -> bool:
    return any("resourceSpans" in line for line in content.head)


def _is_trace(content: Content) -> bool:
    return bool(content.head) and all(
        isinstance(line.get("session_id"), str) and ("action" in line or "kind" in line) for line in content.head
    )


DETECTORS: Final[Mapping[str, Callable[[Content], bool]]] = {
    **{name: of.shows for name, of in HISTORIES.items()},
    "otel": _is_otel,
    "trace": _is_trace,
}
"""The checks by format; each recording passes exactly one."""
