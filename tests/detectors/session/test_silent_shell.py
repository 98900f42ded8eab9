from typing import Any

from haltline.detectors.session.silent_shell import SilentShell
from haltline.schemas.events import ActionEvent
from tests.builders import Events, bash, cases, event, severities

DETECTOR = SilentShell()
PRINTING = (
    "pwd",
    "ls -la",
    "git status",
    "echo ready",
    "whoami",
    "python3 -c 'print(1)'",
    "cd src && date",
    "ps | wc -l",
)


def silent(*commands: str, output: str | None = "", start: int = 0, **fields: Any) -> list[ActionEvent]:
    """These commands, each of which prints the same."""
    return [bash(n, command, output_head=output, **fields) for n, command in enumerate(commands, start)]


@cases(
    "events, found",
    {
        "commands that must print something": (silent(*PRINTING), "mhccc"),
        "which the harness says of them": (silent(*PRINTING, output="(Bash completed with no output)"), "mhccc"),
        "commands that nearly always print something": (silent(*["ls src", "cat a.md"] * 6), "mmhhc"),
        "one that prints something in between": (
            [*silent(*PRINTING[:4]), bash(50, "ls", output_head="a.py"), *silent(*PRINTING[:3], start=60)],
            "m",
        ),
        "one that fails in between": (
            [*silent(*PRINTING[:3]), bash(50, "cat x", "no such file"), *silent(*PRINTING[:3], start=60)],
            "",
        ),
        "a word of the command": (silent(*["echo success"] * 9, output="success"), ""),
        "commands that print nothing when they succeed": (
            silent("mkdir a", "touch b", "git add .", "cd x && make -s", "grep a b || true", "git diff", "cp a b") * 3,
            "",
        ),
        "what they print goes to a file": (silent(*["echo a > f", "ls -la >> g", "pwd > /dev/null"] * 4), ""),
        "what they print goes through a filter": (silent(*["ls -la | grep x", "git log | grep y"] * 4), ""),
        "errors that are hidden": (silent(*["pwd 2>/dev/null", "git status 2>&1"] * 3), "mhc"),
        "results that nobody tells": (silent(*PRINTING, output=None), ""),
        "keys for a terminal": ([event(n, "send_keys", args={"keys": "pwd"}, output_head="") for n in range(9)], ""),
        "longer than what is published": (silent(*PRINTING, output_bytes=900), ""),
    },
)
def test_counts(events: Events, found: str) -> None:
    assert severities(DETECTOR, events) == found
