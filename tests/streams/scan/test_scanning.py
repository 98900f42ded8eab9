from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import orjson
import pytest
from genai_prices import Usage as Counted
from genai_prices import calc_price
from hypothesis import given
from hypothesis import strategies as st

from haltline.cli.agent.watch import line_of
from haltline.schemas.decisions import Level
from haltline.schemas.events import ActionEvent, Usage
from haltline.schemas.policy import Policy
from haltline.streams.importing.steps import Turn
from haltline.streams.scan.files import project_of, read_file
from haltline.streams.scan.following import Following
from haltline.streams.scan.homes import histories, within
from haltline.streams.scan.prices import Prices
from haltline.streams.scan.report import Report
from haltline.streams.scan.results import Known, Scanned, ScannedFile, sessions_in
from haltline.streams.scan.scanning import scan
from haltline.streams.scan.waste import IDLE_MS
from tests.builders import cases
from tests.streams.scan.transcripts import BEGAN, MODEL, Transcript, remove, stuck

POLICY = Policy()


def scanned(transcript: Transcript, folder: Path) -> Scanned:
    file = transcript.write(folder / "projects" / "-srv-shop" / "a.jsonl")
    found = read_file("claude-code", file, POLICY)
    assert found.skipped == []
    [session] = found.sessions
    return session


def test_what_came_after_the_stop_is_wasted_and_a_broken_line_costs_that_line_only(tmp_path: Path) -> None:
    session = scanned(stuck(), tmp_path)
    [waste] = session.waste
    assert (waste.level, session.project, session.agent) == ("KILL", "-srv-shop", "claude-code")
    assert 0 < waste.tokens < session.tokens
    assert waste.tokens % 1100 == 0, "whole turns"
    assert 0 < waste.cost_usd < session.cost_usd
    assert list(session.models) == [MODEL]
    assert any(step.number == waste.number for step in waste.around)
    file = stuck().write(tmp_path / "a.jsonl")
    file.write_bytes(file.read_bytes() + b'{"type": "assistant", "mess')
    found = read_file("", file, POLICY)
    assert [len(found.sessions), len(found.skipped), found.is_recording] == [1, 1, True]
    assert "line 26" in found.skipped[0]


def test_waste_ends_with_the_next_prompt_or_progress_and_of_a_pause_five_minutes_count(tmp_path: Path) -> None:
    once = scanned(stuck(), tmp_path).waste[0]
    again = remove(stuck().prompt("now the docs").call("ls docs", "index.md"), what="docs")
    first, second = scanned(again, tmp_path).waste
    assert first.steps == once.steps
    assert second.number > first.number + first.steps
    ended = stuck()
    ended.call("sed -i s/-lssl// Makefile", "")
    for number in range(12):
        ended.call(
            f"cat part{number}.txt", f"{number} some quite other text in each of the parts of it: {number * 7919}"
        )
    assert scanned(ended, tmp_path).waste[0].steps == scanned(stuck(), tmp_path).waste[0].steps + 1, "the edit itself"
    short, long = stuck(), stuck()
    remove(short.later(0), 1)
    remove(long.later(86_400), 1)
    difference = scanned(long, tmp_path).waste[0].ms - scanned(short, tmp_path).waste[0].ms
    assert difference == IDLE_MS - 10_000


