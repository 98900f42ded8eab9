from collections.abc import Iterator
from pathlib import Path

import orjson
import pytest

from haltline.cli.agent.watch_all import line_of
from haltline.schemas.decisions import Level
from haltline.schemas.events import ActionEvent
from haltline.schemas.policy import Policy
from haltline.streams.scan.following import Following
from tests.streams.scan.transcripts import BEGAN, Transcript, stuck

POLICY = Policy()


class Desk:
    """A folder of histories, which are followed."""

    def __init__(self, folder: Path, *, since_ms: int = 0) -> None:
        self.file = folder / "projects" / "-srv-shop" / "a.jsonl"
        self.file.parent.mkdir(parents=True)
        self.events: list[ActionEvent] = []
        self.now_s = 0.0
        self.following = Following(POLICY, found=self._found, on_event=self.events.append, since_ms=since_ms)

    def _found(self) -> Iterator[tuple[str, Path]]:
        if self.file.exists():
            yield "claude-code", self.file

    def poll(self) -> list[tuple[str, Level]]:
        self.now_s += 1000
        return [(trip.decision.detector, trip.decision.level) for trip in self.following.poll(lambda: self.now_s)]

    def write(self, transcript: Transcript, lines: slice = slice(None), *, cut: int | None = None) -> None:
        with self.file.open("ab") as file:
            file.write(b"".join(orjson.dumps(line) + b"\n" for line in transcript.lines[lines])[:cut])


def test_what_is_written_line_by_line_leads_to_what_a_whole_file_leads_to(tmp_path: Path) -> None:
    whole, slow, transcript = Desk(tmp_path / "whole"), Desk(tmp_path / "slow"), stuck()
    whole.write(transcript)
    at_once = whole.poll()
    found = []
    for number in range(len(transcript.lines)):
        slow.write(transcript, slice(number, number + 1))
        found += slow.poll()
    assert found == at_once
    assert at_once[-1][1] >= Level.PAUSE
    assert [event.event_id for event in slow.events] == [event.event_id for event in whole.events]
    assert slow.poll() == [], "nothing has changed"


@pytest.mark.parametrize("content", [b"\x00\x01", b"{", b"[1, 2]"])
def test_what_is_no_history_yet_is_passed_over(tmp_path: Path, content: bytes) -> None:
    desk = Desk(tmp_path)
    desk.file.write_bytes(content)
    assert (desk.poll(), desk.events) == ([], [])


def test_what_was_there_before_is_not_told_and_a_line_says_what_would_be(tmp_path: Path) -> None:
    desk = Desk(tmp_path / "first")
    desk.write(stuck())
    title, text = line_of(list(desk.following.poll())[-1])
    assert title.startswith("claude-code -srv-shop 11111111-2222-3333-4444-555555555555 PAUSE ")
    assert "Would be told: " in text
    transcript = stuck()
    after = len(transcript.lines)
    transcript.later(60)
    since_ms = (transcript.now - 1) * 1000
    transcript.prompt("now the docs")
    for _ in range(12):
        transcript.call("make docs", "error: no rule to make target", failed=True)
    desk = Desk(tmp_path, since_ms=since_ms)
    desk.write(transcript, slice(0, after))
    assert desk.following.start() == 1
    assert (desk.poll(), desk.events) == ([], []), "it has not changed"
    desk.write(transcript, slice(after, None))
    levels = [level for _, level in desk.poll()]
    assert [level for level in levels if level >= Level.PAUSE] == levels[-1:], "one stop, of the second prompt"
    assert min(event.time for event in desk.events) >= since_ms > BEGAN * 1000
