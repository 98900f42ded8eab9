from haltline.detectors.features.context_compaction import ContextCompaction
from haltline.detectors.session.repetition import Repetition
from haltline.schemas.events import ActionEvent, Kind, Usage
from tests.builders import cases, event, severities


def noted(*tokens: int) -> ContextCompaction:
    compaction = ContextCompaction()
    for actions, read in enumerate(tokens, start=1):
        compaction.note(Usage(input_tokens=read), actions)
    return compaction


@cases(
    "tokens, last",
    {
        "it fell and stayed low": ((40_000, 60_000, 15_000, 18_000), 3),
        "a small call in between": ((40_000, 60_000, 1_000, 61_000), 0),
        "it was small anyway": ((4_000, 6_000, 1_000, 1_200), 0),
        "it fell a little": ((40_000, 60_000, 50_000, 45_000), 0),
        "it fell after a small call": ((60_000, 10_000, 60_000, 11_000, 12_000), 4),
    },
)
def test_when_the_context_was_condensed(tokens: tuple[int, ...], last: int) -> None:
    assert noted(*tokens).last == last


def turn(second: float, tokens: int) -> ActionEvent:
    return event(second, "model", kind=Kind.MODEL_TURN, outcome=None, usage=Usage(input_tokens=tokens))


def look(second: float) -> ActionEvent:
    return event(second, "get_order", "order=1", output_head="same")


def test_a_call_made_again_after_that_counts_in_full() -> None:
    news = [event(10 + n, "read_file", f"path={n}", output_head=f"{n}") for n in range(3)]

    def session(tokens: int) -> list[ActionEvent]:
        return [turn(0, 50_000), look(1), look(2), *news, turn(20, tokens), look(21), look(22)]

    assert severities(Repetition(), session(9_000)) == "mc"
    assert severities(Repetition(), session(51_000)) == "m"
