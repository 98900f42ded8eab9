"""haltline.toml: how it is found, its valid content, and the parts that commands read."""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from haltline.cli.settings_file import RUN_FILE, BadSettings, apply, load, read
from haltline.cli.settings_table import BESIDE_AGENT, SECTIONS, SETTINGS
from tests.builders import cases
from tests.deploy.commands import variables

NOT_IN_THE_FILE = {
    "HALTLINE_CONFIG": "names the file",
    "HALTLINE_SESSION_ID": "of one run",
    "HALTLINE_PARENT_SESSION_ID": "of one run",
    "HALTLINE_ROOT_SESSION_ID": "of one run",
    "HALTLINE_MISSION_ID": "of one run",
    "HALTLINE_DIGEST_KEY": "a secret",
}
OUTSIDE = "got bootstrap outside of one; did you mean bootstrap in [kafka]?"
OF_HOOKS = {"HALTLINE_HOOK_APPROVAL", "HALTLINE_HOOK_IDLE_S"}


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's own file, which is not there yet; the working directory is `work/deep`."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.delenv("HALTLINE_CONFIG", raising=False)
    (tmp_path / "work" / "deep").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "work" / "deep")
    (tmp_path / "config" / "haltline").mkdir(parents=True)
    return tmp_path / "config" / "haltline" / "haltline.toml"


