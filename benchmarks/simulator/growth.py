"""Histories in which an operator gives the topics more partitions while guards go on and faults strike.

The steps of docs/topics.md, "More partitions": the workers are stopped, `haltline.streams.operator.grow` runs, is
killed and run again, the workers and the services are started again, and bridges serve the guards on the older set.
"""

import random
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Final

from benchmarks.chaos import verify
from benchmarks.simulator import checks
from benchmarks.simulator.broker import ADDRESS
from benchmarks.simulator.fleet import GROUP, settings_of, topics_in_use
from benchmarks.simulator.group import group_of, with_changelog
from benchmarks.simulator.history import History
from benchmarks.simulator.plan import CONSOLE, FAULTS_FOR_S, Deed, Step, plan_of
from benchmarks.simulator.process import Process
from benchmarks.simulator.threads import system_of
from benchmarks.simulator.workload import PARTITIONS, TOPICS, Sent
from haltline.schemas.partitioner import partition_of
from haltline.streams.operator.grow import Group, Growing

_SHARE: Final = 0.12
_OPERATOR: Final = "operator"
_AT_S: Final = (0.8, 2.5)
_MORE_S: Final = 5.0
"""The time for which faults strike longer than in other histories."""
_MORE_FAULTS: Final = 9
"""The number of the plan from which the faults of that time are drawn."""
_STEPS: Final = (
    "", "creating the topics", "copying the states", "copying the entries", "committing where the bridge", "naming",
)  # fmt: skip
_KILLED_WITHIN_S: Final = 0.3
_PARTITIONS: Final = (4, 5)
_ENDS_WITHIN_S: Final = 3.0
"""The time after which the operator kills a worker that does not stop."""
_LOOK_EVERY_S: Final = 0.1
_STALE_AFTER_S: Final = 1.0
_AGAIN_S: Final = (0.1, 1.0)
_GIVES_UP_SHARE: Final = 0.3
_MOVES_SHARE: Final = 0.15
"""The share of records behind which the guard of their session starts again, on the newer set."""


def is_growth(seed: int) -> bool:
    """Return whether the topics grow in the history of this seed, if its broker allows it."""
    return random.Random(f"{seed} growth").random() < _SHARE


