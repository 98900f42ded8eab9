"""Histories that agents keep as several files: what is read of each, and what tells it from others."""

import re
from pathlib import Path

import pytest

from haltline.streams.importing.detection import DETECTORS
from haltline.streams.importing.reading import content_of
from tests.streams.importing.test_samples import SAMPLES, Row, check, history

HOMES = SAMPLES / "homes"
FAILED = "The tool execution failed with the following error:\n<error>\nno such asset: none\n</error>"


def numbered(rows: list[Row]) -> list[Row]:
    """Calls without ids of their own are numbered by the turn."""
    return [row._replace(call=re.sub(r"call_a(\d)", lambda found: f"c{int(found[1]) + 1}.0", row.call)) for row in rows]


EXPECTED = {
    "cline/api_conversation_history.json": ("cline", numbered(history(cost=0.004, why=FAILED))),
    "roo/api_conversation_history.json": ("cline", history(cost=0.004, why=FAILED)),
}


@pytest.mark.parametrize(("name", "form", "rows"), [(name, *of) for name, of in EXPECTED.items()], ids=EXPECTED)
def test_every_event_of_a_history_is_read(name: str, form: str, rows: list[Row]) -> None:
    events = check(HOMES / name, form, rows)
    assert {event.session_id for event in events} == {Path(name).parent.name}


@pytest.mark.parametrize(("name", "form"), [(name, form) for name, (form, _) in EXPECTED.items()], ids=EXPECTED)
def test_no_history_is_of_two_formats(name: str, form: str) -> None:
    content = content_of(HOMES / name, [])
    assert [known for known, is_it in DETECTORS.items() if is_it(content)] == [form]
