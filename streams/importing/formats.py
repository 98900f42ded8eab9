"""The events of a recording in any of the formats."""

from collections.abc import Iterator
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import Final

import orjson

from haltline.interventions.agent.novelty import SeenBySession
from haltline.interventions.agent.producers.cleaning import cleaned
from haltline.interventions.agent.redaction.payload_encoding import plain_text
from haltline.interventions.agent.settings import GuardSettings
from haltline.schemas import expressions as re
from haltline.schemas import otel, wire
from haltline.schemas.events import ActionEvent
from haltline.streams.importing import aider
from haltline.streams.importing.database import is_database
from haltline.streams.importing.detection import (
    DATABASES,
    DETECTORS,
    HISTORIES,
    form_of,
    form_of_database,
    spans_of,
)
from haltline.streams.importing.reading import Content, NotReadable, Skipped, Source, content_of, shape
from haltline.streams.importing.steps import Part, Pricing, Recording
from haltline.streams.importing.values import id_of

FORMATS: Final = tuple(sorted({*DETECTORS, *DATABASES, "aider"}))
START_MS: Final = 1_735_689_600_000
"""2025-01-01, the default start time of a recording without times."""
_HEADERS = [("content-type", otel.CONTENT_TYPE.encode())]
_SETTINGS = GuardSettings(mode="local")
_WORD_ENDS: Final = re.compile("_+")
"""Elsewhere no secret begins within a word; names of tools have such words."""
_MAX_WORDS: Final = 8
_IDS: Final = ("session_id", "parent_session_id", "root_session_id", "agent_id", "mission_id", "host", "call_id")
_NAMES: Final = {**dict.fromkeys(_IDS, 256), "action": 512}
"""Fields with names, and their most characters."""


class Imported:
    """The events of one file, and a report, which is complete when all events are read."""

    def __init__(
        self,
        path: Path,
        *,
        form: str | None = None,
        session_id: str | None = None,
        agent_id: str | None = None,
        price: Pricing | None = None,
    ) -> None:
        """Read the beginning of the file. Raises NotReadable for an unknown format, and OSError."""
        self._path = path
        self._session_id, self._agent_id, self._price = session_id, agent_id, price
        self.skipped = Skipped()
        """The places that could not be read, with the reasons; complete when all events are read."""
        self._content = Content(None, [], [])
        self._is_database = is_database(path)
        if self._is_database:
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
        self.folders: dict[str, str] = {}
        """Where the agent worked, of sessions whose parts tell it."""
        self.untimed = 0
        """The number of events with a generated time."""

    def events(self, start_ms: int = START_MS) -> Iterator[ActionEvent]:
        """Yield the events in the order of the recording, without secrets, also in names.

        Raises NotReadable for an invalid line of a trace, and OSError.
        """
        for event in self._events_of_anybody(start_ms):
            names = {name: clean_name(text, most) for name, most in _NAMES.items() if (text := getattr(event, name))}
            changed = {name: text for name, text in names.items() if text != getattr(event, name)}
            yield event.model_copy(update=changed) if changed else event
        self.skipped.close()

    def _events_of_anybody(self, start_ms: int) -> Iterator[ActionEvent]:
        try:
            yield from self._events(start_ms)
        except (NotReadable, OSError):
            raise
        except Exception as error:  # what no importer foresees must not end the reading of other files
            why = f"expected a recording of {self.form}, got one that ends its importer: {type(error).__name__}"
            raise NotReadable(f"{self._path}: {why}") from error

    def _events(self, start_ms: int) -> Iterator[ActionEvent]:
        if self.form == "otel":
            yield from self._spans()
        elif self.form == "trace":
            yield from self._traces()
        else:
            for number, part in enumerate(self._parts()):
                session_id = self._session_id or id_of(part.session_id) or self._path.name.split(".")[0] or "recording"
                if self._session_id is not None and number:  # several sessions need different ids
                    session_id = f"{self._session_id}-{number + 1}"
                if isinstance(part.folder, str):
                    self.folders[session_id] = part.folder
                recording = Recording(session_id, self._agent_id or self.form or "", part.steps, price=self._price)
                yield from recording.events(start_ms)
                self.untimed += recording.untimed

    def _parts(self) -> Iterator[Part]:
        """Return the sessions of the file."""
        form, source = self.form or "", Source(self._path, self._content, self.skipped)
        if self._is_database and form in DATABASES:
            return DATABASES[form].parts(self._path)
        return (aider.parts if form == "aider" else HISTORIES[form].parts)(source)

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
        """Yield the events of a recorded trace, like `backtest`."""
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


@lru_cache(4096)
def clean_name(name: str, most: int = 256) -> str:
    """Return a name from a file without secrets, with so many characters at most: of a tool, a model, a project."""
    clean = plain_text(name, max_chars=most)
    for at in [found.end() for found in islice(_WORD_ENDS.finditer(clean), _MAX_WORDS)]:
        shown = plain_text(clean[at:], max_chars=most)
        if shown != clean[at:]:
            return f"{clean[:at]}{shown}"[:most]
    return clean[:most]
