"""`haltline changelog release`: prepares the workers' changelogs for an older release."""

import typer

from haltline.cli.cluster import Cluster, with_cluster
from haltline.cli.common import AsJson, print_json
from haltline.cli.operator.topics import changelogs_of
from haltline.cli.tables import print_table

changelog = typer.Typer(help="Prepare the workers' changelogs for an older release.", no_args_is_help=True)


@changelog.callback()
def _group() -> None:
    pass


@changelog.command()
@with_cluster("group")
def release(*, at: Cluster, as_json: AsJson = False) -> None:
    """Let records of a release before claims count again, before its workers are started. All workers must be stopped.

    Writes a release marker to each partition of both changelogs. Records that such a release wrote after a claim count
    too, for a worker that ended with "expected no states of an older release behind a claim".

    Example: haltline changelog release --bootstrap kafka-1:9092
    """
    from haltline.streams.engine.groups import Runs
    from haltline.streams.operator.release_markers import require_no_members, write_release_markers

    groups = [runs.group(at.group) for runs in (Runs.ENFORCED, Runs.SHADOW)]
    require_no_members(at.bootstrap, groups, at.client_config)
    offsets = write_release_markers(at.bootstrap, changelogs_of(at.topics, at.group), at.client_config)
    found = [{"topic": topic, "partition": partition, "offset": at} for (topic, partition), at in offsets.items()]
    if as_json:
        print_json(found)
    else:
        print_table(
            ("topic", "partition", "offset of the release marker"), ([*map(str, one.values())] for one in found)
        )
