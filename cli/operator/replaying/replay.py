"""`haltline replay`: evaluates recorded events again."""

import gc
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from haltline.cli.cluster import Cluster, with_cluster
from haltline.cli.common import AsJson, Exit, PolicyName, fail, print_json, progress, say
from haltline.cli.sources import Where, opened, say_missing, topics_of, with_source
from haltline.cli.tables import print_table

if TYPE_CHECKING:
    from haltline.cli.sources import Range
    from haltline.streams.replay.choice import Choice
    from haltline.streams.replay.diff import Replayed
    from haltline.streams.replay.record_filter import Filter
    from haltline.streams.replay.records import Span

_SHOWN = 20

Sessions = Annotated[
    list[str] | None, typer.Option("--session", help="Only this session; may be repeated.", metavar="ID")
]
Agents = Annotated[list[str] | None, typer.Option("--agent", help="Only this agent; may be repeated.", metavar="ID")]


@with_source
@with_cluster()
def replay(
    source: Annotated[
        str,
        typer.Argument(
            help="kafka (a range of the running topics), audit (the audit table; or its folder or URI), or a file of "
            "events, one JSON object a line.",
            metavar="SOURCE",
        ),
    ],
    *,
    where: Where,
    policy: Annotated[
        Path | None,
        typer.Option(help="Decide under this document instead of those that were published then.", metavar="FILE"),
    ] = None,
    policy_name: PolicyName = "default",
    session: Sessions = None,
    agent: Agents = None,
    exact: Annotated[
        bool, typer.Option("--exact", help="Every field must be the same, reasons and values too.")
    ] = False,
    tool: Annotated[
        list[str] | None, typer.Option(help="Only calls of this tool; may be repeated.", metavar="NAME")
    ] = None,
    detector: Annotated[
        list[str] | None,
        typer.Option(help="Only this rule's; may be repeated.", metavar="NAME"),
    ] = None,
    only: Annotated[
        str | None,
        typer.Option(
            "--where",
            help="Only records whose fields match this condition, such as 'args.count > 10'.",
            metavar="CONDITION",
        ),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only count what would be replayed.")] = False,
    at: Cluster,
    as_json: AsJson = False,
) -> None:
    """Run recorded events through the rules again, and compare the decisions with the recorded ones.

    Independent of the workers: it joins no group, commits and writes nothing. Both ends of the range are fixed before
    anything is read. Exit 1 when a decision differs (the first one is named), or when the range has no records.

    A file has no decisions to compare: it is played as `haltline backtest` does, and its decisions are in --json.

    --agent, --detector, --tool and --where choose whose decisions are compared; all records are read, as a decision
    depends on the records before it. With --session only the records of that session are read.

    Example: haltline replay kafka --from -2h

    Example: haltline replay audit --from 2026-11-20T10:00:00Z --to 2026-11-20T11:00:00Z --policy new.yaml --json
    """
    from haltline.cli.policy_option import read_plugins, read_policy
    from haltline.streams.replay.choice import Choice
    from haltline.streams.replay.diff import replay_and_compare
    from haltline.streams.replay.files import FileRange
    from haltline.streams.replay.policies import one, published

    chosen = read_policy(policy) if policy is not None else None
    plugins = read_plugins()
    choice = Choice(
        sessions=frozenset(session or ()),
        agents=frozenset(agent or ()),
        detectors=frozenset(detector or ()),
        tools=frozenset(tool or ()),
        where=only,
        exact=exact,
    )
    try:
        passes = choice.records(topics_of(source, at))
    except ValueError as error:
        fail(f"--where: {error}", Exit.USAGE)
    with opened(source, where, at) as found:
        if dry_run:
            _count(found, choice, passes, as_json=as_json)
            return
        gc.set_threshold(10_000, 10, 5000)  # like the worker: states live long and have no reference cycles
        known = one(chosen, plugins) if chosen is not None else published(found.policies(), policy_name, plugins)
        if follow := isinstance(found, FileRange):
            found.play(known[0].core)
        with progress("Replaying", sum(span.count for span in found.spans)) as step:
            result = replay_and_compare(found, known, choice, step, follow=follow)
        missing = found.missing(found.spans)
        policies = [
            {"since_ms": p.since_ms, "name": p.core.policy.name, "version": p.core.policy.version} for p in known
        ]
        if as_json:
            print_json(
                {
                    "source": found.name,
                    "range": [asdict(span) for span in found.spans],
                    "not_there": missing._asdict(),
                    "policies": policies,
                    **result.to_dict(),
                    **({"decisions": result.decisions} if isinstance(found, FileRange) else {}),
                }
            )
        else:
            say(f"{found.name}: {sum(result.records.values())} records of")
            for line in _ranges(found.spans):
                say(f"  {line}")
            say_missing(missing)
            _show(result)
    if not result.records:
        fail(_nothing(session or ()), Exit.NO)
    if not result.compared.ok:
        raise typer.Exit(Exit.NO)


def _count(found: "Range", choice: "Choice", passes: "Filter | None", *, as_json: bool) -> None:
    """Print the records to read, by topic; with a filter, those whose decisions are compared."""
    counts: Counter[str] = Counter()
    with progress("Counting", sum(span.count for span in found.spans)) as step:
        for record in found.inputs():
            step()
            if choice.applies(record, found.topics) and (passes is None or passes(record)):
                counts[record.topic] += 1
    missing = found.missing(found.spans)
    if as_json:
        ranges = [asdict(span) for span in found.spans]
        print_json({"source": found.name, "range": ranges, "not_there": missing._asdict(), "records": dict(counts)})
        return
    say(f"{found.name}: would decide on {sum(counts.values())} records of")
    for line in _ranges(found.spans):
        say(f"  {line}")
    say_missing(missing)
    say(", ".join(f"{count} of {topic}" for topic, count in counts.items()) or "nothing")


def _nothing(sessions: Sequence[str]) -> str:
    of = f" of {', '.join(sessions)}" if sessions else ""
    return f"expected records{of} in this range, got none: are the range, --prefix and --session right?"


def _ranges(spans: "Sequence[Span]") -> list[str]:
    """The offset range of each topic, one line each."""
    by_topic: dict[str, list[str]] = {}
    for span in spans:
        if span.count:
            by_topic.setdefault(span.topic, []).append(f"{span.partition}:{span.start}..{span.end - 1}")
    return [f"{topic}: {', '.join(parts)}" for topic, parts in by_topic.items()]


def _show(result: "Replayed") -> None:
    found = result.compared
    levels = ", ".join(f"{level} {count}" for level, count in sorted(result.levels.items()))
    say(f"decided now: {levels or 'nothing'}")
    if not found.recorded and found.ok:
        say("no decisions were recorded: there is nothing to compare")
        return
    say(
        f"compared: {found.recorded} recorded decisions with {found.replayed} of this run: {found.same} the same"
        + (f" ({found.reworded} of them in other words)" if found.reworded else "")
        + "".join(f", {count} {what}" for what, count in found.counts.items() if count)
    )
    left = {
        "made by the clock": found.by_clock,
        "on events outside of the range or selection": found.outside,
        "across": found.across,
    }
    if any(left.values()):
        say("left out: " + ", ".join(f"{count} {what}" for what, count in left.items() if count), style="dim")
    if found.first is None:
        return
    say(f"first divergence: session {found.first.session_id}: {found.first}", style="red")
    shown = sorted(found.first_by_session.values(), key=lambda d: (d.time, d.session_id))[:_SHOWN]
    print_table(("session", "first divergence"), ((one.session_id, str(one)) for one in shown))
    if result.begun_before:
        say(
            f"{len(result.begun_before)} of these {len(found.first_by_session)} sessions began before the range; "
            "the missing events may be the reason. An earlier --from includes them"
        )
    if len(found.first_by_session) > _SHOWN:
        say(f"and {len(found.first_by_session) - _SHOWN} sessions more; --json has all")


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command()(replay)
