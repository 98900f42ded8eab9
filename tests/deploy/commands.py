"""Whether a command line is one of ours: its command, options and values, without running it."""

import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import typer

from haltline.cli import settings_file
from haltline.cli.app import app
from haltline.interventions.agent.rules.settings import RULES_VARIABLE
from haltline.interventions.agent.settings import _CLIENT_CONFIG, _FROM_ENV


@dataclass(frozen=True)
class Parsed:
    """A command by its words, with every option's value or default."""

    command: str
    values: dict[str, Any]


class _Recording:
    """The whole command line, of which every command does nothing but tell what it was given."""

    def __init__(self) -> None:
        self.root: Any = typer.main.get_command(app)
        self.last = Parsed("", {})
        self.envvars: set[str] = set()
        self._record(self.root, ())

    def _record(self, command: Any, name: tuple[str, ...]) -> None:
        def told(**values: Any) -> None:
            self.last = Parsed(" ".join(name), values)

        command.callback = told
        for option in command.params:
            self.envvars |= {option.envvar} if isinstance(option.envvar, str) else {*(option.envvar or ())}
        for below, one in getattr(command, "commands", {}).items():
            self._record(one, (*name, below))


@cache
def _recording() -> _Recording:
    return _Recording()


def parsed(words: Sequence[str], *, whole: bool = True) -> Parsed:
    """Parse the arguments after `haltline`; without `whole`, some may be missing. Raises ValueError with the reason."""
    if words and words[0] == "hook":
        return Parsed("hook", {})  # it parses its words itself
    recording = _recording()
    try:
        recording.root.main(args=[*words], standalone_mode=False)
    except Exception as refused:
        result = refused.format_message() if hasattr(refused, "format_message") else str(refused)
        if not whole and re.search(r"missing|requires an argument", result, re.IGNORECASE):
            return Parsed(" ".join(words), {})
        raise ValueError(f"{shlex.join(words)}: {result}") from refused
    return recording.last


def variables() -> set[str]:
    """Every environment variable that some command or a guard reads."""
    return {*_FROM_ENV.values(), _CLIENT_CONFIG, RULES_VARIABLE, settings_file.VARIABLE, *_recording().envvars}


def in_document(page: Path) -> Iterator[tuple[list[str], bool]]:
    """Our command lines in a page of Markdown: whole ones in blocks, others between backticks in a text."""
    text = page.read_text(encoding="utf-8")
    blocks = "\n".join(re.findall(r"(?ms)^ *```(?:bash|console|sh)\n(.*?)^ *```$", text)).replace("\\\n", " ")
    for where, pattern, whole in (
        (text, r"(?m)^ {4,}(?:\$ )?haltline (.*)$", True),
        (blocks, r"(?m)^(?:\$ )?haltline (.*)$", True),
        (text, r"`haltline ([^`\n]*)`", False),
    ):
        for line in re.findall(pattern, where):
            words = shlex.split(re.split(r"\s(?:>>?|\|)\s|;", line)[0].replace("...", ""), comments=True)
            if words:
                yield words, whole
