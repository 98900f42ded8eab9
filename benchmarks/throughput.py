"""Events per second of each engine over the same preloaded topic, seen from outside by what it commits."""

import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks import processes
from benchmarks.cluster import PARTITIONS, Cluster, Group
from benchmarks.load import Load, generate
from benchmarks.rules import CORE, document, only
from haltline.schemas.topics import Topics
from haltline.schemas.wire import decode_event
from haltline.streams.children import Child, Children
from haltline.streams.core import Core, Position, SessionState

_ASK_EVERY_S = 0.02
_FIRST_COMMIT_WITHIN_S = 120.0


@dataclass(frozen=True, kw_only=True)
class Engine:
    """Something that does the work."""

    name: str
    what: str
    module: str
    variant: str | None = None
    """None: our worker."""
    rules: tuple[str, ...] = ()
    """Only these; none named: every rule."""

    def start(self, children: Children, cluster: Cluster, topics: Topics, group: str) -> Child:
        """Starts it on a topic of actions, with its changelog topic made."""
        if self.variant is None:
            arguments = processes.worker_arguments(cluster.bootstrap, topics.prefix, group)
            arguments += ["--policy", str(document(self.rules, Path("build")))]
        else:
            arguments = ["--bootstrap", cluster.bootstrap, "--prefix", topics.prefix, "--group", group]
            arguments += ["--variant", self.variant, "--rules", ",".join(self.rules)]
            if self.module == BARE:
                arguments += ["--changelog", changelog_of(self, group)]
        return processes.start(children, group, self.module, arguments)


FAUST = "benchmarks.engines.stock_faust"
BARE = "benchmarks.engines.bare_loop"

OURS = Engine(
    name="haltline worker",
    what="the first rules: destruction, repeated errors, growth; durable state",
    module=processes.WORKER,
    rules=CORE,
)
PEERS = (
    Engine(
        name="stock Faust, detect", what="the same rules, state to a table", module=FAUST, variant="detect", rules=CORE
    ),
    Engine(name="stock Faust, count", what="JSON, a count per session in a table", module=FAUST, variant="count"),
    Engine(
        name="bare loop, detect", what="confluent-kafka and the same rules", module=BARE, variant="detect", rules=CORE
    ),
    Engine(name="bare loop, count", what="confluent-kafka, orjson, a dictionary", module=BARE, variant="count"),
    Engine(name="haltline worker, every rule", what="every default rule, durable state", module=processes.WORKER),
)


def changelog_of(engine: Engine, group: str) -> str:
    """The topic to which an engine writes its state."""
    if engine.variant is None:
        return f"{group}-sessions-changelog"
    table = "counts" if engine.variant == "count" else "states"
    return f"{group}-{table}-changelog"


@dataclass(frozen=True, kw_only=True)
class Throughput:
    """What one engine did. Rates are between its first and its last commit that was seen."""

    engine: str
    what: str
    sessions: int
    events: int
    """Committed in all; fewer than there were when the time was up."""
    events_per_s: float | None
    """None: it committed only once, the input was too short."""
    cpu_us_per_event: float | None
    """Processor time of all its threads; says more than the rate on a machine that is shared."""
    peak_rss_bytes: int | None
    changelog_bytes: int
    complete: bool
    cpu_s_by_thread: dict[str, float] = field(default_factory=dict)

    def seconds_for(self, events: int) -> float | None:
        """How long it would take for so many."""
        return None if self.events_per_s is None else events / self.events_per_s


def measure(
    engine: Engine,
    cluster: Cluster,
    children: Children,
    topics: Topics,
    *,
    sessions: int,
    at_most_s: float,
) -> Throughput:
    """Run one engine until it has committed everything, or for so long after its first commit."""
    ours = "worker" if engine.rules else "every"
    group = f"{topics.prefix}{engine.variant or ours}-{engine.module.rpartition('.')[2]}".replace(".", "-")
    changelog = changelog_of(engine, group)
    if engine.variant is None:
        cluster.make_topics(topics, changelog)
    elif engine.module == BARE:
        cluster.make_topic(changelog, compacted=True)
    watched = Group(cluster.bootstrap, group, [topics.actions])
    end = watched.end()
    child = engine.start(children, cluster, topics, group)
    first, last = _watch(watched, child, end, at_most_s)
    result = Throughput(
        engine=engine.name,
        what=engine.what,
        sessions=sessions,
        events=last.events,
        events_per_s=_rate(last.events - first.events, last.at_s - first.at_s),
        cpu_us_per_event=_cpu_us(first, last),
        peak_rss_bytes=processes.peak_rss_bytes(child.pid),
        changelog_bytes=cluster.log_bytes(changelog),
        complete=last.events == end,
        cpu_s_by_thread=processes.cpu_s_by_thread(child.pid) or {},
    )
    watched.close()
    processes.stop(child)
    return result


@dataclass(frozen=True)
class _Seen:
    at_s: float
    events: int
    cpu_s: float | None


def _watch(watched: Group, child: Child, end: int, at_most_s: float) -> tuple[_Seen, _Seen]:
    """The first commit that was seen, and the last one before the end or the deadline."""
    observed = _commits(watched, child)
    deadline = time.monotonic() + _FIRST_COMMIT_WITHIN_S
    first = last = next(observed)
    while last.events < end:
        last = next(observed)
        if first.events == 0:
            first = last
            if first.events:
                deadline = time.monotonic() + at_most_s
        if time.monotonic() > deadline:
            if first.events == 0:
                raise RuntimeError(f"{child.name}: expected a first commit in {_FIRST_COMMIT_WITHIN_S:.0f} s, got none")
            break
    return first, last


def _commits(watched: Group, child: Child) -> Iterator[_Seen]:
    """Each change of what is committed, and now and then the same again."""
    seen = _Seen(time.perf_counter(), watched.committed(), processes.cpu_s(child.pid))
    while True:
        yield seen
        time.sleep(_ASK_EVERY_S)
        child.require_running()
        events = watched.committed()
        if events != seen.events:
            seen = _Seen(time.perf_counter(), events, processes.cpu_s(child.pid))


def _rate(events: int, seconds: float) -> float | None:
    return events / seconds if events > 0 and seconds > 0 else None


def _cpu_us(first: _Seen, last: _Seen) -> float | None:
    if first.cpu_s is None or last.cpu_s is None or last.events <= first.events:
        return None
    return (last.cpu_s - first.cpu_s) * 1e6 / (last.events - first.events)


def core_alone(load: Load) -> Throughput:
    """Decoding and deciding in this process, without a broker and without keeping the state."""
    core = Core(only(CORE))
    states: dict[str, SessionState] = {}
    values = [sent.value for sent in generate(load)]
    began, began_cpu = time.perf_counter(), time.process_time()
    for offset, value in enumerate(values):
        event = decode_event(value)
        at = Position("actions", offset % PARTITIONS, offset)
        states[event.session_id] = core.on_event(states.get(event.session_id), event, at).state
    seconds, cpu_seconds = time.perf_counter() - began, time.process_time() - began_cpu
    return Throughput(
        engine="core alone",
        what="the same rules, no broker, no durable state",
        sessions=load.sessions,
        events=len(values),
        events_per_s=len(values) / seconds,
        cpu_us_per_event=cpu_seconds * 1e6 / len(values),
        peak_rss_bytes=None,
        changelog_bytes=0,
        complete=True,
    )
