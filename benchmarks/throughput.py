"""Events per second of each engine on the same preloaded topic, measured by its commits."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from benchmarks import processes
from benchmarks.cluster import Cluster, Group
from benchmarks.rules import CORE, document
from haltline.schemas.topics import Topics
from haltline.streams.local.subprocesses import Child, Children

_ASK_EVERY_S = 0.02
_FIRST_COMMIT_WITHIN_S = 120.0
_LEAST_S = 2.0


@dataclass(frozen=True, kw_only=True)
class Engine:
    """An engine under measurement."""

    name: str
    what: str
    module: str
    variant: str | None = None
    """None: our worker."""
    rules: tuple[str, ...] = ()
    """The rules to run; empty: all."""

    def start(self, children: Children, cluster: Cluster, topics: Topics, group: str) -> Child:
        """Start it on a topic of actions; its changelog topic exists."""
        if self.variant is None:
            arguments = processes.worker_arguments(cluster.bootstrap, topics.prefix, group)
            arguments += ["--policy", str(document(self.rules, Path("build")))]
        else:
            arguments = ["--bootstrap", cluster.bootstrap, "--prefix", topics.prefix, "--group", group]
            if self.module != STREAMS:
                arguments += ["--variant", self.variant, "--rules", ",".join(self.rules)]
            if self.module == BARE:
                arguments += ["--changelog", changelog_of(self, group)]
        return processes.start(children, group, self.module, arguments)


FAUST = "benchmarks.engines.stock_faust"
BARE = "benchmarks.engines.bare_loop"
STREAMS = "benchmarks.engines.kafka_streams"

FAUST_DETECT: Final = "stock Faust, detect"
FAUST_COUNT: Final = "stock Faust, count"
BARE_DETECT: Final = "bare loop, detect"
BARE_COUNT: Final = "bare loop, count"
STREAMS_COUNT: Final = "Kafka Streams, count"
EVERY_RULE: Final = "haltline worker, every rule"

OURS = Engine(
    name="haltline worker",
    what="the first rules: destruction, repeated errors, growth; durable state",
    module=processes.WORKER,
    rules=CORE,
)
OF_SHORT_RUNS: Final = frozenset({OURS.name, BARE_DETECT, EVERY_RULE})
PEERS = (
    Engine(name=FAUST_DETECT, what="the same rules, state to a table", module=FAUST, variant="detect", rules=CORE),
    Engine(name=FAUST_COUNT, what="JSON, a count per session in a table", module=FAUST, variant="count"),
    Engine(name=BARE_DETECT, what="confluent-kafka and the same rules", module=BARE, variant="detect", rules=CORE),
    Engine(name=BARE_COUNT, what="confluent-kafka, orjson, a dictionary", module=BARE, variant="count"),
    Engine(name=STREAMS_COUNT, what="Java, JSON, a count per session in RocksDB", module=STREAMS, variant="count"),
    Engine(name=EVERY_RULE, what="every default rule, durable state", module=processes.WORKER),
)


def changelog_of(engine: Engine, group: str) -> str:
    """The topic to which an engine writes its state."""
    if engine.variant is None:
        return f"{group}-sessions-changelog"
    table = "counts" if engine.variant == "count" else "states"
    return f"{group}-{table}-changelog"


@dataclass(frozen=True, kw_only=True)
class Throughput:
    """The result of one engine. Its rate is from its first observed commit to the second to last.

    The last commit waits until its interval of a second has passed, which would make a fast engine look slower.
    """

    engine: str
    what: str
    sessions: int
    round: int
    """The round, from 1; each engine runs once in each."""
    events: int
    """Total committed; fewer than the input if the time ran out."""
    events_per_s: float | None
    """None: the input was too short."""
    cpu_us_per_event: float | None
    """Processor time of all its threads; compare this instead of the rate on a shared machine."""
    peak_rss_bytes: int | None
    changelog_bytes: int
    complete: bool
    cpu_s_by_thread: dict[str, float] = field(default_factory=dict)


def measure(
    engine: Engine,
    cluster: Cluster,
    children: Children,
    topics: Topics,
    *,
    sessions: int,
    round_number: int,
    at_most_s: float,
) -> Throughput:
    """Run one engine until it has committed everything, or for `at_most_s` seconds after its first commit."""
    ours = "worker" if engine.rules else "every"
    group = f"{topics.prefix}{engine.variant or ours}-{engine.module.rpartition('.')[2]}-{round_number}".replace(
        ".", "-"
    )
    changelog = changelog_of(engine, group)
    if engine.variant is None:
        cluster.make_topics(topics, changelog)
    elif engine.module == BARE:
        cluster.make_topic(changelog, compacted=True)
    watched = Group(cluster.bootstrap, group, [topics.actions])
    end = watched.end()
    child = engine.start(children, cluster, topics, group)
    commits = watch(watched, child, end, at_most_s)
    first, last = commits[0], commits[-1]
    # Work before the first commit is not measured, and a few commits of single partitions give no rate.
    enough = 2 * first.events <= last.events and last.at_s - first.at_s >= _LEAST_S
    result = Throughput(
        engine=engine.name,
        what=engine.what,
        sessions=sessions,
        round=round_number,
        events=last.events,
        events_per_s=events_per_s(commits) if enough else None,
        cpu_us_per_event=cpu_us(first, last) if enough else None,
        peak_rss_bytes=processes.peak_rss_bytes(child.pid),
        changelog_bytes=cluster.log_bytes(changelog),
        complete=last.events == end,
        cpu_s_by_thread=processes.cpu_s_by_thread(child.pid) or {},
    )
    watched.close()
    processes.stop(child)
    return result


@dataclass(frozen=True)
class Seen:
    """An observed commit."""

    at_s: float
    events: int
    """The number of events committed so far."""
    cpu_s: float | None


def events_per_s(commits: Sequence[Seen]) -> float | None:
    """The rate from the first commit to the second to last, or to the last of two. None: there is only one."""
    if len(commits) < 2:
        return None
    first, last = commits[0], commits[-2 if len(commits) > 2 else -1]
    return (last.events - first.events) / (last.at_s - first.at_s)


def watch(watched: Group, child: Child, end: int, at_most_s: float) -> list[Seen]:
    """The observed commits until the end of the input, or for `at_most_s` seconds after the first one.

    Raises RuntimeError if there are none.
    """
    deadline = time.monotonic() + _FIRST_COMMIT_WITHIN_S
    commits: list[Seen] = []
    done = 0
    while done < end and time.monotonic() < deadline:
        child.require_running()
        actual = watched.committed()
        if actual == done:
            time.sleep(_ASK_EVERY_S)
            continue
        done = actual
        commits.append(Seen(time.perf_counter(), done, processes.cpu_s(child.pid)))
        if len(commits) == 1:
            deadline = time.monotonic() + at_most_s
    if not commits:
        raise RuntimeError(f"{child.name}: expected a first commit in {_FIRST_COMMIT_WITHIN_S:.0f} s, got none")
    return commits


def cpu_us(first: Seen, last: Seen) -> float | None:
    """Microseconds of processor time per event between two commits. None: there are none, or no time is known."""
    if first.cpu_s is None or last.cpu_s is None or last.events <= first.events:
        return None
    return (last.cpu_s - first.cpu_s) * 1e6 / (last.events - first.events)
