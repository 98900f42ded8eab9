from collections.abc import Sequence

from haltline.detectors.session.scope_creep import ScopeCreep
from haltline.schemas.events import ActionEvent, Kind, Outcome
from tests.builders import Watched, bash, each, event, findings, fires_at, nearness
from tests.cases import cases

DETECTOR = ScopeCreep()
CREEP = ("scope_creep", "high")


def started(*expected: str, goal: str = "") -> ActionEvent:
    return event(0, "", kind=Kind.SESSION_STARTED, outcome=None, task={"goal": goal, "expected_paths": list(expected)})


def read(second: float, path: str) -> ActionEvent:
    return event(second, "read_file", f"path={path}")


def inside(first: int, end: int) -> list[ActionEvent]:
    return [read(second, f"src/{second}.py") for second in range(first, end)]


def write(second: float, path: str) -> ActionEvent:
    return event(second, "write_file", f"path={path}")


@cases(
    "events, fires",
    {
        "too few paths to judge": (
            [started("src/**"), *(read(s, f"other/{s}.py") for s in range(1, 4))], []),
        "each further path outside": (
            [started("src/**"), *(read(s, f"other/{s}.py") for s in range(1, 6))],
            [(4, *CREEP), (5, *CREEP)]),
        "the same path again and again": (
            [started("src/**"), *each(range(1, 9), read, "other/a.py")], []),
        "three of ten outside is just allowed": (
            [started("src/**"), *inside(1, 8), *(read(s, f"o/{s}.py") for s in (8, 9, 10))],
            []),
        "three of nine outside is not": (
            [started("src/**"), *inside(1, 7), *(read(s, f"o/{s}.py") for s in (7, 8, 9))],
            [(9, *CREEP)]),
        "two of four outside": (
            [started("src/main.ex", "lib/helper.ex"), read(1, "src/main.ex"), read(2, "lib/helper.ex"),
             read(3, "/srv/app.log"), read(4, "/srv/other.log")],
            [(4, *CREEP)]),
        "without a declared scope": ([read(s, f"other/{s}.py") for s in range(9)], []),
        "a path in the goal makes no scope": (
            [started(goal="fix src/a.py"), *(read(s, f"other/{s}.py") for s in range(1, 9))],
            []),
        "a path in the goal widens a scope": (
            [started("src/**", goal="move docs/a.md, docs/b.md and docs/c.md."),
             *(read(s, f"docs/{n}.md") for s, n in enumerate("abc", 1)), read(9, "src/x.py")],
            []),
        "scratch": (
            [started("src/**"), *(write(s, f"/tmp/{s}.py") for s in range(1, 9))], []),
        "new files beside the work": (
            [started("src/**"), *(event(s, "create_file", f"path=helper{s}.py") for s in range(1, 9))],
            []),
        "edits of what is there": (
            [started("src/**"), *(event(s, "edit_file", f"path=other/{s}.py") for s in range(1, 5))],
            [(4, *CREEP)]),
        "its own file by its whole path": (
            [started("src/**"), bash(1, "cat > a.py <<'E'\nx\nE"),
             *each(range(2, 9), bash, "cd /w && python a.py"),
             *(read(s, f"/w/src/{s}.py") for s in range(9, 13)), read(13, "/w/o/a.txt"), read(14, "/w/a.py")],
            []),
        "what the session itself made": (
            [started("src/**"), *(bash(s, f"cat > out{s}.py\npython out{s}.py") for s in range(1, 4)),
             *(bash(s, f"cat out{s - 3}.py") for s in range(4, 7))],
            []),
        "looking at libraries": (
            [started("src/**"), *(bash(s, f"sed -n 1,9p /usr/lib/python3/m{s}.py") for s in range(1, 9))],
            []),
        "in shell commands": (
            [started("src/**"), *(bash(s, f"sed -i s/a/b/ conf/{s}.ini") for s in range(1, 5))],
            [(4, *CREEP)]),
        "refused attempts": (
            [started("src/**"), *(event(s, "write_file", f"path=o/{s}", outcome=Outcome.REFUSED) for s in range(1, 9))],
            []),
    },
)  # fmt: skip
def test_creeping(events: Sequence[ActionEvent], fires: list[tuple[float, str, str]]) -> None:
    assert fires_at(DETECTOR, events) == fires


