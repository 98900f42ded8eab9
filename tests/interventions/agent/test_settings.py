from dataclasses import fields
from pathlib import Path

import pytest
from pydantic import ValidationError

from haltline.interventions.agent import Effect, Guard, GuardSettings
from haltline.interventions.agent.settings import GuardOptions


def test_the_keywords_of_a_guard_are_the_fields_of_its_settings() -> None:
    assert list(GuardOptions.__annotations__) == [field.name for field in fields(GuardSettings)]


def test_settings_are_read_from_the_environment() -> None:
    settings = GuardSettings.from_env(
        {
            "HALTLINE_BOOTSTRAP": "kafka:9092",
            "HALTLINE_SESSION_ID": "42",
            "HALTLINE_MODE": "blocking",
            "HALTLINE_BUDGET_S": "0.25",
            "HALTLINE_FAIL_CLOSED_FROM": "mutate",
            "HALTLINE_UNRELATED": "x",
            "PATH": "/bin",
        },
        agent_id="cleaner",
    )
    assert (settings.bootstrap, settings.session_id, settings.agent_id) == ("kafka:9092", "42", "cleaner")
    assert (settings.mode, settings.budget_s, settings.fail_closed_from) == ("blocking", 0.25, Effect.MUTATE)


def test_the_command_lines_variables_hold_for_agents_too(tmp_path: Path) -> None:
    file = tmp_path / "client.conf"
    file.write_text("# for the cluster\n\nsecurity.protocol = ssl\nssl.ca.location=/etc/ca.pem\n")
    settings = GuardSettings.from_env(
        {"HALTLINE_BOOTSTRAP": "a:1", "HALTLINE_PREFIX": "staging.", "HALTLINE_CLIENT_CONFIG": str(file)}
    )
    assert settings.topic_prefix == "staging."
    assert settings.kafka == {"security.protocol": "ssl", "ssl.ca.location": "/etc/ca.pem"}


def test_a_client_configuration_that_is_none_is_refused_with_its_place(tmp_path: Path) -> None:
    file = tmp_path / "client.conf"
    file.write_text("security.protocol=ssl\nnonsense\n")
    with pytest.raises(ValueError, match=r"client.conf:2: expected name=value, got 'nonsense'"):
        GuardSettings.from_env({"HALTLINE_BOOTSTRAP": "a:1", "HALTLINE_CLIENT_CONFIG": str(file)})


def test_an_option_wins_over_the_environment() -> None:
    assert GuardSettings.from_env({"HALTLINE_BOOTSTRAP": "a:1"}, bootstrap="b:2").bootstrap == "b:2"


def test_a_session_without_a_name_gets_one_of_its_own() -> None:
    one, other = GuardSettings(mode="local"), GuardSettings(mode="local")
    assert one.session_id != other.session_id


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        pytest.param({}, "expected Kafka's address", id="no broker where one is needed"),
        pytest.param({"HALTLINE_BOOTSTRAP": "a:1", "HALTLINE_MODE": "later"}, "mode", id="a mode that does not exist"),
        pytest.param({"HALTLINE_BOOTSTRAP": "a:1", "HALTLINE_BUDGET_S": "soon"}, "budget_s", id="a time that is none"),
        pytest.param({"HALTLINE_BOOTSTRAP": "a:1", "HALTLINE_BUDGET_S": "-1"}, "budget_s", id="a negative budget"),
        pytest.param({"HALTLINE_BOOTSTRAP": "a:1", "HALTLINE_SESSION_ID": ""}, "session_id", id="an empty session"),
        pytest.param({"HALTLINE_BOOTSTRAP": "a:1", "HALTLINE_SESSION_ID": "s" * 257}, "session_id", id="a long name"),
    ],
)  # fmt: skip
def test_nonsense_is_refused_at_the_start(environ: dict[str, str], expected: str) -> None:
    with pytest.raises(ValidationError, match=expected):
        GuardSettings.from_env(environ)


def test_librdkafka_settings_that_do_not_exist_are_refused_at_the_start() -> None:
    with pytest.raises(ValueError, match="librdkafka refuses the settings"):
        Guard(bootstrap="localhost:1", kafka={"no.such.setting": 1})


def test_settings_can_be_changed_by_keywords() -> None:
    guard = Guard(GuardSettings(mode="local", agent_id="a", session_id="s"), agent_id="b")
    assert (guard.settings.agent_id, guard.settings.session_id) == ("b", "s")
