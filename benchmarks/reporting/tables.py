"""The tables of a document: for the terminal, and as Markdown between two comments of a page.

A page has `<!-- measured:NAME -->` and `<!-- /measured:NAME -->`; the text between them is generated from a
document, and a test compares it with the committed document.
"""

import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from statistics import median
from typing import Final

from rich.console import Console

from benchmarks import latency, overhead, sink, throughput
from benchmarks.reporting.report import Document
from benchmarks.reporting.table import Table, mib, ratio, times, us

ROOT: Final = Path(__file__).parents[2]
COMMITTED: Final = ROOT / "benchmarks" / "results" / "measured.json"
PAGES: Final = (ROOT / "README.md",)
"""Pages with tables from results."""
BUILT: Final = (ROOT / "docs" / "benchmarks.md",)
"""Pages whose tables are inserted when the documentation site is built."""

_MARKED: Final = re.compile(r"(<!-- measured:([a-z-]+) -->\n).*?(<!-- /measured:\2 -->)", re.DOTALL)
_NOT_MEASURED: Final = "Not measured in this run.\n"


def tables(document: Document) -> dict[str, Table]:
    """Return all tables by name."""
    return {name: make(document) for name, make in TABLES.items()}


def written(text: str, document: Document) -> str:
    """Return a page with its tables from the document; a table without figures is replaced by a note."""
    made = tables(document)
    return _MARKED.sub(lambda mark: mark[1] + (made[mark[2]].markdown() or _NOT_MEASURED) + mark[3], text)


def names(text: str) -> list[str]:
    """Return the names of a page's tables."""
    return [mark[2] for mark in _MARKED.finditer(text)]


def show(document: Document, console: Console) -> None:
    """Print every table."""
    for table in tables(document).values():
        table.show(console)


def _run(document: Document) -> Table:
    machine, load = document["machine"], document["load"]
    versions = ", ".join(f"{name} {version}" for name, version in machine["versions"].items() if version)
    parts = load["others_share_by_part"]
    others = f"at most {max(parts.values()):.1%} of all cores in any part" if parts else "not known"
    rows = [
        ["date", document["date"]],
        ["machine", f"{machine['cpu']}, {machine['cores']} cores, {mib(machine['memory_bytes'])} of memory"],
        ["system", f"{machine['distribution']}, {machine['system']}"],
        ["versions", f"Python {machine['python']}, {versions}, commit {machine['commit']}"],
        ["load average", f"{load['average_before'][0]:.2f} before, {load['average_after'][0]:.2f} after"],
        ["others' processor time", others],
        ["calibration", f"{median(document['calibration_us']):.2f} us of processor time a step"],
        ["duration", f"{sum(load['seconds_by_part'].values()) / 60:.0f} minutes"],
    ]
    skipped = [f"Not measured: {what} ({why})." for what, why in document["skipped"].items()]
    return Table("The run", ["", "value"], rows, [load["note"], *skipped])


def _throughput(document: Document) -> Table:
    by_engine: dict[tuple[int, str], list[Document]] = defaultdict(list)
    for result in document["throughput"]:
        by_engine[result["sessions"], result["engine"]].append(result)
    rows = []
    for (sessions, engine), results in sorted(by_engine.items(), key=lambda item: item[0][0]):
        ours = by_engine.get((sessions, throughput.OURS.name), [])
        rates = [result["events_per_s"] for result in results if result["events_per_s"]]
        rows.append(
            [
                f"{engine}: {results[0]['what']}",
                f"{sessions:,}",
                f"{median(rates):,.0f}" if rates else "too short",
                f"{min(rates):,.0f} to {max(rates):,.0f}" if rates else "",
                us(_median(results, "cpu_us_per_event")),
                times(ratio(_median(ours, "events_per_s"), _median(results, "events_per_s"))),
                times(ratio(_median(results, "cpu_us_per_event"), _median(ours, "cpu_us_per_event"))),
                mib(_median(results, "peak_rss_bytes")),
            ]
        )
    columns = ["engine", "sessions", "events/s, median", "rounds", "CPU per event"]
    columns += ["the worker's rate to it", "the worker's events per CPU second to it", "peak memory"]
    return Table("Throughput", columns, rows)


def _pairs(document: Document) -> Table:
    landed = document.get("pairs") or (document.get("short") or {}).get("pairs", ())
    rows = []
    for pair in landed:
        ratios = [own / other for own, other in zip(pair["ours_us"], pair["peer_us"], strict=True)]
        rows.append(
            [
                pair["name"],
                pair["beside"],
                us(median(pair["ours_us"])),
                us(median(pair["peer_us"])),
                f"{median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})",
            ]
        )
    columns = ["part", "beside", "CPU, median of 5 rounds", "of what it is beside", "ratio, median (all rounds)"]
    return Table("Beside their peers, in turns", columns, rows)


def _latency(document: Document) -> Table:
    echo = {result["rate"]: result for result in document["latency"] if result["engine"] == latency.ECHO}
    rows = [
        [
            result["engine"],
            f"{result['rate']:,}",
            f"{result['answers']:,}",
            f"{result['p50_ms']:.2f} ms",
            times(ratio(result["p50_ms"], echo[result["rate"]]["p50_ms"])),
            f"{result['p99_ms']:.2f} ms",
            times(ratio(result["p99_ms"], echo[result["rate"]]["p99_ms"])),
            f"{result['max_ms']:.0f} ms",
            f"{result['missing']:,}",
            ", ".join(f"{cpu_us:.0f}" for cpu_us in result.get("cpu_us", ())) or "-",
        ]
        for result in document["latency"]
    ]
    columns = ["engine", "events/s", "answers", "p50", "to the echo's", "p99", "to the echo's", "max", "missing"]
    columns.append("CPU us per event: load, broker, engine")
    return Table("Latency from produce to received", columns, rows)


