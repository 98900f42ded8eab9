"""`haltline up`: everything on one machine."""

import logging
import re
import time
from contextlib import ExitStack
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from haltline.cli.common import KAFKA_PARTITIONS, KAFKA_PORT, Exit, MetricsPort, PolicyFile, RulesName, fail, say
from haltline.cli.policy_option import read_policy
from haltline.cli.services.run import DEFAULT_METRICS_PORT
from haltline.schemas.topics import Topics

if TYPE_CHECKING:
    from haltline.streams.local.subprocesses import Children

_LOOK_EVERY_S = 0.5
_SERVES = re.compile(r"http://127\.0\.0\.1:\d+")
_log = logging.getLogger(__name__)


def up(
    *,
    kafka: Annotated[
        bool, typer.Option("--kafka", help="A real Kafka, whose data stays; needs Java, and Maven the first time.")
    ] = False,
    port: Annotated[int, typer.Option(help="Port of 127.0.0.1 for --kafka.", min=1, max=65535)] = KAFKA_PORT,
    partitions: Annotated[int, typer.Option(help="Partitions of each topic (--kafka).", min=1)] = KAFKA_PARTITIONS,
    policy: PolicyFile = None,
    data: Annotated[Path, typer.Option(help="Folder for tables, logs and Kafka's data.", metavar="DIR")] = Path(
        ".haltline"
    ),
    metrics_port: MetricsPort = DEFAULT_METRICS_PORT,
    console_port: Annotated[int, typer.Option(help="Port of the console; 0: any.", min=0, max=65535)] = 8460,
    rules: Annotated[
        RulesName,
        typer.Option(
            envvar="HALTLINE_RULES",
            help="enforced: rules in shadow run in a process of their own beside it; all: one worker runs all.",
        ),
    ] = "enforced",
) -> None:
    """Run a broker, workers, an audit sink and a console on this machine, until Ctrl-C.

    Without --kafka the broker is in this process, and its records are gone with it. When one part dies, all end. The
    sink's metrics are on the port behind the worker's, those of the rules in shadow on a free one.

    Example: haltline up --kafka --policy policy.yaml
    """
    from haltline.streams.local.kafka_jars import LocalKafkaError
    from haltline.streams.local.subprocesses import ChildDied, Children, TimedOut, interruptible
    from haltline.streams.local.system import start_audit, start_worker, wait_until_ready

    if rules == "shadow":
        fail("--rules: expected enforced or all, got shadow", Exit.USAGE)
    read_policy(policy)  # now, not in a child's log
    # The embedded broker begins at offset 0 each time: a table of an earlier one would not fit.
    folder = data / "kafka" if kafka else data / f"up-{datetime.now(UTC):%Y%m%dT%H%M%S}"
    table = folder / "audit"
    try:
        with interruptible(), ExitStack() as stack:
            bootstrap = _broker(stack, folder, port if kafka else None, partitions)
            children = stack.enter_context(Children(folder / "logs"))
            policy_option = ["--policy", str(policy)] if policy is not None else []
            audit_options = ["--table", str(table), "--metrics-port", str(metrics_port + 1 if metrics_port else 0)]
            if not kafka:
                audit_options += ["--fetch-wait-ms", "10"]
            start_audit(children, bootstrap, audit_options)
            options = ["--rules", rules, "--metrics-port", str(metrics_port), *policy_option]
            worker = start_worker(children, bootstrap, *options, embedded=not kafka)
            shadow = None
            if rules == "enforced":
                options = ["--rules", "shadow", *policy_option]
                shadow = start_worker(children, bootstrap, *options, embedded=not kafka, name="shadow")
            console = _start_console(children, bootstrap, folder, console_port)
            health = wait_until_ready(children, worker)
            say(f"Broker   {bootstrap}   (export HALTLINE_BOOTSTRAP={bootstrap})")
            say(f"Worker   {health}/metrics /healthz /readyz   (process {worker.pid})")
            if shadow is not None:
                say(f"Shadow   {wait_until_ready(children, shadow)}/metrics   (process {shadow.pid})")
            say(f"Audit    {table}")
            say(f"Console  {console}")
            say(f"Logs     {folder / 'logs'}")
            say("Ctrl-C ends all of it.")
            while True:
                children.require_running()
                time.sleep(_LOOK_EVERY_S)
    except KeyboardInterrupt:
        say("Ended.")
    except (ChildDied, TimedOut, LocalKafkaError) as error:
        fail(error, Exit.NO)


def _start_console(children: "Children", bootstrap: str, folder: Path, port: int) -> str:
    """Starts it with a key for this run, when it is installed; returns what to say of it. The key is in no file."""
    if find_spec("fastapi") is None:
        return "not installed: pip install 'haltline[console]'"
    from haltline.console.access.keys import digest_of, new_key
    from haltline.streams.local.system import READY_WITHIN_S

    key = new_key()
    keys = folder / "keys.yaml"
    keys.write_text(f"- {{name: admin, role: admin, sha256: {digest_of(key)}}}\n", encoding="utf-8")
    options = ["--keys", str(keys), "--database", f"sqlite:///{folder / 'console.db'}", "--port", str(port)]
    child = children.start_module("console", "haltline.cli", ["console", "--bootstrap", bootstrap, *options])

    def address() -> str | None:
        found = _SERVES.search(child.log_file.read_text(encoding="utf-8", errors="replace"))
        return found[0] if found else None

    children.wait_until(address, "the console to serve", within_s=READY_WITHIN_S)
    return f"{address()}   (key of admin for this run: {key})"


def _broker(stack: ExitStack, folder: Path, kafka_port: int | None, partitions: int) -> str:
    """Starts the broker with every topic; returns its address."""
    from confluent_kafka.admin import AdminClient

    from haltline.streams.kafka.topics import create_topics
    from haltline.streams.local.embedded_broker import EmbeddedBroker
    from haltline.streams.local.kafka import LocalKafka

    if kafka_port is None:
        broker = stack.enter_context(EmbeddedBroker())
        broker.ensure_topics(Topics())
        return broker.bootstrap
    say("Starting Kafka (the first time its jars are fetched) ...")
    node = stack.enter_context(LocalKafka(folder / "data", kafka_port, partitions=partitions))
    create_topics(AdminClient({"bootstrap.servers": node.bootstrap}, logger=_log), Topics(), partitions, 1)
    return node.bootstrap


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command()(up)
