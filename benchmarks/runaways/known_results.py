"""Agents whose calls are all different and whose long results hold almost nothing new; and healthy ones like them.

Written by hand: recordings of real agents contain only the first kind. The agent's side counts the new words.
"""

from benchmarks.runaways.case import family
from benchmarks.runaways.script import Call, Script

_STEPS = 45


def _look(s: Script, step: int, path: str) -> None:
    """A command that was not run before, and a long result of known words."""
    command = s.rng.choice(
        ("git show HEAD~{0}:{1}", "sed -n {0},400p {1}", "grep -c part_{0} {1}", "diff {1} {1}.{0}", "tail -n {0} {1}")
    ).format(step + 1, path)
    s.call("bash", {"command": command}, output=s.text(60), output_bytes=4_000 + step, new_words=s.rng.randrange(3))


@family(within=40)
def verifies_finished_work(s: Script) -> None:
    """Reports that it is done, and reads the same patch by ever new commands; sometimes it writes a report of it."""
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


@family(within=40)
def looks_up_what_is_known(s: Script) -> None:
    """A subagent repeats the research of its session: other searches, the same pages."""
    child = s.child()
    s.begins()
    for step in range(_STEPS):
        child.call(
            "search_docs", {"query": child.words(3)}, output=child.text(50), output_bytes=3_000 + step, new_words=1
        )


@family()
def acts_outside(s: Script) -> None:
    """Sends one message after another: every result is the same, but each call has an effect."""
    for step in range(40):
        s.call("send_email", {"to": f"{s.name()}@example.org", "text": s.words(12)}, output=f"sent {step}", new_words=1)


@family()
def one_task_after_another(s: Script) -> None:
    """Its user asks a new question each time; each time it reads known text, and answers."""
    path = s.path()
    for task in range(4):
        s.started(goal=f"question {task}: {s.words(6)}")
        for step in range(15):
            _look(s, 20 * task + step, path)


@family()
def verifies_once(s: Script) -> None:
    """Reviews its finished work in several ways, and ends."""
    path = s.path()
    for step in range(18):
        _look(s, step, path)


@family()
def tests_after_each_edit(s: Script) -> None:
    """Runs one test repeatedly, with an edit before each: results hold known words, but there is progress."""
    path = s.path()
    for step in range(40):
        s.call("edit_file", {"path": path, "old": s.words(2), "new": s.words(3)}, output="ok", new_words=0)
        run = Call(
            "bash", {"command": "pytest -q tests/test_one.py"}, output=f"{step} of 90: {s.text(20)}", new_words=1
        )
        s.together([run])
