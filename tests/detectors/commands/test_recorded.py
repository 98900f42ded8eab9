"""On recorded sessions of real agents, which did ordinary work: everything is read, and nearly nothing looks bad."""

import gzip
import json
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from haltline.detectors.commands import Badness, creations, destructions
from haltline.detectors.commands.model import OPENED, Destruction
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


Recorded = dict[str, Sequence[Destruction]]


@pytest.fixture(scope="module")
def recorded() -> Recorded:
    """Each command, and what it destroys."""
    return {command: destructions(command) for command in sorted(set(commands()))}


def test_ordinary_work_is_never_severe_destroys_by_few_verbs_and_mostly_what_it_made(recorded: Recorded) -> None:
    assert [command for command, found in recorded.items() if any(d.badness is Badness.SEVERE for d in found)] == []
    verbs = Counter(d.verb for found in recorded.values() for d in found)
    assert set(verbs) <= {"rm", "rmdir", "git_checkout", "git_restore", "find_delete", "truncate", "remove", OPENED}
    assert verbs["rm"] > 1000
    made = {target for command in recorded for target in creations(command)}
    deleted = {d.target for found in recorded.values() for d in found if d.verb == "rm"}
    assert len(deleted & made) > len(deleted) / 2


def test_the_quick_look_hides_nothing_in_recorded_work(recorded: Recorded) -> None:
    """What it lets through is parsed, so nothing can be missing there."""
    assert [command for command, found in recorded.items() if not found and parsed_destructions(command)] == []
