"""Sessions from a recorded part of a log, for a backtest: events, and the operators' labels."""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Literal

import msgspec

from haltline.schemas import wire
from haltline.schemas.control import Command, CommandKind
from haltline.schemas.events import ActionEvent
from haltline.streams.replay.backtest import Recorded
from haltline.streams.replay.label_precision import CONFIRMED, FALSE_ALARM, MISSED
from haltline.streams.replay.records import Source

_STRENGTH = {FALSE_ALARM: 0, MISSED: 1, CONFIRMED: 2}


def sessions_of(source: Source, step: Callable[[], object] = lambda: None) -> list[Recorded]:
    """Return the sessions of a source, in the order of their first events; unreadable records are skipped.

    Events are numbered from 0 in each session. The label combines the operators' last labels of its decisions:
    `confirmed` if any was right, else `missed` if a rule should have found something, else `false_alarm`. `step` is
    called for each record.
    """
    events: dict[str, dict[str, ActionEvent]] = {}
    labels: list[Command] = []
    topics = source.topics
    for record in source.inputs():
        step()
        try:
            if record.topic == topics.actions:
                event = wire.decode_event(record.value, record.headers)
                events.setdefault(event.session_id, {}).setdefault(event.event_id, event)
            elif record.topic == topics.commands:
                labels.append(wire.decode(Command, record.value))
        except wire.InvalidRecord:
            continue
    labelled = labels_of(labels)
    return [
        Recorded(session, tuple(enumerate(found.values())), label=labelled.get(session))
        for session, found in events.items()
    ]


def labels_of(commands: Iterable[Command]) -> dict[str, str]:
    """Return labels by session."""
    labels = [command for command in commands if command.kind is CommandKind.LABEL]
    last = {(command.id, command.decision_id or command.code): command.label for command in labels}
    return _strongest((session, label) for (session, _), label in last.items())


class _Answer(msgspec.Struct):
    """A line of the labels.jsonl that the page of `haltline scan` writes."""

    session_id: str
    label: Literal["confirmed", "missed", "false_alarm"]


def labels_in(file: Path) -> dict[str, str]:
    """Return labels by session from a labels.jsonl of the page of `haltline scan`.

    Raises:
        OSError: the file cannot be read.
        ValueError: a line is not a label; says where.

    """
    answers = []
    for number, line in enumerate(file.read_bytes().splitlines(), 1):
        try:
            answer = msgspec.json.decode(line, type=_Answer)
        except ValueError as error:
            raise ValueError(
                f"{file}:{number}: expected a label as `haltline scan --html` writes it: {error}"
            ) from error
        answers.append((answer.session_id, answer.label))
    return _strongest(answers)


def _strongest(labels: Iterable[tuple[str, str | None]]) -> dict[str, str]:
    found: dict[str, str] = {}
    for session, label in labels:
        if label in _STRENGTH and _STRENGTH[label] >= _STRENGTH.get(found.get(session, ""), -1):
            found[session] = label
    return found
