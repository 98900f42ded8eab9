"""`python -m benchmarks.chaos`: kill, freeze and restart everything under load, then count.

Exit 0 only if nothing differs from what the pure core says about the same events.
"""

import argparse
import heapq
import itertools
import random
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import cast

from confluent_kafka import Message

from benchmarks import processes
from benchmarks.chaos import guarded, verify
from benchmarks.chaos.expected import LogRecord, Place, document, work_out
from benchmarks.chaos.fleet import Fleet
from benchmarks.chaos.plan import AGENT, AUDIT, BROKER, CONSOLE, Deed, Step, Wave, make_plan, make_waves
from benchmarks.chaos.read_model import check_read_model, reached, url_of
from benchmarks.chaos.traffic import Traffic
from benchmarks.cluster import Cluster, Group
from benchmarks.load import Load
from haltline.schemas.decisions import ScopeKind
from haltline.schemas.topics import Topics
from haltline.streams.audit.query import open_query
from haltline.streams.children import Children, interruptible
from haltline.streams.kafka_jars import fetch, missing_tools
from haltline.streams.local_kafka import LocalKafka
from haltline.streams.log_reader import LogReader
from haltline.streams.operator import Operator

_SHORT_S = 60.0
_SETTLE_WITHIN_S = 180.0
_TICK_S = 0.05
_LOOK_EVERY_S = 0.25
"""To ask everybody whether they are ready is work for all of them."""
_GROUP = "chaos"
_SHOWN = 10
_BETWEEN_RECORDS = 100
"""Between two waves, so that nobody is struck who has done nothing yet."""
_AT_MOST_S = 900.0


def main(arguments: Sequence[str] | None = None) -> int:
    """Returns the exit code: 0 when nothing differs, 1 when something does."""
    asked = _options().parse_args(arguments)
    if missing := missing_tools():
        print(f"chaos: wanted {' and '.join(missing)}; came no such command on PATH", file=sys.stderr)
        return 1
    seconds = _SHORT_S if asked.short else asked.seconds
    folder = Path(tempfile.mkdtemp(prefix="haltline-chaos-"))
    lasts = "until every deed was done once" if asked.once else f"for {seconds:g} s"
    print(f"Seed {asked.seed}, {asked.workers} workers, {asked.rate} events/s {lasts}. Logs: {folder}")
    checks: list[verify.Check] = []
    try:
        with (
            interruptible(),
            LocalKafka(folder / "kafka", jars=fetch()) as kafka,
            Children(folder / "logs") as children,
        ):
            run = Run(kafka, children, folder, seed=asked.seed, seconds=seconds, workers=asked.workers)
            checks = run.all(rate=asked.rate, sessions=asked.sessions, once=asked.once)
    finally:
        if checks and all(check.ok for check in checks):
            shutil.rmtree(folder, ignore_errors=True)
        else:
            print(f"Kept for a closer look: {folder}")
    return _verdict(checks)


