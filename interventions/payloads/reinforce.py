"""Reinforcement: the original task, to be repeated to the model. Pure."""

from collections.abc import Mapping
from typing import Final

from haltline.interventions.state import texts
from haltline.interventions.state.context import TaskNote
from haltline.schemas.findings import Finding
from haltline.schemas.payloads import Reinforcement, Strength

_GOAL_CHARS: Final = 160
_CONSTRAINTS: Final[Mapping[str, tuple[str, ...]]] = {
    "scope_creep": ("Work only on the files that the task is about.",),
    "resource_growth": ("Avoid what is not needed.", "Work on a part of the data at a time."),
    "spend_velocity": ("Avoid what is not needed.", "Make fewer and smaller calls."),
    "budget": ("Finish what matters most, and leave out the rest.",),
    "hallucination": ("Use only what you have verified to exist.",),
    "error_repetition": ("Do not repeat a failed call before you know why it failed.",),
    "repetition": ("Do not repeat a call whose result you know.",),
    "goal_drift": ("Each step must bring the task forward.",),
    "destructive_repeat": ("Do not delete anything twice.",),
    "destructive_volume": ("Do not delete anything that the task does not name.",),
}
"""The constraints to stress, by rule."""
_EXAMPLES: Final[Mapping[str, str]] = {
    "scope_creep": "Instead of changing a file elsewhere, report that it needs a change, and why.",
    "hallucination": "Instead of opening a file that should be there, list the folder first.",
    "error_repetition": "Instead of the same call again, read the whole error and look at what it names.",
    "resource_growth": "Instead of reading all of it, read the part that you need.",
}


def reinforcement(task: TaskNote | None, finding: Finding, strength: Strength) -> Reinforcement:
    """Return the reminder for the model; without a task, only the constraints."""
    task = task or TaskNote()
    if strength is Strength.LIGHT:
        return Reinforcement(strength=strength, goal=task.goal)
    stressed = _CONSTRAINTS.get(finding.detector, ())
    constraints = [*stressed]
    if task.paths:
        constraints.append(f"The files you should be working with are in: {', '.join(task.paths)}")
    constraints += [
        f"{name.replace('_', ' ')}: at most {limit:g} for the whole task" for name, limit in task.limits.items()
    ]
    if strength is Strength.MEDIUM:
        return Reinforcement(strength=strength, goal=task.goal, constraints=tuple(constraints))
    boundaries = ["What the task does not ask for is not yours to change."]
    if task.paths:
        boundaries.append("Files outside of these are not part of the task.")
    example = _EXAMPLES.get(finding.detector)
    return Reinforcement(
        strength=strength,
        goal=task.goal,
        constraints=tuple(f"IMPORTANT: {one}" if one in stressed else one for one in constraints),
        boundaries=tuple(boundaries),
        examples=() if example is None else (example,),
    )


def text_of(message: str, given: Reinforcement) -> str:
    """Return the text for the model: the hint, what is known of the task, and what of the rest there is room for."""
    lines = [message, f"The original request: {texts.quoted(given.goal, _GOAL_CHARS)}"] if given.goal else [message]
    for title, items in (
        ("Keep to this", given.constraints),
        ("Boundaries", given.boundaries),
        ("Rather", given.examples),
    ):
        if items:
            lines += [f"{title}:", *(f"- {item}" for item in items)]
    while len(lines) > 1 and len("\n".join(lines)) > texts.MAX_CHARS:
        lines.pop()
    return "\n".join(lines).rstrip(":")
