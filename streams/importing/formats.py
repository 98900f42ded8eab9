"""Which recording a file is, and its events."""

import gzip
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

import orjson

from haltline.interventions.agent.integrations.any_json import readable
from haltline.interventions.agent.integrations.cleaning import cleaned
from haltline.interventions.agent.settings import GuardSettings
from haltline.schemas import otel, wire
from haltline.schemas.events import ActionEvent
from haltline.streams.importing import claude_code, openhands, swe
from haltline.streams.importing.steps import Recording, Step, inside, objects

FORMATS: Final = ("claude-code", "mini-swe-agent", "openhands", "otel", "swe-agent", "trace")
START_MS: Final = 1_735_689_600_000
"""2025-01-01: where the clock of a recording without times begins by default."""
_HEADERS = [("content-type", otel.CONTENT_TYPE.encode())]
_SETTINGS = GuardSettings(mode="local")
_SHOWN = 5


class NotReadable(Exception):
    """A file that is no recording: where, what was expected and what was given."""


class _Read(NamedTuple):
    """What is in a file."""

    value: Any
    """The one value of it; None: it has one on each line."""
    lines: list[dict[str, Any]]
    skipped: list[str]
    """What could not be read, by its place."""


class _Part(NamedTuple):
    """The recording of one session."""

    session_id: str | None
    steps: Iterator[Step]


class Imported:
    """The events of one file, and what is to be known of them when all are read."""

    def __init__(
        self, path: Path, *, form: str | None = None, session_id: str | None = None, agent_id: str | None = None
    ) -> None:
        """Reads the file. Raises NotReadable when it is of none of the formats, and OSError when it cannot be read."""
        self._path = path
        self._value, self._lines, self.skipped = _read(path)
        self.form = form or _form_of(self._value, self._lines)
        if self.form is None:
            what = self._value if self._value is not None else self._lines
            raise NotReadable(f"{path}: expected a recording of {', '.join(FORMATS)}, got {_shape(what)}")
        self._session_id = session_id
        self._agent_id = agent_id
        self.untimed = 0
        """Events whose time was made up."""

    def events(self, start_ms: int = START_MS) -> Iterator[ActionEvent]:
        """In the order of the recording. Raises NotReadable for a line of a trace that cannot be used."""
        if self.form == "otel":
            yield from self._spans()
        elif self.form == "trace":
            yield from self._traces()
        else:
            for part in self._parts():
                session_id = self._session_id or _name(part.session_id) or self._path.name.split(".")[0] or "recording"
                recording = Recording(session_id, self._agent_id or self.form or "", part.steps)
                yield from recording.events(start_ms)
                self.untimed += recording.untimed

    def _parts(self) -> Iterator[_Part]:
        """The sessions of the file; more than one only where OpenHands' evaluation has written one on each line."""
        if self.form == "claude-code":
            yield _Part(claude_code.session_of(self._lines), claude_code.steps(self._lines))
        elif self.form == "openhands":
            wholes = [(line, events) for line in self._lines if (events := openhands.listed_in(line)) is not None]
            for line, events in wholes:
                yield _Part(inside(line, "instance_id"), openhands.steps(self._objects("history", events)))
            if not wholes:
                listed = self._value if self._value is not None else self._lines
                yield _Part(None, openhands.steps(self._objects("the file", listed)))
        else:
            read: Callable[[dict[str, Any]], Iterator[Step]]
            name, read = ("trajectory", swe.swe_agent) if self.form == "swe-agent" else ("messages", swe.mini_swe_agent)
            self._objects(name, inside(self._value, name))
            yield _Part(inside(self._value, "instance_id"), read(self._value if isinstance(self._value, dict) else {}))

    def _objects(self, where: str, values: object) -> list[dict[str, Any]]:
        """The objects of a list; what is none is reported."""
        if not isinstance(values, list):
            self.skipped.append(f"{where}: expected a list, got {_shape(values)}")
            return []
        listed: list[Any] = values
        self.skipped += [
            f"{where}[{n}]: expected an object, got {_shape(v)}"
            for n, v in enumerate(listed)
            if not isinstance(v, dict)
        ]
        return objects(listed)

    def _spans(self) -> Iterator[ActionEvent]:
        spans = otel.of_agents(span for one in self._lines for span in _spans_of(one))
        for span in sorted(spans, key=lambda span: str(span.get("endTimeUnixNano", "")).zfill(24)):
            try:
                event = cleaned(wire.decode_event(orjson.dumps(span), _HEADERS), _SETTINGS)
            except wire.InvalidRecord as bad:
                self.skipped.append(f"span {span.get('spanId')!r:.40}: {bad}")
            else:
                yield event.model_copy(update=self._named())

    def _traces(self) -> Iterator[ActionEvent]:
        """Recorded traces, and events of our own: what `backtest` reads too."""
        from haltline.streams.replay.traces import UnreadableTrace, read_traces  # noqa: PLC0415  # brings every detector

        try:
            for recorded in read_traces(self._path):
                self.untimed += len(recorded.events) if recorded.clock != "real" else 0
                for _, event in recorded.events:
                    yield cleaned(event, _SETTINGS).model_copy(update=self._named())
        except UnreadableTrace as bad:
            raise NotReadable(str(bad)) from None

    def _named(self) -> dict[str, str]:
        identity = {"session_id": self._session_id, "agent_id": self._agent_id}
        return {name: text for name, text in identity.items() if text is not None}


