"""`make fleet`: fifty agents of several kinds on a real worker, with the result of each compared with the expected one.

`python -m benchmarks.fleet [--sessions 50] [--seconds 120] [--seed 1] [--kafka | --bootstrap HOST:PORT] [--json FILE]`

Without an address it starts a broker (embedded, or a real Kafka with --kafka), a worker with the default policy, and a
notifier whose webhook is on this machine.
With one, it uses a running system: workers, and a notifier if there is one. Exit 1 if a session did not have
the results that its kind expects.
"""

import argparse
import json
import secrets
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from confluent_kafka.admin import AdminClient
from rich.console import Console
from rich.table import Table

from benchmarks.fleet.acting import Acted, Agent
from benchmarks.fleet.notified import notifier
from benchmarks.fleet.outcome import Led, differences, led_to
from benchmarks.fleet.people import People
from benchmarks.fleet.plan import Kind, Planned, plan
from benchmarks.reporting.table import percentile
from haltline.schemas.decisions import ScopeKind
from haltline.schemas.topics import Topics
from haltline.streams.kafka.topics import create_topics
from haltline.streams.local.embedded_broker import EmbeddedBroker
from haltline.streams.local.kafka import DEFAULT_PARTITIONS, LocalKafka
from haltline.streams.local.subprocesses import Children, interruptible
from haltline.streams.local.system import start_worker, wait_until_ready
from haltline.streams.operator.approval_client import ApprovalClient

_CATCHES_UP_WITHIN_S = 60.0
_PARTIES_OVER_S = 90.0
_SCOPES = tuple(f"{scope}:" for scope in ScopeKind if scope is not ScopeKind.SESSION)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command. Return the exit code."""
    options = _parser().parse_args(arguments)
    run = secrets.token_hex(3)
    try:
        planned = plan(options.sessions, options.seconds, options.seed, run)
    except ValueError as error:
        _parser().error(str(error))
    with interruptible(), _system(options) as bootstrap:
        acted, people = _take_part(planned, bootstrap, options)
        _catch_up(bootstrap, options.prefix)
        led = (led_to if options.bootstrap else _notified)(bootstrap, Topics(options.prefix))
    of_several = [one for key, one in led.items() if key.startswith(_SCOPES)]
    rows = [_row(one, led.get(one.planned.session_id, Led()), notifies=not options.bootstrap) for one in acted]
    wrong = sum(bool(row["differences"]) for row in rows)
    _print(rows, of_several, people.problems, options)
    if options.json is not None:
        options.json.write_text(json.dumps({"sessions": rows, "seed": options.seed}, indent=1), encoding="utf-8")
    return 1 if wrong else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.fleet", description=__doc__.partition("\n")[0])
    parser.add_argument("--sessions", type=int, default=50, help="how many agents, at least one of each kind")
    parser.add_argument("--seconds", type=float, default=120.0, help="total duration")
    parser.add_argument("--seed", type=int, default=1, help="the same seed, the same agents")
    parser.add_argument("--kafka", action="store_true", help="start a real Kafka (Java) instead of the embedded broker")
    parser.add_argument("--bootstrap", help="use a running system there")
    parser.add_argument("--prefix", default=Topics().prefix, help="prefix of its topics' names")
    parser.add_argument("--json", type=Path, help="write the figures of each session to this file too")
    return parser


@contextmanager
def _system(options: argparse.Namespace) -> Iterator[str]:
    """Start a broker and a ready worker, or use a running system; yield the broker's address."""
    if options.bootstrap:
        yield options.bootstrap
        return
    topics = Topics(options.prefix)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="haltline-fleet-")))
        if options.kafka:
            node = stack.enter_context(LocalKafka(folder / "kafka"))
            create_topics(AdminClient({"bootstrap.servers": node.bootstrap}), topics, DEFAULT_PARTITIONS, 1)
            bootstrap = node.bootstrap
        else:
            broker = stack.enter_context(EmbeddedBroker())
            broker.ensure_topics(topics)
            bootstrap = broker.bootstrap
        children = stack.enter_context(Children(folder / "logs"))
        worker = start_worker(children, bootstrap, "--prefix", options.prefix, embedded=not options.kafka)
        wait_until_ready(children, worker)
        with notifier(children, bootstrap, options.prefix, folder / "notify", embedded=not options.kafka):
            yield bootstrap


