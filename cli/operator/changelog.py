"""`haltline changelog`: check the workers' changelogs, restore dropped states, prepare for an older release."""

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from haltline.cli.cluster import Cluster, with_cluster
from haltline.cli.common import AsJson, Exit, console, fail, print_json, say
from haltline.cli.operator.topics import changelogs_of
from haltline.cli.tables import print_table

if TYPE_CHECKING:
    from haltline.streams.kafka.topics import Difference
    from haltline.streams.operator.changelog_repair import DroppedState, PartitionReading
    from haltline.streams.operator.changelog_topics import Changelogs, Span

changelog = typer.Typer(
    help="Check the workers' changelogs, restore dropped states, or return to an older release.",
    no_args_is_help=True,
)
_log = logging.getLogger(__name__)


@changelog.command()
@with_cluster("group")
def check(*, at: Cluster, as_json: AsJson = False) -> None:
    """Read both changelogs whole and report states that readers drop; exit 1 when something is found.

    Finds partitions whose eras went down, so that readers drop the records of later owners; records that an older
    release wrote after a claim; and a changelog whose min.compaction.lag.ms is too short. Workers may run meanwhile.

    Example: haltline changelog check --bootstrap kafka-1:9092
    """
    from haltline.cli.operator.changelog_report import partition_json, print_partitions

    with _opened(at) as changelogs:
        reports = [(span, reading.report()) for span, reading in _read(changelogs)]
        differences = _settings(at, changelogs)
    if as_json:
        partitions = [partition_json(span, report) for span, report in reports]
        print_json({"partitions": partitions, "settings": [asdict(difference) for difference in differences]})
    else:
        print_partitions(reports)
        for difference in differences:
            console().print(str(difference), style="yellow", markup=False)
            say(
                f"  kafka-configs.sh --bootstrap-server {at.bootstrap} --alter --entity-type topics "
                f"--entity-name {difference.topic} --add-config min.compaction.lag.ms=600000"
            )
    if differences or any(report.behind_claim or report.states for _, report in reports):
        raise typer.Exit(Exit.NO)


@changelog.command()
@with_cluster("group")
def repair(
    *,
    at: Cluster,
    partition: Annotated[
        list[int] | None, typer.Option(help="Only this partition; may be given several times.", min=0, metavar="N")
    ] = None,
    carry_out: Annotated[
        bool, typer.Option("--yes", help="Write the states; without it they are only listed.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Restore the states that readers drop because eras went down. All workers must be stopped.

    Lists them, and with --yes writes each state that includes everything in the current one. A session that continued
    without the dropped events keeps its state: the two cannot be merged.

    Example: haltline changelog repair --bootstrap kafka-1:9092 --yes
    """
    from haltline.cli.operator.changelog_report import print_states, state_json
    from haltline.streams.operator.changelog_repair import Outcome

    found: list[tuple[Span, DroppedState]] = []
    back = done = 0
    with _opened(at, stopped=True) as changelogs:
        for span, reading in _read(changelogs, partition):
            report = reading.report()
            found += ((span, state) for state in report.states)
            back += len(ready := report.having(Outcome.BRING_BACK))
            if ready and carry_out:
                done += len(changelogs.bring_back(span, reading))
    if as_json:
        print_json({"states": [state_json(span, state) for span, state in found], "written": done})
    else:
        print_states(found)
        say(f"{done} states were brought back." if carry_out else f"{back} states can be brought back.")
        if back and not carry_out:
            say("--yes writes them.")
    if back and not carry_out:
        raise typer.Exit(Exit.NO)


@changelog.command()
@with_cluster("group")
def release(*, at: Cluster, as_json: AsJson = False) -> None:
    """Let records of a release before claims count again, before its workers are started. All workers must be stopped.

    Writes a release marker to each partition of both changelogs. Records that such a release wrote after a claim count
    too, for a worker that ended with "expected no states of an older release behind a claim".

    Example: haltline changelog release --bootstrap kafka-1:9092
    """
    with _opened(at, stopped=True) as changelogs:
        offsets = changelogs.write_release_markers()
    if as_json:
        print_json(
            [
                {"topic": topic, "partition": partition, "offset": offset}
                for (topic, partition), offset in offsets.items()
            ]
        )
        return
    rows = ((topic, str(partition), str(offset)) for (topic, partition), offset in offsets.items())
    print_table(("topic", "partition", "offset of the release marker"), rows)


def _read(
    changelogs: "Changelogs", partitions: Sequence[int] | None = None
) -> "Iterator[tuple[Span, PartitionReading]]":
    """Read the partitions one by one: only one is in memory."""
    from haltline.cli.common import progress

    there = {span.partition for span in changelogs.spans}
    if missing := set(partitions or ()) - there:
        fail(f"--partition {min(missing)}: expected one from 0 to {max(there)}", Exit.USAGE)
    spans = [span for span in changelogs.spans if not partitions or span.partition in partitions]
    with progress("Records", sum(span.end - span.begin for span in spans)) as step:
        for span in spans:
            yield span, changelogs.read(span, step)


def _settings(at: Cluster, changelogs: "Changelogs") -> "list[Difference]":
    """Settings that keep records for too short a time; empty for an embedded broker."""
    from confluent_kafka.admin import AdminClient

    from haltline.streams.kafka.topics import NoAdminApiError, check_topics

    names = sorted({span.topic for span in changelogs.spans})
    admin = AdminClient({**at.client_config, "bootstrap.servers": at.bootstrap}, logger=_log)
    try:
        reports = check_topics(admin, at.topics, changelogs=names)
    except NoAdminApiError:
        return []
    found = [difference for report in reports for difference in report.differences]
    return [difference for difference in found if difference.setting == "min.compaction.lag.ms"]


@contextmanager
def _opened(at: Cluster, *, stopped: bool = False) -> "Iterator[Changelogs]":
    """The changelogs of the group and of its shadow group; with `stopped`, exits if either has workers."""
    from haltline.streams.engine.groups import Runs
    from haltline.streams.operator.changelog_topics import Changelogs

    with Changelogs(at.bootstrap, changelogs_of(at.topics, at.workers), client=at.client_config) as changelogs:
        for missing in changelogs.missing:
            typer.echo(f"haltline: {missing}", err=True)
        if stopped:
            changelogs.require_no_members([runs.group(at.workers) for runs in (Runs.ENFORCED, Runs.SHADOW)])
        yield changelogs
