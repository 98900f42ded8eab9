"""Every command: what its help loads, its example, its JSON, its options and values."""

import fcntl
import os
import pty
import re
import shlex
import struct
import subprocess
import sys
import termios
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import pytest
import typer
from typer.testing import CliRunner

import haltline
from haltline.cli import common
from haltline.cli.agent import hook_settings
from haltline.cli.app import COMMANDS, app
from haltline.cli.operator import import_recordings
from haltline.cli.operator import tail as tailing
from haltline.cli.services import console
from haltline.console.access.keys import Role
from haltline.schemas import acts
from haltline.schemas.decisions import ScopeKind
from haltline.schemas.intervening import Vocabulary
from haltline.schemas.policy import Policy
from haltline.schemas.topics import Topics
from haltline.schemas.wire import MODELS
from haltline.streams.engine.groups import Runs
from haltline.streams.importing.formats import FORMATS
from haltline.streams.kafka.produce import produce_confirmed
from haltline.streams.local.embedded_broker import EmbeddedBroker
from haltline.streams.local.kafka import DEFAULT_PARTITIONS, DEFAULT_PORT
from tests.builders import cases
from tests.deploy.commands import parsed
from tests.streams.audit.records import incident

# Not pydantic, with which typer itself reads the values of options.
HEAVY = {
    "aiohttp", "aiokafka", "apprise", "arro3", "asyncio", "authlib", "confluent_kafka", "cryptography", "deltalake",
    "fastapi", "faust", "httpx2", "lightgbm", "msgspec", "numpy", "orjson", "prometheus_client",
    "sqlalchemy", "uvicorn", "yaml", "zstandard",
}  # fmt: skip
HEAVY_FOLDERS = ("haltline.streams", "haltline.detectors", "haltline.interventions", "haltline.console")
MODULES_AT_MOST = 550
"""Python's own, typer's, rich's and the 50 of the command line, with the help of all commands one after the other."""

HELP_OF_EACH = """
import contextlib, io, sys
from haltline.cli.__main__ import main
for line in sys.stdin:
    sys.argv = ["haltline", *line.split()]
    with contextlib.suppress(SystemExit), contextlib.redirect_stdout(io.StringIO()) as out:
        main()
    assert "haltline" in out.getvalue(), line
    print(line.strip(), *sys.modules, sep="\\t")
"""

NO_JSON = {
    **dict.fromkeys(("up", "worker", "audit", "console", "notify", "kafka"), "a service"),
    "schemas": "prints JSON always",
    **dict.fromkeys(("hook", "agent", "watch", "mcp-proxy", "intake"), "run beside agents"),
    "import": "prints JSON lines always",
    "demo": "prints for people",
    "init": "writes a file, and shows keys once",
    "completion": "prints a script",
    "audit export": "prints the rows in the format of --format",
}


def commands_of(group: Any, *path: str) -> Iterator[tuple[str, Any]]:
    for name, command in group.commands.items():
        if isinstance(command, typer.core.TyperGroup):
            if command.invoke_without_command:
                yield " ".join((*path, name)), command
            yield from commands_of(command, *path, name)
        else:
            yield " ".join((*path, name)), command


EVERY_COMMAND = dict(commands_of(typer.main.get_group(app)))