def broker(file: Path, name: str, more: str = "") -> str:
    """Writes a file that names a broker; returns its path."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(f'[kafka]\nbootstrap = "{name}:9092"\n{more}')
    return str(file)


def loaded(**options: bool) -> dict[str, str]:
    return {name: one.value for name, one in load(os.environ, **options).items()}


def bootstrap(**options: bool) -> str | None:
    return loaded(**options).get("HALTLINE_BOOTSTRAP")


def test_every_variable_of_a_command_or_a_guard_can_be_set_in_the_file_once() -> None:
    named = [setting.variable for setting in SETTINGS]
    assert sorted(named) == sorted({*variables(), *OF_HOOKS} - NOT_IN_THE_FILE.keys())
    assert len({setting.name for setting in SETTINGS}) == len(SETTINGS)
    assert {setting.section for setting in SETTINGS} == set(SECTIONS)


@cases(
    "text, problem",
    {
        "no TOML": ("[kafka", ": expected TOML, got "),
        "a section that looks like one": ('[kafak]\nprefix = "a."', "got [kafak]; did you mean [kafka]?"),
        "a key outside of its section": ('bootstrap = "a:1"',
            f":1: expected a section, one of {', '.join(SECTIONS)}; {OUTSIDE}"),
        "a key that looks like one": ('[kafka]\n\nbootstap = "a:1"',
            ":3: [kafka]: expected one of bootstrap, prefix, client_config; got bootstap; did you mean bootstrap?"),
        "a truth for a number": ("[agent]\nspool_max_mb = true",
            ":2: agent.spool_max_mb: expected an integer, got True"),
        "a word that is not offered": ('[workers]\nrules = "some"',
            ":2: workers.rules: expected one of all, enforced, shadow, got 'some'"),
        "a path for a URL": ('[console]\ndatabase = "console.db"',
            ":2: console.database: expected a URL such as sqlite:///console.db, got 'console.db'"),
        "a password in a URL": ('[console]\ndatabase = "postgresql://ada:hunter2@db/haltline"',
            ":2: console.database: expected a URL without a password, got one with"),
        "a secret among the options of a store": ('[audit.storage_options]\nAWS_SECRET_ACCESS_KEY = "x"',
            ": audit.storage_options: expected no secret, got AWS_SECRET_ACCESS_KEY"),
    },
)  # fmt: skip
def test_a_file_that_cannot_be_used_says_where_and_why(tmp_path: Path, text: str, problem: str) -> None:
    file = tmp_path / "haltline.toml"
    file.write_text(text)
    with pytest.raises(BadSettings) as refused:
        read(str(file))
    assert str(refused.value).startswith(str(file))
    assert problem in str(refused.value)
    assert "hunter2" not in str(refused.value)


@cases(
    "document, environment, first",
    {
        "a section": (
            '[opinion]\nurl = "http://127.0.0.1:11434/v1"\nmodel = "qwen3"\napi_key_file = "key"\n',
            {},
            "opinion (instead: label sessions (",
        ),
        "one of its keys": (
            '[console]\nport = 1\nrules = "sdk.yaml"\n',
            {"HALTLINE_CONSOLE_LISTEN_PORT": "1"},
            "console.rules (instead: `agent.rules` for",
        ),
    },
)
def test_a_file_that_names_what_is_gone_is_read_with_one_warning_that_says_what_to_use(
    home: Path, capsys: pytest.CaptureFixture[str], document: str, environment: dict[str, str], first: str
) -> None:
    file = broker(Path("haltline.toml").absolute(), "old", document)
    assert loaded() == {"HALTLINE_BOOTSTRAP": "old:9092", **environment} == loaded()
    (warning,) = capsys.readouterr().err.splitlines()
    assert warning.startswith(f"haltline: {file}: gone and without effect: {first}")
    assert not home.exists()


@cases(
    "text, variable, value",
    {
        "a path from the file's folder": ('[audit]\ntable = "audit"', "HALTLINE_AUDIT_TABLE", "{folder}/audit"),
        "options": ('[audit]\nstorage_options = {A = "1", B = "2"}', "HALTLINE_AUDIT_STORAGE_OPTIONS", "A=1 B=2"),
        "a database in a file": ('[console]\ndatabase = "sqlite:///c.db"', "HALTLINE_CONSOLE_DATABASE",
            "sqlite:///{folder}/c.db"),
        "several files": ('[agent]\nverify_key = ["a.pub", "b.pub"]', "HALTLINE_VERIFY_KEY",
            "{folder}/a.pub" + os.pathsep + "{folder}/b.pub"),
        "a number": ("[agent]\nbudget_s = 0.5", "HALTLINE_BUDGET_S", "0.5"),
    },
)  # fmt: skip
def test_a_value_is_given_as_its_variable_holds_it(tmp_path: Path, text: str, variable: str, value: str) -> None:
    file = tmp_path / "haltline.toml"
    file.write_text(text)
    (found,) = read(str(file)).items()
    assert found[0] == variable
    assert found[1].value == value.format(folder=tmp_path, parent=tmp_path.parent)


def test_the_nearest_file_is_read_upwards_and_the_environment_goes_above_it(home: Path) -> None:
    broker(home, "user", 'prefix = "a."\n')
    assert bootstrap() == "user:9092"
    environ = {"HALTLINE_BOOTSTRAP": "environment:9092", "XDG_CONFIG_HOME": str(home.parents[1])}
    apply("status", environ)
    assert environ["HALTLINE_BOOTSTRAP"] == "environment:9092"
    assert environ["HALTLINE_PREFIX"] == "a."
    broker(Path("../haltline.toml"), "parent")
    assert bootstrap() == "parent:9092"
    broker(Path("haltline.toml"), "here")
    assert bootstrap() == "here:9092"


def test_a_named_file_is_read_in_place_of_those_that_would_be_found(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker(home, "user")
    broker(Path("haltline.toml"), "here")
    monkeypatch.setenv("HALTLINE_CONFIG", broker(tmp_path / "other.toml", "named"))
    assert bootstrap() == "named:9092"
    monkeypatch.setenv("HALTLINE_CONFIG", "")
    assert bootstrap() is None
    monkeypatch.setenv("HALTLINE_CONFIG", str(tmp_path / "missing.toml"))
    with pytest.raises(BadSettings, match=r"HALTLINE_CONFIG: expected a file, got .*missing"):
        load(os.environ)


def test_what_up_runs_is_below_haltline_toml_and_above_the_user_s_file(home: Path) -> None:
    broker(home, "user", '[operator]\nname = "ada"\n')
    broker(Path(RUN_FILE), "running", '[audit]\ntable = "/srv/audit"\n')
    running = {"HALTLINE_BOOTSTRAP": "running:9092", "HALTLINE_AUDIT_TABLE": "/srv/audit"}
    assert loaded() == running | {"HALTLINE_OPERATOR": "ada"}
    broker(Path("haltline.toml"), "project")
    first_that_is_found = running | {"HALTLINE_BOOTSTRAP": "project:9092"}
    assert loaded() == first_that_is_found, "one haltline.toml is read"


def test_beside_an_agent_only_the_user_s_file_and_a_whole_path_count(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The agent can write its working directory: a file there could send its records, and the verdicts, elsewhere."""
    broker(Path("haltline.toml"), "hostile")
    broker(Path(RUN_FILE), "hostile")
    assert loaded(beside_agent=True) == {}
    broker(home, "user", '[agent]\nagent_id = "x"\n[audit]\nsigning_key = "k"\n[operator]\nname = "ada"\n')
    of_agents = {"HALTLINE_BOOTSTRAP": "user:9092", "HALTLINE_AGENT_ID": "x"}
    assert loaded(beside_agent=True) == of_agents, f"only of {BESIDE_AGENT}"
    monkeypatch.setenv("HALTLINE_CONFIG", broker(tmp_path / "named.toml", "named"))
    assert bootstrap(beside_agent=True) == "named:9092"
    monkeypatch.setenv("HALTLINE_CONFIG", "haltline.toml")
    with pytest.raises(BadSettings, match="expected an absolute path for a command that runs beside an agent"):
        load(os.environ, beside_agent=True)


