import pytest

from haltline.detectors.features.file_access import MAX_ACCESSES, accesses
from haltline.schemas.events import ActionEvent
from tests.builders import bash, event, observed
from tests.cases import cases


def touched(what: ActionEvent) -> list[tuple[str, bool]]:
    return [(path, changes) for path, changes in accesses(observed(what)[0])]


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        (
            "cd /testbed && cat src/a.py | grep -n 'foo/bar' > out.txt",
            [("/testbed/src/a.py", 0), ("/testbed/out.txt", 1)],
        ),
        ("cat <<'EOF' >> .env\nA=1 /etc/x\nEOF", [(".env", 1)]),
        ("sed -i 's/a/b/' /etc/hosts", [("/etc/hosts", 1)]),
        ("sed -n '1,5p' a.py", [("a.py", 0)]),
        ("echo /etc/x | sudo tee -a /etc/hosts", [("/etc/hosts", 1)]),
        ("sh -c 'cp a.txt ~/.ssh/authorized_keys'", [("a.txt", 0), ("~/.ssh/authorized_keys", 1)]),
        ("mv a.py b.py", [("a.py", 1), ("b.py", 1)]),
        ('grep -r "x/y" --include=*.py src/ 2>/dev/null', [("src", 0)]),
        ("grep -e x src/", [("src", 0)]),
        ("find lib -name '*.py' -exec cat {} +", [("lib", 0)]),
        ("git checkout origin/main -- a.py", [("a.py", 0)]),
        ("pytest tests/a.py::test_x", [("tests/a.py", 0)]),
        ("cat src/*.py", [("src", 0)]),
        ("dd if=a.img of=/dev/sda", [("a.img", 0), ("/dev/sda", 1)]),
        ("python -c 'import os; print(1/2)'", []),
        ("pip install a/b; docker run me/image; echo a/b", []),
        ("cat a.py; touch a.py", [("a.py", 1)]),
        ("make test", []),
    ],
)
def test_shell_commands(command: str, expected: list[tuple[str, int]]) -> None:
    assert touched(bash(0, command)) == [(path, bool(changes)) for path, changes in expected]


def test_a_declared_working_directory_counts_and_only_so_many_files_of_one_action() -> None:
    assert touched(event(0, "bash", args={"command": "cat a.py", "cwd": "/srv/app"})) == [("/srv/app/a.py", False)]
    assert len(touched(bash(0, "cat " + " ".join(f"{n}.py" for n in range(500))))) == MAX_ACCESSES


@cases(
    "what, expected",
    {
        "an argument": (event(0, "Read", args={"file_path": "/a/../etc/passwd"}), [("/etc/passwd", False)]),
        "a target": (event(0, "write_file", "path=.env"), [(".env", True)]),
        "several": (event(0, "read_files", args={"paths": ["a", "./b"]}), [("a", False), ("b", False)]),
        "an address is no file": (event(0, "fetch", args={"path": "https://example.org/a"}), []),
        "other arguments": (event(0, "get_user", args={"user_id": "a/b"}), []),
        "other targets": (event(0, "read_file", "user_id=7"), []),
    },
)
def test_other_tools(what: ActionEvent, expected: list[tuple[str, bool]]) -> None:
    assert touched(what) == expected