class Run:
    """One run on one broker."""

    def __init__(
        self, kafka: LocalKafka, children: Children, folder: Path, *, seed: int, seconds: float, workers: int
    ) -> None:
        self.kafka = kafka
        self.cluster = Cluster(kafka)
        self.topics = Topics("chaos.")
        self.table = folder / "audit"
        self.database = folder / "console.db"
        self.changelog = f"{_GROUP}-sessions-changelog"
        self.seed = seed
        self.seconds = seconds
        self.session_timeout_s = 4.0
        self.workers = tuple(f"worker-{number + 1}" for number in range(workers))
        self.fleet = Fleet(children, processes.WORKER, random.Random(seed))
        self._due: list[tuple[float, int, Callable[[], None]]] = []
        self._order = itertools.count()  # between those that are due at once
        self._broker_at_work: Future[None] | None = None
        self._pool = ThreadPoolExecutor(1)

    def all(self, *, rate: int, sessions: int, once: bool) -> list[verify.Check]:
        """The whole run; returns what was compared."""
        self.cluster.make_topics(self.topics, self.changelog)
        self.start_all()
        load = Load(
            events=int(rate * (_AT_MOST_S if once else self.seconds)),
            sessions=sessions,
            start_ms=time.time_ns() // 1_000_000 - 24 * 3_600_000,
            seed=self.seed,
            destructive_share=0.03,
            runaway_share=0.3,
            await_verdicts=True,
        )
        traffic = Traffic(self.kafka.bootstrap, self.topics, load, rate)
        try:
            if once:
                self.conduct_waves(traffic, make_waves(self.workers))
            else:
                self.conduct(traffic, make_plan(self.seed, self.seconds, self.workers))
            committed, end, not_ready = self.settle()
        finally:
            traffic.stop()
            self._pool.shutdown()  # waits for the broker
            self.fleet.thaw_all()
        codes = {name: self.fleet.end(name) for name in self.workers}
        codes[AGENT] = self.fleet.end(AGENT)
        self.wait_for_readers()
        codes |= {name: self.fleet.end(name) for name in (AUDIT, CONSOLE)}
        return [
            verify.check_lag(committed, end),
            verify.check_ready(len(codes), not_ready),
            verify.check_ends(codes),
            *self.compare(traffic),
        ]

    def start_all(self) -> None:
        base = ["worker", "--bootstrap", self.kafka.bootstrap, "--prefix", self.topics.prefix, "--group", _GROUP]
        base += ["--policy", str(document(self.table.parent))]
        for number, name in enumerate(self.workers):
            static = ["--instance-id", name] if number % 2 == 0 else []
            self.fleet.add(name, [*base, "--session-timeout", f"{self.session_timeout_s:g}", *static])
        audit = ["audit", "--bootstrap", self.kafka.bootstrap, "--prefix", self.topics.prefix]
        self.fleet.add(AUDIT, [*audit, "--table", str(self.table), "--flush", "1"])
        console = ["console", "--bootstrap", self.kafka.bootstrap, "--prefix", self.topics.prefix, "--group", _GROUP]
        self.fleet.add(CONSOLE, [*console, "--database", url_of(self.database)], port_option="--port")
        self.wait_for(lambda: not self.fleet.not_ready(), "everybody ready")
        # Stands before the agent begins, and has to stand in the end.
        operator = Operator(self.kafka.bootstrap, topics=self.topics, group=_GROUP, answer_within_s=_SETTLE_WITHIN_S)
        if not operator.kill(ScopeKind.SESSION, guarded.SESSION, by="chaos", reason="before everything").answered:
            raise RuntimeError(
                f"kill of {guarded.SESSION}: wanted it to stand within {_SETTLE_WITHIN_S:g} s, came none"
            )
        self.fleet.add_module(
            AGENT,
            "benchmarks.chaos.guarded",
            [self.kafka.bootstrap, self.topics.prefix],
            is_ready=lambda child: guarded.is_refused(child.log_file),
        )

    def conduct(self, traffic: Traffic, plan: Sequence[Step]) -> None:
        """Follow the plan while the load runs, and go on until both have ended."""
        self.fleet.began = time.monotonic()
        for step in plan:
            self.at(self.fleet.began + step.at_s, lambda step=step: self.do(step))  # type: ignore[misc]  # binds step
        traffic.start()
        while traffic.running or self._due or self.broker_is_down():
            self.go_on()
            time.sleep(_TICK_S)
        self.finish(traffic)

    def finish(self, traffic: Traffic) -> None:
        """Waits for the last of the load, and says how much it was."""
        traffic.finish()
        print(
            f"Load has ended: {traffic.events_by_session.total():,} events in {traffic.produced:,} records, "
            f"with {traffic.bad:,} bad ones and {traffic.commands:,} commands."
        )

    def conduct_waves(self, traffic: Traffic, waves: Sequence[Wave]) -> None:
        """Each wave once the one before is over: everybody is back, and has got on since."""
        self.fleet.began = time.monotonic()
        watched = Group(self.kafka.bootstrap, _GROUP, self.topics.session_sources)
        traffic.start()
        for wave in (*waves, ()):
            self.wait_for(lambda: not self.broker_is_down() and not self.fleet.not_ready(), "everybody is ready")
            beyond = watched.end() + _BETWEEN_RECORDS
            self.wait_for(lambda beyond=beyond: watched.committed() >= beyond, f"{beyond} records committed")  # type: ignore[misc]  # binds it
            for whom, deed in wave:
                self.do(Step(at_s=0.0, whom=whom, deed=deed))
        watched.close()
        traffic.stop()
        self.finish(traffic)

    def wait_for(self, condition: Callable[[], bool], what: str) -> None:
        """Goes on with what is due meanwhile. Raises RuntimeError when it takes too long."""
        deadline = time.monotonic() + _SETTLE_WITHIN_S
        while not condition():
            self.go_on()
            if time.monotonic() > deadline:
                raise RuntimeError(f"wanted {what} within {_SETTLE_WITHIN_S:g} s, it did not happen")
            time.sleep(_LOOK_EVERY_S)

    def go_on(self) -> None:
        """Starts again who has ended, and does what is due."""
        self.fleet.supervise()
        while self._due and self._due[0][0] <= time.monotonic():
            heapq.heappop(self._due)[2]()

    def at(self, when: float, act: Callable[[], None]) -> None:
        heapq.heappush(self._due, (when, next(self._order), act))

    def do(self, step: Step) -> None:
        if step.whom == BROKER:
            self.restart_broker(step.deed)
        elif step.deed is Deed.FREEZE:
            thaw_at = self.fleet.freeze(step.whom, self.session_timeout_s + 3.0)
            if thaw_at is not None:
                self.at(thaw_at, lambda: self.fleet.thaw(step.whom))
        else:
            self.fleet.strike(step.whom, signal.SIGKILL if step.deed is Deed.KILL else signal.SIGTERM)

    def restart_broker(self, deed: Deed) -> None:
        """In a thread: the others go on meanwhile, and so do we with them."""
        if self.broker_is_down():
            self.fleet.note(BROKER, f"{deed}: is at it already")
            return

        def restart() -> None:
            self.fleet.note(BROKER, deed)
            self.kafka.restart(hard=deed is Deed.CRASH)
            self.fleet.note(BROKER, "answers again")

        self._broker_at_work = self._pool.submit(restart)

    def broker_is_down(self) -> bool:
        """Whether it is being restarted. Raises LocalKafkaError when that failed."""
        if self._broker_at_work is None or not self._broker_at_work.done():
            return self._broker_at_work is not None
        self._broker_at_work.result()
        self._broker_at_work = None
        return False

    def settle(self) -> tuple[int, int, list[str]]:
        """Wait until everyone is back and everything is committed; committed, in all, not ready."""
        watched = Group(self.kafka.bootstrap, _GROUP, self.topics.session_sources)
        deadline = time.monotonic() + _SETTLE_WITHIN_S
        while True:
            self.fleet.supervise()
            committed, end, not_ready = watched.committed(), watched.end(), self.fleet.not_ready()
            if (committed == end and not not_ready) or time.monotonic() > deadline:
                watched.close()
                self.fleet.note("all", f"committed {committed:,} of {end:,}")
                return committed, end, not_ready
            time.sleep(0.2)

    def wait_for_readers(self) -> None:
        """Until table and read model have as much as there is; what is missing then is found by comparing."""
        ends: dict[tuple[str, int], int] = {}
        records = 0
        for record in self.read(self.topics.all):
            records += 1
            ends[record.topic, record.partition] = record.offset + 1
        deadline = time.monotonic() + _SETTLE_WITHIN_S
        while time.monotonic() < deadline:
            self.fleet.supervise()
            rows = open_query(self.table).rows('SELECT count(*) AS "rows" FROM audit')[0]["rows"]
            if rows >= records and reached(self.database, self.topics) == ends:
                return
            time.sleep(0.5)

    def compare(self, traffic: Traffic) -> list[verify.Check]:
        """Read everything back and compare it."""
        topics = self.topics
        log = {(r.topic, r.partition, r.offset): r for r in self.read(topics.all)}

        def of(topic: str) -> list[LogRecord]:
            return [record for place, record in log.items() if place[0] == topic]

        def of_others(topic: str) -> list[LogRecord]:
            return [record for record in of(topic) if guarded.is_of_others(record, topics.signals)]

        truth = work_out(of_others(topics.actions), of_others(topics.commands), of(topics.signals), topics)
        # What follows from the signals of the agent's session is told of it, too.
        truth.signals = {i: signal for i, signal in truth.signals.items() if signal["session_id"] != guarded.SESSION}
        states = verify.last_states(self.read([self.changelog]))
        states.pop(guarded.SESSION)
        return [
            verify.check_counts(traffic.events_by_session, states),
            verify.check_states(truth, states),
            verify.check_decisions(truth, of_others(topics.interventions)),
            verify.check_detections(truth, of_others(topics.detections)),
            verify.check_signals(truth, of_others(topics.signals)),
            verify.check_control(truth, of_others(topics.control)),
            verify.check_dead_letters(truth, log, of(topics.dead_letter)),
            verify.check_audit(self.audit_rows(), {place: record.value for place, record in log.items()}),
            check_read_model(self.database, self.kafka.bootstrap, topics),
            guarded.check_refusals((self.table.parent / "logs").glob(f"{AGENT}.*.log")),
        ]

    def audit_rows(self) -> Iterator[tuple[Place, bytes | None]]:
        for row in open_query(self.table).iter_rows('SELECT "topic", "partition", "offset", "raw" FROM audit'):
            yield (row["topic"], row["partition"], row["offset"]), row["raw"]

    def read(self, topics: Sequence[str]) -> Iterator[LogRecord]:
        """Every record of topics, those of a partition in their order."""
        with LogReader(self.kafka.bootstrap, topics) as reader:
            for message in reader.to_end(within_s=_SETTLE_WITHIN_S):
                yield _record(message)


