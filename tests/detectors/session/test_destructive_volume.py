from collections.abc import Sequence

from haltline.detectors.session.destructive_volume import DestructiveVolume
from haltline.schemas.control import Batch
from haltline.schemas.events import ActionEvent, Effect, Outcome
from haltline.schemas.findings import Finding, Severity
from tests.builders import Watched, at, call, delete, each, event, evidence, findings, fires_at, nearness
from tests.cases import cases

DETECTOR = DestructiveVolume()
FAST, SLOW = ("destructive_volume", "critical"), ("destructive_volume", "high")


def deletes(*seconds: float) -> list[ActionEvent]:
    """Deletes of different assets."""
    return [delete(s, f"asset_id=a{i}") for i, s in enumerate(seconds)]


def writes(first: float, count: int) -> list[ActionEvent]:
    return [event(first + i, "write_file", f"path=f{i}") for i in range(count)]


@cases(
    "events, fires",
    {
        "two are below the limit": (deletes(0, 6), []),
        "the third within the window": (deletes(0, 6, 12), [(12, *FAST)]),
        "again on each further one": (deletes(0, 6, 12, 18), [(12, *FAST), (18, *FAST)]),
        "the first has left the window": (deletes(0, 30, 61), []),
        "exactly as old as the window still counts": (deletes(0, 30, 60), [(60, *FAST)]),
        "a millisecond older does not": (deletes(0, 30, 60.001), []),
        "the same thing three times counts three times": (each((0, 6, 12), delete), [(12, *FAST)]),
        "in whatever order they come": (deletes(12, 6, 0), [(0, *FAST)]),
        "one with a clock far ahead hides nothing": (deletes(1000, 0, 30, 60), [(60, *FAST)]),
        "four slow ones are below the limit by actions": (deletes(*range(0, 400, 100)), []),
        "the fifth slow one within the last actions": (deletes(*range(0, 500, 100)), [(400, *SLOW)]),
        "slow ones with work between them: the fifth is the seventeenth action": (
            [e for i in range(5) for e in (delete(i * 100, f"asset_id=a{i}"), *writes(i * 100 + 1, 3))],
            [(400, *SLOW)],
        ),
        "slow ones with more work between them: the first is more than twenty actions ago": (
            [e for i in range(5) for e in (delete(i * 100, f"asset_id=a{i}"), *writes(i * 100 + 1, 4))],
            [],
        ),
        "one call with three assets": ([event(0, "delete_assets", args={"asset_id": ["a", "b", "c"]})], [(0, *FAST)]),
        "scratch is nobody's loss": ([event(s, "truncate_tmp", f"table=tmp_{s}") for s in range(9)], []),
        "reads destroy nothing": ([event(s, "read_file", f"path=f{s}") for s in range(9)], []),
        "a tool whose producer says that it destroys": (
            [event(s, "tidy", f"asset_id=a{s}", effect=Effect.DESTRUCTIVE) for s in range(3)],
            [(2, *FAST)],
        ),
        "deletes in SQL": (
            [event(s, "execute_sql", args={"query": f"DELETE FROM t{s} WHERE id = 1"}) for s in range(3)],
            [(2, *FAST)],
        ),
        "what the session itself made is its own": (
            [
                *(event(s, "create_asset", f"asset_id=a{s}") for s in range(3)),
                *(delete(10 + s, f"asset_id=a{s}") for s in range(3)),
            ],
            [],
        ),
        "what it destroyed and made again is not its own": (
            [
                e
                for s in range(3)
                for e in (delete(s, "asset_id=fact_sales"), event(s + 0.5, "create_asset", "asset_id=fact_sales"))
            ],
            [(2, *FAST)],
        ),
    },
)
def test_fires(events: Sequence[ActionEvent], fires: list[tuple[float, str, str]]) -> None:
    assert fires_at(DETECTOR, events) == fires


@cases(
    "events, fires",
    {
        "on the proposal of the third": ([call(s, "delete_asset", f"asset_id=a{s}") for s in range(3)], [2]),
        "refused ones were not done": (
            [call(s, "delete_asset", f"asset_id=a{s}", outcome=Outcome.REFUSED) for s in range(9)],
            [],
        ),
        "failed ones were tried": (
            [call(s, "delete_asset", f"asset_id=a{s}", error="still exists") for s in range(3)],
            [2],
        ),
        "a refused one between others is taken back": (
            [
                call(0, "delete_asset", "asset_id=a"),
                call(1, "delete_asset", "asset_id=b", outcome=Outcome.REFUSED),
                call(2, "delete_asset", "asset_id=c"),
                call(3, "delete_asset", "asset_id=d"),
            ],
            [3],
        ),
        "ones whose result is still open count": (
            [e for s in range(3) for e in [call(s, "delete_asset", f"asset_id=a{s}")[0]]],
            [2],
        ),
    },
)
def test_attempts_and_results(events: Sequence[ActionEvent], fires: list[float]) -> None:
    assert [second for second, _, _ in fires_at(DETECTOR, events)] == fires


BATCH = Batch(actions="delete_*", targets=["asset_id=*"], max_deletes=5, expires=at(3600))


@cases(
    "events, fires",
    {
        "as many as declared": (deletes(*range(5)), []),
        "one more than declared": (deletes(*range(6)), [(5, *FAST)]),
        "refused ones use nothing up": (
            [call(s, "delete_asset", f"asset_id=a{s}", outcome=Outcome.REFUSED) for s in range(9)],
            [],
        ),
    },
)
def test_a_declared_batch(events: Sequence[ActionEvent], fires: list[tuple[float, str, str]]) -> None:
    assert fires_at(DETECTOR, events, batch=BATCH) == fires


def test_another_batch_counts_anew() -> None:
    watched = Watched(DETECTOR, batch=BATCH)
    before = [watched(e) for e in deletes(*range(5))]
    watched.batch = BATCH.model_copy(update={"expires": at(7200)})
    after = [watched(e) for e in deletes(*range(10, 15))]
    assert before + after == [None] * 10


def test_the_finding_names_its_evidence() -> None:
    ((_, finding),) = findings(DETECTOR, deletes(0, 6, 12))
    assert finding == Finding(
        detector="destructive_volume",
        code="destructive_volume",
        severity=Severity.CRITICAL,
        reason="3 destructive actions in 12s",
        evidence=evidence(deletes(0, 6, 12)),
        values={"deletes": 3, "span_s": 12},
        thresholds={"max_deletes": 3, "window_s": 60.0, "max_deletes_in_actions": 5, "last_actions": 20},
    )


def test_it_says_how_close_it_is() -> None:
    assert nearness(DETECTOR, deletes(0, 6, 12)) == [0, 0.33, 0.67, 1]
