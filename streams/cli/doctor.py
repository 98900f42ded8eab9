"""`haltline doctor`: what is missing on this machine and on the cluster, and what to do about it."""

import logging
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from enum import StrEnum
from importlib.util import find_spec
from typing import Annotated

import orjson
import typer
from confluent_kafka.admin import AdminClient
from rich.table import Table
from rich.text import Text

from haltline.schemas.topics import Topics
from haltline.streams.__main__ import PROCESSOR
from haltline.streams.cli.common import (
    DEFAULT_BOOTSTRAP,
    DEFAULT_GROUP,
    DEFAULT_PREFIX,
    NO_CLIENT_CONFIG,
    AsJson,
    Bootstrap,
    Client,
    ClientConfig,
    Exit,
    Group,
    Prefix,
    console,
    print_json,
    printable,
)
from haltline.streams.cli.topics import changelog_of
from haltline.streams.local_kafka import missing_tools
from haltline.streams.log_reader import NoSuchTopic, Unreachable, open_consumer, partitions_of
from haltline.streams.operator import Operator
from haltline.streams.topics import NoAdminApiError, check_topics

_ANSWER_WITHIN_S = 3.0
_log = logging.getLogger(__name__)


class Verdict(StrEnum):
    """What a check says."""

    OK = "ok"
    BAD = "bad"
    NOTE = "note"
    """Not as good as it could be, and not needed for everything."""


@dataclass(frozen=True)
class Check:
    """One line of the report."""

    what: str
    verdict: Verdict
    came: str
    do: str = ""
    """What to do about it."""


def doctor(
    *,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    prefix: Prefix = DEFAULT_PREFIX,
    client_config: ClientConfig = NO_CLIENT_CONFIG,
    group: Group = DEFAULT_GROUP,
    worker: Annotated[
        str, typer.Option(help="Where a worker serves /healthz and /readyz.", metavar="URL")
    ] = "http://127.0.0.1:9464",
    as_json: AsJson = False,
) -> None:
    """Check this machine, the broker, the topics and the worker; exit 1 when something is bad.

    Example: haltline doctor --bootstrap kafka-1:9092
    """
    checks = [*_machine(), *_cluster(bootstrap, Topics(prefix), group, client_config), *_worker(worker.rstrip("/"))]
    if as_json:
        print_json([asdict(check) for check in checks])
    else:
        table = Table("", "check", "found", "what to do", show_lines=False)
        style = {Verdict.OK: "green", Verdict.BAD: "red", Verdict.NOTE: "yellow"}
        for check in checks:
            table.add_row(
                Text(check.verdict, style=style[check.verdict]), Text(check.what), Text(check.came), Text(check.do)
            )
        console().print(table)
    if any(check.verdict is Verdict.BAD for check in checks):
        raise typer.Exit(Exit.NO)


def _machine() -> Iterator[Check]:
    python = ".".join(map(str, sys.version_info[:3]))
    yield Check("python", Verdict.OK, python)  # an older one does not get this far: pip refuses it
    missing = sorted(_missing_packages())
    if missing:
        do = "pip install 'haltline[processor]'"
        yield Check("packages of the processor", Verdict.BAD, f"missing: {', '.join(missing)}", do)
    else:
        yield Check("packages of the processor", Verdict.OK, "all there")
    if tools := missing_tools():
        yield Check(
            "a real Kafka on this machine",
            Verdict.NOTE,
            "not possible",
            f"for haltline kafka install {' and '.join(tools)}",
        )
    else:
        yield Check("a real Kafka on this machine", Verdict.OK, "Java and Kafka's jars (or Maven) are there")


def _missing_packages() -> Iterator[str]:
    """What haltline[processor] installs and cannot be imported here."""
    for name in PROCESSOR:
        if name == "uvloop" and sys.platform == "win32":
            continue  # there is none for it
        if name not in sys.modules and find_spec(name) is None:
            yield name


def _cluster(bootstrap: str, topics: Topics, group: str, client: Client) -> Iterator[Check]:
    try:
        open_consumer(bootstrap, client=client, within_s=_ANSWER_WITHIN_S).close()
    except Unreachable as error:
        do = "start one (haltline up, haltline kafka), or say where it is (--bootstrap, HALTLINE_BOOTSTRAP)"
        yield Check("broker", Verdict.BAD, str(error), do)
        return
    yield Check("broker", Verdict.OK, f"answers at {bootstrap}")
    found = _topics(bootstrap, topics, group, client)
    yield found
    if found.verdict is not Verdict.BAD:
        yield _progress(bootstrap, topics, group, client)


def _topics(bootstrap: str, topics: Topics, group: str, client: Client) -> Check:
    do = f"haltline topics create --bootstrap {bootstrap} --prefix {topics.prefix}"
    try:
        admin = AdminClient({**client, "bootstrap.servers": bootstrap}, logger=_log)
        reports = check_topics(admin, topics, changelog=changelog_of(topics, group))
    except NoAdminApiError:
        return _embedded_topics(bootstrap, topics, client)
    wrong = [str(difference) for report in reports for difference in report.differences]
    if any(report.partitions == 0 for report in reports):
        return Check("topics", Verdict.BAD, "; ".join(wrong), do)
    if wrong:
        return Check(
            "topics", Verdict.BAD, "; ".join(wrong), "change the topic's settings; partitions cannot be taken away"
        )
    return Check("topics", Verdict.OK, f"{len(reports)} topics of {reports[0].partitions} partitions")


def _embedded_topics(bootstrap: str, topics: Topics, client: Client) -> Check:
    """An embedded broker has no admin API; whether its topics are there can be asked."""
    consumer = open_consumer(bootstrap, client=client)
    try:
        for topic in topics.all:
            partitions_of(consumer, topic)
    except NoSuchTopic as error:
        return Check("topics", Verdict.BAD, str(error), "haltline up makes them")
    finally:
        consumer.close()
    return Check("topics", Verdict.OK, f"{len(topics.all)} topics on an embedded broker (for trying out only)")


def _progress(bootstrap: str, topics: Topics, group: str, client: Client) -> Check:
    lag = Operator(bootstrap, topics=topics, group=group, client=client).lag()
    records = sum(partition.lag_records for partition in lag)
    if records and all(partition.committed is None for partition in lag):
        came = f"{records} records wait, and no worker of group {group} has ever committed"
        return Check("workers' progress", Verdict.BAD, came, f"haltline worker --bootstrap {bootstrap} --group {group}")
    return Check("workers' progress", Verdict.OK, f"{records} records wait")


def _worker(url: str) -> Iterator[Check]:
    for path, what in (("/healthz", "worker's health"), ("/readyz", "worker's readiness")):
        try:
            with urllib.request.urlopen(url + path, timeout=_ANSWER_WITHIN_S) as response:
                yield Check(what, Verdict.OK, _said(response.read()))
        except urllib.error.HTTPError as error:
            yield Check(what, Verdict.BAD, _said(error.read()), "see the worker's log")
        except (OSError, ValueError) as error:
            came = f"{url + path}: {getattr(error, 'reason', error)}"
            yield Check(what, Verdict.BAD, came, "start a worker (haltline worker), or say where it is (--worker)")
            return


def _said(body: bytes) -> str:
    """The worker's own words on its health."""
    try:
        verdict = orjson.loads(body)
        reasons = "; ".join(verdict["reasons"])
        return reasons or f"{verdict['partitions']} partitions, {verdict['lag_records']} records wait"
    except (orjson.JSONDecodeError, KeyError, TypeError):
        return printable(body.decode(errors="replace"))[:200]


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command()(doctor)