def test_a_second_scan_reads_only_what_is_new(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache, file, other = tmp_path / "cache" / "scan.jsonl", tmp_path / "a.jsonl", tmp_path / "b.jsonl"
    read: list[str] = []

    def counted(agent: str, path: Path, policy: Policy) -> ScannedFile:
        read.append(path.name)
        return read_file(agent, path, policy)

    monkeypatch.setattr("haltline.streams.scan.files.read_file", counted)

    def scan_both(policy: Policy = POLICY, *, fresh: bool = False) -> list[dict[str, object]]:
        read.clear()
        known = Known(cache, policy, fresh=fresh)
        found = list(scan([("", file), ("", other)], policy, known))
        known.write()
        return [orjson.loads(line) for line in Report(sessions_in(found), found).lines()]

    stuck().write(file)
    Transcript("other").prompt("look").call("ls", "a.py").write(other)
    first = scan_both()
    assert sorted(read) == ["a.jsonl", "b.jsonl"]
    assert (scan_both(), read) == (first, [])
    stuck(14).write(file)
    assert scan_both() != first
    assert read == ["a.jsonl"]
    scan_both(POLICY.model_copy(update={"version": 7}))
    assert sorted(read) == ["a.jsonl", "b.jsonl"], "another policy judges anew"
    scan_both(fresh=True)
    assert sorted(read) == ["a.jsonl", "b.jsonl"]
    scan_both()
    assert read == [], "what a fresh scan found is kept"
    cache.write_bytes(b"{broken\n" + cache.read_bytes()[:50])
    scan_both()
    assert sorted(read) == ["a.jsonl", "b.jsonl"]


def test_several_processes_find_what_one_finds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = [("claude-code", stuck(10 + n).write(tmp_path / f"{n}.jsonl")) for n in range(3)]
    monkeypatch.setattr("haltline.streams.scan.scanning._SMALL_BYTES", 0)
    alone, beside = (scan(files, POLICY, Known(None, POLICY), processes=count) for count in (1, 2))
    assert sorted((one.path, one.sessions) for one in alone) == sorted((one.path, one.sessions) for one in beside)


@cases(
    "agent, file, content, project",
    {
        "its working directory": ("codex", "26/rollout.jsonl", '{"payload": {"cwd": "/srv/shop"}}', "/srv/shop"),
        "that of Claude Code": ("claude-code", "projects/-srv-a-b/s.jsonl", '{"cwd": "/srv/a-b"}', "/srv/a-b"),
        "Gemini CLI's folder of it": ("gemini-cli", "shop/chats/a.json", "{}", "shop"),
        "the folder of the file": ("amp", "shop/a.json", "{}", "shop"),
    },
)
def test_a_project_is_named_after_its_folder(agent: str, file: str, content: str, project: str, tmp_path: Path) -> None:
    path = tmp_path / file
    path.parent.mkdir(parents=True)
    path.write_text(content)
    assert project_of(agent, path) == project


MODELS = ("claude-sonnet-4-5", "gpt-5", "gpt-4o", "gemini-2.5-pro", "deepseek-chat", "claude-3-opus-latest")
tokens = st.integers(0, 40_000) | st.integers(0, 2_000_000)


@given(
    model=st.sampled_from(MODELS),
    counts=st.tuples(st.integers(1, 300_000), tokens, tokens, tokens, tokens),
    minute=st.integers(28_800_000, 29_900_000),
)
def test_a_turn_costs_what_the_table_says(model: str, counts: tuple[int, ...], minute: int) -> None:
    fresh, cached, output, short, long = counts
    usage = Usage(input_tokens=fresh + short + long, cache_read_tokens=cached, output_tokens=output)
    counted = Counted(
        input_tokens=usage.input_tokens + cached, cache_read_tokens=cached, output_tokens=output,
        cache_write_tokens=short + long, cache_write_1h_tokens=long,
    )  # fmt: skip
    said = calc_price(counted, model, genai_request_timestamp=datetime.fromtimestamp(minute * 60, UTC))
    prices = Prices()
    assert prices.of(Turn("s", model, usage, (short, long), minute * 60_000)) == pytest.approx(float(said.total_price))
    (spent,) = prices.spent.values()
    assert (spent.tokens, spent.written) == (usage.tokens, short + long)
    assert spent.cached_usd + spent.written_usd <= spent.cost_usd * 1.0001


def test_a_model_without_a_price_is_named_and_its_tokens_are_counted() -> None:
    prices = Prices()
    for model in ("gpt-of-my-own", ""):
        usage = Usage(input_tokens=3, output_tokens=4)
        assert prices.of(Turn("s", model, usage, (0, 0), 1_760_000_000_000)) is None
    assert {one.model: one.tokens for one in prices.spent.values()} == {"gpt-of-my-own": 7, "(not told)": 7}
    assert prices.unknown == {"gpt-of-my-own", "(not told)"}


def test_writing_a_cache_has_its_price_and_a_subagents_file_is_of_its_session(tmp_path: Path) -> None:
    main, below = Transcript().prompt("look").call("ls", "a.py"), Transcript().call("ls b", "b.py")
    usage = main.lines[1]["message"]["usage"]
    hour = {"ephemeral_5m_input_tokens": 1000, "ephemeral_1h_input_tokens": 3000}
    usage |= {"cache_creation_input_tokens": 4000, "cache_creation": hour}
    for line in below.lines:
        line |= {"isSidechain": True, "agentId": "a1", "cwd": "/srv/shop"}
    folder = tmp_path / "projects/-srv-shop"
    files = [main.write(folder / "s.jsonl"), below.write(folder / "s/subagents/agent-a1.jsonl")]
    found = [read_file("claude-code", file, POLICY) for file in files]
    (session,) = sessions_in([*found, *found])
    assert (session.events, session.tokens) == (sum(one.sessions[0].events for one in found), 1100 + 4000 + 1100)
    (spent,) = Report([session], found).groups("day")
    assert (spent.name, spent.written, len(spent.sessions)) == ("2025-10-09", 4000, 1)
    assert spent.written_usd == pytest.approx((1000 * 3.75 + 3000 * 6) / 1e6)
    assert spent.cost_usd == pytest.approx(spent.written_usd + 2 * (1000 * 3 + 100 * 15) / 1e6)


SUPPORT = "Library/Application Support"
TASK = "User/globalStorage/saoudrizwan.claude-dev/tasks/1/api_conversation_history.json"


@cases(
"platform, agent, file",
{
"Claude Code": ("linux", "claude-code", ".claude/projects/-srv-shop/a.jsonl"),
"Cline on macOS": ("darwin", "cline", f"{SUPPORT}/Code/{TASK}"),
"goose on Windows": ("win32", "goose", "AppData/Roaming/Block/goose/sessions/s.jsonl"),
"mini": ("darwin", "mini-swe-agent", f"{SUPPORT}/mini-swe-agent/last_mini_run.traj.json"),
},
)  # fmt: skip
def test_a_history_in_the_home_is_found(platform: str, agent: str, file: str, tmp_path: Path) -> None:
    there = tmp_path / file
    there.parent.mkdir(parents=True)
    there.touch()
    (tmp_path / "other.jsonl").touch()
    assert list(histories(tmp_path, {}, platform)) == [(agent, there)]


@cases(
    "newer, older",
    {
        "opencode": (".local/share/opencode/opencode.db", ".local/share/opencode/storage/session/p/ses_1.json"),
        "goose": (".local/share/goose/sessions/sessions.db", ".local/share/goose/sessions/a.jsonl"),
        "Gemini CLI": (".gemini/tmp/p/chats/session-a.jsonl", ".gemini/tmp/p/chats/session-a.json"),
    },
)
def test_a_session_that_a_newer_release_took_over_is_not_found_twice(newer: str, older: str, tmp_path: Path) -> None:
    for file in (older, newer):
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).touch()
        assert [found for _, found in histories(tmp_path, {}, "linux")] == [tmp_path / file]