@cases(
    "events, fires",
    {
        "changed outside of a scope": ([started("src/**"), write(1, ".env")], [(1, "critical")]),
        "a secret looked at outside of a scope": ([started("src/**"), read(1, ".env")], [(1, "critical")]),
        "accounts looked at": ([started("src/**"), read(1, "/etc/passwd")], [(1, "critical")]),
        "looking elsewhere": ([started("src/**"), read(1, "/etc/os-release"), read(2, ".git/config")], []),
        "destroyed": ([started("src/**"), bash(1, "rm -rf .git/refs")], [(1, "critical")]),
        "in the declared scope": ([started("src/**", ".env"), write(1, ".env")], []),
        "named in the goal": ([started("src/**", goal="add a key to .env"), write(1, ".env")], []),
        "changed without a scope": ([write(1, ".env")], [(1, "high")]),
        "without a scope, named in the goal": ([started(goal="set PORT in .env"), write(1, ".env")], []),
        "looked at without a scope": ([read(1, ".env"), bash(2, "cat ~/.ssh/id_rsa")], []),
        "an account taken over": ([bash(1, "echo k >> ~/.ssh/authorized_keys")], [(1, "critical")]),
        "a system's settings": ([bash(1, "echo 1.2.3.4 h | sudo tee -a /etc/hosts")], [(1, "high")]),
        "git itself": ([bash(1, "git commit -m x; git config user.name y")], []),
        "only written about": ([bash(1, "cat > notes.md <<'E'\nsee /etc/hosts and .env\nE")], []),
        "once for each path": ([write(1, ".env"), write(2, ".env")], [(1, "high")]),
        "looked at, then changed": (
            [started("src/**"), bash(1, "cat .env"), bash(2, "echo A >> .env")],
            [(1, "critical"), (2, "critical")],
        ),
        "copied over": ([bash(1, "cp .env.example .env")], [(1, "high")]),
        "copied from": ([bash(1, "cp .env .env.example")], []),
    },
)
def test_critical_paths(events: Sequence[ActionEvent], fires: list[tuple[float, str]]) -> None:
    assert fires_at(DETECTOR, events) == [(second, "critical_path", severity) for second, severity in fires]


def test_paths_of_the_settings() -> None:
    detector = ScopeCreep(expected_paths=("src/**",), critical_paths=("**/prod.tfvars",))
    events = [read(1, "infra/prod.tfvars"), *(read(s, f"o/{s}.py") for s in range(2, 5))]
    assert fires_at(detector, events) == [(1, "critical_path", "critical"), (4, *CREEP)]


def test_the_finding_says_which_paths_and_how_close_it_is() -> None:
    events = [started("src/**"), read(1, "src/a.py"), read(2, "src/b.py"), read(3, "x/c.py"), read(4, "x/d.py")]
    ((_, finding),) = findings(DETECTOR, events)
    assert finding.confidence == 0.5
    assert finding.reason == "2 of 4 paths are outside of the task's scope, the last ones: x/c.py, x/d.py"
    assert finding.values == {"outside": 2, "paths": 4, "ratio": 0.5}
    assert [e.event_id for e in finding.evidence] == ["s1@3 read_file path=x/c.py", "s1@4 read_file path=x/d.py"]
    assert nearness(DETECTOR, [started("src/**"), *inside(1, 10), read(10, "o.py")])[-1] == 0.33


def test_only_so_many_paths_are_remembered() -> None:
    watched = Watched(ScopeCreep(expected_paths=("src/**",)))
    for second in range(1000):
        watched(write(second, f"o/{second}/.env"))
    assert (len(watched.state.paths), len(watched.state.critical)) == (256, 256)
