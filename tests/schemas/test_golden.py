"""Stored records of version 1, which every later release must read.

The files in golden/v1 are never changed; a new field gets a new file.
"""

from pathlib import Path
from typing import Any

import orjson
import pytest
from jsonschema import Draft202012Validator

from haltline.schemas.record import Record
from haltline.schemas.wire import MODELS, VERSION, decode, json_schemas

GOLDEN = Path(__file__).parent / "golden" / "v1"
AS_HEADERS = "dead-letter"  # is not JSON on its topic: see test_dead_letter
STRICT = "policies"  # a misspelt field of a policy is an error, never kept

SCHEMAS = json_schemas()
FILES = sorted(path for path in GOLDEN.glob("*.json") if path.stem != AS_HEADERS)


def topic_of(path: Path) -> str:
    return path.name.split(".")[0]


def read(path: Path) -> Record:
    return decode(MODELS[topic_of(path)], path.read_bytes())


def holds(whole: Any, part: Any) -> bool:
    """Return whether `whole` contains all of `part`, at its place and with the same type."""
    if isinstance(part, dict):
        return isinstance(whole, dict) and all(name in whole and holds(whole[name], part[name]) for name in part)
    if isinstance(part, list):
        return isinstance(whole, list) and len(whole) == len(part) and all(map(holds, whole, part))
    return type(whole) is type(part) and bool(whole == part)


def test_there_is_a_minimal_and_a_full_record_of_every_topic() -> None:
    expected = {f"{topic}.{what}.json" for topic in MODELS if topic != AS_HEADERS for what in ("minimal", "full")}
    expected |= {f"{topic}.unknown-fields.json" for topic in MODELS if topic not in (AS_HEADERS, STRICT)}
    assert {path.name for path in FILES} >= expected


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_golden_record_is_read_and_nothing_of_it_is_lost_when_it_is_written_again(path: Path) -> None:
    record, golden = read(path), orjson.loads(path.read_bytes())
    written = record.to_json()
    assert holds(orjson.loads(written), golden)
    assert decode(type(record), written) == record
    if ".full." in path.name:
        assert orjson.loads(written) == golden
    if ".minimal." in path.name:
        assert b'"v"' not in path.read_bytes()
        assert orjson.loads(written)["v"] == VERSION, "one that names no version is of version 1"
    if "unknown" in path.name:
        assert record.model_extra, "what this release does not know is kept"
        assert holds(orjson.loads(written), record.model_extra)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_the_published_json_schema_accepts_the_golden_record(path: Path) -> None:
    schema = SCHEMAS[topic_of(path)]
    problems = Draft202012Validator(schema).iter_errors(orjson.loads(path.read_bytes()))
    assert [problem.message for problem in problems] == []


def test_the_json_schema_refuses_what_the_model_refuses() -> None:
    event = orjson.loads((GOLDEN / "actions.minimal.json").read_bytes())
    validator = Draft202012Validator(SCHEMAS["actions"])
    for wrong in ({"kind": "action.dreamt"}, {"session_id": ""}, {"seq": -1}, {"effect": "DESTRUCTIVE"}):
        assert not validator.is_valid(event | wrong), wrong
    for missing in ("event_id", "kind", "session_id", "time"):
        assert not validator.is_valid({name: event[name] for name in event if name != missing}), missing
