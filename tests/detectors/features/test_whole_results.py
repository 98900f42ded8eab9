"""Counts of new words in whole results. All of these sessions are written by hand."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from haltline.detectors.features.whole_results import MAX_STEPS, UNSURE, WholeResults
from haltline.detectors.session.stagnation import Stagnation
from haltline.schemas.events import ActionEvent, Kind, Novelty, Task
from haltline.schemas.findings import Severity
from tests.builders import Watched, bash, cases, each, event, fires_at, in_turn


def told(new_words: int, results: int = 50) -> Novelty:
    return Novelty(new_words=new_words, words=max(40, new_words), results=results)


def look(number: int, new_words: int = 0, **fields: Any) -> ActionEvent:
    """A fresh command with a long answer: only the agent's side knows that there is next to nothing new in it."""
    return bash(
        10 * number,
        f"git show {number:x}a:src/part{number}.py | sed -n {number},90p",
        output_head=f"line {number} of the patch, other than the one before: {'value ' * (number % 7)}",
        output_bytes=4_000 + number,
        output_novelty=told(new_words, 50 + number),
        **fields,
    )


SILENT: dict[str, Any] = {"output_head": "", "output_novelty": told(0, 62)}


def watched(events: list[ActionEvent]) -> Watched:
    session = Watched(Stagnation())
    for one in events:
        session(one)
    return session


def steps(events: list[ActionEvent]) -> float:
    return watched(events).calls.novelty.whole.steps


def write(path: str, **fields: Any) -> ActionEvent:
    return event(900, "write_file", f"path={path}", args={"path": path, "text": "x"}, **{"output_head": "ok"} | fields)


@cases(
    "act, expected",
    {
        "a look with a hundred new words takes one step back": (look(20, 100), 11),
        "an edit of a file begins anew": (write("src/app.py"), 0),
        "a program by heredoc": (bash(900, "cat > src/a.py <<'E'\nx = 1\nE", **SILENT), 0),
        "another commit is no edit": (bash(900, "git checkout main && git stash", **SILENT), 13),
        "what is published acts outside": (bash(900, "git add -A && git push origin fix", **SILENT), 0),
        "so does a request that changes something": (
            bash(900, "curl -X POST https://api.example.org/orders -d '{}' > o.json", **SILENT), 0),
        "the word that it is done": (event(900, "task_done", args={"message": "done"}, output_head="done"), 12),
        "a result of which nobody knows how much is new": (
            bash(900, "ls -R /srv", output_head="alpha", output_bytes=9_000), 11),
        "one that was there before": (look(3).model_copy(update={"output_novelty": None}), 13),
    },
)  # fmt: skip
def test_what_a_step_counts(act: ActionEvent, expected: float) -> None:
    assert steps([*each(12, look), act]) == expected


def test_thirty_one_steps_with_nothing_new_are_a_pause_that_says_what_was_counted() -> None:
    found = fires_at(Stagnation(), each(40, look))
    assert [severity for _, _, severity in found[:7]] == ["medium"] * 7
    assert found[0][0] == 230
    assert found[7] == (300, "stagnation", "critical")
    session = Watched(Stagnation())
    last = [session(look(n)) for n in range(31)][-1]
    assert last is not None
    assert last.severity is Severity.CRITICAL
    assert last.reason == "31 steps got next to nothing new in their whole results, and nothing was edited since"
    assert last.values["known_steps"] == 31
    assert last.thresholds["known_pause"] == 31


def test_an_edit_before_each_test_run_is_work_and_calls_of_one_turn_are_one_step() -> None:
    events = in_turn(
        range(0, 800, 20),
        lambda s: bash(s, f"sed -i s/{s}/{s + 1}/ src/app.py", **SILENT),
        lambda s: bash(s, "pytest -q", output_head=f"{s} failed, {s} passed", output_novelty=told(1)),
    )
    assert steps(events) <= 1
    turns = [(look(10 * n + part), look(10 * n).time) for n in range(4) for part in range(5)]
    assert steps([one.model_copy(update={"time": time, "duration_ms": 0.0}) for one, time in turns]) == 4


def test_another_task_or_prompt_of_the_user_begins_anew_and_the_same_told_again_does_not() -> None:
    def prompted(second: float, prompts: int | None = None, goal: str = "fix it") -> ActionEvent:
        return event(second, "", kind=Kind.SESSION_STARTED, task=Task(goal=goal, prompts=prompts))

    first = [prompted(0), *each(range(1, 29), look)]
    assert steps([*first, prompted(300), look(31)]) == 29
    assert steps([*first, prompted(300, goal="now write the docs"), look(31)]) == 1
    first[0] = prompted(0, 1)
    assert steps([*first, prompted(300, 1), look(31)]) == 29
    assert steps([*first, prompted(300, 2), look(31)]) == 1


def failing_turn(second: float, *errors: str) -> list[ActionEvent]:
    """Calls that a model makes at once, all of which fail."""
    events = [
        bash(second + n / 1000, f"./part{n}", error, output_head=error, output_novelty=told(3, 70), duration_ms=0.0)
        for n, error in enumerate(errors)
    ]
    return [one.model_copy(update={"event_id": f"{one.event_id} {n}"}) for n, one in enumerate(events)]


@cases(
    "errors, failed",
    {
        "calls that were cancelled for it": (["no such host: alpha", *["Sibling tool call errored"] * 4], 1),
        "calls that fail each in its own words": (["no such host: alpha", "beta: bad number", "cannot open gamma"], 1),
    },
)
def test_what_fails_in_one_turn_is_one_error(errors: list[str], failed: int) -> None:
    before = each(12, look)
    novelty = watched([*before, *failing_turn(900, *errors)]).calls.novelty
    assert novelty.negative.bit_count() == novelty.new_failure.bit_count() == failed
    assert novelty.whole.steps == 12 + failed - 0.3


def test_what_was_cancelled_for_another_call_is_no_step_however_late_it_is_told() -> None:
    late = [bash(900 + 5 * n, f"./part{n}", "Sibling tool call errored", output_novelty=told(0, 70)) for n in range(9)]
    assert watched([look(0), *late]).calls.novelty.steps == 1


def test_an_agent_side_that_began_anew_is_not_believed_for_a_while_and_another_order_is_no_new_beginning() -> None:
    before = each(10, look)
    again = [
        bash(200 + n, f"cat part{n}", output_head=f"part {n}", output_bytes=5_000, output_novelty=told(90, n))
        for n in range(UNSURE)
    ]
    assert steps([*before, *again]) == 10
    assert steps([*before, *again, look(100).model_copy(update={"output_novelty": told(0, UNSURE)})]) == 11
    orders = [(0, 50), (0, 52), (0, 51), (0, 53)]
    events = [
        look(n).model_copy(update={"output_novelty": told(new, results)}) for n, (new, results) in enumerate(orders)
    ]
    assert steps(events) == 4


@given(st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 10**6)), max_size=60))
def test_the_count_stays_within_its_bounds(rows: list[tuple[int, int]]) -> None:
    session = Watched(Stagnation())
    for number, (new, results) in enumerate(rows):
        session(look(number).model_copy(update={"output_novelty": told(new, results)}))
    whole = session.calls.novelty.whole
    assert 0 <= whole.steps <= MAX_STEPS
    assert 0 <= whole.unsure <= UNSURE
    assert WholeResults().steps == 0