def _take_part(planned: Sequence[Planned], bootstrap: str, options: argparse.Namespace) -> tuple[list[Acted], People]:
    """Run every agent in its own thread and the operators in another, until all have ended."""
    embedded = not options.kafka and options.bootstrap is None
    began = time.monotonic()
    inbox = ApprovalClient(bootstrap, topics=Topics(options.prefix), answer_within_s=20.0)
    people = People(inbox, planned, began)
    agents = [Agent(one, bootstrap, options.prefix, embedded=embedded) for one in planned]
    threads = [threading.Thread(target=_start_later, args=(agent, began), daemon=True) for agent in agents]
    beside = threading.Thread(target=people.run, daemon=True)
    for thread in (beside, *threads):
        thread.start()
    for thread in threads:
        thread.join(options.seconds + _PARTIES_OVER_S)
    people.end()
    beside.join(_PARTIES_OVER_S)
    acted = [agent.acted for agent in agents]
    for one, thread in zip(acted, threads, strict=True):
        if thread.is_alive():
            one.problem = "it did not end"
        if (commanded := people.killed_at.get(one.planned.session_id)) is not None:
            one.wrong_since = commanded
    return acted, people


def _start_later(agent: Agent, began: float) -> None:
    time.sleep(max(0.0, began + agent.acted.planned.start_s - time.monotonic()))
    agent.run()


def _catch_up(bootstrap: str, prefix: str) -> None:
    """Wait until the workers have committed all records. Their decisions are written before the commit."""
    inbox = ApprovalClient(bootstrap, topics=Topics(prefix))
    deadline = time.monotonic() + _CATCHES_UP_WITHIN_S
    while any(partition.lag_records for partition in inbox.lag()) and time.monotonic() < deadline:
        time.sleep(0.2)


def _notified(bootstrap: str, topics: Topics) -> dict[str, Led]:
    """Return the results of each session once all expected notifications were sent, or at the timeout."""
    deadline = time.monotonic() + _CATCHES_UP_WITHIN_S
    while True:
        led = led_to(bootstrap, topics)
        if time.monotonic() > deadline or all(len(one.notifications) >= len(one.notifiable) for one in led.values()):
            return led
        time.sleep(0.2)


def _row(acted: Acted, led: Led, *, notifies: bool) -> dict[str, Any]:
    expected, sent = len(led.notifiable), len(led.notifications)
    unsent = [f"expected {expected} notifications, got {sent}"] if notifies and sent != expected else []
    took = acted.seconds_to_stop
    return {
        "session": acted.planned.session_id,
        "agent": acted.planned.agent_id,
        "kind": acted.planned.kind.value,
        "executed": acted.executed,
        "refused": len(acted.refused),
        "hints": led.hints,
        "hints_heard": acted.hints,
        "findings": led.findings,
        "stops": led.stops,
        "incidents": len(led.incidents),
        "approvals": len(led.approvals),
        "notifications": len(led.notifications),
        "seconds_to_stop": None if took is None else round(took, 3),
        "first_refusal": acted.refused[0] if acted.refused else None,
        "differences": [*differences(acted, led), *unsent],
    }


def _print(
    rows: Sequence[dict[str, Any]], of_several: Sequence[Led], problems: Sequence[str], options: argparse.Namespace
) -> None:
    console = Console() if sys.stdout.isatty() else Console(width=180)
    columns = ("session", "executed", "refused", "hints", "findings", "incidents", "approvals", "notifications")
    table = Table(*columns, "stopped after", "first refusal", "as expected")
    for row in sorted(rows, key=lambda row: (list(Kind).index(Kind(row["kind"])), row["session"])):
        took = row["seconds_to_stop"]
        text = "; ".join(row["differences"]) or "yes"
        cells = (*(str(row[name]) for name in columns), "-" if took is None else f"{took:.2f} s")
        table.add_row(*cells, row["first_refusal"] or "-", text, style="red" if row["differences"] else "")
    console.print(table)
    for kind in Kind:
        of = [row for row in rows if row["kind"] == kind]
        times = sorted(row["seconds_to_stop"] for row in of if row["seconds_to_stop"] is not None)
        totals = ", ".join(
            f"{name} {sum(row[name] for row in of)}" for name in ("findings", "incidents", "approvals", "notifications")
        )
        shown = "-" if not times else f"p50 {percentile(times, 50):.2f} s, p99 {percentile(times, 99):.2f} s"
        console.print(f"{kind.value:9} {len(of):3} sessions: {totals}; stopped {len(times)}, {shown}")
    incidents, sent = (sum(len(getattr(led, what)) for led in of_several) for what in ("incidents", "notifications"))
    console.print(
        f"across sessions (agents, targets, missions, the fleet): incidents {incidents}, notifications {sent}"
    )
    for problem in dict.fromkeys(problems):
        console.print(f"people: {problem}", style="yellow")
    wrong = sum(bool(row["differences"]) for row in rows)
    verdict = "all as expected" if not wrong else f"{wrong} NOT as expected"
    console.print(f"{len(rows)} sessions, seed {options.seed}: {verdict}", style="red" if wrong else "green")


if __name__ == "__main__":
    sys.exit(main())
