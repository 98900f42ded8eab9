from haltline.detectors.session.destructive_volume import DestructiveVolume
from haltline.schemas.control import Batch
from haltline.schemas.events import ActionEvent, Effect, Outcome
from tests.builders import Events, Watched, at, call, cases, delete, event, in_turn, when

DETECTOR = DestructiveVolume()
Call = tuple[ActionEvent, ActionEvent]


def deletes(*seconds: float) -> list[ActionEvent]:
    """Deletes of different assets."""
    return [delete(s, f"asset_id=a{i}") for i, s in enumerate(seconds)]


def working(count: int) -> list[ActionEvent]:
    """Five slow deletes, with so many writes behind each."""
    return in_turn(
        range(0, 500, 100),
        lambda s: delete(s, f"asset_id=a{s}"),
        *[lambda s: event(s, "write_file", f"path=f{s}")] * count,
    )


def called(second: float, error: str | None = None, outcome: Outcome | None = None) -> Call:
    return call(second, "delete_asset", f"asset_id=a{second}", error, outcome=outcome)


@cases(
    "events, found",
    {
        "the third within the window": (deletes(0, 6, 12), "12c"),
        "again on each further one": (deletes(0, 6, 12, 18), "12c 18c"),
        "the first has left the window": (deletes(0, 30, 61), ""),
        "exactly as old as the window still counts": (deletes(0, 30, 60), "60c"),
        "the same thing three times counts three times": ([delete(s) for s in (0, 6, 12)], "12c"),
        "in whatever order they come": (deletes(12, 6, 0), "0c"),
        "one with a clock far ahead hides nothing": (deletes(1000, 0, 30, 60), "60c"),
        "the fifth slow one within the last actions": (deletes(*range(0, 500, 100)), "400h"),
        "slow ones with work between them: the fifth is the seventeenth action": (working(3), "400h"),
        "slow ones with more work between them: the first is more than twenty actions ago": (working(4), ""),
        "one call with three assets": ([event(0, "delete_assets", args={"asset_id": ["a", "b", "c"]})], "0c"),
        "scratch is nobody's loss": ([event(s, "truncate_tmp", f"table=tmp_{s}") for s in range(9)], ""),
        "a tool whose producer says that it destroys": (
            [event(s, "tidy", f"asset_id=a{s}", effect=Effect.DESTRUCTIVE) for s in range(3)],
            "2c",
        ),
        "what the session itself made is its own": (
            [*(event(s, "create_asset", f"asset_id=a{s}") for s in range(3)), *deletes(10, 11, 12)],
            "",
        ),
        "what it destroyed and made again is its own": (
            in_turn(range(0, 6, 2), delete, lambda s: event(s, "create_asset", "asset_id=fact_sales")),
            "",
        ),
        # attempts and results
        "on the proposal of the third": ([called(s) for s in range(3)], "2c"),
        "refused ones were not done": ([called(s, outcome=Outcome.REFUSED) for s in range(9)], ""),
        "failed ones were tried": ([called(s, "still exists") for s in range(3)], "2c"),
        "a refused one between others is taken back": (
            [called(s, outcome=Outcome.REFUSED if s == 1 else None) for s in range(4)],
            "3c",
        ),
        "ones whose result is still open count": ([called(s)[:1] for s in range(3)], "2c"),
    },
)
def test_fires(events: Events, found: str) -> None:
    assert when(DETECTOR, events) == found


BATCH = Batch(actions="delete_*", targets=["asset_id=*"], max_deletes=5, expires=at(3600))


@cases(
    "events, found",
    {
        "as many as declared": (deletes(*range(5)), ""),
        "one more than declared": (deletes(*range(6)), "5c"),
        "refused ones use nothing up": ([called(s, outcome=Outcome.REFUSED) for s in range(9)], ""),
    },
)
def test_a_declared_batch(events: Events, found: str) -> None:
    assert when(DETECTOR, events, batch=BATCH) == found


def test_another_batch_counts_anew() -> None:
    watched = Watched(DETECTOR, batch=BATCH)
    before = [watched(e) for e in deletes(*range(5))]
    watched.batch = BATCH.model_copy(update={"expires": at(7200)})
    after = [watched(e) for e in deletes(*range(10, 15))]
    assert before + after == [None] * 10