class Growth(History):
    """The steps of docs/topics.md under traffic. `grow` is a step of the plan."""

    follows = True

    def __init__(
        self, seed: int, plan: Sequence[Step] | None = None, *, tell: Callable[[str], object] | None = None
    ) -> None:
        super().__init__(seed, plan, tell=tell)
        self.moves = random.Random(f"{seed} moves")
        self.moved: set[str] = set()
        """Sessions whose guards use the newer set."""
        self.sent: Counter[str] = Counter()
        """The number of records sent to the older set, by session."""
        self.stopped = False
        """The operator has stopped the workers, so none is started."""
        self.killed = False
        """The first run of the command was killed."""
        self.to = random.Random(f"{seed} partitions").choice(_PARTITIONS)
        if plan is None and not self.broker.embedded and self.lives == 1:
            self.plan = _with_growth(seed, self.plan, [*self.instances], [*self.sinks, CONSOLE])
        if any(step.deed is Deed.GROW for step in self.plan):
            self.faults_for_s = FAULTS_FOR_S + _MORE_S

    def do(self, step: Step) -> None:
        """Execute one step of the plan."""
        if step.deed is Deed.GROW:
            self.world.trace("does", step)
            self.stopped = True
            self.operate(step)
        else:
            super().do(step)

    def start(self, name: str) -> None:
        """Start a process, except a worker while workers are stopped."""
        if not (self.stopped and name in self.instances):
            super().start(name)

    def is_done(self) -> bool:
        """As in every history; while the operator works, it is not done."""
        return super().is_done() and not self.stopped

    def topic_of(self, record: Sent) -> str:
        """Return the topic on which the guard of the session is now."""
        if self.topics.older and self.moves.random() < _MOVES_SHARE and self.is_bridged(record):
            self.moved.add(record.key)
        if record.key in self.moved:
            return self.topics.prefix + record.topic.removeprefix(TOPICS.prefix)
        self.sent[record.key] += 1
        return record.topic

    def is_bridged(self, record: Sent) -> bool:
        """Return whether all that the guard of this session has published to the older set is on the newer one.

        If not, its next event would be processed before the earlier ones.
        """
        partition = partition_of(record.key, PARTITIONS)
        offsets = [r.offset for r in self.broker.log(record.topic, partition).appended if r.key == record.key.encode()]
        bridged, _ = group_of(self.broker, TOPICS.bridge_group).offsets.get((record.topic, partition), (0, ""))
        return len(offsets) == self.sent[record.key] and bridged > max(offsets, default=-1)

    def operate(self, step: Step) -> None:
        """Start a process in which the operator stops the workers and runs the command."""
        process = Process(self.world, _OPERATOR)
        self.all.append(process)
        at_step = ""

        def begins(text: str) -> None:
            nonlocal at_step
            at_step = text
            self.world.trace("operator", text)
            if step.point and text.startswith(step.point) and not self.killed:
                self.killed = True
                self.world.after(step.seconds, process.kill)

        def run() -> None:
            self.stop_workers()
            system = system_of(process, self.broker)
            topics = topics_in_use(process, system)
            if not topics.older:
                following = topics.next
                now, then = settings_of(topics), settings_of(following)
                group = group_of(self.broker, then.group)
                group.assignor = with_changelog(following.session_sources, then.changelog, self.standbys)
                groups = [Group(GROUP, now.changelog, then.changelog)]
                Growing(ADDRESS, topics, groups, self.to, client={}, step=begins, system=system).run()
            self.switch()
            self.restart_services()
            self.stopped = False
            self.start_workers()
            process.end("stopped")

        def ended() -> None:
            self.has_ended(_OPERATOR, process)
            if process.reason == "stopped":
                return
            if not at_step.startswith("naming") and not self.healing and self.world.chance(_GIVES_UP_SHARE):
                self.stopped = False
                self.start_workers()
                self.world.after(self.world.between(0.5, 2.0), lambda: self.do(step))
            else:
                self.world.after(self.world.between(*_AGAIN_S), lambda: self.operate(step))

        process.on_end.append(ended)
        process.start_thread(_OPERATOR, run)

    def stop_workers(self) -> None:
        """Stop every worker, also one whose instance id another has, and wait for their ends."""
        workers = [one for one in self.all if one.alive and one.name in self.instances]
        for worker in workers:
            worker.terminate()
        kill_at = self.world.now + _ENDS_WITHIN_S
        while any(worker.alive for worker in workers):
            self.world.sleep(_LOOK_EVERY_S)
            for worker in workers if self.world.now > kill_at else ():
                worker.kill()

    def switch(self) -> None:
        """Note which set is in use from now on."""
        self.topics = TOPICS.next
        settings = settings_of(self.topics)
        self.group = group_of(self.broker, settings.group)
        self.copied = verify.last_states(checks.records_of(self.broker, settings.changelog))

    def restart_services(self) -> None:
        """Stop the services, which start again and use the newer set."""
        services = [one for one in self.all if one.alive and one.name in {*self.sinks, CONSOLE}]
        for service in services:
            service.terminate()
        while any(service.alive for service in services):
            self.world.sleep(_LOOK_EVERY_S)
        self.world.after(_STALE_AFTER_S, self.restart_stale)

    def restart_stale(self) -> None:
        """Stop services that began while the end of `control` lagged, and so use the older set."""
        for name, process in self.running.items():
            if name not in self.instances and process.topics == TOPICS.prefix:
                self.stale = True
                process.terminate()
        self.world.after(_STALE_AFTER_S, self.restart_stale)

    def start_workers(self) -> None:
        """Start each worker that does not run."""
        for name in self.instances:
            self.start_again(name)


def _with_growth(seed: int, plan: Sequence[Step], workers: Sequence[str], readers: Sequence[str]) -> list[Step]:
    rng = random.Random(f"{seed} grow")
    seconds = round(rng.uniform(0.0, _KILLED_WITHIN_S), 3)
    grow = Step(round(rng.uniform(*_AT_S), 3), Deed.GROW, _OPERATOR, seconds, rng.choice(_STEPS))
    later = [
        step._replace(at_s=round(step.at_s + _MORE_S, 3), life=0)
        for step in plan_of(seed, workers, readers, _MORE_FAULTS)
    ]
    return sorted([*plan, grow, *later])