def _read(path: Path) -> _Read:
    """A file of one JSON value, or of one a line."""
    raw = path.read_bytes()
    try:
        raw = gzip.decompress(raw) if raw[:2] == b"\x1f\x8b" else raw
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise NotReadable(f"{path}: expected a whole gzip file, got {error}") from None
    try:
        value = readable(raw)
    except ValueError as whole:
        lines: list[dict[str, Any]] = []
        skipped: list[str] = []
        for number, line in enumerate(raw.splitlines(), start=1):
            if not line.strip():
                continue
            try:
                one = readable(line)
            except ValueError as error:
                skipped.append(f"line {number}: expected JSON, got {error}")
                continue
            if isinstance(one, dict):
                lines.append(one)
            else:
                skipped.append(f"line {number}: expected an object, got {_shape(one)}")
        if len(skipped) > len(lines):
            raise NotReadable(f"{path}: expected JSON, or JSON lines, got something else: {whole}") from None
        return _Read(None, lines, skipped)
    return _Read(value, objects(value if isinstance(value, list) else [value]), [])


def _form_of(value: Any, lines: list[dict[str, Any]]) -> str | None:
    if any(openhands.listed_in(line) is not None for line in lines) or openhands.looks_so(lines):
        return "openhands"
    if isinstance(inside(value, "trajectory"), list):
        return "swe-agent"
    if isinstance(inside(value, "messages"), list) and "info" in value:
        return "mini-swe-agent"
    if any("resourceSpans" in line for line in lines):
        return "otel"
    if any(line.get("type") in ("assistant", "user") and isinstance(line.get("message"), dict) for line in lines):
        return "claude-code"
    if lines and all(
        isinstance(line.get("session_id"), str) and ("action" in line or "kind" in line) for line in lines
    ):
        return "trace"
    return None


def _shape(value: object) -> str:
    """What a value is, in few words."""
    if isinstance(value, list):
        return f"a list of {_shape(value[0])}" if value else "an empty list"
    if isinstance(value, dict):
        names = ", ".join(sorted(map(str, value))[:_SHOWN])
        return f"an object with {names}"[:120] if value else "an empty object"
    return f"{value!r:.40}"


def _name(named: object) -> str | None:
    return named[:200] if isinstance(named, str) and named else None


def _spans_of(request: dict[str, Any]) -> list[dict[str, Any]]:
    scopes = [s for resource in objects(request.get("resourceSpans")) for s in objects(resource.get("scopeSpans"))]
    return [span for scope in scopes for span in objects(scope.get("spans"))]
