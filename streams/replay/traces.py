"""Recorded sessions from files: recorded traces and plain ActionEvents, one JSON object a line, gzipped or not.

A recorded trace has one line for each action: `session_id, seq, timestamp, action, args, args_sha1, outcome, error,
obs_len, obs_sha1, obs_head, tokens_in, tokens_out, cost_usd, duration_s`. It becomes the events that an agent would
have published: the call proposed, then completed. Its `targets` are not used: whoever converted the trace declared
them, and the tools of a live agent do not; those of ActionEvents stay. Labels and tasks are read from the file of
sessions beside it (`NAME.sessions.jsonl.gz` for `NAME.jsonl.gz`), if there is one. A session with a known task begins
with an event for it (`session.started`), which has the number of the first action, so that numbers match the source.

If a session's results are recorded completely, or up to `WHOLE_CHARS`, their new words are counted as the agent would
have (`output_novelty`). For truncated results that is unknown. ActionEvents keep their counts; operands are counted for
those of older producers, from the texts that they have.
"""

import gzip
import zlib
from collections import Counter
from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any, BinaryIO, Final, NamedTuple

import orjson
from pydantic import ValidationError

from haltline.interventions.agent.novelty import SeenWords
from haltline.interventions.agent.user_files import open_file
from haltline.schemas import expressions as re
from haltline.schemas.events import ActionEvent, Kind, Task, Usage
from haltline.schemas.problems import problem_of
from haltline.streams.replay.backtest import Recorded

STEP_MS = 5_000
"""Milliseconds between the end of one action and the next, if the source has no times."""

WHOLE_CHARS = 1_000
"""The characters of a result from which it counts as complete."""

START_MS = 1_735_689_600_000
"""2025-01-01: the arbitrary beginning of a session whose source has no times."""
_OUTCOMES = frozenset({"ok", "error", "timeout", "refused"})
_MAX_GOAL_CHARS = 16_384
MAX_LINE_BYTES: Final = 64 * 2**20
_CUT = re.compile(r"…\[\+\d+\]$")
"""The mark for omitted characters of a text, which is none of its words."""

_Row = dict[str, Any]


class _Known(NamedTuple):
    """The data of one session in the file of sessions."""

    label: str | None = None
    """`resolved`, `unresolved`, `solved` or `unsolved`."""
    task: Task | None = None


_NOTHING = _Known()


class UnreadableTrace(ValueError):
    """A line is neither a recorded action nor an ActionEvent: says where, what was expected and what was given."""


def read_traces(path: Path) -> Iterator[Recorded]:
    """Yield the sessions of a file, in the order of their first line; a session's lines are in file order.

    Without numbers of their own, events have those of their lines among all of their tree of sessions, from 0.
    Reads the whole file first, because sessions may be interleaved.

    Raises:
        UnreadableTrace: a line cannot be used.
        OSError: the file cannot be read.

    """
    sessions: dict[str, list[tuple[int, int, _Row]]] = {}
    trees: dict[str, str] = {}
    counts: Counter[str] = Counter()
    for number, row in _rows(path):
        session_id = row.get("session_id")
        if not isinstance(session_id, str) or not session_id:
            raise UnreadableTrace(f"{path}:{number}: session_id: expected a text, got {session_id!r:.80}")
        if "kind" not in row and "action" not in row:
            raise UnreadableTrace(
                f"{path}:{number}: expected `kind` (an ActionEvent) or `action` (a recorded trace), got"
                f" {', '.join(row):.80}; `haltline import` reads the recordings of agents"
            )
        above = row.get("root_session_id") or row.get("parent_session_id")
        tree = trees.setdefault(session_id, trees.get(above, above) if isinstance(above, str) else session_id)
        sessions.setdefault(session_id, []).append((number, counts[tree], row))
        counts[tree] += 1
    known = _known(path)
    for session_id, rows in sessions.items():
        yield _recorded(path, session_id, rows, known.get(session_id, _NOTHING))


def _rows(path: Path) -> Iterator[tuple[int, _Row]]:
    """Yield line numbers, from 1, with their objects; empty lines are skipped."""
    with open_file(path) as file, gzip.open(file) if path.suffix == ".gz" else file as lines:
        for number, line in enumerate(_lines(path, lines), start=1):
            if not line.strip():
                continue
            try:
                row = orjson.loads(line)
            except orjson.JSONDecodeError as error:
                raise UnreadableTrace(f"{path}:{number}: expected a JSON object, got {line[:80]!r}: {error}") from None
            if not isinstance(row, dict):
                raise UnreadableTrace(f"{path}:{number}: expected a JSON object, got {type(row).__name__}")
            yield number, row


def _lines(path: Path, file: BinaryIO | gzip.GzipFile) -> Iterator[bytes]:
    try:
        while line := file.readline(MAX_LINE_BYTES + 1):
            if len(line) > MAX_LINE_BYTES:
                raise UnreadableTrace(f"{path}: expected lines of at most {MAX_LINE_BYTES} bytes, got a longer one")
            yield line
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise UnreadableTrace(f"{path}: expected a whole gzip file, got {error}") from None


