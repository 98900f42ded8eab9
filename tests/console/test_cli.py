from pathlib import Path

import orjson
import pytest
from typer.testing import CliRunner

from haltline.cli.app import app
from haltline.cli.common import Exit
from haltline.console.access.keys import BadKeys, Keys, May, Role, Who, digest_of


def test_a_key_that_was_made_opens_the_console_with_its_role(tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["console", "key", 'ada "the first"', "--role", "viewer"])
    key = done.stdout.splitlines()[0].split()[-1]
    file = tmp_path / "keys.yaml"
    file.write_text(done.stdout)
    keys = Keys.read(file)
    assert keys.who(key) == Who('ada "the first"', Role.VIEWER)
    assert keys.who(key + "x") is None
    assert key not in "".join(done.stdout.splitlines()[1:])


def test_a_key_as_json_is_one_document() -> None:
    done = CliRunner().invoke(app, ["console", "key", "ada", "--role", "viewer", "--json"])
    made = orjson.loads(done.stdout)
    assert made["entry"] == {"name": "ada", "role": "viewer", "sha256": digest_of(made["key"])}


def test_a_role_that_is_none_is_refused() -> None:
    done = CliRunner().invoke(app, ["console", "key", "ada", "--role", "god"])
    assert done.exit_code == Exit.USAGE
    assert "--role: expected one of viewer, agent, operator, admin, got 'god'" in done.stderr


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        pytest.param("", "expected a list of name, role and sha256, got NoneType", id="nothing"),
        pytest.param("a: b", "expected a list of name, role and sha256, got dict", id="no list"),
        pytest.param("- {name: ada, role: god, sha256: 00}", "0: role", id="a role that is none"),
        pytest.param("- {name: ada, role: admin, sha256: hl_secret}", "0: sha256", id="a key in the clear"),
        pytest.param("- [", "expected YAML", id="no YAML"),
        pytest.param("- &a [*a]", "expected YAML, got line 1: expected a value, got an alias", id="aliases"),
    ],
)
def test_a_file_of_keys_that_cannot_be_used_says_where(tmp_path: Path, text: str, problem: str) -> None:
    file = tmp_path / "keys.yaml"
    file.write_text(text)
    with pytest.raises(BadKeys) as refused:
        Keys.read(file)
    assert str(refused.value).startswith(f"{file}: ")
    assert problem in str(refused.value)


def test_no_role_may_what_it_is_not_for() -> None:
    may = {role: {act for act in May if Who("x", role).may(act)} for role in Role}
    assert may == {
        Role.VIEWER: {May.LOOK},
        Role.AGENT: {May.TELL},
        Role.OPERATOR: {May.LOOK, May.TELL, May.ACT},
        Role.ADMIN: set(May),
    }