def test_help_and_version_and_completion_load_nothing_heavy() -> None:
    groups = sorted({name.split()[0] for name in EVERY_COMMAND} - EVERY_COMMAND.keys())
    commands = ["--version", "--help", *(f"{name} --help" for name in [*groups, *EVERY_COMMAND]), "completion bash"]
    done = subprocess.run(
        [sys.executable, "-c", HELP_OF_EACH], input="\n".join(commands), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    loaded: list[str] = []
    for line in done.stdout.splitlines():  # what one has loaded, those after it have too: the first one is named
        name, *loaded = line.split("\t")
        heavy = {module for module in loaded if module.partition(".")[0] in HEAVY or module.startswith(HEAVY_FOLDERS)}
        assert heavy == set(), name
    schemas = {module for module in loaded if module.startswith("haltline.schemas.")}
    assert schemas == {"haltline.schemas.acts", "haltline.schemas.expressions", "haltline.schemas.topics"}
    assert len(done.stdout.splitlines()) == len(commands)
    assert len(loaded) <= MODULES_AT_MOST


def test_the_help_shows_each_command_under_its_group_and_the_version_is_that_of_the_package() -> None:
    done = CliRunner().invoke(app, ["--version"])
    assert (done.exit_code, done.stdout) == (0, f"haltline {haltline.__version__}\n")
    text = CliRunner().invoke(app, ["--help"], env={"COLUMNS": "100"}).stdout
    panels = dict(re.findall(r"(?ms)^╭─ ([\w ]+?) ─+╮\n(.*?)^╰", text))
    shown = {panel: re.findall(r"(?m)^│ ([a-z][a-z-]*) ", panels[panel]) for panel in COMMANDS}
    assert shown == {panel: [*group] for panel, group in COMMANDS.items()}


@pytest.mark.parametrize("name", EVERY_COMMAND)
def test_the_help_of_every_command_holds_an_example_that_parses(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert not re.search(r"[^\n]\n[^\n]", EVERY_COMMAND[name].help)  # a paragraph breaks where the terminal ends
    examples = re.findall(r"(?m)^Example: haltline (.*)$", EVERY_COMMAND[name].help)
    assert examples
    for example in examples:
        words = shlex.split(re.split(r" (?:>|\||&&) ", example)[0])
        assert " ".join(words).startswith(name)
        if name == "hook":
            hook_settings.main([*words[1:], "--dry-run"], refusal=lambda _: None)
        else:
            assert parsed(words).command == name


def test_every_command_that_prints_data_prints_json_and_defaults_fit_each_other() -> None:
    with_json = {name for name, one in EVERY_COMMAND.items() if any("--json" in option.opts for option in one.params)}
    assert EVERY_COMMAND.keys() - with_json == NO_JSON.keys()
    (option,) = (option for option in EVERY_COMMAND["worker"].params if "--policy-name" in option.opts)
    assert option.default == Policy().name


@cases(
    "here, there",
    {
        "scopes": (get_args(acts.ScopeName), tuple(ScopeKind)),
        "roles of keys": (set(get_args(console.RoleName)), set(Role)),
        "which rules a group runs": (get_args(common.RulesName), tuple(Runs)),
        "vocabularies": (get_args(tailing.VocabularyName), tuple(Vocabulary)),
        "formats of recordings": (get_args(import_recordings.FormatName), FORMATS),
        "topics": ({Topics().prefix + name for name in MODELS}, set(Topics().all)),
        "Kafka": ((common.KAFKA_PORT, common.KAFKA_PARTITIONS), (DEFAULT_PORT, DEFAULT_PARTITIONS)),
    },
)
def test_values_that_the_command_line_repeats_are_those_of_the_product(here: object, there: object) -> None:
    assert here == there


COMPLETED = {
    "haltline app": {"approvals", "approve"},
    "haltline audit ve": {"verify"},
    "haltline kill --until": {"--until-stopped"},
    "haltline kill --scope ta": {"target"},
    "haltline completion f": {"fish"},
}
"""A command, one of a group, an option, the value of an option, and that of an argument."""
BASH = """
COMP_WORDS=({words}); COMP_CWORD={at}
_haltline_completion {haltline}
echo "${{COMPREPLY[@]}}"
"""


def test_bash_completes() -> None:
    haltline = shlex.quote(str(Path(sys.executable).with_name("haltline")))
    each = (BASH.format(haltline=haltline, words=words, at=len(words.split()) - 1) for words in COMPLETED)
    script = "\n".join([f"source <({haltline} completion bash)", *each])
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True)
    assert done.stderr == ""
    assert dict(zip(COMPLETED, (set(line.split()) for line in done.stdout.splitlines()), strict=True)) == COMPLETED


HALTLINE = str(Path(sys.executable).with_name("haltline"))
SESSION = "8f14e45f-ceea-467f-a0e6-3b1c5b6b1f0a"
REASON = "the same call failed 12 times with the same error, and nothing else was done in between"
_ANY = re.compile(r"\x1b\[[\d;]*m")


def on_a_terminal(*arguments: str) -> str:
    """Everything that a command prints on a terminal of 80 columns."""
    pid, terminal = pty.fork()
    if pid == 0:
        fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 80, 0, 0))
        os.execve(HALTLINE, [HALTLINE, *arguments], {"TERM": "xterm-256color"})
    output = b""
    try:
        while part := os.read(terminal, 65_536):
            output += part
    except OSError:  # the command has ended
        pass
    os.waitpid(pid, 0)
    os.close(terminal)
    return output.decode().replace("\r\n", "\n")


@pytest.fixture
def with_an_incident(embedded: EmbeddedBroker) -> EmbeddedBroker:
    about = {"scope_id": SESSION, "session_id": SESSION, "cause": "error_repetition", "level": "KILL", "count": 12}
    value = incident(**about, incident_id="4f1c09ab77", summary=REASON).to_json()
    produce_confirmed(embedded.bootstrap, Topics().incidents, key=SESSION.encode(), value=value)
    return embedded


def test_a_table_that_is_too_wide_for_a_terminal_is_printed_a_record_at_a_time(
    with_an_incident: EmbeddedBroker,
) -> None:
    command = ("incidents", "--bootstrap", with_an_incident.bootstrap)
    lines = _ANY.sub("", on_a_terminal(*command)).splitlines()
    assert lines[0].startswith("row 1 ──")
    assert lines[1:6] == ["id: 4f1c09ab", "state: open", "level: KILL", "times: 12", "cause: error_repetition"]
    assert f"of: {SESSION}" in lines
    assert f"why: {REASON}" in lines  # the terminal breaks it
    assert not any(line.startswith(("severity", "assigned")) for line in lines)  # they are empty

    piped = subprocess.run([HALTLINE, *command], env={}, capture_output=True, text=True, check=False).stdout
    assert f"│ {SESSION} │" in piped
    assert 160 < max(map(len, piped.splitlines())) <= 200


def test_json_has_never_any_colours() -> None:
    command = [HALTLINE, "config", "show", "--json"]
    data = subprocess.run(command, env={"FORCE_COLOR": "1"}, capture_output=True, text=True, check=False)
    assert data.stdout
    assert not _ANY.search(data.stdout)
