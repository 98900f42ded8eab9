"""The checks of `haltline doctor` on this machine and on the cluster."""

import logging
import os
import sys
from collections.abc import Iterator
from functools import partial
from typing import Any

from confluent_kafka.admin import AdminClient

from haltline.cli.base_commands import missing_packages
from haltline.cli.cluster import Cluster
from haltline.cli.common import Client
from haltline.cli.operator.topics import changelogs_of
from haltline.cli.settings_file import files_in_use
from haltline.schemas.topics import Topics
from haltline.streams.kafka.log_reader import Unreachable, open_consumer
from haltline.streams.kafka.topics import NoAdminApiError, check_topics
from haltline.streams.local.kafka_jars import missing_tools
from haltline.streams.operator.health_checks import (
    ANSWER_WITHIN_S,
    Check,
    Verdict,
    at_once,
    check_permissions,
    check_progress,
    note,
    ok,
    published_policies,
    shadow_progress,
)

_log = logging.getLogger(__name__)


def machine() -> Iterator[Check]:
    """Python, packages, the configuration, and what a Kafka on this machine needs."""
    python = ".".join(map(str, sys.version_info[:3]))
    yield Check("python", Verdict.OK, python)  # pip refuses older versions
    missing = missing_packages()
    if missing:
        do = "pip install 'haltline[processor]'"
        yield Check("packages of the processor", Verdict.BAD, f"missing: {', '.join(missing)}", do)
    else:
        yield Check("packages of the processor", Verdict.OK, "all there")
    files = ", ".join(files_in_use(os.environ))
    yield Check("configuration", Verdict.OK, files or "no file; haltline init writes one")
    what = "a real Kafka on this machine"
    if tools := missing_tools():
        yield note(what, "not possible", f"for haltline kafka install {' and '.join(tools)}")
    else:
        yield ok(what, "Java and Kafka's jars (or Maven) are installed")


def cluster(at: Cluster, agent: str, *, sinks: str) -> Iterator[Check]:
    """Check broker, topics, progress, policies and permissions; only the broker if none answers.

    `sinks` is the audit sinks' consumer group.
    """
    bootstrap, client = at.bootstrap, at.client_config
    try:
        open_consumer(bootstrap, client=client, within_s=ANSWER_WITHIN_S).close()
    except Unreachable as error:
        do = "start one (haltline up, haltline kafka), or give its address (--bootstrap, HALTLINE_BOOTSTRAP)"
        yield Check("broker", Verdict.BAD, str(error), do)
        return
    yield Check("broker", Verdict.OK, f"answers at {bootstrap}")
    topics, group = at.topics, at.workers
    found = _topics(bootstrap, topics, group, client)
    yield found
    if found.verdict is Verdict.BAD:
        return
    own, sink = f"haltline worker --bootstrap {bootstrap} --group {group}", f"haltline audit --bootstrap {bootstrap}"
    common: dict[str, Any] = {"bootstrap": bootstrap, "topics": topics, "client": client}
    yield from at_once(
        partial(check_progress, "workers' progress", group=group, do=own, **common),
        partial(shadow_progress, group=group, **common),
        partial(check_progress, "sink's progress", group=sinks, do=sink, worst=Verdict.NOTE, **common),
        partial(published_policies, **common),
    )
    admin = AdminClient({**client, "bootstrap.servers": bootstrap}, logger=_log)
    metadata = admin.list_topics(timeout=ANSWER_WITHIN_S)
    if metadata.controller_id not in metadata.brokers:
        do = "for anything but a trial, use a real Kafka"
        yield Check("permissions", Verdict.NOTE, "an embedded broker has none", do)
    else:
        yield check_permissions(admin, topics, agent)


def _topics(bootstrap: str, topics: Topics, group: str, client: Client) -> Check:
    do = f"haltline topics create --bootstrap {bootstrap} --prefix {topics.prefix}"
    try:
        admin = AdminClient({**client, "bootstrap.servers": bootstrap}, logger=_log)
        reports = check_topics(admin, topics, changelogs=changelogs_of(topics, group))
    except NoAdminApiError:
        return Check("topics", Verdict.OK, "on an embedded broker, which makes them (for trying out only)")
    wrong = [str(difference) for report in reports for difference in report.differences]
    if any(report.partitions == 0 for report in reports):
        return Check("topics", Verdict.BAD, "; ".join(wrong), do)
    if wrong:
        do = "change the topic's settings (kafka-configs.sh --alter); partitions cannot be removed"
        return Check("topics", Verdict.BAD, "; ".join(wrong), do)
    return Check("topics", Verdict.OK, f"{len(reports)} topics of {reports[0].partitions} partitions")
