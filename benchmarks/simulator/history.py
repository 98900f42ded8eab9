"""One history: processes run under a plan of faults, then without; the results are compared with the expected ones."""

import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final, cast

from confluent_kafka import KafkaException
from sqlalchemy import Connection, Engine
from sqlalchemy.exc import OperationalError

from benchmarks.chaos.recreated import Gone
from benchmarks.simulator import checks
from benchmarks.simulator.broker import Broker
from benchmarks.simulator.fleet import (
    CHANGELOG,
    GROUP,
    Traffic,
    open_read_model,
    sink_of,
    start_console,
    start_sink,
    start_worker,
)
from benchmarks.simulator.group import group_of, with_changelog
from benchmarks.simulator.log import Log
from benchmarks.simulator.memory_table import MemoryAuditTable
from benchmarks.simulator.memory_table import Step as TableStep
from benchmarks.simulator.outcome import Outcome
from benchmarks.simulator.plan import CONSOLE, FAULTS_FOR_S, Deed, Step, plan_of
from benchmarks.simulator.process import Process, described
from benchmarks.simulator.workload import PARTITIONS, TOPICS, traffic
from benchmarks.simulator.world import Stuck, World
from haltline.schemas.topics import LAYOUT, Cleanup
from haltline.streams.audit.table import TableConflict
from haltline.streams.kafka.failure import KnownFailure

_HEAL_WITHIN_S: Final = 60.0
_STEPS: Final = 60_000
_CHECK_EVERY: Final = 10
_LATEST_S: Final = 1.0
"""Records in flight have been appended this many seconds after all faults are removed."""
_SETTLED_S: Final = 2.5
"""No process has started or ended for this many seconds, so that each handles SIGTERM."""
_RESTARTS: Final = 25
"""The maximum number of processes that end after all faults are removed."""
_PASSES: Final = {"changelog": 6, "entry": 2, "claim": 2, "database": 6}
"""Points that occur several times in a row: the fault strikes at a random one of the first so many."""
MORE: Final = "worker-more"
_STORE_FAILS_SHARE: Final = 0.02
_OF_PARTITIONS: Final = {*TOPICS.session_sources, TOPICS.dead_letter, TOPICS.interventions}
"""Topics with as many partitions as the sources. The others have one, because each partition's end is queried."""
_KNOWN: Final = (KnownFailure, KafkaException, TableConflict, OSError, MemoryError)
"""Failures that may end a process."""
_RECREATES_SHARE: Final = 0.1
_EMBEDDED_SHARE: Final = 0.1


