import os
from dataclasses import fields
from pathlib import Path

import pytest

from haltline.interventions.agent import ClientRules, Effect, Guard, GuardSettings
from haltline.interventions.agent.settings import GuardOptions

BROKER = {"HALTLINE_BOOTSTRAP": "a:1"}


def test_the_keywords_of_a_guard_are_the_fields_of_its_settings() -> None:
    assert list(GuardOptions.__annotations__) == [field.name for field in fields(GuardSettings)]


def test_settings_are_read_from_the_environment_and_of_the_command_lines_variables(tmp_path: Path) -> None:
    file, rules, others = tmp_path / "client.conf", tmp_path / "rules.json", tmp_path / "others.toml"
    file.write_text("# for the cluster\n\nsecurity.protocol = ssl\nssl.ca.location=/etc/ca.pem\n")
    rules.write_text('{"denied_actions": ["drop_*"]}')
    others.write_text("idempotency_ttl_seconds = 60")
    said = {"BUDGET_S": "0.25", "FAIL_CLOSED_FROM": "mutate", "MODE": "blocking", "SESSION_ID": "42", "UNRELATED": "x"}
    said |= {"ASK_FROM": "none", "AGENT_RULES": f"{rules}{os.pathsep}{others}"}
    shared = {"PREFIX": "staging.", "CLIENT_CONFIG": str(file)}
    environ = BROKER | {f"HALTLINE_{name}": value for name, value in (said | shared).items()} | {"PATH": "/bin"}
    settings = GuardSettings.from_env(environ, agent_id="cleaner")
    assert (settings.bootstrap, settings.session_id, settings.agent_id) == ("a:1", "42", "cleaner")
    assert (settings.mode, settings.budget_s, settings.fail_closed_from) == ("blocking", 0.25, Effect.MUTATE)
    assert (settings.topic_prefix, settings.ask_from) == ("staging.", None)
    ttl = {"idempotency_ttl_seconds": 60.0}
    assert settings.rules == ClientRules(denied_actions=("drop_*",), also=(ClientRules(**ttl),), **ttl)
    assert settings.kafka == {"security.protocol": "ssl", "ssl.ca.location": "/etc/ca.pem"}
    assert GuardSettings.from_env(environ, bootstrap="b:2").bootstrap == "b:2", "an option wins"


def test_settings_of_librdkafka_that_are_none_are_refused_at_the_start(tmp_path: Path) -> None:
    file = tmp_path / "client.conf"
    file.write_text("security.protocol=ssl\nnonsense\n")
    with pytest.raises(ValueError, match=r"client.conf:2: expected `name=value`, got a line without"):
        GuardSettings.from_env(BROKER | {"HALTLINE_CLIENT_CONFIG": str(file)})
    with pytest.raises(ValueError, match="librdkafka refuses the settings"):
        Guard(bootstrap="localhost:1", kafka={"no.such.setting": 1})
