import json
import signal
from collections.abc import Iterator
from contextlib import contextmanager

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from haltline.interventions.agent.redaction.named import NAMES
from haltline.interventions.agent.redaction.secrets import is_secret_name, may_hold_secrets, redact, redact_text
from haltline.interventions.agent.testing import ScriptedGuard

KEY_BLOCK = "-----BEGIN RSA PRIVATE KEY-----\nMIIEow\nIBAAKC\n-----END RSA PRIVATE KEY-----"
JWT = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.c2lnbmF0dXJl"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("AWS_SECRET_ACCESS_KEY=wJalrXUtnFEMI/K7 aws s3 ls", "AWS_SECRET_ACCESS_KEY=[redacted:access_key] aws s3 ls"),
        ("export SECRET_KEY_BASE=abcdef", "export SECRET_KEY_BASE=[redacted:secret]"),
        ("API_KEY_PROD_2=abcdef", "API_KEY_PROD_2=[redacted:api_key]"),
        ("password: hunter2", "password: [redacted:password]"),
        ("password := 'two words'", "password := '[redacted:password]'"),
        ("db:\n  password: hunter2\n  port: 5", "db:\n  password: [redacted:password]\n  port: 5"),
        ("login --password hunter2 --host db", "login --password [redacted:password] --host db"),
        ("login -token abc123", "login -token [redacted:token]"),
        ("token: abc123", "token: [redacted:token]"),
        ("x-api-key: abc123", "x-api-key: [redacted:api_key]"),
        ("curl -H 'x-api-key:abc123' x", "curl -H 'x-api-key:[redacted:api_key]' x"),
        ("Authorization: Basic Ym9iOmh1bnRlcjI=", "Authorization: Basic [redacted:authorization]"),
        ("Authorization: abcdef", "Authorization: [redacted:authorization]"),
        ("Authorization: Bearer abcdefgh1", "Authorization: Bearer [redacted:bearer]"),
        ("Cookie: a=b; sid=c", "Cookie: [redacted:cookie]"),
        ("AccountName=a;AccountKey=ab+/cd==;E=x", "AccountName=a;AccountKey=[redacted:accountkey];E=x"),
        ('-d "{\\"password\\": \\"hunter2\\"}"', '-d "{\\"password\\": \\"[redacted:password]\\"}"'),
        ('{"auth": "abc123", "cookie": "abc"}', '{"auth": "[redacted:auth]", "cookie": "[redacted:cookie]"}'),
        ("use sk-proj-" + "a1B2" * 6, "use [redacted:api_key]"),
        (f"a\n{KEY_BLOCK}\nb", "a\n[redacted:private_key]\nb"),
        (KEY_BLOCK[:45], "[redacted:private_key]"),
        ("postgres://bob:hunter2@db/x", "postgres://[redacted:url_password]@db/x"),
        ("?token=abc123&page=2", "?token=[redacted:token]&page=2"),
    ],
    ids=lambda text: text[:24],
)
def test_a_text_is_reported_without_the_secret_that_a_form_or_a_name_tells(text: str, expected: str) -> None:
    assert redact_text(text) == expected
    assert redact_text(redact_text(text)) == expected
    assert orjson.loads(orjson.dumps(redact({"command": text}))) == {"command": expected}


@contextmanager
def ending_within(seconds: int) -> Iterator[None]:
    """Raises TimeoutError within the block at the deadline; expressions end for a signal, too."""

    def end(*_: object) -> None:
        raise TimeoutError(f"it goes on after {seconds} s")

    before = signal.signal(signal.SIGALRM, end)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


PARTS = [
    "password", "password ", "curl -u ", "curl ", "token_key", "a --password", "authorization: basic ", "\\\"auth",
    "cookie: ", "-token-", "key_" * 3, "password\\'", "secret = ", "pwd='", "mysql -p ", "redis-cli mysql 'curl ",
    "echo a|passwd ", "chpasswd <<E\n", "<<<a sudo -S ", "://a:b", "datadog key is ", "app_key=a ",
    "-----BEGIN PRIVATE KEY",
    "expect password send \"",
    "password={", "password=$A", "<password>", "<password a", "['password'] = ", '"name":"password","value":',
    "password: |\n (", "password: |\n  a\n", "set -x token ", "fill('password', ", 'value="a" name="password" ',
    "password\\\\", "token == a", '"d":"aB3dE5fG7hJ9kL1mN2pQ4rS"', "key=", "hooks/a1", "Signature=", "x_token.",
    "bot1",
    "password=your_", "auth=('a','",
    "sk-", "a.b.", "eyJ", "M.N.", "0f" * 16 + "-", "[redacted:token] password=a1 ", "ftp \n", "machine a login ",
]  # fmt: skip


