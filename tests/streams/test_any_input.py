"""Whatever a producer puts where any JSON may stand, the core takes it in, and its state can be kept."""

import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from haltline.schemas.wire import decode_event
from haltline.streams import state_codec
from haltline.streams.core import Core, SessionState
from tests.builders import T0_MS

NAMES = (
    "asset_id", "database", "table", "path", "file_path", "command", "cmd", "query", "sql", "code", "url", "method",
    "cwd", "timestamp", "request_id", "thought", "paths", "id", "name", "x",
)  # fmt: skip
ACTIONS = ("bash", "sql", "delete_asset", "write_file", "read_file", "get_status", "run_python", "http_request", "odd")
TEXTS = st.text(max_size=40) | st.sampled_from(
    (
        "rm -rf /srv/x",
        "DROP TABLE t;",
        "cat <<'EOF' > /a/b\n$(x)\nEOF",
        "DELETE",
        "../..",
        "~",
        "'",
        "git push -f \\",
        "\x00",
    )
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False, allow_infinity=False) | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(NAMES), inner, max_size=3),
    max_leaves=8,
)


@st.composite
def calls(draw: st.DrawFn) -> list[dict[str, Any]]:
    said: dict[str, Any] = {
        "action": draw(st.sampled_from(ACTIONS)),
        "args": draw(st.dictionaries(st.sampled_from(NAMES), VALUES, max_size=4)),
        "call_id": "c",
        "model": draw(VALUES),
    }
    result = {"outcome": draw(st.sampled_from(("ok", "error", "timeout", "refused"))), "error": draw(st.none() | TEXTS)}
    result["output_head"] = draw(st.none() | TEXTS)
    return [said | {"kind": "action.proposed"}, said | result | {"kind": "action.completed"}]


@given(calls=st.lists(calls(), min_size=1, max_size=4))
@settings(deadline=None)
def test_any_arguments_are_taken_in_and_the_state_comes_back(calls: list[list[dict[str, Any]]]) -> None:
    core = Core()
    state: SessionState | None = None
    for number, event in enumerate(event for call in calls for event in call):
        head = {"event_id": f"e{number}", "session_id": "s", "time": T0_MS + number * 1000}
        outcome = core.on_event(state, decode_event(_json(head | event)))
        assert outcome.failures == ()
        state = outcome.state
    assert state is not None
    assert state_codec.decode(state_codec.encode(state)) == state


def _json(value: dict[str, Any]) -> bytes:
    """With whole numbers of any size, which orjson does not write."""
    return json.dumps(value).encode()
