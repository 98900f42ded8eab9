import msgspec

from haltline.detectors.features.call_history import MAX_CALLS, MAX_ONCE, MAX_ROWS, MAX_TRAIL
from haltline.detectors.session.repetition import Repetition
from haltline.schemas.events import ActionEvent
from tests.builders import Watched, bash, call, cases, each, event
from tests.detectors.strategies import long_session


def marks(*events: ActionEvent | tuple[ActionEvent, ...]) -> str:
    """What each call was, by the letters of the trail."""
    watched = Watched(Repetition())
    for item in events:
        for e in (item,) if isinstance(item, ActionEvent) else item:
            watched(e)
    return "".join(entry[-1] for entry in watched.calls.recall.trail)


def look(second: float, result: str = "text") -> ActionEvent:
    return event(second, "read_file", "path=a", output_head=result)


@cases(
    "events, expected",
    {
        "new, once more, and again": ([look(0), look(1), look(2)], "nos"),
        "a result from before tells nothing new": ([look(0), look(1, "b"), look(2)], "nno"),
        "a change, and receipts": (each(3, event, "update_x", "x=1", output_head="ok"), "crr"),
        "a command that writes": (each(2, bash, "touch x", output_head="", output_bytes=0), "cr"),
        "two that write two files": ([bash(s, f"touch /tmp/x{s}", output_head="") for s in range(2)], "cc"),
        "two that read nothing": ([bash(s, f"cat /tmp/x{s}", output_head="") for s in range(2)], "eo"),
        "thoughts": ([event(s, "think", args={"thought": f"{s}"}, output_head="ok") for s in range(2)], "ee"),
        "results that nobody tells": ([event(0, "get_x", "x=1"), event(1, "get_x", "x=1")], "nb"),
        "a value that could not be read": (
            each(2, event, "read_file", "path=a", output_head="<lib.Cursor>", output_bytes=9),
            "nb",
        ),
    },
)
def test_what_a_call_was(events: list[ActionEvent], expected: str) -> None:
    assert marks(*events) == expected


def test_what_is_remembered_is_bounded() -> None:
    watched = Watched(Repetition())
    for e in long_session(3000):
        watched(e)
    recall = watched.calls.recall
    assert len(recall.calls) <= MAX_CALLS
    assert len(recall.once) <= MAX_ONCE
    assert len(recall.trail) <= MAX_TRAIL
    assert all(len(known.rows) <= MAX_ROWS for known in recall.calls.values())
    assert len(msgspec.msgpack.encode(recall)) < 16_384


def test_the_first_result_ends_the_counting_of_attempts_and_early_results_are_not_one_call() -> None:
    pairs = [call(s, "read_file", f"path={s}", output_head=f"{s}") for s in range(4)]
    watched = Watched(Repetition())
    for proposed, _ in pairs:
        watched(proposed)
    assert len(watched.calls.recall.once) == 4
    watched(pairs[0][1])
    assert len(watched.calls.recall.once) == 1
    assert watched.calls.recall.resulted
    pairs = [call(s, "send_email", args={"to": f"{s}@example.org"}, output_head="sent") for s in range(9)]
    named = [(p, c.model_copy(update={"action": "send_email"})) for p, c in pairs]
    swapped = [e for proposed, completed in named[1:] for e in (completed, proposed)]
    assert marks(*named[0], *swapped) == "n"