def _recorded(path: Path, session_id: str, rows: list[tuple[int, int, _Row]], known: _Known) -> Recorded:
    clock = "real"
    events: list[tuple[int, ActionEvent]] = []
    seen = SeenWords() if all(_is_whole(row) for _, _, row in rows) else None
    counting = _Counting()
    for number, position, row in rows:
        native = "kind" in row
        time = row.get("time" if native else "timestamp")
        if time is None:  # the next action is decided only after the previous result is known
            clock, time = "steps", events[-1][1].time + STEP_MS if events else START_MS
        seq = row.get("seq")
        seq = seq if isinstance(seq, int) else position
        try:
            if native:
                events.append((seq, counting.counted(ActionEvent.model_validate(row | {"time": time}))))
            else:
                if not events and known.task is not None:
                    events.append((seq, _started(row, time, known.task)))
                events += [(seq, event) for event in _pair(row, seq, time, seen)]
        except (ValidationError, ValueError, TypeError) as error:
            problem = problem_of(error) if isinstance(error, ValidationError) else error
            raise UnreadableTrace(f"{path}:{number}: {problem}") from None
    return Recorded(session_id, tuple(events), label=known.label, clock=clock)


class _Counting:
    """Counts the operands of recorded calls (`output_novelty`) whose producer did not, as far as texts are known."""

    def __init__(self) -> None:
        self._seen = SeenWords()
        self._args: dict[str | None, Any] = {}

    def counted(self, event: ActionEvent) -> ActionEvent:
        """Return the session's next event with the counts."""
        if event.task is not None:
            self._seen.give(event.task.goal)
        if event.args is not None:
            self._args[event.call_id] = event.args
        novelty = event.output_novelty
        if event.kind is not Kind.COMPLETED or novelty is None or novelty.operands is not None:
            return event
        args = event.args or (self._args.pop(event.call_id, None) if event.call_id is not None else None)
        if args is None:
            return event
        now = self._seen.take(event.output_head, event.error, args=args)
        novelty = novelty.model_copy(update={"operands": now.operands, "given": now.given, "counted": now.counted})
        return event.model_copy(update={"output_novelty": novelty})


def _ms(time: int | str) -> int:
    return time if isinstance(time, int) else round(datetime.fromisoformat(time).timestamp() * 1000)


def _started(row: _Row, time: int | str, task: Task) -> ActionEvent:
    """Return the event that the agent would have published before its first action."""
    return ActionEvent(
        event_id=f"{row['session_id']}/started",
        kind=Kind.SESSION_STARTED,
        session_id=row["session_id"],
        agent_id=row.get("agent_id") or "unknown",
        time=_ms(time),
        task=task,
    )


def _is_whole(row: _Row) -> bool:
    """Return whether a result is recorded completely, as far as needed; ActionEvents have their own counts."""
    head, size = row.get("obs_head"), row.get("obs_len")
    if "kind" in row or not (isinstance(head, str) and isinstance(size, int)):
        return "kind" not in row and not size
    return len(head) >= min(size, WHOLE_CHARS) or len(head.encode(errors="replace")) >= size


def _pair(row: _Row, seq: int, time: int | str, seen: SeenWords | None) -> tuple[ActionEvent, ActionEvent]:
    """Return the events that the agent would have published for one recorded action."""
    session_id = row["session_id"]
    time_ms = _ms(time)
    common = {"session_id": session_id, "agent_id": row.get("agent_id") or "unknown", "call_id": f"call-{seq}"}
    pair = {
        "action": str(row.get("action", ""))[:512],
        "args": row.get("args"),
        "args_digest": row.get("args_sha1"),
    }
    outcome = row.get("outcome")
    duration_ms = (row.get("duration_s") or 0) * 1000
    ended = {
        "outcome": outcome if outcome in _OUTCOMES else "unknown",
        "error": row.get("error"),
        "duration_ms": duration_ms or None,
        "output_digest": row.get("obs_sha1"),
        "output_bytes": row.get("obs_len"),
        "output_head": row.get("obs_head"),
        "usage": _usage(row),
    }
    if seen is not None:
        ended["output_novelty"] = seen.take(row.get("obs_head"), row.get("error"), args=row.get("args"))
    proposed = {"event_id": f"{session_id}/{seq}/proposed", "kind": Kind.PROPOSED, "time": time_ms}
    completed = {"event_id": f"{session_id}/{seq}", "kind": Kind.COMPLETED, "time": time_ms + round(duration_ms)}
    return (
        ActionEvent.model_validate(common | pair | proposed),
        ActionEvent.model_validate(common | pair | ended | completed),
    )


def _usage(row: _Row) -> Usage | None:
    known = {
        ours: row[theirs]
        for theirs, ours in (("tokens_in", "input_tokens"), ("tokens_out", "output_tokens"), ("cost_usd", "cost_usd"))
        if row.get(theirs) is not None
    }
    return Usage(**known) if known else None


def _known(path: Path) -> Mapping[str, _Known]:
    """Return label and task by session; unknown sessions are left out."""
    name = path.name.removesuffix(".gz").removesuffix(".jsonl")
    beside = path.with_name(path.name.replace(name, f"{name}.sessions", 1))
    if not beside.exists():
        return {}
    found: dict[str, _Known] = {}
    for number, row in _rows(beside):
        try:
            found[str(row.get("session_id"))] = _Known(_label(row.get("labels")), _task(row.get("task")))
        except ValidationError as error:
            raise UnreadableTrace(f"{beside}:{number}: task: {problem_of(error)}") from None
    return found


def _label(labels: Any) -> str | None:
    found = None
    for label in ("resolved", "solved") if isinstance(labels, dict) else ():
        if isinstance(labels.get(label), bool):
            found = label if labels[label] else f"un{label}"
    return found


def _task(task: Any) -> Task | None:
    """Return the task: a text is the goal; an object may also have expected paths and declared limits."""
    if isinstance(task, str):
        task = {"goal": _CUT.sub("", task[:_MAX_GOAL_CHARS])} if task else None
    return None if task is None else Task.model_validate(task)
