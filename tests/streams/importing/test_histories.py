"""Histories that agents keep in several files: the content read from each, and their detection."""

import json
import re
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from haltline.schemas.events import Kind, Outcome
from haltline.streams.importing.detection import DETECTORS
from haltline.streams.importing.formats import Imported
from haltline.streams.importing.reading import NotReadable, content_of
from tests.builders import cases
from tests.streams.importing.test_samples import SAMPLES, TURN, Row, check, history

SESSION = "ses_54083ec12ffe"
HOMES = SAMPLES / "homes"
FAILED = "The tool execution failed with the following error:\n<error>\nno such asset: none\n</error>"


def numbered(rows: list[Row]) -> list[Row]:
    """Calls without ids of their own are numbered by the turn."""
    return [row._replace(call=re.sub(r"call_a(\d)", lambda found: f"c{int(found[1]) + 1}.0", row.call)) for row in rows]


EXPECTED = {
    "cline/api_conversation_history.json": ("cline", numbered(history(cost=0.004, why=FAILED)), "cline"),
    "roo/api_conversation_history.json": ("cline", history(cost=0.004, why=FAILED), "roo"),
    "kimi/0f0e0d/5b0c7f0e-kimi/wire.jsonl": ("kimi", history(calls_first=True), "5b0c7f0e-kimi"),
    "kimi-code/wd_shop_0f0e0d/session_1/agents/main/wire.jsonl": ("kimi", history(calls_first=True), "session_1"),
    "droid/-srv-shop/5b0c7f0e-droid.jsonl": (
        "droid",
        [*(row for row in history() if row.kind is not TURN), Row(TURN)],
        "5b0c7f0e-droid",
    ),
    f"opencode/storage/session/p1/{SESSION}.json": ("opencode", history(cost=0.004), SESSION),
}


@pytest.mark.parametrize("name", EXPECTED)
def test_every_event_of_a_history_is_read_and_it_is_of_one_format(name: str) -> None:
    form, rows, session_id = EXPECTED[name]
    events = check(HOMES / name, form, rows)
    assert {event.session_id for event in events} == {session_id}
    content = content_of(HOMES / name, [])
    assert [form for form, is_it in DETECTORS.items() if is_it(content)] == [EXPECTED[name][0]]


def opencode_database(file: Path) -> Path:
    """The same session as opencode keeps it since 2026."""
    with closing(sqlite3.connect(file)) as database, database:
        database.execute("CREATE TABLE session (id, directory)")
        database.execute("CREATE TABLE message (id, session_id, time_created, data)")
        database.execute("CREATE TABLE part (id, message_id, session_id, data)")
        database.execute("INSERT INTO session VALUES (?, '/srv/shop')", (SESSION,))
        for one in sorted((HOMES / "opencode/storage/message" / SESSION).iterdir()):
            made = json.loads(one.read_text())["time"]["created"]
            database.execute("INSERT INTO message VALUES (?, ?, ?, ?)", (one.stem, SESSION, made, one.read_text()))
        for one in (HOMES / "opencode/storage/part").glob("*/*.json"):
            row = (one.stem, one.parent.name, SESSION, one.read_text())
            database.execute("INSERT INTO part VALUES (?, ?, ?, ?)", row)
    return file


def goose_database(file: Path) -> Path:
    """The same session as goose keeps it since October 2025, with what each turn used."""
    _, *messages = map(json.loads, (SAMPLES / "goose.jsonl").read_text().splitlines())
    with closing(sqlite3.connect(file)) as database, database:
        database.execute("CREATE TABLE sessions (id)")
        said = "session_id, role, content_json, created_timestamp"
        used = "session_id, created_timestamp, model, input_tokens, output_tokens, cache_read_tokens, cost"
        database.execute(f"CREATE TABLE messages (id INTEGER PRIMARY KEY, {said})")
        database.execute(f"CREATE TABLE usage_ledger (id INTEGER PRIMARY KEY, {used})")
        database.execute("INSERT INTO sessions VALUES ('20261124_1')")
        for one in messages:
            row = ("20261124_1", one["role"], json.dumps(one["content"]), one["created"])
            database.execute("INSERT INTO messages VALUES (NULL, ?, ?, ?, ?)", row)
            if one["role"] == "assistant":
                turn = ("20261124_1", one["created"], "claude-sonnet-4-5", 1200, 80, 1000, 0.004)
                database.execute("INSERT INTO usage_ledger VALUES (NULL, ?, ?, ?, ?, ?, ?, ?)", turn)
    return file


def text_of(result: dict[str, Any]) -> tuple[str, bool]:
    """The text of a goose result, and whether it failed."""
    failed = result["status"] == "error"
    return result["error"] if failed else result["value"][0]["text"], failed


