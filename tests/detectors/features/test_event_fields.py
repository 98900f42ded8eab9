from haltline.detectors.features.observed.event_fields import plain
from haltline.schemas.events import ActionEvent, Kind, Usage
from tests.builders import event


def test_they_are_those_of_the_event_with_the_unknown_ones() -> None:
    e = event(0, "read", kind=Kind.MODEL_TURN, usage=Usage(), tenant="north")
    fields = plain(e)
    assert {name: getattr(fields, name) for name in ActionEvent.model_fields} == vars(e)
    assert fields.model_extra == {"tenant": "north"}
    assert fields.is_usage_unknown


def test_it_is_unknown_only_of_turns_without_usage() -> None:
    assert not plain(event(0, "read")).is_usage_unknown
    assert not plain(event(0, "read", kind=Kind.MODEL_TURN, usage=Usage(input_tokens=1))).is_usage_unknown
