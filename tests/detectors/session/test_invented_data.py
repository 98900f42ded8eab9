from typing import Any

from haltline.detectors.session.invented_data import InventedData
from haltline.schemas.events import ActionEvent
from tests.builders import Events, Watched, bash, call, cases, each, event, severities

DETECTOR = InventedData()
EMPTY = "<binary data>"
TEXT = "PK header, then two entries: key.txt and readme.txt"


def write(second: float, text: str = EMPTY, path: str = "app.zip", error: str | None = None) -> ActionEvent:
    return event(second, "createfile", error=error, args={"path": path, "contents": text})


FAILED = bash(0, "python eval.py --model a", "RuntimeError: no GPU")
DRAWS = "import random, json\nrows = [random.random() < 0.9]\njson.dump(rows, open('results/a.json', 'w'))\n"
BY_HAND = '{"accuracy": 0.912, "f1": 0.881, "loss": 0.304}'


def draws(second: float, text: str = DRAWS, path: str = "sim.py") -> ActionEvent:
    return write(second, text, path)


def after(first: Any, *commands: str) -> list[Any]:
    """An event or call, and then these commands, a second apart."""
    return [first, *(bash(second, command) for second, command in enumerate(commands, 1))]


def analyses(path: str = "app.zip", *, count: int = 4, start: float = 1) -> list[ActionEvent]:
    return [bash(start + n, f"{('unzip', 'strings', 'binwalk')[n % 3]} {path}") for n in range(count)]


@cases(
    "events, found",
    {
        "written, then used once": (after(write(0), "unzip app.zip", "ls"), "mh"),
        "used twice": (after(write(0), "cat app.zip", "cp app.zip /srv"), "mhc"),
        "two in one action": ([write(0), write(1, EMPTY, "b.zip"), bash(2, "cat b.zip app.zip")], "mmh"),
        "other contents in between": (
            [write(0), bash(1, "cat app.zip"), write(2, "real text"), *each(range(3, 9), bash, "cat app.zip")],
            "mh",
        ),
        "downloaded in between": (after(write(0), "wget -O app.zip http://h", *["unzip app.zip"] * 7), "m"),
        "a stub": (after(write(0, "# TODO\nprint(1)\n", "x.py"), *["python x.py"] * 4), ""),
        "it could not be written": (after(write(0, error="permission denied"), *["cat app.zip"] * 4), ""),
        "its result tells that it was not written": (
            after(
                call(0, "createfile", error="denied", args={"path": "app.zip", "contents": EMPTY}), *["cat app.zip"] * 4
            ),
            "m",
        ),
        # results that nothing was measured for
        "a program that draws results": ([FAILED, draws(1), bash(2, "python sim.py && cat results/a.json")], "m"),
        "in a here-document": ([FAILED, bash(1, f"python - <<'EOF'\n{DRAWS}EOF")], "m"),
        "a program that nobody runs": ([FAILED, draws(1), bash(2, "ls")], ""),
        "a program that reads what was measured": (
            [FAILED, draws(1, "data = json.load(open('raw.json'))\n" + DRAWS), bash(2, "python sim.py")],
            "",
        ),
        "a program that uses a module of the project": (
            [FAILED, draws(1, "import model\n" + DRAWS), bash(2, "python sim.py")],
            "",
        ),
        "data for tests": ([FAILED, draws(1, path="tests/sim.py"), bash(2, "python tests/sim.py")], ""),
        "numbers written by hand": ([FAILED, write(1, BY_HAND, "out/metrics.json")], "m"),
        "numbers that a run printed": (
            [FAILED, bash(1, "python eval.py", output_head="0.91"), write(2, BY_HAND, "out/metrics.json")],
            "",
        ),
        "a report on the failure": ([FAILED, write(1, '{"status": "failed", "tries": 3}', "results.json")], ""),
        # its own text
        "its own text taken apart": ([write(0, TEXT), *analyses()], "mcc"),
        "an archive that it packed": ([bash(0, "tar czf app.zip d"), *analyses()], ""),
        "made by a program since": ([write(0, TEXT), bash(0.5, "make app.zip"), *analyses()], ""),
        "what ends the lines of a script": (
            after(write(0, "print(1)", "x.py"), *["file x.py; xxd x.py | head"] * 5),
            "",
        ),
    },
)
def test_fires(events: Events, found: str) -> None:
    assert severities(DETECTOR, events) == found


def test_analyses_that_are_far_apart_do_not_count_together() -> None:
    others = [event(5 + s, "read_file", f"path={s}") for s in range(10)]
    events = [write(0, TEXT), *analyses(count=2), *others, *analyses(count=1, start=90)]
    assert severities(InventedData(last_actions=10), events) == "m"
    assert severities(DETECTOR, events) == "mc"


def test_only_so_many_files_are_remembered() -> None:
    watched = Watched(DETECTOR)
    for n in range(100):
        watched(write(n, TEXT, f"f{n}.zip"))
        watched(bash(n + 0.5, f"unzip f{n}.zip"))
    assert len(watched.state.files) == 16
    assert len(watched.state.analysed) == 8
