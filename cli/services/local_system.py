"""The processes of `haltline up`, and its output."""

import hashlib
import logging
import os
import socket
import time
from collections.abc import Collection, Mapping
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path

import orjson
from confluent_kafka.admin import AdminClient
from rich.text import Text

from haltline.cli import settings_file
from haltline.cli.audit_table import sinks_of
from haltline.cli.common import DEFAULT_PREFIX, Client, Exit, UsageErrors, console, fail, group_of, say
from haltline.cli.operator.topics import changelogs_of
from haltline.cli.services.other_runs import InUse, claimed, port_of
from haltline.cli.services.run import require_topics
from haltline.interventions.agent.user_files import write_file
from haltline.schemas import expressions as re
from haltline.schemas.topics import Topics
from haltline.streams.engine.groups import Runs
from haltline.streams.kafka.topics import create_topics
from haltline.streams.local.embedded_broker import FETCH_WAIT_MS, EmbeddedBroker
from haltline.streams.local.kafka import LocalKafka
from haltline.streams.local.kafka_jars import LocalKafkaError
from haltline.streams.local.subprocesses import Child, ChildDied, Children, TimedOut, interruptible
from haltline.streams.local.system import READY_WITHIN_S, health_url, start_audit, start_worker, wait_until_ready

_LOOK_EVERY_S = 0.5
_AUDIT_GROUP = "HALTLINE_AUDIT_GROUP"
_SERVES = re.compile(r"http://\S{1,200}:\d+")
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class _Broker:
    """The broker of one run."""

    bootstrap: str
    topics: Topics
    kind: str
    """A description of the broker."""

    @property
    def embedded(self) -> bool:
        return self.kind == _EMBEDDED


@dataclass(frozen=True)
class _Run:
    """The common arguments of a run's processes."""

    broker: _Broker
    children: Children
    folder: Path
    table: str
    settings: dict[str, str]
    ports: dict[str, int]
    """The ports of worker, sink and console; 0: a free one."""

    @property
    def instance(self) -> list[str]:
        """The static membership id. A real broker returns the partitions at once to a restarted member."""
        return [] if self.broker.embedded else ["--instance-id", _instance(self.folder)]


def _instance(folder: Path) -> str:
    """The name of a run's folder among those of every machine."""
    which = hashlib.sha256(os.fsencode(folder)).hexdigest()[:8]
    return f"{socket.gethostname()}-up-{which}"


_EMBEDDED = "in this process, its records end with it"


def run_system(
    *,
    kafka_port: int | None,
    partitions: int,
    policy: Path | None,
    data: Path,
    metrics_port: int,
    console_port: int,
    rules: Runs,
    client: Client,
    given: Collection[str],
) -> None:
    """Run all processes until Ctrl-C; `kafka_port`: start a real Kafka there. Exits if a process dies.

    `given` are the explicitly set parameters; a port among them is not replaced by a free one.
    """
    settings = _settings()
    named = settings.get("HALTLINE_BOOTSTRAP")
    if kafka_port and named not in (None, f"127.0.0.1:{kafka_port}", f"localhost:{kafka_port}"):
        fail(
            f"--kafka: expected no kafka.bootstrap in haltline.toml, or 127.0.0.1:{kafka_port}; got {named}", Exit.USAGE
        )
    kept = kafka_port is not None or named is not None
    # The embedded broker begins at offset 0 each time, so the table of an earlier run would not match.
    new = f"up-{datetime.now(UTC):%Y%m%dT%H%M%S}"
    folder = (data / ("kafka" if kafka_port else "named" if kept else new)).absolute()
    table = settings.get("HALTLINE_AUDIT_TABLE", str(folder / "audit"))
    if named is not None and "HALTLINE_AUDIT_TABLE" not in settings:
        # Sinks of one group share the partitions: the run of another folder, whose table is another one, needs its own.
        sinks = sinks_of(settings.get("HALTLINE_PREFIX", DEFAULT_PREFIX))
        settings.setdefault(_AUDIT_GROUP, f"{sinks}-{_instance(folder)}")
    if not kept and "HALTLINE_AUDIT_TABLE" in settings and (Path(table) / "_delta_log").exists():
        fail(
            f"audit.table: expected a new folder for an embedded broker, which starts empty each time; got {table}, "
            "with records in it. Leave it out of haltline.toml, or use --kafka",
            Exit.USAGE,
        )
    try:
        with interruptible(), ExitStack() as stack:
            for other in stack.enter_context(claimed(data)):
                _say_whole(f"Another haltline up runs in {other}")
            sink_port = metrics_port + 1 if metrics_port else 0
            ports = {
                "worker": port_of("--metrics-port", metrics_port, is_given="metrics_port" in given),
                "sink": port_of("--metrics-port, and the one behind it", sink_port, is_given="metrics_port" in given),
                "console": port_of("--console-port", console_port, is_given="console_port" in given),
            }
            if kafka_port:
                kafka_port = port_of("--port", kafka_port, is_given="port" in given or named is not None)
            broker = _broker(stack, folder, settings, client=client, kafka_port=kafka_port, partitions=partitions)
            children = stack.enter_context(Children(folder / "logs", env=settings))
            found = stack.enter_context(RunFile(data / "up.toml"))
            run = _Run(broker, children, folder, table, settings, ports)
            sink = _start_audit(run)
            workers = _start_workers(run, rules, policy)
            page = _start_console(run)
            urls = {name: wait_until_ready(children, worker) for name, worker in workers.items()}
            children.wait_until(lambda: health_url(sink), "the audit sink to serve", within_s=READY_WITHIN_S)
            urls["sink"] = health_url(sink) or ""
            audit = {"table": table} | ({"group": settings[_AUDIT_GROUP]} if _AUDIT_GROUP in settings else {})
            found.write(broker.bootstrap, broker.topics.prefix, audit, urls | {"console": page.url})
            _show(run, workers, urls, page, found.file)
            while True:
                children.require_running()
                time.sleep(_LOOK_EVERY_S)
    except KeyboardInterrupt:
        say("Ended.")
    except (InUse, PermissionError, FileExistsError, NotADirectoryError) as error:
        fail(error, Exit.USAGE)
    except (ChildDied, TimedOut, LocalKafkaError) as error:
        fail(error, Exit.NO)


