"""On recorded sessions of real agents, which did ordinary work: everything is read, and nearly nothing looks bad."""

import gzip
import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from haltline.detectors.commands import Badness, creations, destructions
from haltline.detectors.commands.model import OPENED
from haltline.detectors.commands.reading import parsed_destructions

TRACES = Path(__file__).resolve().parents[4] / "shared" / "traces"
FILES = ("miniswe.jsonl.gz", "spotter.jsonl.gz")

pytestmark = pytest.mark.skipif(
    not all((TRACES / name).exists() for name in FILES), reason="the recorded traces (../shared/traces) are not here"
)


def commands() -> Iterator[str]:
    for name in FILES:
        with gzip.open(TRACES / name, "rt", encoding="utf-8") as lines:
            for event in map(json.loads, lines):
                if event.get("action") in ("bash", "Bash"):
                    yield event["args"]["command"]


@pytest.fixture(scope="module")
def recorded() -> list[str]:
    return sorted(set(commands()))


def test_ordinary_work_is_never_severe_destroys_by_few_verbs_and_mostly_what_it_made(recorded: list[str]) -> None:
    severe = [command for command in recorded if any(d.badness is Badness.SEVERE for d in destructions(command))]

    assert severe == []
    verbs = Counter(d.verb for command in recorded for d in destructions(command))

    assert set(verbs) <= {"rm", "rmdir", "git_checkout", "git_restore", "find_delete", "truncate", "remove", OPENED}
    assert verbs["rm"] > 1000
    made = {target for command in recorded for target in creations(command)}
    deleted = {d.target for command in recorded for d in destructions(command) if d.verb == "rm"}

    assert len(deleted & made) > len(deleted) / 2


def test_the_quick_look_hides_nothing_in_recorded_work(recorded: list[str]) -> None:
    assert [command for command in recorded if destructions(command) != parsed_destructions(command)] == []
