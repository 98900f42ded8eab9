"""The events of a recording, whatever its format."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import orjson

from haltline.interventions.agent.novelty import SeenBySession
from haltline.interventions.agent.producers.any_json import readable
from haltline.interventions.agent.producers.cleaning import cleaned
from haltline.interventions.agent.settings import GuardSettings
from haltline.schemas import otel, wire
from haltline.schemas.events import ActionEvent
from haltline.streams.importing import aider, archive, claude_code, google_adk, inspect_log, openhands, swe
from haltline.streams.importing.database import is_database
from haltline.streams.importing.detection import (
    DATABASES,
    DETECTORS,
    HISTORIES,
    SPAN_FORMATS,
    SpanFormat,
    form_of,
    form_of_database,
    records_in,
    spans_of,
)
from haltline.streams.importing.reading import Content, NotReadable, content_of, got_instead, shape, shown
from haltline.streams.importing.spans import Part, Span, parts
from haltline.streams.importing.steps import Pricing, Recording, Step
from haltline.streams.importing.values import id_of, inside, objects

FORMATS: Final = tuple(sorted({*DETECTORS, *DATABASES, "aider"}))
START_MS: Final = 1_735_689_600_000
"""2025-01-01: where the clock of a recording without times begins by default."""
_HEADERS = [("content-type", otel.CONTENT_TYPE.encode())]
_SETTINGS = GuardSettings(mode="local")


class Imported:
    """The events of one file, and what is to be known of them when all are read."""

    def __init__(
        self,
        path: Path,
        *,
        form: str | None = None,
        session_id: str | None = None,
        agent_id: str | None = None,
        price: Pricing | None = None,
    ) -> None:
        """Reads the file. Raises NotReadable when it is of none of the formats, and OSError when it cannot be read."""
        self._path = path
        self.skipped: list[str] = []
        """What could not be read, by its place; complete when all events are read."""
        self._members: list[str] = []
        self._content = Content(None, [], [])
        self._is_database = is_database(path)
        if _is_archive(path):
            self._members, found = _members_of(path), "inspect"
        elif self._is_database:
            found = form_of_database(path) or ""
        elif aider.is_history(path):
            found = "aider"
        else:
            self._content = content_of(path, self.skipped)
            found = form or form_of(self._content) or ""
        self.form = form or found or None
        if self.form is None:
            what = self._content.value if self._content.value is not None else self._content.head
            raise NotReadable(f"{path}: expected a recording of {', '.join(FORMATS)}, got {shape(what)}")
        if self.form in DATABASES and self.form not in DETECTORS and not self._is_database:
            raise NotReadable(f"{path}: expected a database of {self.form}, got another file")
        self._session_id = session_id
        self._agent_id = agent_id
        self._price = price
        self.untimed = 0
        """Events whose time was made up."""

    def events(self, start_ms: int = START_MS) -> Iterator[ActionEvent]:
        """In the order of the recording. Raises NotReadable for a line of a trace that cannot be used."""
        if self.form == "otel":
            yield from self._spans()
        elif self.form == "trace":
            yield from self._traces()
        else:
            for number, part in enumerate(self._parts()):
                session_id = self._session_id or id_of(part.session_id) or self._path.name.split(".")[0] or "recording"
                if self._session_id is not None and number:  # one name for several sessions would make them one
                    session_id = f"{self._session_id}-{number + 1}"
                recording = Recording(session_id, self._agent_id or self.form or "", part.steps, price=self._price)
                yield from recording.events(start_ms)
                self.untimed += recording.untimed

    def _parts(self) -> Iterator[Part]:
        """The sessions of the file."""
        value, lines, _ = self._content
        form = self.form or ""
        if form == "claude-code":
            yield Part(claude_code.session_of(lines), claude_code.steps(lines))
        elif form == "openhands":
            found = list(lines)
            wholes = [(line, events) for line in found if (events := openhands.listed_in(line)) is not None]
            for line, events in wholes:
                yield Part(inside(line, "instance_id"), openhands.steps(self._objects("history", events)))
            if not wholes:
                yield Part(None, openhands.steps(self._objects("the file", value if value is not None else found)))
        elif form == "google-adk":
            for session in filter(google_adk.looks_so, lines):
                yield Part(inside(session, "id"), google_adk.steps(self._objects("events", session["events"])))
        elif form == "inspect":
            for sample in self._samples():
                yield from inspect_log.sample_parts(sample)
        elif form == "aider" or (self._is_database and form in DATABASES):
            read_file = aider.parts if form == "aider" else DATABASES[form].parts
            yield from read_file(self._path)
        elif form in HISTORIES:
            yield from HISTORIES[form].parts(lines, self._path)
        elif form in SPAN_FORMATS:
            yield from parts(self._spans_of(SPAN_FORMATS[form]))
        else:
            read: Callable[[dict[str, Any]], Iterator[Step]]
            name, read = ("trajectory", swe.swe_agent) if form == "swe-agent" else ("messages", swe.mini_swe_agent)
            self._objects(name, inside(value, name))
            yield Part(inside(value, "instance_id"), read(value if isinstance(value, dict) else {}))

    def _samples(self) -> Iterator[dict[str, Any]]:
        """The samples of a log of Inspect: of an archive one after the other."""
        if not self._members:
            yield from self._objects("samples", inside(self._content.value, "samples"))
            return
        with _opened(self._path) as packed:
            for name in self._members:
                try:
                    sample = readable(packed.unpacked(name))
                except (archive.NotUnpacked, ValueError) as why:
                    reason = (
                        str(why) if isinstance(why, archive.NotUnpacked) else f"expected JSON, got {got_instead(why)}"
                    )
                    self.skipped.append(f"{shown(name)}: {reason}")
                    continue
                yield from self._objects(shown(name), [sample])

    def _spans_of(self, of: SpanFormat) -> Iterator[Span]:
        """The spans of the file; a record that is none is reported."""
        lines = self._content.lines
        for number, line in enumerate(lines):
            place = f"[{number}]" if isinstance(lines, list) else f"line {lines.number}"
            for inner, record in records_in(line, of):
                span, why = _span_of(record, of)
                if span is not None:
                    yield span
                else:
                    self.skipped.append(f"{f'{place} {inner}'.rstrip()}: {why}")

    def _objects(self, where: str, values: object) -> list[dict[str, Any]]:
        """The objects of a list; what is none is reported."""
        if not isinstance(values, list):
            self.skipped.append(f"{where}: expected a list, got {shape(values)}")
            return []
        listed: list[Any] = values
        self.skipped += [
            f"{where}[{n}]: expected an object, got {shape(v)}" for n, v in enumerate(listed) if not isinstance(v, dict)
        ]
        return objects(listed)

    def _spans(self) -> Iterator[ActionEvent]:
        spans = otel.of_agents(span for one in self._content.lines for span in spans_of(one))
        seen = SeenBySession()
        for span in sorted(spans, key=lambda span: str(span.get("endTimeUnixNano", "")).zfill(24)):
            try:
                event = cleaned(wire.decode_event(orjson.dumps(span), _HEADERS), _SETTINGS, seen)
            except wire.InvalidRecord as bad:
                self.skipped.append(f"span {span.get('spanId')!r:.40}: {bad}")
            else:
                yield event.model_copy(update=self._named())

    def _traces(self) -> Iterator[ActionEvent]:
        """Recorded traces, and events of our own: what `backtest` reads too."""
        from haltline.streams.replay.traces import UnreadableTrace, read_traces  # noqa: PLC0415  # brings every detector

        try:
            seen = SeenBySession()
            for recorded in read_traces(self._path):
                self.untimed += len(recorded.events) if recorded.clock != "real" else 0
                for _, event in recorded.events:
                    yield cleaned(event, _SETTINGS, seen).model_copy(update=self._named())
        except UnreadableTrace as bad:
            raise NotReadable(str(bad)) from None

    def _named(self) -> dict[str, str]:
        identity = {"session_id": self._session_id, "agent_id": self._agent_id}
        return {name: text for name, text in identity.items() if text is not None}


def _span_of(record: object, of: SpanFormat) -> tuple[Span | None, str]:
    """The span of a record, or why there is none."""
    if not isinstance(record, dict) or not of.is_one(record):
        return None, f"expected {of.expected}, got {shape(record)}"
    try:
        return of.span_of(record), ""
    except ValueError as why:
        return None, str(why)


def _is_archive(path: Path) -> bool:
    with path.open("rb") as file:
        return archive.is_archive(file.read(4))


def _members_of(path: Path) -> list[str]:
    """The samples of Inspect's archive.

    Raises:
        NotReadable: it is no such archive.

    """
    with _opened(path) as packed:
        names = packed.names
    if not {"header.json", "_journal/start.json"}.intersection(names):
        raise NotReadable(
            f"{path}: expected a log of Inspect, got an archive with {shown(', '.join(names))[:80] or 'no file'}"
        )
    return [name for name in names if name.startswith("samples/") and name.endswith(".json")]


def _opened(path: Path) -> archive.Archive:
    try:
        return archive.Archive(path)
    except archive.NotUnpacked as why:
        raise NotReadable(f"{path}: {why}") from None
