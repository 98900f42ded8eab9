"""Latency from produce to the decision received, at a steady rate, compared with an echo on the same broker."""

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import orjson

from benchmarks import processes
from benchmarks.cluster import Cluster, Sender, reader_from_end
from benchmarks.load import Load, generate, paced
from benchmarks.reporting.table import percentile
from benchmarks.rules import CORE, document
from haltline.schemas.topics import Topics
from haltline.streams.local.subprocesses import Child, Children

ECHO: Final = "echo"
WORKER: Final = "haltline worker"
_SESSIONS = 200
_WARM_UP_S = 3.0
_ANSWER_WITHIN_S = 60.0


@dataclass(frozen=True, kw_only=True)
class Latency:
    """The latency of one engine at one rate."""

    engine: str
    rate: int
    """Events per second; every proposal among them, about half, awaits a verdict."""
    answers: int
    p50_ms: float
    p99_ms: float
    max_ms: float
    missing: int
    """The number of missing verdicts."""
    p50_ms_by_round: list[float]
    p99_ms_by_round: list[float]
    cpu_us: list[float]
    """Processor time per event in microseconds: of the load with its probe, the broker, and the engine."""


def measure(
    cluster: Cluster, children: Children, rate: int, seconds: float, *, rounds: int = 2, workers: int = 1
) -> list[Latency]:
    """Measure echo and workers (with the first rules) in turns, under the same load; return one result of each."""
    topics = Topics(f"latency{rate}.")
    group = f"latency{rate}"
    cluster.make_topics(topics, f"{group}-sessions-changelog")
    echo_to = f"{topics.prefix}echo-out"
    echo_from = f"{topics.prefix}echo-in"
    for name in (echo_to, echo_from):
        cluster.make_topic(name)
    policy = str(document(CORE, Path("build")))
    engines = {
        WORKER: [
            processes.start_worker(
                children, f"{group}-{number}", cluster.bootstrap, topics.prefix, group, "--policy", policy
            )
            for number in range(workers)
        ]
    }
    echo_arguments = ["--bootstrap", cluster.bootstrap, "--source", echo_from, "--target", echo_to]
    engines[ECHO] = [
        processes.start(
            children, f"{group}-echo", "benchmarks.engines.echo", [*echo_arguments, "--group", f"{group}-echo"]
        )
    ]
    running = [child for engine in engines.values() for child in engine]
    probes = {
        ECHO: _Probe(cluster.bootstrap, echo_from, echo_to),
        WORKER: _Probe(cluster.bootstrap, topics.actions, topics.interventions),
    }
    for probe in probes.values():
        probe.wait_until_it_answers(running)
    taken_ms: dict[str, list[list[float]]] = {name: [] for name in probes}
    missing = dict.fromkeys(probes, 0)
    used_s = {name: [0.0, 0.0, 0.0] for name in probes}
    for round_number in range(rounds):
        for name, probe in probes.items():
            for child in running:
                child.require_running()
            before = _cpu_s(cluster, engines[name])
            taken, lost = probe.run(rate, _WARM_UP_S + seconds / rounds, seed=round_number + 1)
            spent = zip(used_s[name], _cpu_s(cluster, engines[name]), before, strict=True)
            used_s[name] = [so_far + after - start for so_far, after, start in spent]
            taken_ms[name].append(taken)
            missing[name] += lost
    for probe in probes.values():
        probe.close()
    for child in running:
        processes.stop(child)
    events = rate * (rounds * _WARM_UP_S + seconds)
    return [
        _summary(name, rate, taken_ms[name], missing[name], [s / events * 1e6 for s in used_s[name]]) for name in probes
    ]


def _cpu_s(cluster: Cluster, engine: Sequence[Child]) -> list[float]:
    """Return the processor time so far in seconds: of this process, the broker, and the engine's processes."""
    of_engine = sum(processes.cpu_s(child.pid) or 0.0 for child in engine)
    return [time.process_time(), processes.cpu_s(cluster.kafka.pid) or 0.0, of_engine]


class _Probe:
    """Produces to one topic and records when the answers arrive on another."""

    def __init__(self, bootstrap: str, source: str, target: str) -> None:
        self._source = source
        self._sent_at: dict[str, float] = {}
        self._took_ms: dict[str, float] = {}
        self._sender = Sender(bootstrap, source, {"linger.ms": 0})
        self._consumer = reader_from_end(bootstrap, target, "latency-probe")
        self._stop = threading.Event()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def wait_until_it_answers(self, children: Sequence[Child]) -> None:
        """Send events until one is answered. Raises RuntimeError at the timeout."""
        deadline = time.monotonic() + _ANSWER_WITHIN_S
        seed = 1000
        while not self._took_ms:
            for child in children:
                child.require_running()
            if time.monotonic() > deadline:
                raise RuntimeError(f"{self._source}: expected an answer in {_ANSWER_WITHIN_S:.0f} s, got none")
            self._send(20, 0.5, seed)
            seed += 1

    def run(self, rate: int, seconds: float, seed: int) -> tuple[list[float], int]:
        """Return the latencies in ms, without the warm-up, and the number of missing answers."""
        self._took_ms.clear()
        began = time.perf_counter()
        self._send(rate, seconds, seed)
        deadline = time.monotonic() + 10.0
        while len(self._took_ms) < len(self._sent_at) and time.monotonic() < deadline:
            time.sleep(0.01)
        counted = [name for name, at in self._sent_at.items() if at >= began + _WARM_UP_S]
        taken = [self._took_ms[name] for name in counted if name in self._took_ms]
        return taken, len(counted) - len(taken)

    def close(self) -> None:
        self._stop.set()
        self._reader.join()
        self._consumer.close()

    def _send(self, rate: int, seconds: float, seed: int) -> None:
        self._sent_at = {}
        events = max(1, int(rate * seconds))
        load = Load(
            events=events,
            sessions=max(1, min(_SESSIONS, events // 5)),
            start_ms=time.time_ns() // 1_000_000 - 3_600_000,
            seed=seed,
            await_verdicts=True,
            runaway_share=0.0,
            prefix=f"lat-{rate}-{time.time_ns()}",
        )
        for sent in paced(generate(load), rate, self._stop):
            if sent.awaited:
                self._sent_at[sent.event_id] = time.perf_counter()
            self._sender.send(sent.session_id, sent.value)
        self._sender.finish()

    def _read(self) -> None:
        while not self._stop.is_set():
            message = self._consumer.poll(0.1)
            if message is None or message.error() is not None:
                continue
            now = time.perf_counter()
            event_id = orjson.loads(message.value() or b"{}").get("event_id", "")
            at = self._sent_at.get(event_id)
            if at is not None:
                self._took_ms.setdefault(event_id, (now - at) * 1000)


def _summary(name: str, rate: int, by_round: Sequence[Sequence[float]], missing: int, cpu_us: list[float]) -> Latency:
    """Summarize the latencies of each round, in ms."""
    rounds = [sorted(taken) for taken in by_round if taken]
    if not rounds:
        raise RuntimeError(f"{name} at {rate} events/s: expected answers, got none of {missing}")
    ordered = sorted(ms for taken in rounds for ms in taken)
    return Latency(
        engine=name,
        rate=rate,
        answers=len(ordered),
        p50_ms=percentile(ordered, 50),
        p99_ms=percentile(ordered, 99),
        max_ms=ordered[-1],
        missing=missing,
        p50_ms_by_round=[percentile(taken, 50) for taken in rounds],
        p99_ms_by_round=[percentile(taken, 99) for taken in rounds],
        cpu_us=cpu_us,
    )
