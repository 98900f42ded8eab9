"""Tools of agents whose call ends the turn, reports, or asks the user: a held session may still make it."""

from typing import Final

_ENDS_TURN: Final = frozenset(
    {
        "task_done", "finish", "submit", "attempt_completion", "exit", "complete_task", "ask_user",
        "ask_followup_question", "askuserquestion", "exitplanmode", "exit_plan_mode",
    }
)  # fmt: skip


def ends_turn(action: str) -> bool:
    """Return whether a tool with this name ends the turn, reports, or asks the user."""
    return action.lower() in _ENDS_TURN
