"""`python -m benchmarks.sink_memory`: the memory of a sink's writer over many commits, with chains and signatures.

Each commit opens the table again and reads the names of its files, so memory and time of a commit grow with the number
of files that are not merged yet. So `haltline audit compact` merges them regularly in a separate process, as in
production; the remaining growth is the writer's.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import linear_regression

from benchmarks.load import Load, generate
from benchmarks.processes import rss_bytes
from haltline.schemas.keys import make_keys
from haltline.schemas.topics import Topics
from haltline.streams.audit.reading import KafkaRecord, Reader
from haltline.streams.audit.redacting import Redaction
from haltline.streams.audit.signing import load_signer
from haltline.streams.audit.table import DeltaAuditTable
from haltline.streams.audit.writer import AuditWriter, Place

PARTITIONS = 4
_MIB = 1024 * 1024


@dataclass(frozen=True)
class Sample:
    """A measurement after a number of commits."""

    commits: int
    rss_bytes: int
    ms_per_commit: float


def commit_often(folder: Path, commits: int, rows: int) -> Iterator[int]:
    """Commit `rows` records at a time to a table in the folder; yield the number of commits after each."""
    topics, now_ms = Topics(), time.time_ns() // 1_000_000
    make_keys(folder / "key.pem")
    writer = AuditWriter(
        DeltaAuditTable(folder / "audit"), Reader(topics, "audit", Redaction()), "audit",
        signer=load_signer(folder / "key.pem"), sign_every=rows,
    )  # fmt: skip
    writer.assign([Place(topics.actions, partition) for partition in range(PARTITIONS)])
    load = Load(events=commits * rows, sessions=min(100, rows), start_ms=now_ms - 3_600_000)
    for number, sent in enumerate(generate(load)):
        place, offset = number % PARTITIONS, number // PARTITIONS
        writer.add(KafkaRecord(topics.actions, place, offset, now_ms, sent.session_id.encode(), sent.value))
        if number % rows == rows - 1:
            writer.flush(now_ms)
            yield (number + 1) // rows


def measure(commits: int, rows: int, every: int, compact_every: int) -> Iterator[Sample]:
    """Yield a sample after every `every` commits."""
    with tempfile.TemporaryDirectory(prefix="haltline-bench-") as scratch:
        began = time.perf_counter()
        for done in commit_often(Path(scratch), commits, rows):
            if done % compact_every == 0:
                command = [sys.executable, "-m", "haltline.cli", "audit", "compact", "--table", f"{scratch}/audit"]
                subprocess.run(command, check=True, capture_output=True)
            if done % every == 0:
                now = time.perf_counter()
                yield Sample(done, rss_bytes(os.getpid()) or 0, (now - began) * 1000 / every)
                began = now


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the series, and the slope of its last three quarters."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--commits", type=int, default=1000, help="(%(default)s)")
    parser.add_argument("--rows", type=int, default=100, help="rows of a commit (%(default)s)")
    parser.add_argument("--every", type=int, default=50, help="commits between two samples (%(default)s)")
    parser.add_argument("--compact-every", type=int, default=100, help="commits (%(default)s)")
    args = parser.parse_args(arguments)
    samples = []
    for sample in measure(args.commits, args.rows, args.every, args.compact_every):
        samples.append(sample)
        print(f"{sample.commits:6} commits  {sample.rss_bytes / _MIB:6.1f} MiB  {sample.ms_per_commit:6.1f} ms/commit")
    later = samples[len(samples) // 4 :]
    if len(later) > 1:
        slope = linear_regression([one.commits for one in later], [one.rss_bytes for one in later]).slope
        print(f"slope from {later[0].commits} commits on: {slope / 1024:+.1f} KiB per commit")
    return 0


if __name__ == "__main__":
    sys.exit(main())
