"""Which recording a file is, and its events."""

import gzip
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import orjson

from haltline.interventions.agent.integrations.cleaning import cleaned
from haltline.interventions.agent.settings import GuardSettings
from haltline.schemas import otel, wire
from haltline.schemas.events import ActionEvent
from haltline.streams.importing import claude_code, openhands, swe
from haltline.streams.importing.steps import Recording, Step, inside, objects

FORMATS: Final = ("claude-code", "mini-swe-agent", "openhands", "otel", "swe-agent")
START_MS: Final = 1_735_689_600_000
"""2025-01-01: where the clock of a recording without times begins, if nothing else is said."""
_HEADERS = [("content-type", otel.CONTENT_TYPE.encode())]
_SETTINGS = GuardSettings(mode="local")
_Steps = Callable[[Any], Iterator[Step]]


class NotReadable(Exception):
    """A file that is no recording: where, what was wanted and what came."""


class Imported:
    """The events of one file, and what is to be known of them when all are read."""

    def __init__(
        self, path: Path, *, form: str | None = None, session_id: str | None = None, agent_id: str | None = None
    ) -> None:
        """Reads the file. Raises NotReadable when it is of none of the formats, and OSError when it cannot be read."""
        self._value, self._lines = _read(path)
        self.form = form or _form_of(self._value, self._lines)
        if self.form is None:
            raise NotReadable(f"{path}: wanted a recording of {', '.join(FORMATS)}, came JSON of another form")
        self._session_id = session_id or self._named() or path.name.split(".")[0] or "recording"
        self._agent_id = agent_id or self.form
        self.untimed = 0
        """Events whose time was made up."""
        self.skipped: list[str] = []
        """Spans that could not be read, and why."""

    def events(self, start_ms: int = START_MS) -> Iterator[ActionEvent]:
        """In the order of the recording."""
        if self.form == "otel":
            yield from self._spans()
            return
        steps: dict[str, tuple[_Steps, Any]] = {
            "claude-code": (claude_code.steps, self._lines),
            "openhands": (openhands.steps, self._lines),
            "swe-agent": (swe.swe_agent, self._value),
            "mini-swe-agent": (swe.mini_swe_agent, self._value),
        }
        read, what = steps[self.form or ""]
        recording = Recording(self._session_id, self._agent_id, read(what if what is not None else {}))
        yield from recording.events(start_ms)
        self.untimed = recording.untimed

    def _named(self) -> str | None:
        named = (
            claude_code.session_of(self._lines) if self.form == "claude-code" else inside(self._value, "instance_id")
        )
        return named[:200] if isinstance(named, str) and named else None

    def _spans(self) -> Iterator[ActionEvent]:
        spans = otel.of_agents(span for one in self._lines for span in _spans_of(one))
        for span in sorted(spans, key=lambda span: str(span.get("endTimeUnixNano", "")).zfill(24)):
            try:
                yield cleaned(wire.decode_event(orjson.dumps(span), _HEADERS), _SETTINGS)
            except wire.InvalidRecord as bad:
                self.skipped.append(f"span {span.get('spanId')!r:.40}: {bad}")


def _read(path: Path) -> tuple[Any, list[dict[str, Any]]]:
    """A file of one JSON value, or of one a line: the value (None for lines), and all objects."""
    raw = path.read_bytes()
    raw = gzip.decompress(raw) if raw[:2] == b"\x1f\x8b" else raw
    try:
        value = orjson.loads(raw)
    except orjson.JSONDecodeError:
        lines: list[dict[str, Any]] = []
        bad = 0
        for line in filter(None, raw.splitlines()):
            try:
                lines += objects([orjson.loads(line)])
            except orjson.JSONDecodeError:
                bad += 1
        if not lines or bad > len(lines):
            raise NotReadable(f"{path}: wanted JSON, or JSON lines, came something else") from None
        return None, lines
    return value, objects(value if isinstance(value, list) else [value])


def _form_of(value: Any, lines: list[dict[str, Any]]) -> str | None:
    if isinstance(inside(value, "trajectory"), list):
        return "swe-agent"
    if isinstance(inside(value, "messages"), list) and "info" in value:
        return "mini-swe-agent"
    if any("resourceSpans" in line for line in lines):
        return "otel"
    if openhands.looks_so(lines):
        return "openhands"
    if any(line.get("type") in {"assistant", "user"} and isinstance(line.get("message"), dict) for line in lines):
        return "claude-code"
    return None


def _spans_of(request: dict[str, Any]) -> list[dict[str, Any]]:
    scopes = [s for resource in objects(request.get("resourceSpans")) for s in objects(resource.get("scopeSpans"))]
    return [span for scope in scopes for span in objects(scope.get("spans"))]