def _record(message: Message) -> LogRecord:
    topic, partition, offset = message.topic(), message.partition(), message.offset()
    if topic is None or partition is None or offset is None:
        raise RuntimeError(f"wanted a record with its place, came {message!r}")
    headers = cast("list[tuple[str, bytes | None]]", message.headers() or [])
    return LogRecord(
        topic, partition, offset, message.timestamp()[1], _bytes(message.key()), _bytes(message.value()), headers
    )


def _bytes(value: str | bytes | None) -> bytes | None:
    return value.encode() if isinstance(value, str) else value


def _verdict(checks: Sequence[verify.Check]) -> int:
    print()
    for check in checks:
        print(f"{'ok   ' if check.ok else 'WRONG'}  {check.name}: {check.found}")
        for difference in check.differences[:_SHOWN]:
            print(f"         {difference}")
        if len(check.differences) > _SHOWN:
            print(f"         and {len(check.differences) - _SHOWN:,} more")
    wrong = [check for check in checks if not check.ok]
    if wrong or not checks:
        print(f"\nVERDICT: WRONG: {len(wrong)} of {len(checks)} checks differ.")
        return 1
    print("\nVERDICT: nothing lost, nothing counted twice.")
    return 0


def _options() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.chaos",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="example: python -m benchmarks.chaos --seconds 600 --seed 7",
    )
    parser.add_argument("--short", action="store_true", help=f"{_SHORT_S:g} s of load, every deed once")
    parser.add_argument("--once", action="store_true", help="every deed once, each as soon as everybody is back")
    parser.add_argument("--seconds", type=float, default=300.0, help="how long the load runs (%(default)s)")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10_000), help="(by chance)")
    parser.add_argument("--workers", type=int, default=3)
    parser.add_argument("--rate", type=int, default=300, help="events per second (%(default)s)")
    parser.add_argument("--sessions", type=int, default=200)
    return parser


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
