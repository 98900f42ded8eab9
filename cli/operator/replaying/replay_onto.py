"""`haltline replay --onto`: copies recorded records to another topic, for a downstream consumer."""

import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from haltline.cli.cluster import Cluster
from haltline.cli.common import Exit, fail, print_json, progress, say, say_error
from haltline.cli.sources import Where, opened, say_missing, topics_of
from haltline.schemas.control import Command, CommandKind
from haltline.schemas.decisions import ScopeKind
from haltline.schemas.record import rfc3339
from haltline.schemas.topics import Topics
from haltline.streams.kafka.produce import produce_confirmed
from haltline.streams.operator.command_factory import FLEET, make_command

if TYPE_CHECKING:
    from haltline.cli.sources import Range
    from haltline.streams.replay.choice import Choice
    from haltline.streams.replay.copying import Counted, Progress
    from haltline.streams.replay.record_filter import Filter
    from haltline.streams.replay.records import Missing

REPLAYED = "replayed"


@dataclass(frozen=True, kw_only=True)
class Onto:
    """The options of a replay onto a topic."""

    target: str
    of: str
    filters: "Choice"
    speed: float | None
    rate: float | None
    dry_run: bool
    resume: Path | None
    by: str
    reason: str

    @property
    def choice(self) -> str:
        """A description of the selection."""
        of = self.filters
        lists = {"session": of.sessions, "agent": of.agents, "tool": of.tools, "detector": of.detectors}
        filters = [f"{name} {one}" for name, many in lists.items() for one in sorted(many)]
        return ", ".join([*filters, *([f"where {of.where}"] if of.where else [])]) or "all"


def replay_onto(source: str, where: Where, cluster: Cluster, onto: Onto, *, as_json: bool) -> None:
    """Write the selected records of one topic to another topic, or only count them."""
    from haltline.streams.replay.copying import (
        Pace,
        copy,
        count,
        require_target,
    )

    topics = topics_of(source, cluster)
    topic = topics.prefix + onto.of
    choice = _choice(topics, onto, topic)
    with opened(source, where, cluster) as found:
        try:
            at = _begun(found, onto, topic)
            left = at.left()
            total = sum(span.count for span in left)
            if onto.resume is not None and onto.resume.exists() and not total:
                if as_json:
                    print_json(_position(at, topic))
                    return
                done = f"replay {at.id} is done: {at.written} records of {topic} are on {onto.target}"
                say(f"{done}; to start another one, choose another file than {onto.resume}")
                return
            missing = found.missing(left)
            if onto.dry_run:
                with progress("Counting", total) as step:
                    counted = count(found.read(left), choice, step)
                _show_count(found.name, topic, onto.target, counted, total, missing=missing, as_json=as_json)
                return
            require_target(cluster.bootstrap, onto.target, at.spans, cluster.topics, cluster.client_config)
            # Before the first record, so that the operator is known even if this process dies.
            _noted(cluster, onto, at, topic, "starts or continues after ")
            with progress("Replaying", total) as step:
                copy(
                    found.read(left),
                    at,
                    choice,
                    bootstrap=cluster.bootstrap,
                    pace=Pace(onto.speed, onto.rate),
                    state=onto.resume,
                    client=cluster.client_config,
                    step=step,
                )
        except KeyboardInterrupt:
            _noted(cluster, onto, at, topic, "interrupted after ")
            go_on = f"; continue with --resume {onto.resume}" if onto.resume is not None else ""
            if as_json:
                print_json(_position(at, topic))
            say_error(f"interrupted: {at.written} records are on {onto.target}{go_on}")
            raise typer.Exit(Exit.NO) from None
    command = _noted(cluster, onto, at, topic)
    if as_json:
        print_json({**_position(at, topic), "not_there": missing._asdict(), "command_id": command.command_id})
    else:
        say(f"replay {at.id}: {at.written} records of {topic} ({at.source}) are on {onto.target}")
        say_missing(missing)


def _position(at: "Progress", topic: str) -> dict[str, object]:
    return {"id": at.id, "source": at.source, "of": topic, "onto": at.target, "written": at.written}


def _choice(topics: Topics, onto: Onto, topic: str) -> "Filter":
    from haltline.streams.replay.record_filter import chosen

    if topic not in topics.all:
        names = ", ".join(name.removeprefix(topics.prefix) for name in topics.all)
        fail(f"--of: expected one of {names}, got {onto.of!r}", Exit.USAGE)
    if not onto.dry_run and not (onto.by.strip() and onto.reason.strip()):
        fail("--onto: expected --by and --reason, for the audit, got none", Exit.USAGE)
    try:
        of = onto.filters
        return chosen(
            topics,
            topic,
            sessions=of.sessions,
            agents=of.agents,
            tools=of.tools,
            detectors=of.detectors,
            where=of.where,
        )
    except ValueError as error:
        fail(f"--where: {error}", Exit.USAGE)


def _begun(found: "Range", onto: Onto, topic: str) -> "Progress":
    """A new replay, or that of `--resume`. Raises NotThere if the latter differs."""
    from haltline.streams.replay.copying import NotThere, Progress

    if onto.resume is None or not onto.resume.exists():
        spans = found.spans_of(topic)
        return Progress(uuid.uuid4().hex[:12], found.name, onto.target, spans, choice=onto.choice)
    at = Progress.load(onto.resume)
    if at.source.split(" (version")[0] != found.name.split(" (version")[0]:  # the table may have grown
        raise NotThere(f"{onto.resume}: expected the state of a replay of {found.name}, got that of one of {at.source}")
    if at.choice != onto.choice:
        raise NotThere(f"{onto.resume}: expected the choice of this replay ({onto.choice}), got ({at.choice})")
    if at.target != onto.target or any(span.topic != topic for span in at.spans):
        raise NotThere(f"{onto.resume}: expected the state of this replay, got that of one onto {at.target}")
    return at


def _show_count(
    name: str, topic: str, target: str, counted: "Counted", total: int, *, missing: "Missing", as_json: bool
) -> None:
    if as_json:
        print_json({"source": name, "of": topic, "onto": target, "not_there": missing._asdict(), **counted.to_dict()})
        return
    times = [rfc3339(ms) for ms in (counted.first_ms, counted.last_ms) if ms is not None]
    say(f"would write {counted.records} of {total} records of {topic} onto {target}{': ' if times else ''}"
        + " to ".join(times))  # fmt: skip
    say_missing(missing)


def _noted(cluster: Cluster, onto: Onto, at: "Progress", topic: str, how: str = "") -> Command:
    """A note for the audit: a label, which workers ignore and the sink stores."""
    command = make_command(
        CommandKind.LABEL,
        ScopeKind.FLEET,
        FLEET,
        by=onto.by,
        reason=f"replay {at.id}: {how}{at.written} records of {topic} ({at.source}) onto {onto.target}: {onto.reason}",
        label=REPLAYED,
    )
    key, value = command.id.encode(), command.to_json()
    produce_confirmed(cluster.bootstrap, cluster.topics.commands, key=key, value=value, client=cluster.client_config)
    return command
