"""`haltline explain`: classification of a call, acts that a policy requests approval for, and invalid input."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from haltline.cli.app import app
from tests.builders import cases

PUBLIC = "aws s3api put-bucket-acl --bucket sales --acl public-read"


def explained(*args: str) -> list[dict[str, object]]:
    result = CliRunner().invoke(app, ["explain", "--json", *args], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    acts = json.loads(result.stdout)[0]["acts"]
    assert isinstance(acts, list)
    return acts


@cases(
    "document, command, expected",
    {
        "careful asks about what exposes": ("{preset: careful}", PUBLIC, True),
        "by default nobody is asked": ("{}", PUBLIC, False),
        "a rule in shadow asks nobody": ("{preset: careful, rules: {ask_first: {mode: shadow}}}", PUBLIC, False),
        "an allowed target": (
            "{preset: careful, rules: {ask_first: {settings: {allowed: ['path=/srv/staging/*']}}}}",
            "rm /srv/staging/a",
            False,
        ),
        "what can be taken back": ("{preset: careful}", "spctl --master-disable", False),
    },
)
def test_it_says_what_the_policy_asks_about_first(tmp_path: Path, document: str, command: str, expected: bool) -> None:
    policy = tmp_path / "policy.yaml"
    policy.write_text(document, encoding="utf-8")
    (act,) = explained("--policy", str(policy), command)
    assert act["asks"] is expected
    assert ("the first on this target: a person is asked" in str(act["follows"])) is expected


@cases(
    "tool, arguments, message",
    {
        "a long name": ("x" * 513, "{}", "tool: expected a name"),
        "no JSON": ("x", "{", "arguments: expected a JSON object"),
        "a list": ("x", "[]", "arguments: expected a JSON object, got list"),
        "nested 3,000 deep": ("delete_x", '{"a":' * 3000 + "1" + "}" * 3000, "arguments: expected"),
        "nested 1,000 deep": ("delete_x", '{"a":' * 1000 + "1" + "}" * 1000, "arguments: expected"),
    },
)
def test_what_cannot_be_read_is_an_error_of_use(tool: str, arguments: str, message: str) -> None:
    result = CliRunner().invoke(app, ["explain", "--tool", tool, arguments])
    assert result.exit_code == 2
    assert message in result.stderr
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize("depth", [1, 100])
def test_nested_arguments_are_read(depth: int) -> None:
    (act,) = explained("--tool", "delete_x", '{"a":' * depth + "1" + "}" * depth)
    assert act["effect"] == "destroys"


def test_what_the_policy_names_as_scratch_is_none(tmp_path: Path) -> None:
    policy = tmp_path / "policy.yaml"
    policy.write_text("{scratch: ['k8s=*@shared']}", encoding="utf-8")
    command = "kubectl -n shared delete pvc a; kubectl -n shop delete pvc a"
    acts = explained("--policy", str(policy), command)
    assert [act["level"] for act in acts] == ["none", "question"]


def test_each_act_has_the_reason_of_its_own_program() -> None:
    acts = explained("curl -X POST https://a.b/x/refunds; rm -rf build")
    assert [(act["verb"], act["why"]) for act in acts] == [
        ("http_post", "curl, read by commands/programs/http.py"),
        ("rm", "rm, read by commands/files.py"),
    ]
