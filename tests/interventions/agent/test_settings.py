from dataclasses import fields
from pathlib import Path

import pytest
from pydantic import ValidationError

from haltline.interventions.agent import Effect, Guard, GuardSettings
from haltline.interventions.agent.settings import GuardOptions
from tests.cases import cases

BROKER = {"HALTLINE_BOOTSTRAP": "a:1"}


def test_the_keywords_of_a_guard_are_the_fields_of_its_settings() -> None:
    assert list(GuardOptions.__annotations__) == [field.name for field in fields(GuardSettings)]


def test_settings_are_read_from_the_environment_and_of_the_command_lines_variables(tmp_path: Path) -> None:
    file = tmp_path / "client.conf"
    file.write_text("# for the cluster\n\nsecurity.protocol = ssl\nssl.ca.location=/etc/ca.pem\n")
    said = {"BUDGET_S": "0.25", "FAIL_CLOSED_FROM": "mutate", "MODE": "blocking", "SESSION_ID": "42", "UNRELATED": "x"}
    shared = {"PREFIX": "staging.", "CLIENT_CONFIG": str(file)}
    environ = BROKER | {f"HALTLINE_{name}": value for name, value in (said | shared).items()} | {"PATH": "/bin"}
    settings = GuardSettings.from_env(environ, agent_id="cleaner")
    assert (settings.bootstrap, settings.session_id, settings.agent_id) == ("a:1", "42", "cleaner")
    assert (settings.mode, settings.budget_s, settings.fail_closed_from) == ("blocking", 0.25, Effect.MUTATE)
    assert settings.topic_prefix == "staging."
    assert settings.kafka == {"security.protocol": "ssl", "ssl.ca.location": "/etc/ca.pem"}
    assert GuardSettings.from_env(environ, bootstrap="b:2").bootstrap == "b:2", "an option wins"


def test_a_client_configuration_that_is_none_is_refused_with_its_place(tmp_path: Path) -> None:
    file = tmp_path / "client.conf"
    file.write_text("security.protocol=ssl\nnonsense\n")
    with pytest.raises(ValueError, match=r"client.conf:2: expected name=value, got 'nonsense'"):
        GuardSettings.from_env(BROKER | {"HALTLINE_CLIENT_CONFIG": str(file)})


@cases(
    "environ, expected",
    {
        "no broker where one is needed": ({}, "expected Kafka's address"),
        "a mode that does not exist": (BROKER | {"HALTLINE_MODE": "later"}, "mode"),
        "a time that is none": (BROKER | {"HALTLINE_BUDGET_S": "soon"}, "budget_s"),
        "a negative budget": (BROKER | {"HALTLINE_BUDGET_S": "-1"}, "budget_s"),
        "an empty session": (BROKER | {"HALTLINE_SESSION_ID": ""}, "session_id"),
        "a long name": (BROKER | {"HALTLINE_SESSION_ID": "s" * 257}, "session_id"),
    },
)
def test_nonsense_is_refused_at_the_start(environ: dict[str, str], expected: str) -> None:
    with pytest.raises(ValidationError, match=expected):
        GuardSettings.from_env(environ)


def test_librdkafka_settings_that_do_not_exist_are_refused_at_the_start() -> None:
    with pytest.raises(ValueError, match="librdkafka refuses the settings"):
        Guard(bootstrap="localhost:1", kafka={"no.such.setting": 1})


def test_settings_can_be_changed_by_keywords_and_a_session_without_a_name_gets_one_of_its_own() -> None:
    guard = Guard(GuardSettings(mode="local", agent_id="a", session_id="s"), agent_id="b")
    assert (guard.settings.agent_id, guard.settings.session_id) == ("b", "s")
    assert GuardSettings(mode="local").session_id != GuardSettings(mode="local").session_id
