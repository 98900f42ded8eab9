import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

import haltline
from haltline.cli.app import app
from haltline.cli.common import Exit
from haltline.interventions.agent import Guard, GuardSettings, Refused
from haltline.interventions.agent.integrations.hooks.handler import settings_of
from haltline.interventions.agent.service.sessions import THIS_USER, Sessions
from haltline.schemas.agent_service import Begin
from haltline.schemas.policy import Policy
from tests.builders import cases
from tests.interventions.agent.attempts import attempts
from tests.programs import printed
from tests.streams.engine.test_plugins import DETECTOR, install

FIELDS: dict[str, Any] = {
    "name": "own",
    "rules": {"table_locks": {"settings": {"limit": 1}}},
    "correlations": [
        {
            "name": "many_exports",
            "title": "Many exports",
            "status": "stable",
            "type": "event_count",
            "select": {"exports": {"action": "export_*"}},
            "timespan": "1h",
            "condition": {"gte": 3},
            "severity": "critical",
        }
    ],
}
OFF = ("destructive_repeat", "destructive_volume", "repetition", "verify_mismatch")
LENIENT: dict[str, Any] = {"rules": {rule: {"enabled": False} for rule in OFF}}

GIVEN: dict[str, Callable[[Path], Any]] = {
    "a path": lambda file: file,
    "a mapping": lambda file: yaml.safe_load(file.read_text()),
    "a Policy": haltline.load_policy,
}


def written(folder: Path, fields: dict[str, Any]) -> Path:
    file = folder / "policy.yaml"
    file.write_text(yaml.safe_dump(fields, sort_keys=False))
    return file


@pytest.fixture
def _locks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    """The detector `table_locks`, in a package of its own that is installed."""
    site = tmp_path / "site"
    site.mkdir()
    monkeypatch.syspath_prepend(site)
    name = f"locks_{abs(hash(request.node.nodeid))}"
    install(site, name, DETECTOR, f"table_locks = {name}:TableLocks")


@pytest.mark.usefixtures("_locks")
@cases("given", GIVEN)
def test_a_guard_decides_by_what_it_is_given(given: Callable[[Path], Any], tmp_path: Path) -> None:
    guard = Guard(mode="local", policy=given(written(tmp_path, FIELDS)))
    for tool, calls in (("lock_table", 2), ("export_table", 3)):  # another package's detector, and a correlation
        call = guard.tool(name=tool)(lambda table: table)
        for number in range(calls - 1):
            assert call(table=f"t{number}") == f"t{number}"
        with pytest.raises(Refused, match="approval"):
            call(table="last")


def test_a_preset_is_spelled_out_also_of_a_policy_that_was_made_in_code(tmp_path: Path) -> None:
    policy = haltline.load_policy(written(tmp_path, {"preset": "literal"}))
    assert policy.preset is None
    assert policy.rules["destructive_volume"].settings["max_deletes"] == 3
    assert haltline.load_policy(Policy.model_validate({"preset": "literal"})) == policy


@cases(
    "text",
    {
        "an unknown rule": "rules:\n  no_such_rule: {}\n",
        "an unknown setting": "rules:\n  cycle:\n    settings: {no_such_setting: 1}\n",
    },
)
def test_a_file_gets_the_error_of_policy_check_and_a_mapping_the_same_without_the_line(
    text: str, tmp_path: Path
) -> None:
    file = tmp_path / "policy.yaml"
    file.write_text(text)
    error = error_of(file)
    assert error == checked(file)
    place, _, problem = error.removeprefix(f"{file}:").partition(": ")
    assert place.isdigit()
    assert error_of(yaml.safe_load(text)) == f"policy: {problem}"


NO_SUCH = Policy.model_validate({"rules": {"no_such_rule": {}}})


@cases(
    "given, message",
    {
        "a folder": (".", ".: expected a file that can be read, got Is a directory"),
        "a path with a NUL": ("a\0b", "a\0b: expected a file that can be read, got embedded null byte"),
        "a list": ([{}], "policy: expected a path, a mapping of policy fields or a Policy, got list"),
        "a value that JSON has not": ({"name": {1}}, "policy: expected values that JSON has, got Type is not JSON"),
        "a Policy with a rule that does not exist": (NO_SUCH, "policy: rules.no_such_rule: expected one of"),
    },
)
def test_what_is_no_policy_is_refused(given: Any, message: str) -> None:
    assert error_of(given).startswith(message)


def error_of(policy: Any) -> str:
    with pytest.raises(ValueError) as refused:  # noqa: PT011 - the whole text is compared by who asks
        Guard(mode="local", policy=policy)
    with pytest.raises(ValueError) as as_read:  # noqa: PT011 - as above
        haltline.load_policy(policy)
    assert str(refused.value) == str(as_read.value)
    return str(refused.value)


def checked(file: Path) -> str:
    result = CliRunner().invoke(app, ["policy", "check", str(file)])
    assert result.exit_code == Exit.USAGE
    return result.stderr.strip().removeprefix("haltline: ")


def test_a_guard_whose_workers_decide_does_not_read_it_and_logs_that(caplog: pytest.LogCaptureFixture) -> None:
    with Guard(bootstrap="localhost:1", policy="none.yaml", start_budget_s=0, close_budget_s=0) as guard:
        assert guard.decider is None
    assert "policy: expected none in mode 'async'" in caplog.text


NAMES = ("policies a", "policies b")
"""A kill of a name stays known in this process."""


def of_intake(settings: GuardSettings) -> list[Guard]:
    sessions = Sessions(settings, 10)
    return [sessions.of(Begin(session_id=one), THIS_USER).guard for one in NAMES]


def of_hook(settings: GuardSettings) -> list[Guard]:
    read, _ = settings_of({"HALTLINE_MODE": "local", "HALTLINE_AGENT_POLICY": str(settings.policy)})
    return [Guard(read.changed(session_id=one)) for one in NAMES]


@cases("made", {"intake": of_intake, "hooks of Claude Code": of_hook})
def test_who_makes_several_guards_reads_it_once_and_refuses_a_wrong_one_at_its_start(
    made: Callable[[GuardSettings], list[Guard]], tmp_path: Path
) -> None:
    file = written(tmp_path, LENIENT)
    guards = made(GuardSettings(mode="local", policy=str(file)))
    one, other = (guard.decider for guard in guards)
    assert one._core is other._core  # type: ignore[union-attr]  # both decide in this process
    assert attempts(guards[0], 5) == ["executed"] * 5
    file.write_text("rules: {no_such_rule: {}}\n")
    with pytest.raises(ValueError, match=r"policy\.yaml:1: rules\.no_such_rule: expected one of"):
        made(GuardSettings(mode="local", policy=str(file)))


def test_without_pyyaml_a_mapping_is_taken_and_a_file_refused_with_what_it_needs(tmp_path: Path) -> None:
    written(tmp_path, LENIENT)
    program = (
        "import sys; sys.modules['yaml'] = None\n"
        "from haltline import Guard\n"
        "Guard(mode='local', agent_id='a', policy={'name': 'own'})\n"
        "try:\n"
        "    Guard(mode='local', agent_id='a', policy='policy.yaml')\n"
        "except ValueError as error:\n"
        "    print(error)\n"
    )
    environ = os.environ | {"PYTHONPATH": str(Path(haltline.__path__[0]).parent)}
    said = "policy.yaml: expected PyYAML, which reads policy documents, got none: pip install pyyaml\n"
    assert printed(sys.executable, "-c", program, cwd=tmp_path, env=environ) == said
