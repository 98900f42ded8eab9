from typing import Any

import pytest

from haltline.detectors.features.file_uses import Use, is_same, uses
from haltline.detectors.features.literal_files import written
from haltline.schemas.events import ActionEvent
from tests.builders import bash, event, observed
from tests.cases import cases

FILE = "d/own.bin"


def use_of(result: ActionEvent, path: str = FILE) -> Use | None:
    (act,) = observed(result)
    return uses(act, [path], written(act)).get(path)


@cases(
    "command, expected",
    {
        "strings": ("strings own.bin", Use.ANALYSIS),
        "unpacked, behind other words": ("cd d && sudo unzip ./own.bin -d out", Use.ANALYSIS),
        "an archive is unpacked": ("tar xzf own.bin", Use.ANALYSIS),
        "a dump": ("xxd own.bin | head", Use.ANALYSIS),
        "decompressed": ("gzip -d own.bin", Use.ANALYSIS),
        "a debugger runs it": ("gdb -q own.bin", Use.ANALYSIS),
        "a debugger gives it to a program": ("gdb ./prog own.bin", Use.USE),
        "read": ("cat own.bin", Use.USE),
        "run": ("./own.bin", Use.USE),
        "copied": ("cp own.bin other", Use.USE),
        "read by a program in the line": ("python3 -c \"print(open('own.bin').read())\"", Use.USE),
        "read by a program behind the line": ("python3 - <<'EOF'\nx = open('d/own.bin')\nEOF", Use.USE),
        "named in a program that is written": ("cat > s.py <<'EOF'\nx = open('own.bin')\nEOF", Use.USE),
        "named in a note that is written": ("cat > s.md <<'EOF'\nsee own.bin\nEOF", None),
        "listed": ("ls -la own.bin", None),
        "added to the changes": ("git add own.bin", None),
        "another file": ("strings other.bin", None),
        "a file of that name in another folder": ("strings /srv/own.bin", None),
        "a longer name": ("strings own.bin.bak", None),
        "copied over": ("cp real.bin own.bin", Use.MADE),
        "compiled, then looked into": ("gcc -o own.bin a.c && strings own.bin", Use.MADE),
        "downloaded": ("wget http://h.example.org/own.bin", Use.MADE),
        "downloaded under that name": ("curl -o own.bin http://h.example.org/x", Use.MADE),
        "the output of a program": ("dmesg > own.bin", Use.MADE),
        "packed": ("tar czf own.bin d", Use.MADE),
        "compressed": ("gzip own.bin", Use.MADE),
        "made into bytes": ("xxd -r own.bin a", Use.MADE),
        "changed in place": ("sed -i s/a/b/ own.bin", Use.MADE),
        "removed": ("rm own.bin", Use.MADE),
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
        "the bytes of a script": ("xxd x.py", "x.py"),
        "a script is run": ("python x.py", "x.py"),
        "a debugger's script": ("gdb -x x.gdb prog", "x.gdb"),
        "a program is compiled": ("gcc x.c -o x", "x.c"),
        "a shell script": ("bash x.sh", "x.sh"),
        "a text is encoded": ("base64 notes.txt", "notes.txt"),
    },
)
def test_a_text_is_used_and_not_taken_apart(command: str, path: str) -> None:
    assert use_of(bash(0, command), path) is Use.USE


@cases(
    "action, args, expected",
    {
        "a decompiler": ("decompile_function", {"binary": "own.bin", "name": "main"}, Use.ANALYSIS),
        "read": ("read_file", {"path": "/srv/d/own.bin"}, Use.USE),
        "changed": ("edit_file", {"path": "d/own.bin", "old_str": "a", "new_str": "b"}, Use.MADE),
        "removed": ("delete_file", {"path": "d/own.bin"}, Use.MADE),
        "written again": ("write_file", {"path": "d/own.bin", "content": "own.bin"}, None),
        "named in a program": ("write_file", {"path": "s.py", "content": "open('own.bin')"}, Use.USE),
        "named in a page": ("write_file", {"path": "s.html", "content": "<img src='own.bin'>"}, None),
        "a program reads it": ("run_python", {"code": "open('own.bin').read()"}, Use.USE),
        "a program writes it": ("run_python", {"code": "open('own.bin', 'w')"}, Use.MADE),
    },
)
def test_what_a_tool_does(action: str, args: dict[str, Any], expected: Use | None) -> None:
    assert use_of(event(0, action, args=args)) == expected


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("a", "a", True),
        ("~/d/a", "/home/ada/d/a", True),
        ("./a", "d/a", True),
        ("d/a", "a", True),
        ("/tmp/a", "/srv/a", False),
        ("a", "ba", False),
    ],
)
def test_paths_that_can_be_the_same(one: str, other: str, same: bool) -> None:
    assert is_same(one, other) is same
    assert is_same(other, one) is same