class History:
    """The state of a history while it runs."""

    def __init__(self, seed: int, plan: Sequence[Step] | None = None, *, tell: Callable[[str], object] | None = None):
        self.seed = seed
        self.world = world = World(seed, tell=tell)
        rng = random.Random(f"{seed} shape")
        self.broker = broker = Broker(world, embedded=rng.random() < _EMBEDDED_SHARE)
        for layout in LAYOUT:
            name = TOPICS.prefix + layout.name
            partitions = PARTITIONS if name in _OF_PARTITIONS else 1
            broker.create(name, partitions, compacted=layout.cleanup is Cleanup.COMPACT)
        broker.create(CHANGELOG, PARTITIONS, compacted=True)
        self.standbys = rng.choice([0, 0, 1])
        self.group = group_of(broker, GROUP)
        self.group.assignor = with_changelog(TOPICS.session_sources, CHANGELOG, self.standbys)
        self.instances: dict[str, str | None] = {
            f"worker-{n}": f"worker-{n}" if rng.random() < 0.5 else None for n in range(rng.choice([2, 2, 3]))
        }
        self.sinks = [f"sink-{n}" for n in range(rng.choice([1, 2]))]
        readers = [*self.sinks, CONSOLE]
        self.table = MemoryAuditTable(at_step=self.at_table_step)
        self.engine = open_read_model("console")
        self.running: dict[str, Process] = {}
        self.all: list[Process] = []
        self.ends: list[str] = []
        self.unexpected: list[str] = []
        self.ending = False
        self.check_again_at = self.changed_at = 0.0
        self.restarts = 0
        self.healing = False
        # Without topic ids only offsets show that a topic was recreated, and not always.
        self.lives = 2 if rng.random() < _RECREATES_SHARE and not broker.embedded else 1
        names, lives = list(self.instances), range(self.lives)
        self.plan = [s for n in lives for s in plan_of(seed, names, readers, n)] if plan is None else list(plan)
        self.resting: frozenset[str] = frozenset()
        """Names of processes that are not restarted for now."""
        self.gone = Gone(TOPICS.actions)
        self.sink = 0
        """The number of times that the topics were recreated; the audit has another name each time."""

    # Processes.

    def start(self, name: str) -> None:
        """Start a process of this name."""
        world, broker = self.world, self.broker
        if name in self.instances:
            instance_id = self.instances[name]
            process = start_worker(world, broker, name, instance_id=instance_id, standbys=self.standbys)
        elif name == CONSOLE:
            process = start_console(world, broker, name, far_away(self.engine, self.around_transaction))
        else:
            process = start_sink(world, broker, name, self.table, sink_of(self.sink))
        self.running[name] = process
        self.changed_at = max(self.changed_at, self.world.now)
        self.all.append(process)
        process.on_end.append(lambda: self.has_ended(name, process))

    def has_ended(self, name: str, process: Process) -> None:
        """Note the end of a process, and restart it after a delay."""
        reason = process.reason
        self.ends.append(f"{name}: {described(reason)}")
        if not isinstance(reason, (str, *_KNOWN)):
            self.unexpected.append(f"{name} ended: {reason!r}")
        if self.running.get(name) is process:
            del self.running[name]
            self.changed_at = max(self.changed_at, self.world.now)
            if self.healing:
                self.restarts += 1
            if not self.ending and name not in self.resting:
                delay_s = self.world.between(0.05, 0.5 if self.healing else 2.5)
                self.world.after(delay_s, lambda: self.start_again(name))

    def start_again(self, name: str) -> None:
        """Start a process that does not run."""
        if name not in self.running and name not in self.resting and not self.ending:
            self.start(name)

    def at_table_step(self, step: TableStep) -> None:
        """Simulate the latency and failures of a remote table."""
        if self.store_fails(f"table {step.value}"):
            raise OSError(f"the store failed at {step.value}")

    def around_transaction(self) -> None:
        """Simulate the latency and failures of the read model's database."""
        if self.store_fails("database"):
            raise OperationalError("a transaction", None, OSError("the database went away"))

    def store_fails(self, point: str) -> bool:
        """Mark an access to a store. Return whether it fails."""
        world = self.world
        if world.current is None:
            return False
        world.point(point)
        return not self.healing and world.chance(_STORE_FAILS_SHARE)

    # Faults.

    def do(self, step: Step) -> None:
        """Execute one step of the plan."""
        if self.healing:
            return
        self.world.trace("does", step)
        process = self.running.get(step.target)
        if step.deed in (Deed.KILL, Deed.STOP, Deed.FREEZE, Deed.CUT, Deed.DROP):
            if process is not None:
                self.strike(process, step)
        elif step.deed in (Deed.KILL_AT, Deed.FREEZE_AT, Deed.CUT_AT):
            self.strike_at(step)
        elif step.deed is Deed.DOUBLE:
            if self.instances.get(step.target) is not None:
                self.start(step.target)
        elif step.deed is Deed.ADD:
            self.instances.setdefault(MORE, None)
            self.start_again(MORE)
        else:
            self.disturb(step)

    def strike(self, process: Process, step: Step) -> None:
        """Apply a fault to one process."""
        match step.deed:
            case Deed.KILL | Deed.KILL_AT:
                process.kill()
            case Deed.STOP:
                process.terminate()
            case Deed.DROP:
                process.on_drop()
            case Deed.CUT | Deed.CUT_AT:
                process.cut()
                self.world.after(step.seconds, process.connect)
            case _:
                process.freeze()
                self.world.after(step.seconds, process.unfreeze)

    def disturb(self, step: Step) -> None:
        """Apply a fault to the broker or a group of processes."""
        world, broker = self.world, self.broker
        match step.deed:
            case Deed.CRASH | Deed.AWAY:
                broker.go_down(crash=step.deed is Deed.CRASH)
                world.after(step.seconds, lambda: broker.come_up(lagging=step.deed is Deed.CRASH))
            case Deed.SLOW:
                broker.slow = 30.0
                world.after(step.seconds, broker.at_usual_speed)
            case Deed.REBALANCE:
                for _ in range(1 + int(3 * world.random())):
                    world.after(world.random(), self.group.rebalance)
            case Deed.ROLLING:
                for name in self.instances:
                    world.after(world.between(0.0, 1.5), lambda name=name: self.stop_one(name))  # type: ignore[misc]  # binds it
            case Deed.COMPACT:
                self.compact()
            case Deed.ROLL:
                for _, _, log in broker.partitions():
                    log.roll()
            case _:
                broker.lag_somewhere(step.seconds, TOPICS.prefix + step.point if step.point else None)

    def stop_one(self, name: str) -> None:
        """Send SIGTERM to a process, unless faults are over."""
        if name in self.running and not self.healing:
            self.running[name].terminate()

    def compact(self) -> None:
        """Start new segments and compact the compacted topics."""
        for name in (CHANGELOG,) if self.broker.embedded else (CHANGELOG, TOPICS.control):
            for log in self.broker.topics[name].logs:
                log.roll()
            self.broker.compact(name)

    def strike_at(self, step: Step) -> None:
        """Apply a fault at one of the next times that the target passes the point named by the step."""
        points = {
            "changelog": CHANGELOG,
            "output": TOPICS.interventions,
            "entry": TOPICS.control,
            "table": "table commit",
        }
        strikes = self.world.at_point.setdefault(points.get(step.point, step.point), [])
        passes = int(self.world.random() * _PASSES.get(step.point, 1))

        def strike(process: Process) -> None:
            nonlocal passes
            is_target = process is self.running.get(step.target)
            passes -= is_target
            if not is_target or passes >= 0:
                strikes.append(strike)
            else:
                self.strike(process, step)

        strikes.append(strike)

    def heal(self) -> None:
        """Remove all faults; none strikes from now on."""
        world = self.world
        world.trace("heals")
        self.healing = world.calm = True
        self.changed_at = world.now + _LATEST_S
        world.at_point.clear()
        self.broker.slow = 1.0
        for process in self.all:
            process.unfreeze()
            process.connect()
        self.broker.come_up(lagging=False)

    # The end.

    def run(self) -> Outcome:
        """Run the history and return its outcome."""
        outcome = Outcome(self.seed, self.plan)
        world = self.world
        began = world.now
        for name in (*self.instances, *self.sinks, CONSOLE):
            world.after(world.between(0.0, 1.0), lambda name=name: self.start_again(name))  # type: ignore[misc]  # binds it
        try:
            for life in range(self.lives):
                if life and not self.unexpected:
                    self.recreate()
                self.endure(life)
            self.ending = self.healing = True
            last = list(self.running.values())
            for process in last:
                process.terminate()
            self.until(lambda: not self.running)
            self.broker.compact(CHANGELOG, whole=True)
        except Stuck as stuck:
            outcome.differences.append(f"{stuck}: {self.where()}")
        else:
            outcome.differences += [] if self.unexpected else checks.compare(self)
            unclean = [
                f"{process.name}: {described(process.reason)}" for process in last if process.reason != "stopped"
            ]
            outcome.differences += [f"expected a process to stop cleanly, got {end}" for end in unclean]
        outcome.differences += self.unexpected
        outcome.steps, outcome.seconds, outcome.ends = world.steps, world.now - began, self.ends
        world.trace("ends with", len(outcome.differences), "differences after", world.steps, "steps")
        world.close(self.all)
        self.engine.dispose()
        return outcome

    def endure(self, life: int) -> None:
        """Run faults and traffic of one life of the topics until all is healed, processed and committed."""
        world = self.world
        records = traffic(self.seed, life)
        seconds = world.between(0.5, 1.0) * FAULTS_FOR_S
        self.traffic = Traffic(world, self.broker, records, seconds)
        self.all.append(self.traffic.process)
        for step in self.plan:
            if step.life == life:
                world.after(step.at_s, lambda step=step: self.do(step))  # type: ignore[misc]  # binds it
        end = self.broker.heals_at = world.now + FAULTS_FOR_S + 1.0
        world.after(end - world.now, self.heal)
        self.until(lambda: world.now > end or bool(self.unexpected))
        self.until(self.is_done)

    def until(self, done: Callable[[], bool]) -> None:
        """Run until that holds. Raises Stuck."""
        self.world.run(done, within_s=_HEAL_WITHIN_S, steps=_STEPS, check_every=_CHECK_EVERY)

    def stop(self, names: Iterable[str]) -> list[str]:
        """Stop these processes until `go_on`; return the names of those that ran."""
        processes = {name: self.running[name] for name in names if name in self.running}
        self.resting = frozenset(processes)
        for process in processes.values():
            process.terminate()
        self.until(lambda: not any(process.alive for process in processes.values()))
        return list(processes)

    def go_on(self, names: Iterable[str]) -> None:
        """Restart stopped processes."""
        self.resting = frozenset()
        for name in names:
            self.start_again(name)

    def recreate(self) -> None:
        """Recreate the topic of actions while nothing is sent and after all of it was read."""
        topic = TOPICS.actions
        readers = self.stop([*self.sinks, CONSOLE])
        others = (TOPICS.dead_letter, TOPICS.commands, TOPICS.signals)
        before = [record for name in others for record in checks.appended(self.broker, name)]
        self.gone.keep(checks.appended(self.broker, topic), before)
        workers = [process for name, process in self.running.items() if name in self.instances]
        self.broker.recreate(topic)
        self.until(lambda: not any(process.alive for process in workers))
        self.sink += 1
        self.healing = self.world.calm = False
        self.restarts = 0
        self.go_on(readers)

    def is_done(self) -> bool:
        """Return whether all processes have processed and committed all records, or one failed unexpectedly."""
        if self.unexpected:
            return True
        if self.restarts > _RESTARTS:
            raise Stuck(f"expected processes to go on, got {self.restarts} ends although nothing is done to them")
        if not self.traffic.done or self.world.now < max(self.check_again_at, self.changed_at + _SETTLED_S):
            return False
        if not self.running.keys() >= {*self.instances, *self.sinks, CONSOLE}:
            return False
        self.check_again_at = self.world.now + 0.2
        return (
            all(log.high == log.end and committed == log.end for _, committed, log in self.progress())
            and not checks.missing_rows(self)
            and not checks.unread(self)
        )

    def progress(self) -> Iterator[tuple[str, int, Log]]:
        """Yield each partition of the sources with the offset that the workers have committed."""
        for topic in TOPICS.session_sources:
            for number, log in enumerate(self.broker.topics[topic].logs):
                yield f"{topic}[{number}]", self.group.offsets.get((topic, number), (0, ""))[0], log

    def where(self) -> str:
        """Return what is behind: partitions, table and read model."""
        behind = [
            f"{place} committed {committed} of {log.end}"
            for place, committed, log in self.progress()
            if committed != log.end
        ]
        readers = f"table lacks {checks.missing_rows(self)[:5]}"
        model = checks.unread(self)
        return f"{behind}; {readers}; read model lacks {model}; running {sorted(self.running)}; {self.ends[-6:]}"


class _Database:
    """An engine that calls `around` before and after each transaction, where the thread may end or a failure be raised.

    Never within a transaction: all histories of a process share one connection to SQLite.
    """

    def __init__(self, engine: Engine, around: Callable[[], object]) -> None:
        self._engine = engine
        self._around = around

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)

    @contextmanager
    def begin(self) -> Iterator[Connection]:
        """Run a transaction between two calls of `around`."""
        self._around()
        with self._engine.begin() as connection:
            yield connection
        self._around()


def far_away(engine: Engine, around: Callable[[], object]) -> Engine:
    """Return this engine with `around` called before and after each transaction."""
    return cast("Engine", _Database(engine, around))
