from typing import Any

import pytest

from haltline.schemas import tools
from haltline.schemas.events import Effect
from tests.builders import cases, some

EVERY_FIELD = {"file_text": "", "insert_line": 0, "new_str": "", "old_str": "", "view_range": []}


def told(action: str, args: dict[str, Any]) -> tuple[Effect | None, tuple[str, ...]]:
    """The effect of a call, and the targets, texts and contents that it gives, in this order."""
    use = some(tools.operation_of(action, args))
    given = use.used(args)
    names = (*use.target, *use.text, *use.patch, *use.content, *use.old, *use.new)
    return use.effect, tuple(str(given[name]) for name in names if name in given)


READ, WRITE, EXEC, POLL = Effect.READ, Effect.WRITE, Effect.EXEC, Effect.POLL


@cases(
    "action, args, expected",
    {
        "Claude Code removes a cell of a notebook": (
            "NotebookEdit",
            {"notebook_path": "/n.ipynb", "edit_mode": "delete", "cell_id": "c", "new_source": ""},
            (WRITE, ("/n.ipynb",)),
        ),
        "Claude Code waits for a shell": ("BashOutput", {"bash_id": "b1"}, (POLL, ("b1",))),
        "Codex patches": ("apply_patch", {"input": "*** Begin Patch"}, (WRITE, ("*** Begin Patch",))),
        "Codex plans": ("update_plan", {"plan": [], "explanation": "x"}, (None, ())),
        "OpenHands looks at a file": ("file_editor", {"command": "view", "path": "/a", **EVERY_FIELD}, (READ, ("/a",))),
        "Cursor removes a file": (
            "delete_file",
            {"target_file": "old.py", "explanation": "the whole database is gone"},
            (Effect.DESTRUCTIVE, ("old.py",)),
        ),
        "trae fills in every field": (
            "str_replace_based_edit_tool",
            {"command": "str_replace", "path": "/a", **EVERY_FIELD, "old_str": "x"},
            (WRITE, ("/a", "x", "")),
        ),
        "a recorder adds trae's operation to the name": (
            "str_replace_based_edit_tool.insert",
            {"command": "insert", "path": "/a", **EVERY_FIELD, "new_str": "y"},
            (WRITE, ("/a", "y")),
        ),
        "OpenClaw sends a message": (
            "message",
            {"action": "send", "target": "#ops", "message": "done"},
            (Effect.NETWORK, ("#ops", "done")),
        ),
        "OpenClaw waits for a process": ("process", {"action": "poll", "sessionId": "s"}, (POLL, ("s",))),
        "OpenHands waits for the output of what runs": (
            "execute_bash",
            {"command": "", "is_input": "true"},
            (POLL, ()),
        ),
        "Codex types Enter, which is a key": ("write_stdin", {"session_id": 1, "chars": "\n"}, (EXEC, ("\n",))),
        "a button on it is clicked": ("computer", {"action": "left_click", "coordinate": [1, 2]}, (None, ("[1, 2]",))),
    },
)
def test_a_call_is_read_by_its_operation(
    action: str, args: dict[str, Any], expected: tuple[Effect | None, tuple[str, ...]]
) -> None:
    assert told(action, args) == expected


@cases(
    "action, args",
    {
        "a tool of another kind with the name": ("edit", {"table": "sales", "row": 7}),
        "an operation that is not known": ("str_replace_editor", {"command": "wipe", "path": "/a"}),
        "no operation": ("str_replace_editor", {"path": "/a"}),
        "a tool that nobody described": ("update_record", {"id": 7, "content": ""}),
        "a command that only sounds like an editor's": ("device", {"command": "view"}),
    },
)
def test_other_calls_are_read_like_any_unknown_one(action: str, args: dict[str, Any]) -> None:
    assert tools.operation_of(action, args) is None
    assert tools.used(action, args) == args


@cases(
    "action, args, left",
    {
        "of another operation": (
            "str_replace_editor",
            {"command": "view", "path": "/a", "file_text": "x", "new_str": "y"},
            {"command": "view", "path": "/a"},
        ),
        "empty and optional": ("Grep", {"pattern": "x", "path": "", "glob": ""}, {"pattern": "x", "path": ""}),
        "about the call": ("Bash", {"command": "ls", "description": "rm -rf /"}, {"command": "ls"}),
        "but not the content that a write empties": (
            "Write",
            {"file_path": "/a", "content": ""},
            {"file_path": "/a", "content": ""},
        ),
    },
)
def test_arguments_that_the_operation_does_not_use_are_left_out(
    action: str, args: dict[str, Any], left: dict[str, Any]
) -> None:
    assert tools.used(action, args) == left


ENDS = """
task_done finish attempt_completion submit exit complete_task ask_user ask_followup_question AskUserQuestion
message_notify_user ExitPlanMode final_answer done
"""


@pytest.mark.parametrize("action", ENDS.split())
def test_these_end_the_turn_report_or_ask_the_user(action: str) -> None:
    assert tools.ends_turn(action)


@pytest.mark.parametrize(
    "action", ["Bash", "message", "mcp__orders__submit", "finish_order", "TodoWrite", "", "é" * 999]
)
def test_others_do_not(action: str) -> None:
    assert not tools.ends_turn(action)