def _settings() -> dict[str, str]:
    """The processes' variables from this folder's haltline.toml, overridden by the environment.

    Settings in the environment and the user's own file belong to the user's usual cluster. They are passed on only if
    the folder's file names the broker.
    """
    with UsageErrors(settings_file.BadSettings):
        found = settings_file.load(os.environ, run_file=False)
    user = settings_file.user_file(os.environ)  # it belongs to the usual cluster, too
    found = {name: one for name, one in found.items() if one.file != user or name == "HALTLINE_OPERATOR"}
    settings = {variable: os.environ.get(variable, one.value) for variable, one in found.items()}
    if "HALTLINE_BOOTSTRAP" in settings:
        everyday = {name: value for name, value in os.environ.items() if name.startswith("HALTLINE_")}
        settings = {**everyday, **settings, settings_file.VARIABLE: ""}
    return settings


def _broker(
    stack: ExitStack,
    folder: Path,
    settings: dict[str, str],
    *,
    client: Client,
    kafka_port: int | None,
    partitions: int,
) -> _Broker:
    """Start the broker with every topic, or check that the named one has them."""
    topics = Topics(settings.get("HALTLINE_PREFIX", DEFAULT_PREFIX))
    changelogs = changelogs_of(topics, settings.get("HALTLINE_GROUP") or group_of(topics.prefix))
    if kafka_port is not None:
        say("Starting Kafka (the first time its jars are fetched) ...")
        node = stack.enter_context(LocalKafka(folder / "data", kafka_port or None, partitions=partitions))
        admin = AdminClient({"bootstrap.servers": node.bootstrap}, logger=_log)
        create_topics(admin, topics, partitions, 1, changelogs=changelogs)
        return _Broker(node.bootstrap, topics, "Kafka, started here; its data stays")
    if "HALTLINE_BOOTSTRAP" in settings:
        require_topics(settings["HALTLINE_BOOTSTRAP"], [*topics.all, *changelogs], client)
        return _Broker(settings["HALTLINE_BOOTSTRAP"], topics, "as haltline.toml names it")
    broker = stack.enter_context(EmbeddedBroker())
    broker.ensure_topics(topics, changelogs=changelogs)
    return _Broker(broker.bootstrap, topics, _EMBEDDED)


def _start_audit(run: _Run) -> Child:
    """Start the sink. With a key, it signs each flush, so that a table of few records can be verified too."""
    options = ["--table", run.table, "--metrics-port", str(run.ports["sink"]), "--sign-every", "1", *run.instance]
    options += ["--fetch-wait-ms", str(FETCH_WAIT_MS)] if run.broker.embedded else []
    return start_audit(run.children, run.broker.bootstrap, options)


def _start_workers(run: _Run, rules: Runs, policy: Path | None) -> dict[str, Child]:
    """Start the worker, and a second one for the rules in shadow if the first does not run them."""
    bootstrap, embedded = run.broker.bootstrap, run.broker.embedded
    options = [*run.instance, *([] if policy is None else ["--policy", str(policy.absolute())])]
    own = ["--rules", rules, "--metrics-port", str(run.ports["worker"]), *options]
    workers = {"worker": start_worker(run.children, bootstrap, *own, embedded=embedded)}
    if rules is Runs.ENFORCED:
        beside = ["--rules", Runs.SHADOW, *options]
        workers["shadow"] = start_worker(run.children, bootstrap, *beside, embedded=embedded, name="shadow")
    return workers


