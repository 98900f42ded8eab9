import pytest

from haltline.detectors.features.context_compaction import ContextCompaction
from haltline.detectors.session.repetition import Repetition
from haltline.schemas.events import ActionEvent, Kind, Usage
from tests.builders import event, fires_at


def noted(*tokens: int) -> ContextCompaction:
    compaction = ContextCompaction()
    for actions, read in enumerate(tokens, start=1):
        compaction.note(Usage(input_tokens=read), actions)
    return compaction


@pytest.mark.parametrize(
    ("tokens", "last"),
    [
        pytest.param((40_000, 60_000, 15_000, 18_000), 3, id="it fell and stayed low"),
        pytest.param((40_000, 60_000, 1_000, 61_000), 0, id="a small call in between"),
        pytest.param((4_000, 6_000, 1_000, 1_200), 0, id="it was small anyway"),
        pytest.param((40_000, 60_000, 50_000, 45_000), 0, id="it fell a little"),
        pytest.param((60_000, 10_000, 60_000, 11_000, 12_000), 4, id="it fell after a small call"),
        pytest.param((0, 0), 0, id="nothing is told"),
    ],
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

    assert [severity for _, _, severity in fires_at(Repetition(), session(9_000))] == ["medium", "critical"]
    assert [severity for _, _, severity in fires_at(Repetition(), session(51_000))] == ["medium"]
