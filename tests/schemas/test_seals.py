from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from haltline.schemas.keys import BadKey, make_keys
from haltline.schemas.seals import HEADER, NotSealed, Sealer, Seals
from tests.builders import cases

TOPIC, KEY, VALUE, AT = "haltline.control", b"session:s1", b'{"state":"killed"}', 1_750_000_000_000


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    private = tmp_path_factory.mktemp("keys") / "worker.pem"
    return private, make_keys(private)


@pytest.mark.parametrize("value", [VALUE, b"", None], ids=["with a value", "with an empty one", "without any"])
def test_what_was_sealed_tells_when(keys: tuple[Path, Path], value: bytes | None) -> None:
    private, public = keys
    seal = Sealer(private).seal(TOPIC, KEY, value, AT)
    assert Seals.of_files([public]).check(TOPIC, KEY, value, [("other", b"x"), seal]) == AT


@cases(
    "topic, key, value",
    {
        "on another topic": ("other.control", KEY, VALUE),
        "under another key": (TOPIC, b"session:s2", VALUE),
        "under none": (TOPIC, None, VALUE),
        "with another value": (TOPIC, KEY, VALUE + b" "),
        "with an empty value": (TOPIC, KEY, b""),
        "without a value": (TOPIC, KEY, None),
        "cut elsewhere": (TOPIC, KEY + VALUE[:1], VALUE[1:]),
    },
)
def test_it_holds_for_no_other(keys: tuple[Path, Path], topic: str, key: bytes | None, value: bytes | None) -> None:
    private, public = keys
    seal = Sealer(private).seal(TOPIC, KEY, VALUE, AT)
    with pytest.raises(NotSealed, match="expected the record as it was signed, got another"):
        Seals.of_files([public]).check(topic, key, value, [seal])


@given(st.lists(st.one_of(st.none(), st.binary(max_size=200)), max_size=3))
def test_whatever_is_no_seal_is_reported_as_such(keys: tuple[Path, Path], headers: list[bytes | None]) -> None:
    with pytest.raises(NotSealed):
        Seals.of_files([keys[1]]).check(TOPIC, KEY, VALUE, [(HEADER, one) for one in headers])


@pytest.mark.parametrize("at", ["1.5", "null", '"1"', "[]", "1e30", "99999999999999999999", "1850000000000"])
def test_it_holds_at_no_other_time_and_at_none_that_is_none(keys: tuple[Path, Path], at: str) -> None:
    private, public = keys
    name, result = Sealer(private).seal(TOPIC, KEY, VALUE, AT)
    with pytest.raises(NotSealed):
        Seals.of_files([public]).check(TOPIC, KEY, VALUE, [(name, result.replace(str(AT).encode(), at.encode()))])


def test_one_key_follows_another_and_a_file_that_is_no_key_is_named(keys: tuple[Path, Path], tmp_path: Path) -> None:
    private, public = keys
    next_public = make_keys(tmp_path / "next.pem")
    both = Seals.of_files([public, next_public])
    for file in (private, tmp_path / "next.pem"):
        assert both.check(TOPIC, KEY, VALUE, [Sealer(file).seal(TOPIC, KEY, VALUE, AT)]) == AT
    with pytest.raises(NotSealed, match="expected a seal of key"):
        Seals.of_files([next_public]).check(TOPIC, KEY, VALUE, [Sealer(private).seal(TOPIC, KEY, VALUE, AT)])
    other = tmp_path / "other.pem"
    other.write_text("none")
    with pytest.raises(BadKey, match=r"other\.pem: expected an ed25519 private key"):
        Sealer(other)
    with pytest.raises(BadKey, match=r"worker\.pem: expected an ed25519 public key"):
        Seals.of_files([keys[0]])