def cursor_database(file: Path) -> Path:
    """The same session as Cursor keeps it, without what its turns used."""
    _, *messages = map(json.loads, (SAMPLES / "goose.jsonl").read_text().splitlines())
    blocks = [(one["created"], block) for one in messages for block in one["content"]]
    results = {block["id"]: block["toolResult"] for _, block in blocks if block["type"] == "toolResponse"}
    with closing(sqlite3.connect(file)) as database, database:
        database.execute("CREATE TABLE cursorDiskKV (key TEXT UNIQUE ON CONFLICT REPLACE, value BLOB)")
        headers = []
        for number, (created, block) in enumerate(blocks):
            message: dict[str, Any] = {"type": 2, "bubbleId": f"b{number}", "createdAt": created * 1000}
            if block["type"] == "toolRequest":
                asked, (text, failed) = block["toolCall"]["value"], text_of(results[block["id"]])
                message["toolFormerData"] = {
                    "name": asked["name"], "toolCallId": block["id"], "rawArgs": json.dumps(asked["arguments"]),
                    "status": "error" if failed else "completed", "result": text,
                }  # fmt: skip
            headers.append({"bubbleId": f"b{number}", "type": 2})
            database.execute("INSERT INTO cursorDiskKV VALUES (?, ?)", (f"bubbleId:c1:b{number}", json.dumps(message)))
        conversation = json.dumps({"composerId": "c1", "fullConversationHeadersOnly": headers})
        database.execute("INSERT INTO cursorDiskKV VALUES ('composerData:c1', ?)", (conversation.encode(),))
    return file


def test_a_database_of_cursor_has_the_calls_of_its_conversations_and_what_turns_used(tmp_path: Path) -> None:
    file = cursor_database(tmp_path / "state.vscdb")
    events = check(file, "cursor", [row for row in history() if row.kind is not TURN])
    assert {event.session_id for event in events} == {"c1"}
    said = {"type": 2, "text": "done", "tokenCount": {"inputTokens": 1900, "outputTokens": 268}}
    asked = {"type": 1, "text": "and again", "createdAt": "2026-11-24T09:00:09Z"}
    whole = {"composerId": "c0", "conversation": [asked, asked | {"text": "in German"}, said]}  # as before 2025
    with closing(sqlite3.connect(file)) as database, database:
        database.execute("INSERT INTO cursorDiskKV VALUES ('composerData:c0', ?)", (json.dumps(whole),))
    prompt, turn = (event for event in Imported(file).events() if event.session_id == "c0")
    assert (prompt.kind, prompt.task and prompt.task.prompts) == (Kind.SESSION_STARTED, 2)
    assert (turn.usage and turn.usage.tokens, turn.output_head) == (2168, "done")


def test_a_session_of_cline_s_command_line_has_its_calls_turns_and_prompts(tmp_path: Path) -> None:
    _, *lines = map(json.loads, (SAMPLES / "goose.jsonl").read_text().splitlines())
    messages: list[dict[str, Any]] = []
    for line in lines:
        content: list[dict[str, Any]] = []
        for block in line["content"]:
            if block["type"] == "toolRequest":
                asked = block["toolCall"]["value"]
                use = {"type": "tool_use", "id": block["id"], "name": asked["name"], "input": asked["arguments"]}
                content.append(use)
            elif block["type"] == "toolResponse":
                text, failed = text_of(block["toolResult"])
                of_command = {"query": "q", "result": text, "success": not failed}
                content.append({"type": "tool_result", "tool_use_id": block["id"], "content": [of_command]})
            else:
                content.append(block)
        used = {"inputTokens": 1200, "outputTokens": 80, "cacheReadTokens": 1000}
        messages.append({"role": line["role"], "content": content, "ts": line["created"] * 1000, "metrics": used})
    file = tmp_path / "s1.messages.json"
    file.write_text(json.dumps({"version": 1, "sessionId": "s1", "origin": {}, "messages": messages}))
    events = check(file, "cline", history())
    assert {event.session_id for event in events} == {"s1"}
    messages = [{"role": "user", "content": "go"}, *messages]
    file.write_text(json.dumps({"sessionId": "s1", "origin": {}, "messages": messages}))
    assert [event.task.prompts for event in Imported(file).events() if event.task] == [2]


AIDER = """
# aider chat started at 2026-11-24 09:00:00

> Main model: claude-sonnet-4-5 with diff edit format
> Git repo: .git with 12 files

#### mend the build
#### it fails with -lssl

I add the library.

> Tokens: 4.2k sent, 1.1k cache hit, 310 received. Cost: $0.02 message, $0.05 session.
> Applied edit to build.mk
> Running make build

#### once more

I look again.

> Tokens: 1,200 sent, 80 received.
> The LLM did not conform to the edit format.

# aider chat started at 2026-11-25 09:00:00

#### thanks
"""


