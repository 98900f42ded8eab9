"""One chaos run: faults strike all processes under load; then all results are compared."""

import heapq
import itertools
import signal
import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

from benchmarks.chaos import damage, poison, recreated, verify
from benchmarks.chaos.outcome import Outcome
from benchmarks.chaos.plan import (
    ACTIONS,
    AGENT,
    AUDIT,
    BROKER,
    CHANGELOG,
    CONSOLE,
    POISON,
    SHADOW,
    Deed,
    Step,
    Wave,
    make_plan,
    make_waves,
)
from benchmarks.chaos.system import SESSION_TIMEOUT_S, SETTLE_WITHIN_S, System
from benchmarks.chaos.traffic import Traffic
from benchmarks.chaos.verify import Check
from benchmarks.load import Load
from haltline.streams.engine.groups import Runs

_TICK_S = 0.05
_LOOK_EVERY_S = 0.25
"""Seconds between readiness checks, which cost all processes time."""
_BETWEEN_RECORDS = 100
"""Records committed between two waves, so that each restarted process has worked again."""
_AT_MOST_S = 900.0
_LATER_S = 2.0
_AFTER_DAMAGE_S = 10.0
"""Seconds until the owner has detected the foreign write and ended."""


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The settings of a run. The seed determines the plan of its faults, but not their exact timing."""

    seed: int
    seconds: float
    once: bool
    """Run the waves, each as soon as all processes are ready, instead of a plan of `seconds`."""
    workers: int
    rate: int
    """Events per second."""
    sessions: int


class Run:
    """One run on one broker."""

    def __init__(self, system: System, settings: Settings) -> None:
        self.system = system
        self.fleet = system.fleet
        self.settings = settings
        self.gone = recreated.Gone(system.topics.actions)
        self.damage = damage.Damage(system.bootstrap, system.topics, system.changelogs[Runs.ENFORCED])
        self.poison = poison.Poison(system.bootstrap, system.topics)
        self.events_before = Counter[str]()
        """The events before the topic of actions was recreated, which states do not count."""
        self._calm = False  # no faults now
        self._due: list[tuple[float, int, Callable[[], None]]] = []
        self._order = itertools.count()  # of calls due at the same time
        self._broker_at_work: Future[None] | None = None
        self._pool = ThreadPoolExecutor(1)

    def all(self) -> list[Check]:
        """Run everything; return the checks."""
        system, settings = self.system, self.settings
        system.make_topics()
        self.start_all()
        load = Load(
            events=int(settings.rate * (_AT_MOST_S if settings.once else settings.seconds)),
            sessions=settings.sessions,
            start_ms=time.time_ns() // 1_000_000 - 24 * 3_600_000,
            seed=settings.seed,
            destructive_share=0.03,
            runaway_share=0.3,
            await_verdicts=True,
        )
        traffic = Traffic(system.bootstrap, system.topics, load, settings.rate)
        try:
            if settings.once:
                self.conduct_waves(traffic, make_waves(system.workers))
            else:
                self.conduct(traffic, make_plan(settings.seed, settings.seconds, system.workers))
            committed, end, not_ready = self.settle()
        finally:
            traffic.go_on()
            traffic.stop()
            self._pool.shutdown()  # waits for the broker's restart
            self.fleet.thaw_all()
        system.end(*system.workers, SHADOW)
        system.wait_for_readers()
        system.end(AUDIT, CONSOLE)
        at_the_end = (
            verify.check_lag(committed, end),
            verify.check_ready(len(system.codes), not_ready),
            verify.check_ends(system.codes),
        )
        compared = Outcome(system, self.gone).compare(
            traffic.events_by_session - self.events_before, self.damage.strikes
        )
        return [*at_the_end, *compared]

    def start_all(self) -> None:
        """Start workers and readers, then the agent, once its session is killed."""
        self.system.start_workers()
        self.system.start_readers()
        self.wait_for(lambda: not self.fleet.not_ready(), "everybody ready")
        self.system.kill_guarded()
        self.system.start_agent()

    def conduct(self, traffic: Traffic, plan: Sequence[Step]) -> None:
        """Follow the plan while the load runs, until both have ended."""
        self.fleet.began = time.monotonic()
        for step in plan:
            self.at(self.fleet.began + step.at_s, lambda step=step: self.do(step, traffic))  # type: ignore[misc]  # binds it
        traffic.start()
        while traffic.running or self._due or self.broker_is_down():
            self.go_on()
            time.sleep(_TICK_S)
        self.finish(traffic)

    def finish(self, traffic: Traffic) -> None:
        """Wait for the end of the load, and log its size."""
        traffic.finish()
        self.damage.act()
        self.fleet.tell(
            f"Load has ended: {traffic.events_by_session.total():,} events in {traffic.produced:,} records, "
            f"with {traffic.bad:,} bad ones and {traffic.commands:,} commands."
        )

    def conduct_waves(self, traffic: Traffic, waves: Sequence[Wave]) -> None:
        """Run each wave once all processes are ready again and have committed records since."""
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
        """Wait until this many records beyond the current end are committed."""
        for watched in self.system.watched():
            beyond = watched.end() + records
            self.wait_for(lambda seen=watched, end=beyond: seen.committed() >= end, f"{beyond} records committed")  # type: ignore[misc]  # binds them
            watched.close()

    def wait_for(self, condition: Callable[[], bool], what: str) -> None:
        """Wait for a condition and run what is due meanwhile. Raises RuntimeError at the timeout."""
        deadline = time.monotonic() + SETTLE_WITHIN_S
        while not condition():
            self.go_on()
            if time.monotonic() > deadline:
                late = ", ".join(self.fleet.not_ready()) or "none"
                raise RuntimeError(
                    f"expected {what} within {SETTLE_WITHIN_S:g} s, it did not happen; not ready: {late}"
                )
            time.sleep(_LOOK_EVERY_S)

    def go_on(self) -> None:
        """Restart ended processes and run what is due."""
        self.fleet.supervise()
        while self._due and self._due[0][0] <= time.monotonic():
            heapq.heappop(self._due)[2]()

    def at(self, when: float, act: Callable[[], None]) -> None:
        heapq.heappush(self._due, (when, next(self._order), act))

    def do(self, step: Step, traffic: Traffic) -> None:
        if self._calm or (step.target in {ACTIONS, CHANGELOG, POISON} and self.broker_is_down()):
            self.at(time.monotonic() + _LATER_S, lambda: self.do(step, traffic))
        elif step.target == ACTIONS:
            self.recreate_topic(traffic)
        elif step.target == POISON:
            self.poison.strike()
            self.fleet.note(POISON, step.deed)
        elif step.target == CHANGELOG:
            self.damage.strike()
            self.fleet.note(CHANGELOG, step.deed)
            self.at(time.monotonic() + _AFTER_DAMAGE_S, self.have_damage_read)
        elif step.target == BROKER:
            self.restart_broker(step.deed)
        elif step.deed is Deed.FREEZE:
            thaw_at = self.fleet.freeze(step.target, SESSION_TIMEOUT_S + 3.0)
            if thaw_at is not None:
                self.at(thaw_at, lambda: self.fleet.thaw(step.target))
        else:
            self.fleet.strike(step.target, signal.SIGKILL if step.deed is Deed.KILL else signal.SIGTERM)

    def restart_broker(self, deed: Deed) -> None:
        """Restart the broker in a thread, while the run continues."""
        if self.broker_is_down():
            self.fleet.note(BROKER, f"{deed}: is restarting already")
            return

        def restart() -> None:
            self.fleet.note(BROKER, deed)
            self.system.kafka.restart(hard=deed is Deed.CRASH)
            self.fleet.note(BROKER, "is available again")

        self._broker_at_work = self._pool.submit(restart)

    def have_damage_read(self) -> None:
        if self._calm or self.broker_is_down():
            self.at(time.monotonic() + _LATER_S, self.have_damage_read)
        else:
            self.damage.act()

    def recreate_topic(self, traffic: Traffic) -> None:
        """Recreate the topic while nothing is sent, after all consumers have read it."""
        self._calm = True
        traffic.pause()
        self.wait_for(lambda: not self.broker_is_down() and not self.fleet.not_ready(), "everybody is ready")
        self.system.end(AGENT)
        for watched in self.system.watched():
            self.wait_for(lambda seen=watched: seen.committed() == seen.end(), "everything is committed")  # type: ignore[misc]  # binds it
            watched.close()
        self.system.wait_for_readers()
        self.system.end(AUDIT, CONSOLE)
        topic = self.system.topics.actions
        topics = self.system.topics
        others = [topics.dead_letter, topics.commands, topics.signals]
        self.gone.keep(self.system.read([topic]), self.system.read(others))
        self.events_before = traffic.events_by_session.copy()
        self.system.lives_of_topic += 1
        self.fleet.note(ACTIONS, f"has {recreated.ADDED} partitions more")
        recreated.add_partitions(self.system.bootstrap, topic)
        self.wait_for(
            lambda: {*self.system.workers, SHADOW} <= set(self.fleet.not_ready()), "every worker is not ready"
        )
        self.fleet.note(ACTIONS, "is deleted and recreated")
        recreated.delete(self.system.bootstrap, topic)
        self.wait_for(lambda: not recreated.is_there(self.system.bootstrap, topic), "the topic is gone")
        self.system.make_topics()
        self.system.start_readers()
        self.system.start_agent()
        self.wait_for(lambda: not self.fleet.not_ready(), "all processes have started over")
        traffic.go_on()
        self._calm = False

    def broker_is_down(self) -> bool:
        """Return whether the broker is restarting. Raises LocalKafkaError when that failed."""
        if self._broker_at_work is None or not self._broker_at_work.done():
            return self._broker_at_work is not None
        self._broker_at_work.result()
        self._broker_at_work = None
        return False

    def settle(self) -> tuple[int, int, list[str]]:
        """Wait until all processes are ready, stop the agent, and wait until everything is committed.

        The agent publishes several times a second, so that both groups never have committed everything while it runs.
        Return the committed records, the end, and the processes that are not ready.
        """
        groups = self.system.watched()
        deadline = time.monotonic() + SETTLE_WITHIN_S
        while (not_ready := self.fleet.not_ready()) and time.monotonic() <= deadline:
            self.fleet.supervise()
            time.sleep(_LOOK_EVERY_S)
        self.system.end(AGENT)
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