@pytest.mark.parametrize("part", [*PARTS[:8], *(pytest.param(part, marks=pytest.mark.wide) for part in PARTS[8:])])
def test_the_time_grows_with_the_length_only(part: str) -> None:
    """What grows with its square goes on for minutes; the others take a fraction of a second."""
    with ending_within(60):
        redact_text(part * (200_000 // len(part)))


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        pytest.param({"argv": ["login", "--password", "x", "--max", "--token", "5"]},
                     {"argv": ["login", "--password", "[redacted:password]", "--max", "--token", "5"]},
                     id="an option's value in a list of arguments"),
        pytest.param({"pwd": "/srv/x", "author": "bob", "auth_mode": "a", "cookie_banner": "on", "oauth": True},
                     {"pwd": "/srv/x", "author": "bob", "auth_mode": "a", "cookie_banner": "on", "oauth": True},
                     id="but a directory, an author and what only begins like them"),
        pytest.param({"DB_PASSWD": 1234}, {"DB_PASSWD": "[redacted:passwd]"}, id="a password that is a number"),
        pytest.param({"apiKey": "x", "api-key": "y"}, {"apiKey": "[redacted:apikey]", "api-key": "[redacted:api_key]"},
                     id="an API key however it is written"),
        pytest.param({"h": {"Authorization": "Basic eA=="}}, {"h": {"Authorization": "[redacted:authorization]"}},
                     id="a header deep inside"),
        pytest.param({"credentials": {"user": "bob"}}, {"credentials": "[redacted:credential]"}, id="a whole object"),
        pytest.param({"max_tokens": 9, "tokens": 1.5}, {"max_tokens": 9, "tokens": 1.5}, id="but numbers of tokens"),
        pytest.param({"token": None, "secret": False}, {"token": None, "secret": False}, id="and that there is none"),
        pytest.param({"note": "AKIAIOSFODNN7EXAMPLE"}, {"note": "[redacted:aws_access_key]"}, id="a value by its form"),
    ],
)  # fmt: skip
def test_arguments_are_reported_without(value: object, expected: object) -> None:
    assert redact(value) == expected


def test_arguments_targets_error_and_output_of_a_call_are_reported_without_secrets() -> None:
    guard = ScriptedGuard()
    secret = "ghp_" + "a1B2" * 9

    @guard.tool(targets=("url",))
    def fetch_page(url: str, token: str) -> str:
        return f"the page of {token}"

    @guard.tool
    def log_in(password: str) -> None:
        raise PermissionError(f"no entry with {secret} for password={password}")

    fetch_page(f"https://example.org/?token={secret}", token=secret)
    with pytest.raises(PermissionError):
        log_in("hunter2!")
    guard.model_turn(output=f"I use {secret}")
    published = b"".join(event.to_json() for event in guard.events)
    assert secret.encode() not in published
    assert b"hunter2" not in published
    assert published.count(b"[redacted:github_token]") >= 3


FRAGMENTS = (
    "AKIAIOSFODNN7EXAMPLE", "ghp_" + "a1B2" * 9, "github_pat_" + "a1B2_" * 6, "xoxb-1234567890-abcdef", JWT, KEY_BLOCK,
    "sk_live_" + "a1B2" * 6, "rk_test_" + "a1B2" * 6, "sk-" + "a1B2" * 6, "Bearer abcdefgh123", "x://bob:hunter2@db",
    "password", "PassWd", "pa\u017f\u017fword", "to\u212aen", "cred\u0130ential", "API-KEY", "apikey", "private_key",
    "/src/app.py", "\ud800", "privateKey", "authorization", "secret",
    "glpat-" + "a1B2" * 5, "npm_" + "a1B2" * 9, "AIza" + "a1B2-" * 7, "hf_" + "a1B2" * 8, "curl -u bob:hunter2",
    "AccountKey", "ACCESS_KEY", "access-\u212aey", "passphra\u017fe", "Pwd", "CooKie", "Auth", "cookies", "--", " = ",
    ": ", "Basic ", "_KEY",
    "=", ":", '"', " ", "hunter2", "\n", "plain words", "\u00e9",
)  # fmt: skip


@given(key=st.lists(st.sampled_from(FRAGMENTS)).map("".join), text=st.lists(st.sampled_from(FRAGMENTS)).map("".join))
def test_what_is_taken_for_clean_at_a_glance_is_clean(key: str, text: str) -> None:
    value = json.loads(json.dumps({key: [text]}).encode(errors="replace").decode().replace("\\ud800", "?"))
    if not may_hold_secrets(orjson.dumps(value).decode()):
        (name,) = value
        assert is_secret_name(name) is None
        assert redact_text(name) == name
        assert redact(value) == value


@pytest.mark.parametrize("name", NAMES)
def test_no_name_is_overlooked_at_a_glance(name: str) -> None:
    for written in (name, name.upper()):
        assert may_hold_secrets(orjson.dumps({"a": f"x {written}' y"}).decode())
        assert may_hold_secrets(orjson.dumps({written: 1}).decode())


@pytest.mark.parametrize("text", ["\ud800", "pass\ud800word=hunter2", "a\udfff"])
def test_what_is_no_unicode_is_always_looked_at(text: str) -> None:
    assert may_hold_secrets(text)
