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
from benchmarks.chaos import anew, damage, guarded, verify
from benchmarks.chaos.expected import LogRecord, Place, document, work_out
from benchmarks.chaos.fleet import Fleet
from benchmarks.chaos.plan import (
    ACTIONS,
    AGENT,
    AUDIT,
    BROKER,
    CHANGELOG,
    CONSOLE,
    SHADOW,
    Deed,
    Step,
    Wave,
    make_plan,
    make_waves,
)
from benchmarks.chaos.read_model import check_read_model, reached, url_of
from benchmarks.chaos.traffic import Traffic
from benchmarks.cluster import Cluster, Group
from benchmarks.load import Load
from haltline.schemas.decisions import ScopeKind
from haltline.schemas.topics import Topics
from haltline.streams.audit.query import open_query
from haltline.streams.engine.groups import Runs
from haltline.streams.kafka.log_reader import LogReader
from haltline.streams.local.kafka import LocalKafka
from haltline.streams.local.kafka_jars import fetch, missing_tools
from haltline.streams.local.subprocesses import Children, interruptible
from haltline.streams.operator.client import Operator

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
_LATER_S = 2.0
_AFTER_DAMAGE_S = 10.0
"""By then its owner has seen that somebody else wrote, and has ended."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Returns the exit code: 0 when nothing differs, 1 when something does."""
    args = _options().parse_args(arguments)
    if missing := missing_tools():
        print(f"chaos: expected {' and '.join(missing)}; got no such command on PATH", file=sys.stderr)
        return 1
    seconds = _SHORT_S if args.short else args.seconds
    folder = Path(tempfile.mkdtemp(prefix="haltline-chaos-"))
    lasts = "until every deed was done once" if args.once else f"for {seconds:g} s"
    print(f"Seed {args.seed}, {args.workers} workers, {args.rate} events/s {lasts}. Logs: {folder}")
    checks: list[verify.Check] = []
    try:
        with (
            interruptible(),
            LocalKafka(folder / "kafka", jars=fetch()) as kafka,
            Children(folder / "logs") as children,
        ):
            run = Run(kafka, children, folder, seed=args.seed, seconds=seconds, workers=args.workers)
            checks = run.all(rate=args.rate, sessions=args.sessions, once=args.once)
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
        self.groups = {runs: runs.group(_GROUP) for runs in (Runs.ENFORCED, Runs.SHADOW)}
        self.changelogs = {runs: f"{group}-sessions-changelog" for runs, group in self.groups.items()}
        self.seed = seed
        self.seconds = seconds
        self.session_timeout_s = 4.0
        self.workers = tuple(f"worker-{number + 1}" for number in range(workers))
        self.fleet = Fleet(children, processes.WORKER, random.Random(seed))
        self.gone = anew.Gone(self.topics.actions)
        self.damage = damage.Damage(kafka.bootstrap, self.topics, self.changelogs[Runs.ENFORCED])
        self._codes: dict[str, int] = {}
        self._calm = False  # nobody is struck
        self._due: list[tuple[float, int, Callable[[], None]]] = []
        self._order = itertools.count()  # between those that are due at once
        self._broker_at_work: Future[None] | None = None
        self._pool = ThreadPoolExecutor(1)

    def all(self, *, rate: int, sessions: int, once: bool) -> list[verify.Check]:
        """The whole run; returns what was compared."""
        self.cluster.make_topics(self.topics, *self.changelogs.values())
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
            traffic.go_on()
            traffic.stop()
            self._pool.shutdown()  # waits for the broker
            self.fleet.thaw_all()
        self.end(*self.workers, SHADOW)
        self.wait_for_readers()
        self.end(AUDIT, CONSOLE)
        codes = self._codes
        return [
            verify.check_lag(committed, end),
            verify.check_ready(len(codes), not_ready),
            verify.check_ends(codes),
            *self.compare(traffic),
        ]

    def start_all(self) -> None:
        base = ["worker", "--bootstrap", self.kafka.bootstrap, "--prefix", self.topics.prefix, "--group", _GROUP]
        base += ["--policy", str(document(self.table.parent)), "--session-timeout", f"{self.session_timeout_s:g}"]
        for number, name in enumerate(self.workers):
            static = ["--instance-id", name] if number % 2 == 0 else []
            self.fleet.add(name, [*base, "--rules", Runs.ENFORCED, *static])
        self.fleet.add(SHADOW, [*base, "--rules", Runs.SHADOW, "--instance-id", SHADOW])  # as the manifests start it
        self.start_readers()
        self.wait_for(lambda: not self.fleet.not_ready(), "everybody ready")
        # Stands before the agent begins, and has to stand in the end.
        operator = Operator(self.kafka.bootstrap, topics=self.topics, group=_GROUP, answer_within_s=_SETTLE_WITHIN_S)
        if not operator.kill(ScopeKind.SESSION, guarded.SESSION, by="chaos", reason="before everything").answered:
            raise RuntimeError(
                f"kill of {guarded.SESSION}: expected it to stand within {_SETTLE_WITHIN_S:g} s, got none"
            )
        self.start_agent()

    def start_agent(self) -> None:
        self.fleet.add_module(
            AGENT,
            "benchmarks.chaos.guarded",
            [self.kafka.bootstrap, self.topics.prefix],
            is_ready=lambda child: guarded.is_refused(child.log_file),
        )

    @property
    def sink(self) -> str:
        """What the audit is called, which has to be another one for each life of a topic."""
        return f"audit-{self.gone.rows}"

    @property
    def database(self) -> Path:
        """The console's, which is recreated when a topic is."""
        return self.table.with_name(f"console-{self.gone.rows}.db")

    def start_readers(self) -> None:
        audit = ["audit", "--bootstrap", self.kafka.bootstrap, "--prefix", self.topics.prefix, "--sink", self.sink]
        self.fleet.add(AUDIT, [*audit, "--table", str(self.table), "--flush", "1"])
        console = ["console", "--bootstrap", self.kafka.bootstrap, "--prefix", self.topics.prefix, "--group", _GROUP]
        self.fleet.add(CONSOLE, [*console, "--database", url_of(self.database)], port_option="--port")

    def end(self, *names: str) -> None:
        """Ends processes in order; with which status is compared afterwards."""
        for name in names:
            code = self.fleet.end(name)
            self._codes[name] = self._codes.get(name, 0) or code

    def conduct(self, traffic: Traffic, plan: Sequence[Step]) -> None:
        """Follow the plan while the load runs, and go on until both have ended."""
        self.fleet.began = time.monotonic()
        for step in plan:
            self.at(self.fleet.began + step.at_s, lambda step=step: self.do(step, traffic))  # type: ignore[misc]  # binds it
        traffic.start()
        while traffic.running or self._due or self.broker_is_down():
            self.go_on()
            time.sleep(_TICK_S)
        self.finish(traffic)

    def finish(self, traffic: Traffic) -> None:
        """Waits for the last of the load, and says how much it was."""
        traffic.finish()
        self.damage.act()
        print(
            f"Load has ended: {traffic.events_by_session.total():,} events in {traffic.produced:,} records, "
            f"with {traffic.bad:,} bad ones and {traffic.commands:,} commands."
        )

    def conduct_waves(self, traffic: Traffic, waves: Sequence[Wave]) -> None:
        """Each wave once the one before is over: everybody is back, and has got on since."""
        self.fleet.began = time.monotonic()
        traffic.start()
        for wave in (*waves, ()):
            self.wait_for(lambda: not self.broker_is_down() and not self.fleet.not_ready(), "everybody is ready")
            self.wait_for_commits(_BETWEEN_RECORDS)
            for target, deed in wave:
                self.do(Step(at_s=0.0, target=target, deed=deed), traffic)
        traffic.stop()
        self.finish(traffic)

    def wait_for_commits(self, records: int) -> None:
        """Until so many more than there are now are committed, of the topics as they are now."""
        for watched in self.watched():
            beyond = watched.end() + records
            self.wait_for(lambda seen=watched, end=beyond: seen.committed() >= end, f"{beyond} records committed")  # type: ignore[misc]  # binds them
            watched.close()

    def watched(self) -> list[Group]:
        """Both groups of workers, from outside."""
        return [Group(self.kafka.bootstrap, group, self.topics.session_sources) for group in self.groups.values()]

    def wait_for(self, condition: Callable[[], bool], what: str) -> None:
        """Goes on with what is due meanwhile. Raises RuntimeError when it takes too long."""
        deadline = time.monotonic() + _SETTLE_WITHIN_S
        while not condition():
            self.go_on()
            if time.monotonic() > deadline:
                raise RuntimeError(f"expected {what} within {_SETTLE_WITHIN_S:g} s, it did not happen")
            time.sleep(_LOOK_EVERY_S)

    def go_on(self) -> None:
        """Starts again who has ended, and does what is due."""
        self.fleet.supervise()
        while self._due and self._due[0][0] <= time.monotonic():
            heapq.heappop(self._due)[2]()

    def at(self, when: float, act: Callable[[], None]) -> None:
        heapq.heappush(self._due, (when, next(self._order), act))

    def do(self, step: Step, traffic: Traffic) -> None:
        if self._calm or (step.target in {ACTIONS, CHANGELOG} and self.broker_is_down()):
            self.at(time.monotonic() + _LATER_S, lambda: self.do(step, traffic))
        elif step.target == ACTIONS:
            self.make_anew(traffic)
        elif step.target == CHANGELOG:
            self.damage.strike()
            self.fleet.note(CHANGELOG, step.deed)
            self.at(time.monotonic() + _AFTER_DAMAGE_S, self.have_damage_read)
        elif step.target == BROKER:
            self.restart_broker(step.deed)
        elif step.deed is Deed.FREEZE:
            thaw_at = self.fleet.freeze(step.target, self.session_timeout_s + 3.0)
            if thaw_at is not None:
                self.at(thaw_at, lambda: self.fleet.thaw(step.target))
        else:
            self.fleet.strike(step.target, signal.SIGKILL if step.deed is Deed.KILL else signal.SIGTERM)

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

    def have_damage_read(self) -> None:
        if self._calm or self.broker_is_down():
            self.at(time.monotonic() + _LATER_S, self.have_damage_read)
        else:
            self.damage.act()

    def make_anew(self, traffic: Traffic) -> None:
        """With nobody who sends, and after everybody has read what is there: it is gone then."""
        self._calm = True
        traffic.pause()
        self.wait_for(lambda: not self.broker_is_down() and not self.fleet.not_ready(), "everybody is ready")
        self.end(AGENT)
        for watched in self.watched():
            self.wait_for(lambda seen=watched: seen.committed() == seen.end(), "everything is committed")  # type: ignore[misc]  # binds it
            watched.close()
        self.wait_for_readers()
        self.end(AUDIT, CONSOLE)
        topic = self.topics.actions
        self.gone.keep(self.read([topic]), self.read([self.topics.dead_letter]))
        self.fleet.note(ACTIONS, f"has {anew.ADDED} partitions more")
        anew.add_partitions(self.kafka.bootstrap, topic)
        self.wait_for(lambda: {*self.workers, SHADOW} <= set(self.fleet.not_ready()), "every worker is not ready")
        self.fleet.note(ACTIONS, "is deleted and recreated")
        anew.delete(self.kafka.bootstrap, topic)
        self.wait_for(lambda: not anew.is_there(self.kafka.bootstrap, topic), "the topic is gone")
        self.cluster.make_topics(self.topics, *self.changelogs.values())
        self.start_readers()
        self.start_agent()
        self.wait_for(lambda: not self.fleet.not_ready(), "everybody has begun anew")
        traffic.go_on()
        self._calm = False

    def broker_is_down(self) -> bool:
        """Whether it is being restarted. Raises LocalKafkaError when that failed."""
        if self._broker_at_work is None or not self._broker_at_work.done():
            return self._broker_at_work is not None
        self._broker_at_work.result()
        self._broker_at_work = None
        return False

    def settle(self) -> tuple[int, int, list[str]]:
        """Wait until everyone is back, end the agent, and wait until everything is committed.

        The agent publishes several times a second for as long as it runs, so until it has ended there is no moment at
        which both groups have committed everything. Returns what is committed, in all, and who is not ready.
        """
        groups = self.watched()
        deadline = time.monotonic() + _SETTLE_WITHIN_S
        while (not_ready := self.fleet.not_ready()) and time.monotonic() <= deadline:
            self.fleet.supervise()
            time.sleep(_LOOK_EVERY_S)
        self.end(AGENT)
        while True:
            self.fleet.supervise()
            committed, end = sum(group.committed() for group in groups), sum(group.end() for group in groups)
            late = not_ready or self.fleet.not_ready()
            if (committed == end and not late) or time.monotonic() > deadline:
                for group in groups:
                    group.close()
                self.fleet.note("all", f"committed {committed:,} of {end:,}")
                return committed, end, late
            time.sleep(_LOOK_EVERY_S)

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
            sql = f"SELECT count(*) AS \"rows\" FROM audit WHERE sink = '{self.sink}'"
            rows = open_query(self.table).rows(sql)[0]["rows"]
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

        gone = [record for record in self.gone.records if guarded.is_of_others(record, topics.signals)]
        actions, commands = of_others(topics.actions), of_others(topics.commands)
        truth = work_out(actions, commands, of(topics.signals), topics, gone=gone)
        # What follows from the signals of sessions that are looked at apart is told of them, too.
        truth.signals = {i: signal for i, signal in truth.signals.items() if signal["session_id"] not in guarded.APART}
        kept = {runs: verify.last_states(self.read([changelog])) for runs, changelog in self.changelogs.items()}
        truths = {runs: work_out(actions, commands, of(topics.signals), topics, gone=gone, runs=runs) for runs in kept}
        for runs, states in kept.items():
            for session in guarded.APART:
                states.pop(session, None)
            truths[runs].states, kept[runs] = anew.same_offsets(truths[runs].states, states)
        sources = log | {(record.topic, record.partition, record.offset): record for record in gone}
        of_states = [letter for letter in of(topics.dead_letter) if damage.is_of_state(letter)]
        letters = [letter for letter in of(topics.dead_letter) if letter not in of_states]
        raw = {place: record.value for place, record in log.items()}
        return [
            *(verify.check_counts(traffic.events_by_session, states) for states in kept.values()),
            *(verify.check_states(truths[r], kept[r], f"every state is the pure core's ({r})") for r in kept),
            verify.check_decisions(truth, of_others(topics.interventions)),
            verify.check_detections(truth, of_others(topics.detections)),
            verify.check_signals(truth, of_others(topics.signals)),
            verify.check_control(truth, of_others(topics.control)),
            verify.check_dead_letters(truth, sources, letters, name_of=self.gone.name_of),
            self.damage.check(of_states),
            verify.check_audit(self.audit_rows(self.sink), raw),
            verify.check_audit(*self.audit_of_gone(), "the audit table holds each record of the deleted topic once"),
            check_read_model(self.database, self.kafka.bootstrap, topics),
            guarded.check_refusals((self.table.parent / "logs").glob(f"{AGENT}.*.log")),
        ]

    def audit_rows(self, sink: str, topic: str = "%") -> Iterator[tuple[Place, bytes | None]]:
        columns = '"topic", "partition", "offset", "raw"'
        for row in open_query(self.table).iter_rows(
            f"SELECT {columns} FROM audit WHERE sink = '{sink}' AND topic LIKE '{topic}'"
        ):
            yield (row["topic"], row["partition"], row["offset"]), row["raw"]

    def audit_of_gone(self) -> tuple[Iterator[tuple[Place, bytes | None]], dict[Place, bytes | None]]:
        """Rows and records of the topic that was deleted; none where none was."""
        topic = self.gone.topic
        rows = self.audit_rows(f"audit-{self.gone.rows - 1}", topic)
        return rows, {(topic, record.partition, record.offset): record.value for record in self.gone.records}

    def read(self, topics: Sequence[str]) -> Iterator[LogRecord]:
        """Every record of topics, those of a partition in their order."""
        with LogReader(self.kafka.bootstrap, topics) as reader:
            for message in reader.to_end(within_s=_SETTLE_WITHIN_S):
                yield _record(message)


def _record(message: Message) -> LogRecord:
    topic, partition, offset = message.topic(), message.partition(), message.offset()
    if topic is None or partition is None or offset is None:
        raise RuntimeError(f"expected a record with its place, got {message!r}")
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
