"""Detection of the format of a recording, by its content."""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from haltline.streams.importing import (
    amp,
    claude_code,
    cline,
    codex,
    copilot_cli,
    cursor,
    gemini_cli,
    google_adk,
    goose,
    inspect_log,
    langfuse,
    langsmith,
    openai_agents,
    opencode,
    openhands,
    phoenix,
    pi,
    swe,
    trae,
)
from haltline.streams.importing.database import tables
from haltline.streams.importing.reading import Content, Source
from haltline.streams.importing.spans import Part, Span
from haltline.streams.importing.values import inside, objects

Record = dict[str, Any]
_ENVELOPES = ("data", "observations", "runs", "post", "patch")
"""Names of the lists of records in an answer of an API, in a trace, and in a batch of a client."""
_MAX_DEPTH = 50


class SpanFormat(NamedTuple):
    """A format that consists of spans."""

    is_one: Callable[[Record], bool]
    span_of: Callable[[Record], Span]
    expected: str
    """A description of its records, for errors."""
    shows: Callable[[Record], bool]
    """Return whether a record shows that the file is of this format."""


SPAN_FORMATS: Final[Mapping[str, SpanFormat]] = {
    "langfuse": SpanFormat(langfuse.is_one, langfuse.span_of, langfuse.EXPECTED, langfuse.is_one),
    "langsmith": SpanFormat(langsmith.is_one, langsmith.span_of, langsmith.EXPECTED, langsmith.is_one),
    "openai-agents": SpanFormat(
        openai_agents.is_one, openai_agents.span_of, openai_agents.EXPECTED, openai_agents.is_one
    ),
    "phoenix": SpanFormat(phoenix.is_one, phoenix.span_of, phoenix.EXPECTED, phoenix.shows),
}


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
    "inspect": History(inspect_log.shows, inspect_log.parts),
    "google-adk": History(google_adk.shows, google_adk.parts),
    "amp": History(amp.shows, amp.parts),
    "cline": History(cline.shows, cline.parts),
    "codex": History(codex.shows, codex.parts),
    "copilot-cli": History(copilot_cli.shows, copilot_cli.parts),
    "gemini-cli": History(gemini_cli.shows, gemini_cli.parts),
    "goose": History(goose.shows, goose.parts),
    "opencode": History(opencode.shows, opencode.parts),
    "pi": History(pi.shows, pi.parts),
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


def records_in(record: Record, of: SpanFormat, depth: int = 0) -> Iterator[tuple[str, object]]:
    """Yield the records of an object with their places in it; the place "" is the object itself."""
    if depth >= _MAX_DEPTH or of.is_one(record):
        yield "", record
        if depth < _MAX_DEPTH:
            for number, child in enumerate(objects(record.get("child_runs"))):
                yield from _placed(f"child_runs[{number}]", records_in(child, of, depth + 1))
        return
    if "resourceSpans" in record:
        yield from (("", span) for span in spans_of(record))
        return
    lists = [name for name in _ENVELOPES if isinstance(record.get(name), list)]
    named_session = record.get("sessionId") or inside(record, "trace", "sessionId")
    session = {"sessionId": named_session} if isinstance(named_session, str) else {}
    for name in lists:
        for number, one in enumerate(record[name]):
            place = f"{name}[{number}]"
            if isinstance(one, dict):
                named = session | {field: value for field, value in one.items() if value is not None}
                inner = records_in(named, of, depth + 1) if of.is_one(named) else iter([("", one)])
                yield from _placed(place, inner)
            else:
                yield place, one
    if not lists:
        yield "", record


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


def _placed(place: str, records: Iterator[tuple[str, object]]) -> Iterator[tuple[str, object]]:
    return ((f"{place}.{inner}" if inner else place, record) for inner, record in records)


def _has(name: str) -> Callable[[Content], bool]:
    of = SPAN_FORMATS[name]

    def has(content: Content) -> bool:
        found = (record for one in content.head for _, record in records_in(one, of))
        return any(isinstance(record, dict) and of.shows(record) for record in found)

    return has


def _is_otel(content: Content) -> bool:
    return any("resourceSpans" in line for line in content.head) and not _has("phoenix")(content)


def _is_trace(content: Content) -> bool:
    return bool(content.head) and all(
        isinstance(line.get("session_id"), str) and ("action" in line or "kind" in line) for line in content.head
    )


DETECTORS: Final[Mapping[str, Callable[[Content], bool]]] = {
    **{name: _has(name) for name in SPAN_FORMATS},
    **{name: of.shows for name, of in HISTORIES.items()},
    "otel": _is_otel,
    "trace": _is_trace,
}
"""The checks by format; each recording passes exactly one."""