@pytest.mark.parametrize("command", ["hook", "watch", "mcp-proxy"])
def test_no_command_beside_an_agent_reads_the_working_directory(home: Path, command: str) -> None:
    broker(Path("haltline.toml"), "hostile")
    environ: dict[str, str] = {}
    apply(command, environ)
    assert environ == {}
    assert not home.exists()


def test_a_file_that_others_can_write_is_refused_unless_it_is_named(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = Path("haltline.toml").absolute()
    broker(file, "planted")
    file.chmod(0o666)
    with pytest.raises(BadSettings, match=r"expected a file of this user or of root that others cannot write.*666"):
        load(os.environ)
    monkeypatch.setenv("HALTLINE_CONFIG", str(file))
    assert bootstrap() == "planted:9092"
    assert not home.exists()


def run(*words: str, stdin: str = "", **environ: str) -> "subprocess.CompletedProcess[str]":
    """A command of its own process, in the working directory."""
    return subprocess.run(
        [sys.executable, "-m", "haltline.cli", *words],
        input=stdin,
        env={**{k: v for k, v in os.environ.items() if not k.startswith("HALTLINE_")}, **environ},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.mark.usefixtures("home")
def test_a_command_with_a_file_that_cannot_be_used_ends_with_2_and_its_help_does_not() -> None:
    Path("haltline.toml").write_text("[kafka]\nbootstap = 1\n")
    done = run("status")
    assert (done.returncode, done.stderr.strip().count("\n")) == (2, 0), done.stderr
    assert done.stderr.startswith(f"haltline: {Path('haltline.toml').absolute()}:2: [kafka]: expected one of bootstrap")
    assert run("--help").returncode == 0
    assert run("status", "--help").returncode == 0
    assert run("config", "show").returncode == 2


def test_a_hook_with_a_broken_file_refuses_what_destroys_and_lets_the_rest_go_on(home: Path) -> None:
    home.write_text("[agent]\nmodus = 1\n")
    folder = tempfile.mkdtemp(prefix="hl", dir="/tmp")  # short, as it holds a socket
    environ = {"HALTLINE_RUN_DIR": folder, "HALTLINE_HOOK_IDLE_S": "5"}
    hook = {"hook_event_name": "PreToolUse", "session_id": "s1", "tool_input": {}, "cwd": os.getcwd()}
    done = run("hook", stdin=json.dumps({**hook, "tool_name": "delete_asset"}), **environ)
    assert done.returncode == 0
    answer = json.loads(done.stdout)
    assert answer["hookSpecificOutput"]["permissionDecision"] == "deny"
    assert "[agent]: expected one of" in answer["systemMessage"]
    done = run("hook", stdin=json.dumps({**hook, "tool_name": "Read"}), **environ)
    assert (done.returncode, done.stdout, "[agent]: expected one of" in done.stderr) == (1, "", True)