@dataclass(frozen=True)
class _Page:
    """The printed data of the console."""

    lines: dict[str, str]
    url: str = ""


def _start_console(run: _Run) -> _Page:
    """Start the console if it is installed. Its key for this run and its link's token are not in any file."""
    if find_spec("fastapi") is None:
        return _Page({"Console": "not installed: pip install 'haltline[console]'"})
    from haltline.console.access.keys import digest_of, new_key  # from the extra `console`
    from haltline.console.access.sign_in_link import LASTS_S, link_of, new_token  # like the above

    token, who = new_token(), run.settings.get("HALTLINE_OPERATOR", "admin")
    options = ["--audit-table", run.table, "--by", who, "--link-digest", digest_of(token)]
    options += ["--port", str(run.ports["console"])]
    key = None
    if "HALTLINE_CONSOLE_KEYS" not in run.settings:
        key = new_key()
        keys = run.folder / "keys.yaml"
        keys.write_text(f"- {{name: admin, role: admin, sha256: {digest_of(key)}}}\n", encoding="utf-8")
        options += ["--keys", str(keys)]
    if run.broker.embedded or "HALTLINE_CONSOLE_DATABASE" not in run.settings:
        options += ["--database", f"sqlite:///{run.folder / 'console.db'}"]
    arguments = ["console", "--bootstrap", run.broker.bootstrap, *options]
    child = run.children.start_module("console", "haltline.cli", arguments)

    def address() -> str:
        found = _SERVES.search(child.log_file.read_text(encoding="utf-8", errors="replace"))
        return found[0] if found else ""

    run.children.wait_until(address, "the console to serve", within_s=READY_WITHIN_S)
    lines = {
        "Console": address() + (f"   (key of admin for this run: {key})" if key else ""),
        "Sign in": f"{link_of(address(), token)}   (as {who}: once, within {LASTS_S // 60} minutes)",
    }
    return _Page(lines, address())


def _show(run: _Run, workers: dict[str, Child], urls: dict[str, str], page: _Page, file: Path) -> None:
    bootstrap = run.broker.bootstrap
    lines = {
        "Broker": f"{bootstrap}   (export HALTLINE_BOOTSTRAP={bootstrap}), {run.broker.kind}",
        "Topics": f"{run.broker.topics.prefix}*",
        **{
            name.capitalize(): f"{urls[name]}/metrics /healthz /readyz   (process {worker.pid})"
            for name, worker in workers.items()
        },
        "Sink": f"{urls['sink']}/metrics /healthz /readyz",
        "Audit": run.table,
        **page.lines,
        "Logs": str(run.folder / "logs"),
        "Settings": str(file),
    }
    for name, text in lines.items():
        _say_whole(f"{name:<8} {text}")
    if file != Path(settings_file.RUN_FILE).absolute():
        _say_whole(f"Other commands find it with: export {settings_file.VARIABLE}={file}")
    _say_whole("In another terminal, in this folder: haltline status, haltline doctor, haltline tail, or")
    _say_whole('haltline audit query "SELECT kind, count(*) AS records FROM audit GROUP BY kind"')
    _say_whole("Ctrl-C ends all of it.")


def _say_whole(line: str) -> None:
    """Print a line without wrapping, so that links stay intact."""
    console().print(Text(line), soft_wrap=True)


class RunFile(AbstractContextManager["RunFile", None]):
    """`up.toml` in the data folder. After the run it names only the audit table, the only part that remains."""

    def __init__(self, file: Path) -> None:
        self.file = file.absolute()
        self._table = ""

    def write(self, bootstrap: str, prefix: str, audit: Mapping[str, str], urls: Mapping[str, str]) -> None:
        """Write broker, table and addresses; `urls` are those of `worker`, `sink` and `console`, for `haltline doctor`.

        `audit` has the `table`, and the sinks' `group` if it is not the default.
        """
        self._table = audit["table"]
        looks = {name: urls[name] for name in ("worker", "sink", "console") if urls.get(name)}
        self._put({"kafka": {"bootstrap": bootstrap, "prefix": prefix}, "audit": audit, "doctor": looks})

    def __exit__(self, *_: object) -> None:
        if self._table:
            self._put({"audit": {"table": self._table}})

    def _put(self, sections: Mapping[str, Mapping[str, str]]) -> None:
        lines = ["# Written by `haltline up`; haltline.toml is above it."]
        for section, values in sections.items():
            lines += ["", f"[{section}]", *(f"{key} = {orjson.dumps(value).decode()}" for key, value in values.items())]
        self.file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_file(self.file, (f"{line}\n".encode() for line in lines))
