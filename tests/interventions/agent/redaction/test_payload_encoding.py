import decimal
import math
from dataclasses import dataclass
from pathlib import Path

import orjson
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from haltline.interventions.agent.redaction.marks import Keys
from haltline.interventions.agent.redaction.payload_encoding import plain
from haltline.interventions.agent.testing import ScriptedGuard
from tests.builders import cases, some


class Model(BaseModel):
    name: str = "x"


@dataclass
class Point:
    x: int = 1


class Opaque:
    def __repr__(self) -> str:
        raise RuntimeError("my repr is broken")


def circle() -> list[object]:
    ring: list[object] = []
    ring.append(ring)
    return ring


@cases(
    "value, expected",
    {
        "JSON is told as it is": ({"b": 1, "a": None}, {"a": None, "b": 1}),
        "a path as its text": ({"p": Path("/etc/passwd")}, {"p": "/etc/passwd"}),
        "models as their fields": ({"m": Model(), "d": Point()}, {"m": {"name": "x"}, "d": {"x": 1}}),
        "a set in order": ({"s": {3, 1, 2}}, {"s": [1, 2, 3]}),
        "a decimal as its text": ({"d": decimal.Decimal("1.50")}, {"d": "1.50"}),
        "bytes that are text as text": ({"b": b"text"}, {"b": "text"}),
        "other bytes as their number": ({"b": b"\xff\xfe"}, {"b": "<2 bytes>"}),
        "no number as nothing": ({"n": math.nan}, {"n": None}),
        "a number too large for JSON as its text": ({"n": 2**70, "x": None}, {"n": str(2**70), "x": None}),
        "a text that cannot be written as far as it can": ({"t": "a\ud800b"}, {"t": "a?b"}),
        "keys that are no texts as texts": ({1: "a", None: "b"}, {"1": "a", "null": "b"}),
        "an object of no value as its kind": ({"o": object()}, {"o": "<builtins.object>"}),
    },
)
def test_arguments(value: dict[object, object], expected: object) -> None:
    assert plain(value, max_bytes=8192).value == expected


@cases(
    "value",
    {
        "a list that contains itself": circle(),
        "an object whose repr raises": {"o": Opaque(), "n": 2**70},
        "far too many values": [[]] * 300_000 + [2**70],
    },
)
def test_anything_can_be_reported(value: object) -> None:
    described = plain(value, max_bytes=8192)
    assert len(orjson.dumps(described.value)) <= 8192
    assert len(described.digest) == 32


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary() | st.complex_numbers(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text() | st.integers(), inner) | st.tuples(inner),
    max_leaves=30,
)


@given(value=anything, max_bytes=st.integers(0, 300))
def test_whatever_it_is_it_fits_and_digests_alike_each_time(value: object, max_bytes: int) -> None:
    described = plain(value, max_bytes=max_bytes)
    assert len(orjson.dumps(described.value)) <= max(max_bytes, 20)
    assert described.digest == plain(value, max_bytes=8192).digest


def test_long_arguments_are_cut_and_short_ones_beside_them_stay_without_secrets() -> None:
    long = {"content": "x" * 1_000_000, "path": "/srv/a", "password": "hunter22", "note": "token=abcdef"}
    described = plain(long, max_bytes=8192).value
    assert len(orjson.dumps(described)) <= 8192
    assert (described["path"], described["password"]) == ("/srv/a", "[redacted:password]")
    assert described["note"] == "token=[redacted:token]"
    assert (described["content"][:3], described["content"][-5:]) == ("xxx", "[cut]")


def test_the_digest_is_of_the_whole_whatever_the_order_of_keys_and_tells_nothing_of_a_secret() -> None:
    one, other = (plain({"content": "x" * 1_000_000 + end}, max_bytes=8192) for end in "ab")
    assert one.value == other.value
    assert one.digest != other.digest

    def digest(value: object, key: bytes = b"") -> str:
        return plain(value, max_bytes=0, keys=Keys(key)).digest

    assert digest({"a": 1, "b": 2}) == digest({"b": 2, "a": 1})
    assert digest({"password": "1234"}) == digest({"password": "1235"})
    assert digest({"pin": 1234}, key=b"k") != digest({"pin": 1234})


def test_a_secret_across_the_cut_is_not_reported_in_part() -> None:
    for before in range(4060, 4100):
        described = plain({"a": "x" * before + " AKIAIOSFODNN7EXAMPLE", "b": "y" * 100_000}, max_bytes=8192)
        assert "AKIA" not in str(described.value)


def test_an_event_of_a_call_with_huge_arguments_is_small() -> None:
    guard = ScriptedGuard()
    with guard.action("write_file", args={"content": "é" * 5_000_000, "path": "/srv/a"}, targets=["x" * 10_000] * 5000):
        pass
    proposed = guard.events[1]
    assert some(proposed.args)["path"] == "/srv/a"
    assert len(proposed.to_json()) < 1024 * 1024
