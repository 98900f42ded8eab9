"""The output of `haltline changelog`: partitions of a changelog, and states that readers drop."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from haltline.cli.common import say
from haltline.cli.tables import print_table
from haltline.schemas.record import rfc3339
from haltline.streams.operator.changelog_repair import DroppedRecords, DroppedState, PartitionReport
from haltline.streams.operator.changelog_topics import Span


def partition_json(span: Span, report: PartitionReport) -> Mapping[str, Any]:
    """A partition as JSON."""
    behind = report.behind_claim
    older = {"first": behind[0], "last": behind[-1], "records": len(behind)} if behind else None
    return {
        **_place(span),
        "begin": span.begin,
        "end": span.end,
        "records": report.records,
        "dropped": [_dropped(records) for records in report.dropped],
        "states": Counter(state.outcome.value for state in report.states),
        "older_release_behind_a_claim": older,
        "keys_to_be_written_anew": report.fenced_keys,
    }


def state_json(span: Span, state: DroppedState) -> Mapping[str, Any]:
    """A dropped state as JSON."""
    return {
        **_place(span),
        "id": state.name,
        "outcome": state.outcome.value,
        "offset": state.dropped.offset,
        "dropped": dict(state.dropped_offsets),
        "counted": dict(state.counted_offsets),
    }


def print_partitions(reports: Sequence[tuple[Span, PartitionReport]]) -> None:
    """Print the findings on the changelogs' partitions, human-readable."""
    print_table(
        ("topic", "partition", "offsets", "eras", "dropped", "records", "keys", "written"),
        (
            (
                span.topic,
                str(span.partition),
                f"{records.first} to {records.last}",
                f"{records.above.era} -> {records.epoch.era}",
                "late records of a replaced owner" if records.late else "eras went down",
                str(records.records),
                str(len(records.keys)),
                f"{rfc3339(records.first_ms)} to {rfc3339(records.last_ms)}",
            )
            for span, report in reports
            for records in report.dropped
        ),
    )
    for span, report in reports:
        where = f"{span.topic}, partition {span.partition}"
        if behind := report.behind_claim:
            at = f"offsets {behind[0]} to {behind[-1]}"
            say(f"{where}: {len(behind)} records of an older release behind a claim, {at}")
            say("  Stop all workers of that release. To keep what they wrote: haltline changelog release")
        if report.fenced_keys:
            say(f"{where}: a new owner rewrites {report.fenced_keys} keys (last record late, or of an older release)")
        for outcome, count in Counter(state.outcome for state in report.states).items():
            say(f"{where}: {count} states that readers drop: {outcome}. See haltline changelog repair")
    say(f"{sum(report.records for _, report in reports)} records of {len(reports)} partitions were read.")


def print_states(states: Iterable[tuple[Span, DroppedState]]) -> None:
    """Print the states that readers drop, human-readable."""
    print_table(
        ("topic", "partition", "id", "result", "offset", "includes", "what counts includes"),
        (
            (
                span.topic,
                str(span.partition),
                state.name,
                state.outcome.value,
                str(state.dropped.offset),
                _offsets(state.dropped_offsets),
                _offsets(state.counted_offsets),
            )
            for span, state in states
        ),
    )


def _place(span: Span) -> Mapping[str, Any]:
    return {"topic": span.topic, "partition": span.partition}


def _dropped(records: DroppedRecords) -> Mapping[str, Any]:
    return {
        "first": records.first,
        "last": records.last,
        "above_era": records.above.era,
        "era": records.epoch.era,
        "late": records.late,
        "records": records.records,
        "keys": len(records.keys),
        "first_time": rfc3339(records.first_ms),
        "last_time": rfc3339(records.last_ms),
    }


def _offsets(offsets: Mapping[str, int]) -> str:
    return ", ".join(f"{topic} {offset}" for topic, offset in sorted(offsets.items())) or "nothing"
