"""The names of sets of topics, and the entry that leads to the present one."""

import pytest

from haltline.schemas.control import ControlRecord, ControlState
from haltline.schemas.topics import Topics
from haltline.schemas.wire import decode


def test_each_set_follows_the_one_before_it_and_the_group_of_its_workers_with_it() -> None:
    first = Topics("team.")
    third = first.next.next
    assert [one.prefix for one in third.sets] == ["team.", "team.2.", "team.3."]
    assert third.sets == (first, first.next, third)
    assert third.older_names == {*first.all, *first.next.all}
    groups = [third.group(configured, prefix) for configured, prefix in (("own", "team."), ("own.2", "team.2."))]
    assert groups == ["own.3", "own.3"]
    assert first.group("own", "team.") == "own"
    assert first.latest([*first.all, *first.next.all]) == first.next


def test_an_entry_names_the_topics_and_anything_else_names_none() -> None:
    entry = Topics().next.entry(1_750_000_000_000)
    assert Topics.of_entry(entry) == Topics("haltline.2.", ("haltline.",))
    assert decode(ControlRecord, entry).state is ControlState.PROBATION, "older releases can read it"


@pytest.mark.parametrize(
    "value", [None, b"", b"\xff", b"[]", b"{}", b'{"prefixes":[]}', b'{"prefixes":"haltline."}', b'{"prefixes":[1]}']
)
def test_what_is_no_entry_leads_nowhere(value: bytes | None) -> None:
    assert Topics.of_entry(value) is None
