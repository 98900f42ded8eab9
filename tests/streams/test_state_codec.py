from pathlib import Path

import orjson
import pytest

from haltline.streams import state_codec
from haltline.streams.core import SessionState
from haltline.streams.state_codec import CorruptState, UnreadableState

GOLDEN = sorted((Path(__file__).parent / "golden").glob("state_v*.json"))


@pytest.mark.parametrize("file", GOLDEN, ids=lambda file: file.stem)
def test_a_state_of_an_older_release_is_read_and_nothing_of_it_is_lost(file: Path) -> None:
    written = orjson.loads(file.read_bytes())
    read = orjson.loads(state_codec.encode(state_codec.decode(file.read_bytes())))
    assert _kept(written, read) == written


def _kept(written: object, read: object) -> object:
    """What is read now, without fields that have come since."""
    if isinstance(written, dict) and isinstance(read, dict):
        return {name: _kept(value, read[name]) for name, value in written.items()}
    if isinstance(written, list) and isinstance(read, list) and len(written) == len(read):
        return [_kept(one, other) for one, other in zip(written, read, strict=True)]
    return read


def test_the_state_of_a_detector_that_is_gone_is_kept_for_the_release_that_knows_it() -> None:
    state = SessionState("s1", detectors={"of_tomorrow": {"count": 3}})
    assert state_codec.decode(state_codec.encode(state)) == state


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(b"{", id="not JSON"),
        pytest.param(b"[]", id="not an object"),
        pytest.param(b'{"v": "1", "session_id": "s1"}', id="a version that is no number"),
        pytest.param(b'{"v": 1}', id="no session"),
        pytest.param(b'{"v": 1, "session_id": "s1", "events": "many"}', id="a wrong type"),
        pytest.param(
            b'{"v": 1, "session_id": "s1", "detectors": {"destructive_repeat": {"attempts": 1}}}',
            id="a detector's state of another shape",
        ),
    ],
)
def test_what_is_no_state_cannot_be_read_and_it_says_so(data: bytes) -> None:
    with pytest.raises(UnreadableState, match=r"expected a state|state version"):
        state_codec.decode(data)


def test_a_state_of_another_release_is_not_taken_for_damage() -> None:
    with pytest.raises(CorruptState, match="state version: expected 1, got 2") as raised:
        state_codec.decode(b'{"v": 2, "session_id": "s1"}')
    assert not isinstance(raised.value, UnreadableState)
