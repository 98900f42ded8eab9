"""What goes wrong in histories while agents write them: files that grow are read again, their new events judged."""

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

from haltline.detectors.features.tool_classifier import Classifier
from haltline.schemas.decisions import Decision, Level
from haltline.schemas.events import ActionEvent, Kind
from haltline.schemas.policy import Policy
from haltline.streams.engine.core import Core
from haltline.streams.engine.local_fleet import decisions_of
from haltline.streams.engine.plugins import installed
from haltline.streams.importing.formats import Imported
from haltline.streams.importing.reading import NotReadable
from haltline.streams.replay.live_play import LivePlay
from haltline.streams.scan.files import FORMS, project_of
from haltline.streams.scan.homes import histories
from haltline.streams.scan.prices import Prices
from haltline.streams.scan.results import stamp_of
from haltline.streams.scan.waste import is_progress

PACE: Final = 10
"""A file is left alone for so many times as long as it took to read it: of one core a tenth is used."""


class Trip(NamedTuple):
    """What went wrong."""

    agent: str
    project: str
    decision: Decision


class History:
    """One file, read whole each time: what importers make of its beginning does not change when it grows."""

    def __init__(self, agent: str, path: Path, core: Core, classifier: Classifier) -> None:
        self._agent, self._path, self._classifier = agent, path, classifier
        self._play = LivePlay(core)
        self._fed = 0
        self._reported: set[tuple[str, str, Level]] = set()
        """What was said since the last prompt or progress, by session and rule."""
        self._is_stopped = self._has_progressed = False
        self.next_s = 0.0

    def new_events(self) -> tuple[list[ActionEvent], bool]:
        """Those since the last call, and whether their times are told. What is half written waits for its rest."""
        try:
            imported = Imported(self._path, form=FORMS.get(self._agent), price=Prices().of)
            events = list(imported.events())
        except (NotReadable, OSError):
            return [], False
        until = len(events)
        while until and events[until - 1].kind is Kind.MODEL_TURN:  # it may have more lines, and calls among them
            until -= 1
        fed, self._fed = self._fed, until
        return events[fed:until], imported.untimed == 0

    def trips(self, event: ActionEvent) -> Iterator[Trip]:
        """What the event leads to; of what goes on, only the first until the next prompt or progress."""
        if event.kind is Kind.SESSION_STARTED or self._has_progressed:
            self._reported.clear()
            if self._is_stopped:  # it went on: what was decided before does not hold it any more
                self._play.forget(event.session_id)
                self._is_stopped = False
        self._has_progressed = is_progress(event, self._classifier)
        for decision in (one for followed in self._play.event(event).followed for one in decisions_of(followed)):
            key = (decision.session_id, decision.detector, decision.level)
            if not decision.detector or decision.level is Level.ALLOW or self._is_stopped or key in self._reported:
                continue
            self._reported.add(key)
            self._is_stopped = self._play.is_stopped(event.session_id)
            yield Trip(self._agent, project_of(self._agent, self._path), decision)


class Following:
    """All histories of the agents on this machine."""

    def __init__(
        self,
        policy: Policy,
        *,
        found: Callable[[], Iterable[tuple[str, Path]]] = histories,
        on_event: Callable[[ActionEvent], object] = lambda _: None,
        since_ms: int,
    ) -> None:
        """`on_event` gets each event from `since_ms` (epoch ms) on; what is older is read, and not reported."""
        self._rules = Core(policy, installed()), Classifier(policy)
        self._found, self._on_event, self._since_ms = found, on_event, since_ms
        self._stamps: dict[Path, tuple[int, int]] = {}
        self._histories: dict[Path, History] = {}

    def start(self) -> int:
        """From here on what changes is read. Returns how many histories there are."""
        for _, path in self._found():
            with suppress(OSError):
                self._stamps[path] = stamp_of(path)
        return len(self._stamps)

    def poll(self, clock: Callable[[], float] = time.monotonic) -> Iterator[Trip]:
        """What went wrong since `start`, or the last call."""
        for agent, path in self._found():
            try:
                stamp = stamp_of(path)
            except OSError:
                continue
            one = self._histories.get(path)
            if self._stamps.get(path) == stamp or (one is not None and clock() < one.next_s):
                continue
            self._stamps[path] = stamp
            is_whole = one is None
            one = one or self._histories.setdefault(path, History(agent, path, *self._rules))
            began_s = clock()
            events, is_timed = one.new_events()
            for event in events:
                is_new = event.time >= self._since_ms if is_timed else not is_whole
                if is_new:
                    self._on_event(event)
                yield from (trip for trip in one.trips(event) if is_new)
            one.next_s = clock() + PACE * (clock() - began_s)
