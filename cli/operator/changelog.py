"""`haltline changelog`: the way back to a release before claims."""

import typer

from haltline.cli.cluster import Cluster, with_cluster
from haltline.cli.common import AsJson, print_json
from haltline.cli.operator.topics import changelogs_of
from haltline.cli.tables import print_table

changelog = typer.Typer(help="Return to a release before claims.", no_args_is_help=True)


@changelog.callback()
def _group() -> None:
    """Only so that `release` is a command below `changelog`, as typer merges a single one."""


@changelog.command()
@with_cluster("group")
def release(*, at: Cluster, as_json: AsJson = False) -> None:
    """Let records of a release before claims count again, before its workers are started. All workers must be stopped.

    Writes a release marker to each partition of both changelogs. Records that such a release wrote after a claim count
    too, for a worker that ended with "expected no states of an older release behind a claim".

    Example: haltline changelog release --bootstrap kafka-1:9092
    """
    from haltline.streams.engine.groups import Runs
    from haltline.streams.operator.changelog_topics import partitions_of_all, require_no_members, write_release_markers

    places, missing = partitions_of_all(at.bootstrap, changelogs_of(at.topics, at.workers), at.client_config)
    for why in missing:
        typer.echo(f"haltline: {why}", err=True)
    groups = [runs.group(at.workers) for runs in (Runs.ENFORCED, Runs.SHADOW)]
    require_no_members(at.bootstrap, groups, at.client_config)
    offsets = write_release_markers(at.bootstrap, places, at.client_config)
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