def test_within_a_folder_what_may_be_a_history_is_read_and_what_is_installed_there_is_not(tmp_path: Path) -> None:
    for name in ("run.traj", "sub/b.jsonl", "node_modules/c.jsonl", ".git/d.json", "main.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    missing: list[OSError] = []
    found = within([tmp_path / "none", tmp_path], missing.append)
    assert [str(file.relative_to(tmp_path)) for file in found] == ["run.traj", "sub/b.jsonl"]
    assert [str(error.filename) for error in missing] == [str(tmp_path / "none")]


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


def test_what_is_no_history_yet_is_passed_over(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    desk.file.write_bytes(b"{")
    assert (desk.poll(), desk.events) == ([], [])


def test_what_was_there_before_is_not_told_and_a_line_says_what_would_be(tmp_path: Path) -> None:
    desk = Desk(tmp_path / "first")
    desk.write(stuck())
    title, text = line_of(list(desk.following.poll())[-1])
    assert title.startswith("claude-code -srv-shop 11111111-2222-3333-4444-555555555555 KILL ")
    assert "Hint: " in text
    transcript = stuck()
    after = len(transcript.lines)
    transcript.later(60)
    since_ms = (transcript.now - 1) * 1000
    transcript.prompt("now the docs")
    remove(transcript, what="docs")
    desk = Desk(tmp_path, since_ms=since_ms)
    desk.write(transcript, slice(0, after))
    assert desk.following.start() == 1
    assert (desk.poll(), desk.events) == ([], []), "it has not changed"
    desk.write(transcript, slice(after, None))
    levels = [level for _, level in desk.poll()]
    assert [level for level in levels if level >= Level.PAUSE] == levels[-1:], "one stop, of the second prompt"
    assert min(event.time for event in desk.events) >= since_ms > BEGAN * 1000
