"""OpenHands' stuck detector, from its published rules: V0 of the controller, and V1 of the agent SDK.

Both are evaluated before the agent's next step, that is, after each result or message. No user interrupts these
sessions, so all events count. In a session of several agents, a monologue is messages of one agent.
"""

from collections import deque
from collections.abc import Sequence
from itertools import pairwise

from benchmarks.baselines.history import Action, Condensation, Entry, Message, Observation, Verdict

_SYNTAX_ERRORS = (
    "unterminated string literal (detected at line",
    "invalid syntax. Perhaps you forgot a comma?",
    "incomplete input",
)
_CELL_HEAD = "Cell In[1], line"
_REPLACE = "edit_file_by_replace("


class OpenHandsV0:
    """`openhands/controller/stuck.py`: the whole history, the output of commands not compared."""

    def __init__(self) -> None:
        self._actions: deque[Action] = deque(maxlen=6)
        self._observations: deque[Observation] = deque(maxlen=6)
        self._recent: deque[Entry] = deque(maxlen=10)
        self._messages: list[Message] = []
        """Messages since the last observation."""
        self._events = self._condensations = 0

    def add(self, entry: Entry) -> tuple[Verdict, str] | None:
        """Return a stop as soon as one of the five rules holds."""
        self._events += 1
        self._recent.append(entry)
        match entry:
            case Action():
                self._actions.append(entry)
                return None
            case Observation():
                self._observations.append(entry)
                self._messages.clear()
            case Message():
                self._messages.append(entry)
            case Condensation():
                self._condensations += 1
        rule = self._rule()
        return (Verdict.STOP, rule) if rule else None

    def _rule(self) -> str | None:
        actions, observations = list(self._actions), list(self._observations)
        if _same_v0(actions[-4:], 4) and _alike(observations[-4:], 4):
            return "repeating_action_observation"
        if _same_v0(actions[-3:], 3) and len(observations) >= 3:
            last = observations[-3:]
            if all(o.error for o in last) or any(_same_syntax_error(last, error) for error in _SYNTAX_ERRORS):
                return "repeating_action_error"
        if len(self._messages) >= 3 and len(set(self._messages[-3:])) == 1:
            return "monologue"
        if len(actions) == len(observations) == 6 and all(
            _equal_v0(actions[i], actions[i + 2]) and _alike([observations[i], observations[i + 2]], 2)
            for i in range(4)
        ):
            return "repeating_action_observation_pattern"
        if self._events >= 10 and self._condensations >= 10 and _adjacent_condensations(self._recent):
            return "context_window_error"
        return None


class OpenHandsV1:
    """`openhands-sdk/.../stuck_detector.py`: the last 20 events, contents compared, a nudge before the stop."""

    def __init__(self) -> None:
        self._events: deque[Entry] = deque(maxlen=20)
        self._nudged = False
        """True: a nudge was given in this streak of errors."""

    def add(self, entry: Entry) -> tuple[Verdict, str] | None:
        """Return a nudge on the third equal error in a row, a stop on any other rule."""
        self._events.append(entry)
        if isinstance(entry, Action):
            return None
        actions = [e for e in self._events if isinstance(e, Action)]
        observations = [e for e in self._events if isinstance(e, Observation)]
        if _same(actions[-4:], 4) and _same(observations[-4:], 4):
            return Verdict.STOP, "action_observation"
        streak = _error_streak(actions, observations)
        if streak > 3:
            return Verdict.STOP, "action_error"
        if streak < 3:
            self._nudged = False
        elif not self._nudged:
            self._nudged = True
            return Verdict.HINT, "action_error"
        if _monologue(self._events) >= 3:
            return Verdict.STOP, "monologue"
        if _alternates(actions[-6:]) and _alternates(observations[-6:]):
            return Verdict.STOP, "alternating_pattern"
        return None


def _same(entries: Sequence[Entry], count: int) -> bool:
    return len(entries) == count and len(set(entries)) == 1


def _alternates(entries: Sequence[Entry]) -> bool:
    return len(entries) == 6 and all(entries[i] == entries[i + 2] for i in range(4))


def _same_v0(actions: Sequence[Action], count: int) -> bool:
    return len(actions) == count and all(_equal_v0(actions[0], other) for other in actions[1:])


def _equal_v0(one: Action, other: Action) -> bool:
    """Return whether two actions are equal. Replacing edits are compared by their first three lines."""
    if one.args.startswith(_REPLACE) and other.args.startswith(_REPLACE):
        heads = [a.args.splitlines() for a in (one, other)]
        if all(len(lines) > 2 for lines in heads):
            return heads[0][:3] == heads[1][:3]
    return one == other


def _alike(observations: Sequence[Observation], count: int) -> bool:
    """Return whether `count` observations are equal. Commands are compared by command line and exit code only."""
    return len(observations) == count and len({_key_v0(o) for o in observations}) == 1


def _key_v0(o: Observation) -> object:
    return o if o.command is None else (o.command, o.exit_code)


def _same_syntax_error(observations: Sequence[Observation], error: str) -> bool:
    if not all(o.cell for o in observations):
        return False
    cells = [o.content.strip().splitlines() for o in observations]
    lines = [next((line for line in reversed(cell) if error in line), "") for cell in cells]
    if not lines[0] or len(set(lines)) != 1:
        return False
    if error == _SYNTAX_ERRORS[0]:
        return True
    heads = {cell[0] for cell in cells}
    return len(heads) == 1 and heads.pop().startswith(_CELL_HEAD) and all(len(cell) >= 6 for cell in cells)


def _adjacent_condensations(recent: Sequence[Entry]) -> bool:
    return any(isinstance(a, Condensation) and isinstance(b, Condensation) for a, b in pairwise(recent))


def _error_streak(actions: Sequence[Action], observations: Sequence[Observation]) -> int:
    """Return the number of equal failed actions, from the newest back; paired by position, as published."""
    streak = 0
    for action, observation in zip(reversed(actions), reversed(observations), strict=False):
        if action != actions[-1] or not observation.error:
            break
        streak += 1
    return streak


def _monologue(events: Sequence[Entry]) -> int:
    """Return the number of consecutive messages of the agent; condensations are skipped."""
    count, speaker = 0, None
    for entry in reversed(events):
        if isinstance(entry, Condensation):
            continue
        if not isinstance(entry, Message) or (speaker is not None and entry.speaker != speaker):
            break
        count, speaker = count + 1, entry.speaker
    return count
