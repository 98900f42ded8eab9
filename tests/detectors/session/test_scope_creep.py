from collections.abc import Sequence
from itertools import chain

from haltline.detectors.session.scope_creep import ScopeCreep
from haltline.schemas.events import ActionEvent, Kind
from tests.builders import Watched, bash, cases, each, event, findings, fires_at, when

DETECTOR = ScopeCreep()


def started(*expected: str, goal: str = "") -> ActionEvent:
    return event(0, "", kind=Kind.SESSION_STARTED, outcome=None, task={"goal": goal, "expected_paths": list(expected)})


def read(second: float, path: str) -> ActionEvent:
    return event(second, "read_file", f"path={path}")


def inside(first: int, end: int) -> list[ActionEvent]:
    return [read(second, f"src/{second}.py") for second in range(first, end)]


def reads(folder: str, count: int, first: int = 1) -> list[ActionEvent]:
    """Reads of as many files of a folder, from this second on."""
    return [read(second, f"{folder}/{second}.py") for second in range(first, first + count)]


def scoped(*parts: Sequence[ActionEvent]) -> list[ActionEvent]:
    """The calls of a session whose task is within src."""
    return [started("src/**"), *chain.from_iterable(parts)]


def write(second: float, path: str) -> ActionEvent:
    return event(second, "write_file", f"path={path}")


@cases(
    "events, found",
    {
        "each further path outside": (scoped(reads("other", 5)), "4h 5h"),
        "the same path again and again": (scoped(each(range(1, 9), read, "other/a.py")), ""),
        "three of ten outside is just allowed": (scoped(inside(1, 8), reads("o", 3, 8)), ""),
        "a path in the goal makes no scope": ([started(goal="fix src/a.py"), *reads("other", 8)], ""),
        "a path in the goal widens a scope": (
            [
                started("src/**", goal="move docs/1.py, docs/2.py and docs/3.py."),
                *reads("docs", 3),
                read(9, "src/x.py"),
            ],
            "",
        ),
        "scratch": (scoped([write(s, f"/tmp/{s}.py") for s in range(1, 9)]), ""),
        "new files beside the work": (scoped([event(s, "create_file", f"path=helper{s}.py") for s in range(1, 9)]), ""),
        "its own file by its whole path": (
            scoped(
                [bash(1, "cat > a.py <<'E'\nx\nE"), *each(range(2, 9), bash, "cd /w && python a.py")],
                [*reads("/w/src", 4, 9), read(13, "/w/o/a.txt"), read(14, "/w/a.py")],
            ),
            "",
        ),
        "in shell commands": (scoped([bash(s, f"sed -i s/a/b/ conf/{s}.ini") for s in range(1, 5)]), "4h"),
    },
)
def test_creeping(events: Sequence[ActionEvent], found: str) -> None:
    assert when(DETECTOR, events) == found


@cases(
    "events, found",
    {
        "changed outside of a scope": (scoped([write(1, ".env")]), "1c"),
        "a secret looked at outside of a scope": (scoped([read(1, ".env")]), "1c"),
        "named in the goal": ([started("src/**", goal="add a key to .env"), write(1, ".env")], ""),
        "changed without a scope": ([write(1, ".env")], "1h"),
        "looked at without a scope": ([read(1, ".env"), bash(2, "cat ~/.ssh/id_rsa")], ""),
        "a system's settings": ([bash(1, "echo 1.2.3.4 h | sudo tee -a /etc/hosts")], "1h"),
        "git itself": ([bash(1, "git commit -m x; git config user.name y")], ""),
        "only written about": ([bash(1, "cat > notes.md <<'E'\nsee /etc/hosts and .env\nE")], ""),
        "looking elsewhere": (scoped([read(1, "/etc/os-release"), read(2, ".git/config")]), ""),
        "once for each path": ([write(1, ".env"), write(2, ".env")], "1h"),
        "looked at, then changed": (scoped([bash(1, "cat .env"), bash(2, "echo A >> .env")]), "1c 2c"),
    },
)
def test_critical_paths(events: Sequence[ActionEvent], found: str) -> None:
    assert when(DETECTOR, events) == found
    assert {finding.code for _, finding in findings(DETECTOR, events)} <= {"critical_path"}


def test_paths_of_the_settings() -> None:
    detector = ScopeCreep(expected_paths=("src/**",), critical_paths=("**/prod.tfvars",))
    events = [read(1, "infra/prod.tfvars"), *reads("o", 3, 2)]
    assert fires_at(detector, events) == [(1, "critical_path", "critical"), (4, "scope_creep", "high")]


def test_only_so_many_paths_are_remembered() -> None:
    watched = Watched(ScopeCreep(expected_paths=("src/**",)))
    for second in range(1000):
        watched(write(second, f"o/{second}/.env"))
    assert (len(watched.state.paths), len(watched.state.critical)) == (256, 256)
