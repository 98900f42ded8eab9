from typing import Any

import pytest

from haltline.detectors.features.literal_files import is_placeholder, written
from haltline.schemas.events import ActionEvent
from tests.builders import bash, event, observed
from tests.cases import cases


def files(result: ActionEvent) -> list[tuple[str, str]]:
    return [(file.path, file.text) for file in written(observed(result)[0])]


@cases(
    "action, args, expected",
    {
        "a tool that writes": ("write_file", {"path": "a.txt", "content": "x"}, [("a.txt", "x")]),
        "a tool that is not known": ("createfile", {"filename": "a", "contents": ""}, [("a", "")]),
        "an editor": ("str_replace_editor", {"command": "create", "path": "a", "file_text": "x"}, [("a", "x")]),
        "a change in the middle": ("edit_file", {"path": "a", "old_str": "x", "new_str": "y"}, []),
        "a line that is added": ("insert_text", {"path": "a", "text": "y"}, []),
        "a tool that reads": ("read_file", {"path": "a", "text": "y"}, []),
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
        "no quotes": ("echo -n hello there > ~/d/x.txt", [("~/d/x.txt", "hello there")]),
        "a here-document": ("cat <<'EOF' > x\na\nb\nEOF\nls", [("x", "a\nb")]),
        "a here-document behind the file": ("cat > x << EOF\na\nEOF", [("x", "a")]),
        "a here-document for tee": ("sudo tee /etc/x <<EOF\na\nEOF", [("/etc/x", "a")]),
        "an empty here-document": ("cat > x <<EOF\nEOF", [("x", "")]),
        "a here-document that was cut": ("cat > x <<EOF\na …[+99]", [("x", "a …[+99]")]),
        "two files": ("echo a > x; echo b > y", [("x", "a"), ("y", "b")]),
        "the output of a program": ('echo "$(strings y)" > x', []),
        "the output of a program in a here-document": ("cat > x <<EOF\n$(strings y)\nEOF", []),
        "a variable": ('echo "$A" > x', []),
        "bytes": ("echo -e '\\x90\\x90' > x", []),
        "bytes by printf": ("printf '\\x7fELF' > x", []),
        "text that is added": ("echo a >> x", []),
        "text to nobody": ("echo a > /dev/null", []),
        "a program's output": ("strings y > x", []),
        "no file": ("echo a", []),
    },
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


@cases(
    "path, text",
    {
        "a note": ("notes.txt", "the server listens on port 80"),
        "an empty file": ("a.txt", ""),
        "a section of settings": ("a.ini", "[data]"),
        "a section named like contents": ("a.ini", "[output file]"),
        "a list": ("a.json", '["data", "file"]'),
        "an element": ("a.xml", "<file data='x'/>"),
        "a program in brackets": ("a.php", "<?php phpinfo(); ?>"),
        "a form with a placeholder": ("form.html", '<input placeholder="your name here">'),
        "a statement": ("a.py", "..."),
        "a module with code": ("a.py", "# placeholder\ndef f():\n    return 1\n"),
        "a note for later": ("a.py", "# TODO: placeholder"),
        "an example": (".env.example", "<insert the key here>"),
        "a template": ("templates/mail.txt", "<insert the name here>"),
        "a fixture": ("tests/fixtures/a.bin", "<binary data>"),
        "a package": ("pkg/__init__.py", "# placeholder"),
        "a readme": ("README.md", "[contents of the project]"),
        "a long text": ("a.txt", "x" * 300 + " placeholder"),
    },
)
def test_no_placeholder(path: str, text: str) -> None:
    assert not is_placeholder(path, text)
