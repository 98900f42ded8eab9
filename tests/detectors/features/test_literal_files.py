from typing import Any

import pytest

from haltline.detectors.features.literal_files import is_placeholder, written
from haltline.detectors.features.observation import CallTracker, Observation, Phase
from haltline.detectors.features.tool_classifier import Classifier
from haltline.schemas.events import ActionEvent
from haltline.schemas.policy import Policy
from tests.builders import bash, event


def files(result: ActionEvent) -> list[tuple[str, str]]:
    act = Observation(result, classifier=Classifier(Policy()), phase=Phase.BOTH, calls=CallTracker())
    return [(file.path, file.text) for file in written(act)]


@pytest.mark.parametrize(
    ("action", "args", "expected"),
    [
        pytest.param("write_file", {"path": "a.txt", "content": "x"}, [("a.txt", "x")], id="a tool that writes"),
        pytest.param("createfile", {"filename": "a", "contents": ""}, [("a", "")], id="a tool that is not known"),
        pytest.param(
            "str_replace_editor", {"command": "create", "path": "a", "file_text": "x"}, [("a", "x")], id="an editor"
        ),
        pytest.param("edit_file", {"path": "a", "old_str": "x", "new_str": "y"}, [], id="a change in the middle"),
        pytest.param("insert_text", {"path": "a", "text": "y"}, [], id="a line that is added"),
        pytest.param("read_file", {"path": "a", "text": "y"}, [], id="a tool that reads"),
        pytest.param("write_file", {"content": "x"}, [], id="no file is named"),
    ],
)
def test_what_a_tool_writes(action: str, args: dict[str, Any], expected: list[tuple[str, str]]) -> None:
    assert files(event(0, action, args=args)) == expected


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        pytest.param("echo 'a b' > x", [("x", "a b")], id="single quotes"),
        pytest.param('cd d && echo "a b" > x && ls', [("x", "a b")], id="among other commands"),
        pytest.param("echo -n hello there > ~/d/x.txt", [("~/d/x.txt", "hello there")], id="no quotes"),
        pytest.param("cat <<'EOF' > x\na\nb\nEOF\nls", [("x", "a\nb")], id="a here-document"),
        pytest.param("cat > x << EOF\na\nEOF", [("x", "a")], id="a here-document behind the file"),
        pytest.param("sudo tee /etc/x <<EOF\na\nEOF", [("/etc/x", "a")], id="a here-document for tee"),
        pytest.param("cat > x <<EOF\nEOF", [("x", "")], id="an empty here-document"),
        pytest.param("cat > x <<EOF\na …[+99]", [("x", "a …[+99]")], id="a here-document that was cut"),
        pytest.param("echo a > x; echo b > y", [("x", "a"), ("y", "b")], id="two files"),
        pytest.param('echo "$(strings y)" > x', [], id="the output of a program"),
        pytest.param("cat > x <<EOF\n$(strings y)\nEOF", [], id="the output of a program in a here-document"),
        pytest.param('echo "$A" > x', [], id="a variable"),
        pytest.param("echo -e '\\x90\\x90' > x", [], id="bytes"),
        pytest.param("printf '\\x7fELF' > x", [], id="bytes by printf"),
        pytest.param("echo a >> x", [], id="text that is added"),
        pytest.param("echo a > /dev/null", [], id="text to nobody"),
        pytest.param("strings y > x", [], id="a program's output"),
        pytest.param("echo a", [], id="no file"),
    ],
)
def test_what_a_command_line_writes(command: str, expected: list[tuple[str, str]]) -> None:
    assert files(bash(0, command)) == expected


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("a.zip", "[contents of a.zip]"),
        ("app/core.bin", "<binary data>"),
        ("dump.pcap", "<packet_capture_data>"),
        ("server.py", "(contents of server.py)"),
        ("key.pem", "[REDACTED]\n"),
        ("prog", "..."),
        ("prog", "…"),
        ("a.bin", "[insert the binary here]"),
        ("a.dat", "insert challenge data here"),
        ("user.py", "# Placeholder for user.py"),
        ("a.jar", "This is a placeholder for the a.jar file."),
        ("rules.c", "// Contents of rules.c will be added here"),
        ("a.xml", "<insert the report here>"),
        ("lib.so", "Binary content of lib.so"),
    ],
)
def test_a_placeholder(path: str, text: str) -> None:
    assert is_placeholder(path, text)


@pytest.mark.parametrize(
    ("path", "text"),
    [
        pytest.param("notes.txt", "the server listens on port 80", id="a note"),
        pytest.param("a.txt", "", id="an empty file"),
        pytest.param("a.ini", "[data]", id="a section of settings"),
        pytest.param("a.ini", "[output file]", id="a section named like contents"),
        pytest.param("a.json", '["data", "file"]', id="a list"),
        pytest.param("a.xml", "<file data='x'/>", id="an element"),
        pytest.param("a.php", "<?php phpinfo(); ?>", id="a program in brackets"),
        pytest.param("form.html", '<input placeholder="your name here">', id="a form with a placeholder"),
        pytest.param("a.py", "...", id="a statement"),
        pytest.param("a.py", "# placeholder\ndef f():\n    return 1\n", id="a module with code"),
        pytest.param("a.py", "# TODO: placeholder", id="a note for later"),
        pytest.param(".env.example", "<insert the key here>", id="an example"),
        pytest.param("templates/mail.txt", "<insert the name here>", id="a template"),
        pytest.param("tests/fixtures/a.bin", "<binary data>", id="a fixture"),
        pytest.param("pkg/__init__.py", "# placeholder", id="a package"),
        pytest.param("README.md", "[contents of the project]", id="a readme"),
        pytest.param("a.txt", "x" * 300 + " placeholder", id="a long text"),
    ],
)
def test_no_placeholder(path: str, text: str) -> None:
    assert not is_placeholder(path, text)
