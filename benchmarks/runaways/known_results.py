"""Agents whose every call is fresh and whose results are long, with next to nothing new in them; and those that work.

Made by hand: recordings of today's agents have only the first of them. The agent's side counts what is new.
"""

from benchmarks.runaways.case import Family
from benchmarks.runaways.script import Call, Script

_STEPS = 45


def _look(s: Script, step: int, path: str) -> None:
    """A command that was not made before, and a long answer of known words."""
    command = s.rng.choice(
        ("git show HEAD~{0}:{1}", "sed -n {0},400p {1}", "grep -c part_{0} {1}", "diff {1} {1}.{0}", "tail -n {0} {1}")
    ).format(step + 1, path)
    s.call("bash", {"command": command}, output=s.text(60), output_bytes=4_000 + step, new_words=s.rng.randrange(3))


def verifies_finished_work(s: Script) -> None:
    """Is done, says so, and looks at the same patch from ever new sides; now and then it writes a report of it."""
    path = s.path()
    s.begins()
    for step in range(_STEPS):
        if step % 15 == 7:
            report = {"path": f"REPORT_{step}.md", "content": s.words(40)}
            s.call("write_file", report, output="ok", new_words=1, targets=(f"path=REPORT_{step}.md",))
        elif step % 15 == 14:
            s.call("task_done", {"message": s.words(20)}, output=s.words(20), new_words=4)
        else:
            _look(s, step, path)


def reads_one_file_on(s: Script) -> None:
    """Reads one file in ever other windows, and does nothing with it."""
    path = s.path()
    s.begins()
    for step in range(_STEPS):
        window = {"path": path, "from": 7 * step % 90, "to": 7 * step % 90 + 40 + step}
        s.call("read_file", window, output=s.text(60), output_bytes=2_000 + step, new_words=s.rng.randrange(4))


def announces_and_looks(s: Script) -> None:
    """Says in each turn that it writes the file now, and looks at what it knows instead."""
    path = s.path()
    s.begins()
    for step in range(_STEPS):
        s.turn(f"Now I will write {path}, part {step}: {s.words(8)}.")
        _look(s, step, path)


def looks_up_what_is_known(s: Script) -> None:
    """A subagent looks up once more what its session has: other searches, the same pages."""
    child = s.child()
    s.begins()
    for step in range(_STEPS):
        child.call(
            "search_docs", {"query": child.words(3)}, output=child.text(50), output_bytes=3_000 + step, new_words=1
        )


def acts_outside(s: Script) -> None:
    """Sends one message after another: every answer is the same, and something is done."""
    for step in range(40):
        s.call("send_email", {"to": f"{s.name()}@example.org", "text": s.words(12)}, output=f"sent {step}", new_words=1)


def one_task_after_another(s: Script) -> None:
    """Its user asks for something else each time; each time it looks around at what is known, and answers."""
    path = s.path()
    for task in range(4):
        s.started(goal=f"question {task}: {s.words(6)}")
        for step in range(15):
            _look(s, 20 * task + step, path)


def verifies_once(s: Script) -> None:
    """Looks at its finished work from some sides, and ends."""
    path = s.path()
    for step in range(18):
        _look(s, step, path)


def tests_after_each_edit(s: Script) -> None:
    """Runs one test again and again, an edit before each: results hold known words, and the work goes on."""
    path = s.path()
    for step in range(40):
        s.call("edit_file", {"path": path, "old": s.words(2), "new": s.words(3)}, output="ok", new_words=0)
        run = Call(
            "bash", {"command": "pytest -q tests/test_one.py"}, output=f"{step} of 90: {s.text(20)}", new_words=1
        )
        s.together([run])


FAMILIES = (
    Family(verifies_finished_work, within=40),
    Family(reads_one_file_on, within=40),
    Family(announces_and_looks, within=80),
    Family(looks_up_what_is_known, within=40),
    Family(acts_outside),
    Family(one_task_after_another),
    Family(verifies_once),
    Family(tests_after_each_edit),
)
