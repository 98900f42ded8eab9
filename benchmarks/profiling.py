"""Where a worker's time goes: samples of its main thread, and processor time by thread."""

import linecache
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import orjson

from benchmarks import processes
from benchmarks.cluster import Cluster, Group
from benchmarks.rules import document
from haltline.schemas.topics import Topics
from haltline.streams.local.subprocesses import Children

_DRAIN_WITHIN_S = 600.0
_LINES = 45

Stack = tuple[int, int, list[tuple[str, str]]]
"""How often it was seen, the innermost line (0 where there is none), and file and function, the innermost first."""


def measure(cluster: Cluster, children: Children, topics: Topics, report: Path, rules: Sequence[str]) -> str:
    """Run a worker over a preloaded topic under the sampler; writes `report`, returns its first part.

    `rules`: only these, or every one.
    """
    group = f"{topics.prefix}{report.stem}".replace(".", "-")
    cluster.make_topics(topics, f"{group}-sessions-changelog")
    watched = Group(cluster.bootstrap, group, [topics.actions])
    end = watched.end()
    samples = report.with_suffix(".json").absolute()
    arguments = processes.worker_arguments(cluster.bootstrap, topics.prefix, group)
    arguments += ["--policy", str(document(rules, report.parent))]
    worker = processes.start(children, group, "benchmarks.sampler", [str(samples), processes.WORKER, *arguments])
    processes.wait_until(worker, lambda: watched.committed() > 0, "a first commit", within_s=_DRAIN_WITHIN_S)
    processes.wait_until(worker, lambda: watched.committed() == end, "lag zero", within_s=_DRAIN_WITHIN_S)
    threads = processes.cpu_s_by_thread(worker.pid) or {}
    watched.close()
    if code := processes.stop(worker):
        raise RuntimeError(f"{group}: expected a clean stop, got exit status {code}:\n{worker.last_lines()}")
    summary, details = texts(orjson.loads(samples.read_bytes()), threads, end)
    report.write_text(f"{summary}\n{details}\n")
    return summary


def texts(stacks: list[Stack], threads: dict[str, float], events: int) -> tuple[str, str]:
    """What samples say: the summary, and the details by line and by function.

    `threads` is processor time in seconds by name; `events` is how many were processed meanwhile.
    """
    at_work = [stack for stack in stacks if _is_of_an_event_or_checkpoint(stack)]
    return _summary(stacks, at_work, threads, events), "\n".join([*_lines(at_work), "", *_functions(at_work)])


def _is_of_an_event_or_checkpoint(stack: Stack) -> bool:
    """Not of the start: importing modules is left out of the shares."""
    return not any("importlib" in file for file, _ in stack[2])


def _summary(stacks: list[Stack], at_work: list[Stack], threads: dict[str, float], events: int) -> str:
    by_part: Counter[str] = Counter()
    for count, _, codes in at_work:
        by_part[_part(*codes[0])] += count
    total, everything = by_part.total(), sum(count for count, _, _ in stacks)
    main_s = threads.get("main", 0.0) * total / everything
    lines = [
        f"Profile of a worker over {events:,} events: {total:,} samples of its main thread at work.",
        "",
        f"{'own time by part (calls into C count for the caller)':56}{'share':>8}{'us/event':>10}",
    ]
    for part, count in by_part.most_common():
        if count / total >= 0.003:
            lines.append(f"{part:56}{count / total:8.1%}{main_s * 1e6 / events * count / total:10.2f}")
    lines += ["", f"{'processor time by thread, with the start':56}{'seconds':>8}"]
    lines += [f"{name:56}{seconds:8.1f}" for name, seconds in sorted(threads.items(), key=lambda item: -item[1])]
    return "\n".join(lines) + "\n"


def _lines(stacks: list[Stack]) -> list[str]:
    """The lines at which the thread was most often."""
    seen: Counter[tuple[str, int]] = Counter()
    for count, line, codes in stacks:
        seen[codes[0][0], line] += count
    total = seen.total()
    return [
        "own time by line",
        *(
            f"{count / total:6.1%}  {_short(file)}:{line}  {linecache.getline(file, line).strip()[:90]}"
            for (file, line), count in seen.most_common(_LINES)
        ),
    ]


def _functions(stacks: list[Stack]) -> list[str]:
    """The functions in which, or in whose callees, the thread was most often."""
    seen: Counter[tuple[str, str]] = Counter()
    total = 0
    for count, _, codes in stacks:
        total += count
        for file, function in {(file, function) for file, function in codes}:
            seen[file, function] += count
    return [
        "time by function, with what it calls",
        *(
            f"{count / total:6.1%}  {_short(file)}  {function}"
            for (file, function), count in seen.most_common(2 * _LINES)
            if not file.startswith("<frozen")
        ),
    ]


def _part(file: str, _function: str) -> str:
    parts = Path(file).parts
    if "site-packages" in parts:
        return parts[parts.index("site-packages") + 1]
    for ours in ("cli", "detectors", "interventions", "schemas", "streams"):
        if ours in parts:
            return f"haltline.{ours}.{Path(file).stem}"
    return "Python's own library"


def _short(file: str) -> str:
    """A path from the package on."""
    for root in ("site-packages/", "haltline/"):
        if root in file:
            return file.rpartition(root)[2]
    return Path(file).name