def test_a_history_of_aider_has_the_turns_edits_and_commands_of_each_chat(tmp_path: Path) -> None:
    file = tmp_path / ".aider.chat.history.md"
    file.write_text(AIDER)
    imported = Imported(file)
    events = list(imported.events())
    assert imported.form == "aider"
    assert {event.session_id for event in events} == {"aider 2026-11-24 09:00:00"}
    used = [event.usage for event in events if event.usage is not None]
    assert [(one.input_tokens, one.cache_read_tokens, one.output_tokens, one.cost_usd) for one in used] == [
        (3100, 1100, 310, 0.02), (1200, 0, 80, 0.0),
    ]  # fmt: skip
    ends = [(event.action, event.outcome, event.error) for event in events if event.kind is Kind.COMPLETED]
    assert ends == [
        ("edit_file", Outcome.OK, None), ("bash", Outcome.UNKNOWN, None),
        ("edit_file", Outcome.ERROR, "The LLM did not conform to the edit format."),
    ]  # fmt: skip
    assert [event.task.prompts for event in events if event.task is not None] == [2]
    assert events[0].time == 1_795_510_800_000


def test_databases_have_what_files_had_and_another_one_is_refused(tmp_path: Path) -> None:
    events = check(opencode_database(tmp_path / "opencode.db"), "opencode", history(cost=0.004))
    assert {event.session_id for event in events} == {SESSION}
    file = tmp_path / "opencode.db"
    with closing(sqlite3.connect(file)) as database, database:
        database.execute("UPDATE part SET data = '{' WHERE id = 'prt_12'")
    assert len(list(Imported(file).events())) == len(history()) - 2
    rows = [row._replace(text="") if row.kind is TURN else row for row in history(calls_first=True, cost=0.004)]
    events = check(goose_database(tmp_path / "sessions.db"), "goose", rows)
    assert {event.session_id for event in events} == {"20261124_1"}
    file = tmp_path / "other.db"
    with closing(sqlite3.connect(file)) as database, database:
        database.execute("CREATE TABLE people (name)")
    with pytest.raises(NotReadable, match=r"other\.db: expected a recording of "):
        Imported(file)


@cases(
    "name, is_prompt",
    {
        "Codex CLI": ("codex.jsonl", lambda line: line["payload"].get("type") == "user_message"),
        "Gemini CLI": ("gemini_cli.jsonl", lambda line: line.get("type") == "user"),
        "pi": ("pi.jsonl", lambda line: line.get("message", {}).get("role") == "user"),
        "Copilot CLI": ("copilot_cli.jsonl", lambda line: line["type"] == "user.message"),
        "goose": ("goose.jsonl", lambda line: "Clean up fact_sales." in str(line.get("content"))),
    },
)
def test_another_prompt_is_a_boundary(name: str, is_prompt: Callable[[Any], bool], tmp_path: Path) -> None:
    lines = [json.loads(line) for line in (SAMPLES / name).read_text().splitlines()]
    given = next(line for line in lines if is_prompt(line)) | ({"id": "another"} if name == "gemini_cli.jsonl" else {})
    another = json.loads(json.dumps(given).replace("Clean up fact_sales.", "And the docs."))
    file = tmp_path / name
    file.write_text("\n".join(map(json.dumps, [*lines, given, another])))
    *before, last = Imported(file).events()
    assert Kind.SESSION_STARTED not in {event.kind for event in before}
    assert (last.kind, last.task and last.task.prompts) == (Kind.SESSION_STARTED, 2)


@cases(
    "output, outcome",
    {
        "JSON, 2": ('{"output":"a","metadata":{"exit_code":2}}', Outcome.ERROR),
        "text, 1": ("Exit code: 1\nWall time: 0.1 seconds\nOutput:\na", Outcome.ERROR),
        "a process, 0": ("Chunk ID: b\nProcess exited with code 0\nOutput:\nExit code: 1", Outcome.OK),
        "an object": ({"content": "a", "success": False}, Outcome.ERROR),
        "no code": ("Plan updated", Outcome.UNKNOWN),
    },
)
def test_the_outcome_of_a_command_of_codex_is_its_exit_code(output: object, outcome: Outcome, tmp_path: Path) -> None:
    call = {"type": "function_call", "name": "shell", "arguments": '{"command":["ls"]}', "call_id": "a"}
    end = {"type": "function_call_output", "call_id": "a", "output": output}
    file = tmp_path / "rollout.jsonl"
    file.write_text("\n".join(json.dumps({"type": "response_item", "payload": one}) for one in (call, end)))
    assert [event.outcome for event in Imported(file).events()] == [None, outcome]
