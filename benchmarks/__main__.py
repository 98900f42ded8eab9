"""`python -m benchmarks`: haltline compared with its peers on one real Kafka, in about 12 minutes.

    python -m benchmarks [options]              measure, print, and write build/bench.json
    python -m benchmarks table FILE             the tables of results; --write puts them into README and documentation
    python -m benchmarks compare OLD NEW        what is better or worse beyond noise

Absolute numbers depend on the machine: compare ratios within a run, on an otherwise idle machine.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import orjson
from rich.console import Console

from benchmarks import command
from benchmarks.quality.sessions import TRACES
from benchmarks.reporting.compare import Verdict, compare, only_in_one, remarks
from benchmarks.reporting.report import Document, NotResults, load
from benchmarks.reporting.table import Table
from benchmarks.reporting.tables import COMMITTED, PAGES, show, written
from benchmarks.run import PARTS, WITHOUT_KAFKA, run
from haltline.streams.local.kafka_jars import missing_tools
from haltline.streams.local.subprocesses import interruptible

_WIDTH: Final = 160
_LONG: Final[dict[str, Any]] = {
    "events": 1_000_000, "sessions": [1000, 100_000], "rounds": 3, "peer_seconds": 60.0, "latency_seconds": 30.0,
    "pieces": 200, "core_rounds": 3, "sink_events": 1_000_000,
}  # fmt: skip
_SHORT: Final[dict[str, Any]] = {
    "events": 80_000, "rounds": 2, "rates": [200], "latency_seconds": 5.0, "pieces": 20, "core_rounds": 1,
    "sink_events": 150_000,
}  # fmt: skip
_INDENTED: Final = orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE


def main(arguments: Sequence[str] | None = None) -> int:
    """Return the exit code: 0; 1 if something is worse or cannot be measured; 2 for files that are not results."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    commands = {"table": _table, "compare": _compare}
    try:
        if words and words[0] in commands:
            return commands[words[0]](words[1:])
        return _measure(words)
    except NotResults as error:
        print(f"benchmarks: {error}", file=sys.stderr)
        return 2


def _measure(words: Sequence[str]) -> int:
    args = options(words)
    console = Console(stderr=True)
    if not WITHOUT_KAFKA.issuperset(args.only) and (missing := missing_tools()):
        console.print(f"benchmarks: expected {' and '.join(missing)}; got no such command on PATH")
        return 1
    with interruptible():
        document = run(args, console)
    landed = load(COMMITTED).get("short") if args.short else None
    return 0 if landed is None else _compared(landed, document)


def _table(words: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks table", description="The tables of results.")
    parser.add_argument("file", type=Path, help="of `python -m benchmarks --json`")
    parser.add_argument(
        "--write", action="store_true", help="keep the file as the repository's results, and write its tables to pages"
    )
    args = parser.parse_args(words)
    document = load(args.file)
    if not args.write:
        show(document, _console())
        return 0
    committed = load(COMMITTED)
    if document["settings"].get("short"):
        COMMITTED.write_bytes(orjson.dumps(committed | {"short": document}, option=_INDENTED))
        return 0
    COMMITTED.write_bytes(orjson.dumps(document | {"short": committed.get("short")}, option=_INDENTED))
    for page in PAGES:
        page.write_text(written(page.read_text(encoding="utf-8"), document), encoding="utf-8")
        print(f"Written: {page}")
    if note := document["load"]["note"]:
        print(note)
    return 0


def _compare(words: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks compare",
        description="Each figure as a multiple of a peer or of the calibration of its own run. Exit 1: one is worse.",
    )
    parser.add_argument("old", type=Path)
    parser.add_argument("new", type=Path)
    parser.add_argument("--json", action="store_true", help="print JSON")
    args = parser.parse_args(words)
    old, new = load(args.old), load(args.new)
    return _compared(old, new, as_json=args.json)


def _compared(old: Document, new: Document, *, as_json: bool = False) -> int:
    """Print the changes. Return 1 if one is worse, else 0."""
    changes = compare(old, new)
    if as_json:
        print(orjson.dumps(changes, option=orjson.OPT_INDENT_2).decode())
    else:
        rows = [
            [
                change.name,
                f"{change.old:,.4g}",
                f"{change.new:,.4g}",
                f"{change.ratio:.2f}",
                f"{change.noise:.0%}",
                change.verdict.value,
                change.base or "itself",
            ]
            for change in changes
        ]
        missing = [
            f"Only in the {which} results: {', '.join(names)}."
            for which, names in zip(("old", "new"), only_in_one(old, new), strict=True)
            if names
        ]
        columns = ["figure", "old", "new", "new / old, relative", "noise", "", "relative to"]
        Table("New results compared with old ones", columns, rows, [*remarks(old, new), *missing]).show(_console())
    return 1 if any(change.verdict is Verdict.WORSE for change in changes) else 0


def _console() -> Console:
    return Console() if sys.stdout.isatty() else Console(width=_WIDTH)


def _numbers(text: str) -> list[int]:
    return [int(part.replace("_", "")) for part in text.split(",")]


def _parts(text: str) -> list[str]:
    if unknown := set(text.split(",")) - set(PARTS):
        raise argparse.ArgumentTypeError(f"expected some of {', '.join(PARTS)}, got {', '.join(sorted(unknown))}")
    return text.split(",")


def options(words: Sequence[str]) -> argparse.Namespace:
    """Parse the options."""
    parser = command.options("benchmarks", __doc__, "--only throughput,latency --events 200000")
    length = parser.add_mutually_exclusive_group()
    length.add_argument("--long", action="store_true", help="more events and rounds: about two hours")
    length.add_argument(
        "--short",
        action="store_true",
        help="fewer of all, to compare with the last committed run of this length: 5 minutes",
    )
    parser.add_argument("--only", type=_parts, default=list(PARTS), help=f"some of {','.join(PARTS)}")
    parser.add_argument("--rounds", type=int, default=2, help="rounds of throughput and latency (%(default)s)")
    parser.add_argument("--events", type=int, default=500_000, help="events of each throughput run (%(default)s)")
    parser.add_argument("--sessions", type=_numbers, default=[1000], help="sessions of each throughput run (1000)")
    parser.add_argument("--peer-seconds", type=float, default=15.0, help="maximum for one peer (%(default)s)")
    parser.add_argument("--rates", type=_numbers, default=[200, 1000], help="events/s of latency runs (200,1000)")
    parser.add_argument(
        "--latency-seconds", type=float, default=12.0, help="time for each engine and rate (%(default)s)"
    )
    parser.add_argument("--latency-workers", type=int, default=1, help="workers of latency runs (%(default)s)")
    parser.add_argument("--pieces", type=int, default=60, help="pieces of guarded calls (%(default)s)")
    parser.add_argument("--traces", type=Path, default=TRACES, metavar="DIR", help="recorded sessions, for the core")
    parser.add_argument("--core-rounds", type=int, default=2, help="rounds over the recorded sessions (%(default)s)")
    parser.add_argument("--sink-events", type=int, default=200_000, help="events for each sink (%(default)s)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", type=Path, default=Path("build/bench.json"), metavar="FILE", help="(%(default)s)")
    parser.add_argument("--logs", metavar="DIR", help="keep the logs of the processes there")
    brief, _ = parser.parse_known_args(words)
    parser.set_defaults(**(_LONG if brief.long else _SHORT if brief.short else {}))
    return parser.parse_args(words)


if __name__ == "__main__":
    command.run(main)