def _guard(document: Document) -> Table:
    costs = (document["guard"] or {}).get("costs", [])
    peer = next((cost for cost in costs if cost["name"] == overhead.PEER), None)
    rows = [
        [
            cost["name"],
            us(cost["best_us"]),
            us(cost["median_us"]),
            us(cost["cpu_us"]),
            times(ratio(cost["best_us"], peer and peer["best_us"])),
            times(ratio(cost["median_us"], peer and peer["median_us"])),
        ]
        for cost in costs
    ]
    columns = ["call", "best", "median", "CPU, best", "best, to the peer's", "median, to the peer's"]
    return Table("A guarded call", columns, rows)


def _core(document: Document) -> Table:
    rows = [
        [cost["name"], us(cost["cpu_ns"] / 1000), f"{cost['per_cpu_s']:,.0f}", times(cost["times_calibration"])]
        for cost in (document["core"] or {}).get("costs", [])
    ]
    columns = ["recorded sessions", "CPU per event", "events per CPU second", "to orjson reading the same bytes"]
    return Table("The core alone", columns, rows)


def _sink(document: Document) -> Table:
    peer = next((row for row in document["sink"] if row["engine"] == sink.PEER), None)
    rows = [
        [
            f"{row['engine']}: {row['what']}",
            f"{row['rows_per_s']:,.0f}" if row["rows_per_s"] else "too short",
            us(row["cpu_us_per_row"]),
            times(ratio(peer and peer["cpu_us_per_row"], row["cpu_us_per_row"])),
            f"{row['bytes_written'] / row['rows']:.0f}",
            f"{row['commits']:,}",
            mib(row["peak_rss_bytes"]),
        ]
        for row in document["sink"]
    ]
    columns = ["engine", "rows/s", "CPU per row", "rows per CPU second, to the plain consumer's"]
    return Table("Sinks", [*columns, "bytes a row", "commits", "peak memory"], rows)


def _summary(document: Document) -> Table:
    """Return the table of the front page."""
    return Table("", ["what", "figure"], list(_summary_rows(document)), [_measured_on(document)])


def _summary_rows(document: Document) -> Iterator[list[str]]:
    least = min((result["sessions"] for result in document["throughput"]), default=0)
    rates = {
        engine: median(found)
        for engine in {result["engine"] for result in document["throughput"]}
        if (
            found := [
                result["events_per_s"]
                for result in document["throughput"]
                if result["engine"] == engine and result["sessions"] == least and result["events_per_s"]
            ]
        )
    }
    ours = rates.get(throughput.OURS.name)
    if ours:
        peers = [
            f"{times(ratio(ours, rates.get(peer)))} {words}"
            for peer, words in (
                (throughput.FAUST_DETECT, "stock Faust with the same rules"),
                (throughput.BARE_DETECT, "a bare consumer loop with the same rules"),
            )
            if peer in rates
        ]
        named = f"Throughput of one worker with the first four rules, {least:,} sessions"
        yield [named, f"{ours:,.0f} events/s: {', '.join(peers)}"]
    if every := rates.get(throughput.EVERY_RULE):
        yield ["The same with every default rule", f"{every:,.0f} events/s"]
    counts = {
        throughput.STREAMS_COUNT: "Kafka Streams",
        throughput.BARE_COUNT: "a bare loop",
        throughput.FAUST_COUNT: "stock Faust",
    }
    counted = [f"{words} {rates[engine]:,.0f} events/s" for engine, words in counts.items() if engine in rates]
    if counted:
        yield ["Beside it, only a count per session", ", ".join(counted)]
    of = {(result["engine"], result["rate"]): result for result in document["latency"]}
    for rate in sorted({result["rate"] for result in document["latency"]})[:1]:
        worker, echo = of[latency.WORKER, rate], of[latency.ECHO, rate]
        of_each = (
            f"{which} {worker[key]:.1f} ms, {times(ratio(worker[key], echo[key]))} the echo's"
            for which, key in (("p50", "p50_ms"), ("p99", "p99_ms"))
        )
        yield [f"Latency from produce to decision received, {rate:,} events/s, beside a bare echo", "; ".join(of_each)]
    costs = {cost["name"]: cost for cost in (document["guard"] or {}).get("costs", [])}
    if costs:
        blocking_us = costs[overhead.ASYNC]["median_us"]
        compared = times(ratio(blocking_us, costs[overhead.PEER]["median_us"]))
        yield ["A guarded call that does not wait", f"{us(blocking_us)}, {compared} {overhead.PEER}'s"]


def _measured_on(document: Document) -> str:
    machine = document["machine"]
    where = f"{machine['cpu']}, {machine['cores']} cores, Kafka on the same machine"
    return f"Measured {document['date'][:10]} on {where}. {document['load']['note']}".strip()


def _median(results: Sequence[Document], name: str) -> float | None:
    values = [result[name] for result in results if result[name]]
    return median(values) if values else None


TABLES: Final[dict[str, Callable[[Document], Table]]] = {
    "summary": _summary,
    "run": _run,
    "pairs": _pairs,
    "throughput": _throughput,
    "latency": _latency,
    "guard": _guard,
    "core": _core,
    "sink": _sink,
}
