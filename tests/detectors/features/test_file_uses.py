from typing import Any

import pytest

from haltline.detectors.features.file_access import MAX_ACCESSES, accesses
from haltline.detectors.features.files.literal import is_placeholder, written
from haltline.detectors.features.files.uses import Use, uses
from haltline.schemas.events import ActionEvent
from tests.builders import bash, cases, event, observed

FILE = "d/own.bin"


def use_of(result: ActionEvent, path: str = FILE) -> Use | None:
    (act,) = observed(result)
    return uses(act, [path], written(act)).get(path)


@cases(
    "command, expected",
    {
        "unpacked, behind other words": ("cd d && sudo unzip ./own.bin -d out", Use.ANALYSIS),
        "a debugger runs it": ("gdb -q own.bin", Use.ANALYSIS),
        "a debugger gives it to a program": ("gdb ./prog own.bin", Use.USE),
        "read by a program in the line": ("python3 -c \"print(open('own.bin').read())\"", Use.USE),
        "named in a program that is written": ("cat > s.py <<'EOF'\nx = open('own.bin')\nEOF", Use.USE),
        "named in a note that is written": ("cat > s.md <<'EOF'\nsee own.bin\nEOF", None),
        "listed": ("ls -la own.bin", None),
        "a file of that name in another folder": ("strings /srv/own.bin", None),
        "a longer name": ("strings own.bin.bak", None),
        "compiled, then looked into": ("gcc -o own.bin a.c && strings own.bin", Use.MADE),
        "downloaded": ("wget http://h.example.org/own.bin", Use.MADE),
        "the output of a program": ("dmesg > own.bin", Use.MADE),
        "made into bytes": ("xxd -r own.bin a", Use.MADE),
        "changed in place": ("sed -i s/a/b/ own.bin", Use.MADE),
        "written by a program in the line": ("python3 -c \"open('own.bin', 'wb').write(b'')\"", Use.MADE),
        "written by a program": ("cat > s.py <<'EOF'\nimage.save('own.bin')\nEOF", Use.MADE),
    },
)
def test_what_a_command_line_does(command: str, expected: Use | None) -> None:
    assert use_of(bash(0, command)) == expected


@cases(
    "command, path",
    {
        "the kind of a text": ("file notes.txt", "notes.txt"),
        "a shell script": ("bash x.sh", "x.sh"),
    },
)
def test_a_text_is_used_and_not_taken_apart(command: str, path: str) -> None:
    assert use_of(bash(0, command), path) is Use.USE


@cases(
    "action, args, expected",
    {
        "a decompiler": ("decompile_function", {"binary": "own.bin", "name": "main"}, Use.ANALYSIS),
        "read": ("read_file", {"path": "/srv/d/own.bin"}, Use.USE),
        "removed": ("delete_file", {"path": "d/own.bin"}, Use.MADE),
        "named in a page": ("write_file", {"path": "s.html", "content": "<img src='own.bin'>"}, None),
        "a program reads it": ("run_python", {"code": "open('own.bin').read()"}, Use.USE),
    },
)
def test_what_a_tool_does(action: str, args: dict[str, Any], expected: Use | None) -> None:
    assert use_of(event(0, action, args=args)) == expected


def files(result: ActionEvent) -> list[tuple[str, str]]:
    return [(file.path, file.text) for file in written(observed(result)[0])]


@cases(
    "action, args, expected",
    {
        "a tool that is not known": ("createfile", {"filename": "a", "contents": ""}, [("a", "")]),
        "no file is named": ("write_file", {"content": "x"}, []),
    },
)
def test_what_a_tool_writes(action: str, args: dict[str, Any], expected: list[tuple[str, str]]) -> None:
    assert files(event(0, action, args=args)) == expected


@cases(
    "command, expected",
    {
        "single quotes": ("echo 'a b' > x", [("x", "a b")]),
        "among other commands": ('cd d && echo "a b" > x && ls', [("x", "a b")]),
        "a here-document for tee": ("sudo tee /etc/x <<EOF\na\nEOF", [("/etc/x", "a")]),
        "an empty here-document": ("cat > x <<EOF\nEOF", [("x", "")]),
        "a here-document that was cut": ("cat > x <<EOF\na …[+99]", [("x", "a …[+99]")]),
        "the output of a program": ('echo "$(strings y)" > x', []),
        "a variable": ('echo "$A" > x', []),
        "bytes": ("echo -e '\\x90\\x90' > x", []),
    },
)
def test_what_a_command_line_writes(command: str, expected: list[tuple[str, str]]) -> None:
    assert files(bash(0, command)) == expected


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("a.zip", "[contents of a.zip]"),
        ("server.py", "(contents of server.py)"),
        ("key.pem", "[REDACTED]\n"),
        ("prog", "..."),
        ("prog", "…"),
        ("a.bin", "[insert the binary here]"),
        ("user.py", "# Placeholder for user.py"),
        ("a.jar", "This is a placeholder for the a.jar file."),
        ("rules.c", "// Contents of rules.c will be added here"),
        ("a.xml", "<insert the report here>"),
    ],
)
def test_a_placeholder(path: str, text: str) -> None:
    assert is_placeholder(path, text)


@cases(
    "path, text",
    {
        "a statement": ("a.py", "..."),
        "a module with code": ("a.py", "# placeholder\ndef f():\n    return 1\n"),
        "a fixture": ("tests/fixtures/a.bin", "<binary data>"),
        "a package": ("pkg/__init__.py", "# placeholder"),
    },
)
def test_no_placeholder(path: str, text: str) -> None:
    assert not is_placeholder(path, text)


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
        ("sed -n '1,5p' a.py", [("a.py", 0)]),
        ("echo /etc/x | sudo tee -a /etc/hosts", [("/etc/hosts", 1)]),
        ("sh -c 'cp a.txt ~/.ssh/authorized_keys'", [("a.txt", 0), ("~/.ssh/authorized_keys", 1)]),
        ("mv a.py b.py", [("a.py", 1), ("b.py", 1)]),
        ('grep -r "x/y" --include=*.py src/ 2>/dev/null', [("src", 0)]),
        ("find lib -name '*.py' -exec cat {} +", [("lib", 0)]),
        ("git checkout origin/main -- a.py", [("a.py", 0)]),
        ("pytest tests/a.py::test_x", [("tests/a.py", 0)]),
        ("dd if=a.img of=/dev/sda", [("a.img", 0), ("/dev/sda", 1)]),
        ("python -c 'import os; print(1/2)'", []),
        ("pip install a/b; docker run me/image; echo a/b", []),
        ("cat a.py; touch a.py", [("a.py", 1)]),
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
        "an address is no file": (event(0, "fetch", args={"path": "https://example.org/a"}), []),
        "other arguments": (event(0, "get_user", args={"user_id": "a/b"}), []),
    },
)
def test_other_tools(what: ActionEvent, expected: list[tuple[str, bool]]) -> None:
    assert touched(what) == expected
