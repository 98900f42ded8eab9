from typing import Any

import pytest

from haltline.detectors.features.file_uses import Use, is_same, uses
from haltline.detectors.features.literal_files import written
from haltline.detectors.features.observation import CallTracker, Observation, Phase
from haltline.detectors.features.tool_classifier import Classifier
from haltline.schemas.events import ActionEvent
from haltline.schemas.policy import Policy
from tests.builders import bash, event

FILE = "d/own.bin"


def use_of(result: ActionEvent, path: str = FILE) -> Use | None:
    act = Observation(result, classifier=Classifier(Policy()), phase=Phase.BOTH, calls=CallTracker())
    return uses(act, [path], written(act)).get(path)


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        pytest.param("strings own.bin", Use.ANALYSIS, id="strings"),
        pytest.param("cd d && sudo unzip ./own.bin -d out", Use.ANALYSIS, id="unpacked, behind other words"),
        pytest.param("tar xzf own.bin", Use.ANALYSIS, id="an archive is unpacked"),
        pytest.param("xxd own.bin | head", Use.ANALYSIS, id="a dump"),
        pytest.param("gzip -d own.bin", Use.ANALYSIS, id="decompressed"),
        pytest.param("gdb -q own.bin", Use.ANALYSIS, id="a debugger runs it"),
        pytest.param("gdb ./prog own.bin", Use.USE, id="a debugger gives it to a program"),
        pytest.param("cat own.bin", Use.USE, id="read"),
        pytest.param("./own.bin", Use.USE, id="run"),
        pytest.param("cp own.bin other", Use.USE, id="copied"),
        pytest.param("python3 -c \"print(open('own.bin').read())\"", Use.USE, id="read by a program in the line"),
        pytest.param("python3 - <<'EOF'\nx = open('d/own.bin')\nEOF", Use.USE, id="read by a program behind the line"),
        pytest.param("cat > s.py <<'EOF'\nx = open('own.bin')\nEOF", Use.USE, id="named in a program that is written"),
        pytest.param("cat > s.md <<'EOF'\nsee own.bin\nEOF", None, id="named in a note that is written"),
        pytest.param("ls -la own.bin", None, id="listed"),
        pytest.param("git add own.bin", None, id="added to the changes"),
        pytest.param("strings other.bin", None, id="another file"),
        pytest.param("strings /srv/own.bin", None, id="a file of that name in another folder"),
        pytest.param("strings own.bin.bak", None, id="a longer name"),
        pytest.param("cp real.bin own.bin", Use.MADE, id="copied over"),
        pytest.param("gcc -o own.bin a.c && strings own.bin", Use.MADE, id="compiled, then looked into"),
        pytest.param("wget http://h.example.org/own.bin", Use.MADE, id="downloaded"),
        pytest.param("curl -o own.bin http://h.example.org/x", Use.MADE, id="downloaded under that name"),
        pytest.param("dmesg > own.bin", Use.MADE, id="the output of a program"),
        pytest.param("tar czf own.bin d", Use.MADE, id="packed"),
        pytest.param("gzip own.bin", Use.MADE, id="compressed"),
        pytest.param("xxd -r own.bin a", Use.MADE, id="made into bytes"),
        pytest.param("sed -i s/a/b/ own.bin", Use.MADE, id="changed in place"),
        pytest.param("rm own.bin", Use.MADE, id="removed"),
        pytest.param(
            "python3 -c \"open('own.bin', 'wb').write(b'')\"", Use.MADE, id="written by a program in the line"
        ),
        pytest.param("cat > s.py <<'EOF'\nimage.save('own.bin')\nEOF", Use.MADE, id="written by a program"),
    ],
)
def test_what_a_command_line_does(command: str, expected: Use | None) -> None:
    assert use_of(bash(0, command)) == expected


@pytest.mark.parametrize(
    ("command", "path"),
    [
        pytest.param("file notes.txt", "notes.txt", id="the kind of a text"),
        pytest.param("xxd x.py", "x.py", id="the bytes of a script"),
        pytest.param("python x.py", "x.py", id="a script is run"),
        pytest.param("gdb -x x.gdb prog", "x.gdb", id="a debugger's script"),
        pytest.param("gcc x.c -o x", "x.c", id="a program is compiled"),
        pytest.param("bash x.sh", "x.sh", id="a shell script"),
        pytest.param("base64 notes.txt", "notes.txt", id="a text is encoded"),
    ],
)
def test_a_text_is_used_and_not_taken_apart(command: str, path: str) -> None:
    assert use_of(bash(0, command), path) is Use.USE


@pytest.mark.parametrize(
    ("action", "args", "expected"),
    [
        pytest.param("decompile_function", {"binary": "own.bin", "name": "main"}, Use.ANALYSIS, id="a decompiler"),
        pytest.param("read_file", {"path": "/srv/d/own.bin"}, Use.USE, id="read"),
        pytest.param("edit_file", {"path": "d/own.bin", "old_str": "a", "new_str": "b"}, Use.MADE, id="changed"),
        pytest.param("delete_file", {"path": "d/own.bin"}, Use.MADE, id="removed"),
        pytest.param("write_file", {"path": "d/own.bin", "content": "own.bin"}, None, id="written again"),
        pytest.param("write_file", {"path": "s.py", "content": "open('own.bin')"}, Use.USE, id="named in a program"),
        pytest.param("write_file", {"path": "s.html", "content": "<img src='own.bin'>"}, None, id="named in a page"),
        pytest.param("run_python", {"code": "open('own.bin').read()"}, Use.USE, id="a program reads it"),
        pytest.param("run_python", {"code": "open('own.bin', 'w')"}, Use.MADE, id="a program writes it"),
    ],
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
