"""The data that leaves an agent's process, as the Python package writes it: cases for clients in other languages.

python -m tests.clients.vectors     # writes clients/typescript/test/vectors.json again

A text that is long is `{"repeat": [TEXT, COUNT]}`. Numbers are such as every language writes alike.
"""

import itertools
import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import orjson

import tests.interventions.agent.redaction.test_command_lines as command_line_tests
import tests.interventions.agent.redaction.test_kinds as kinds_tests
import tests.interventions.agent.redaction.test_pii as pii_tests
import tests.interventions.agent.redaction.test_places as places_tests
import tests.interventions.agent.redaction.test_secrets as secrets_tests
import tests.interventions.agent.redaction.test_sound_text as sound_text_tests
import tests.interventions.agent.test_held_secrets as held_tests
from haltline.interventions.agent.call import describe_output
from haltline.interventions.agent.held_secrets import HeldSecrets
from haltline.interventions.agent.novelty import SeenWords
from haltline.interventions.agent.prompts import prompt_digest
from haltline.interventions.agent.redaction.forms import HOSTS
from haltline.interventions.agent.redaction.marks import Keys
from haltline.interventions.agent.redaction.payload_encoding import digest, plain, plain_text
from haltline.interventions.agent.redaction.pii import without_pii_text
from haltline.interventions.agent.redaction.secrets import is_secret_name, redact, redact_text
from haltline.interventions.agent.rules.known_effects import known_effect, only_keeps
from haltline.interventions.agent.settings import GuardSettings
from haltline.schemas.events import Effect
from haltline.schemas.repeated_passage import repeated_passage
from haltline.schemas.tool_names import destroying_verb

FILE: Final = Path(__file__).resolve().parents[2] / "clients" / "typescript" / "test" / "vectors.json"
KEY: Final = b"a key of digests"

PIECES: Final = (
    "password", "PASSWORD", "api_key", "Api-Key", "x-api-key", "token", "max_tokens", "secret", "authorization",
    "Authorization: Bearer ", "auth", "cookie", "Set-Cookie: ", "pwd", "passphrase", "--password ", "-token ",
    "--no-", "curl -u bob:", "curl --user ann:", "=", ": ", ":", "=>", " := ", "==", " ", "\t", "\n", "\r\n", '"',
    "'", '\\"', "\\", ",", ";", "&", "[", "{", "<", "$HOME", "${X}", "null", "True", "hunter2", "abcdef", "12",
    "12345", "3.5k", "s3cr3t!", "/srv/x", "C:\\x", "https://u:pw@host/", "://a:b@", "AKIAIOSFODNN7EXAMPLE",
    "ghp_" + "a1" * 12, "sk-" + "Z9" * 10, "xoxb-1234567890", "eyJhbGciOi.eyJzdWIi.sig", "hf_" + "q" * 24,
    "glpat-" + "k" * 18, "npm_" + "n" * 22, "_prod", "_key", "AIza" + "g" * 32,
    "mysql ", "-p", "-phunter2", "redis-cli -a ", "echo ", " | ", "sudo -S ", "chpasswd ", "<<<", "app_key",
    " is ", "datadog", "pass", "a1B2c3D4e5F6g7H8i9J0", "0f" * 20, "docker login ",
    "-u ann:", "-----BEGIN RSA PRIVATE KEY-----",
    "-----END RSA PRIVATE KEY-----", "é", "ß", "名", "🦊", "\u0130", "\u0131", "\u017f", "\u212a", "\u00a0",
    "\u2003", "\ufeff", "\x1c", "\x85", "\ud800", "٣", "²", "ⅷ", "a\u0301",
)  # fmt: skip
KIND_ROUND: Final = ("{}", "use {} for it.", "a\\n{}\\nb", "鍵: {}。")
PERSONS: Final = (
    "ann@example.org", "a.b+c@mail.example.co.uk", "@", "123-45-6789", "000-45-6789", "4111 1111 1111 1111",
    "4111-1111-1111-1111", "4111111111111112", "(555) 123-4567", "+1 555-123-4567", "555.123.4567", " ", ",", "x",
    "_", "ab_" + "a1" * 14, "key-" + "Q7" * 13, "é", "٣", "1700000000000",
)  # fmt: skip
TOOLS: Final = (
    "delete_asset", "deleteAsset", "delete-asset", "mcp__warehouse__dropTable", "catalog.delete_asset",
    "get_asset", "work", "list_delete_requests", "clear_cache", "clear_table", "remove_filter", "bash", "read",
    "Read", "write_file", "undelete", "get_rid_of_table", "tear_down_stack", "cleanupTables", "safe_delete",
    "DROP TABLE", "d3lete_table", "d\u0435lete_asset", "\uff44\uff45lete_asset", "Löschen", "effacer_table",
    "kill_table_x", "HTTPDelete", "todo_write", "think", "send_message", "task", "str_replace_editor",
    "deletetables", "nukedatabase", "", "_", "a" * 600, "delete" + "x" * 600, "reset_password", "terminate",
    "is_clear", "to_trash", "archive_asset", "format_disk", "format_text", "del", "delete\u200b_asset", "ﬁnd_x",
)  # fmt: skip


RESULTS: Final = (
    ("", None), ("ab a_1 abc", None), ("abc", None), ("ABC abc_d x1y22", {"path": "src/new_file.py", "line": 40}),
    ("src new_file 40 41", None), ("über naïve 名前abc ١٢ 🦊fox\ud800end", None), ("line\nnext\ttab C:\\new", None),
    ({"text": "line\nnext\tmore \"quoted\" C:\\new \u0001bell", "n": [1, -2.5, True, None]}, None),
    (["line", {"é\nafter": 7}], {"a": {"b": ["deep\nest"]}}), ({"repeat": ["word tail ", 7000]}, None),
    ({"repeat": ["é", 32_767]}, {"beyond": {"repeat": ["xy ", 30_000]}}), ({"cut": {"repeat": ["q", 70_000]}}, None),
    ({"repeat": ["0123456789abc", 6000]}, None),
)  # fmt: skip
"""The results of one session's calls, each with the call's arguments."""


PROMPTS: Final = (
    "continue", "Yes, go on!", "weiter, bitte", "Продолжай, пожалуйста", "请继续。", "続けてください", "👍", "",
    "no", "done", "go back", "try again with python3", "now the attic", "go on " * 9,
)  # fmt: skip
REPEATED: Final = (
    {"repeat": ["and then we look at it again with care. ", 12]}, {"repeat": ["court\n\n  ", 9000]}, "nothing",
    {"repeat": ["| name | size |\n", 40]}, "```\n" + "print(value_of_it)\n" * 20 + "```", {"repeat": ["=", 400]},
    "```\nx\n```\n" + "this is a unique sentence. " * 20, " ".join(f"{n} is another number" for n in range(60)),
    "amber basin cedar delta ember fjord grove " * 2, "ünïcode 🦊 wörds thät répeat again " * 12,
)  # fmt: skip


def texts() -> list[str]:
    """Those of the tests of redaction, and some of many pieces."""
    found = [text for module in (secrets_tests, pii_tests, sound_text_tests) for text in _texts_of(module)]
    found += [line.replace("{}", "hunter2Xq") for line in command_line_tests.LINES]
    found += command_line_tests.OF_THE_TABLE[::8]
    found += [text for text, _ in places_tests.TEXTS.values()]
    chance = random.Random(19)
    for pieces, number, least, most in ((PIECES, 700, 2, 9), (PERSONS, 150, 1, 6)):
        found += ["".join(chance.choice(pieces) for _ in range(chance.randint(least, most))) for _ in range(number)]
    return list(dict.fromkeys(text for text in found if len(text) <= 2000 and not _has_a_pair(text)))


def values() -> list[Any]:
    deep: Any = "token=abcdef"
    for _ in range(70):
        deep = {"in": [deep]}
    less: Any = "x"
    for _ in range(20):
        less = {"in": [less]}
    long = "a long text, password=hunter2; "
    return [
        {}, [], "", "text", None, True, 7, -3, 0.5, 1e-7, 1.5e-5, 0.0001, 123456.789, "\ud800", "a\udfffb",
        {"password": "x", "token": 5, "max_tokens": 9, "pwd": "/srv/x", "cookie": None, "secret": False},
        {"api-key": ["x"], "auth_header": {"x": 1}, "PWD": "x"},
        {"b": 1, "a": {"z": [1, {"y": 2}], "é": 3, "🦊": 4, "\uffff": 5}},
        {"10": 1, "9": 2, "a": 3, "": 4, "__proto__": 5},
        {"args": ["--password", "hunter2", "--token", "12", "--no-secret", "x", "-v", "--api-key", "$KEY"]},
        {"\ud800": "password=abcdef"}, {"env": {"DB_PASSWORD": "p w", "PATH": "/bin"}},
        {"env": [{"name": "DB_PASSWORD", "value": "x"}], "cmd": ["mysql", "-uroot", "-phunter2", "x"]},
        {"datadog_app_key": "0f" * 20, "cache_key": "0f" * 20, "db_pass": "hunter2", "key": "value"},
        {"toKen": "x", "ap\u0130_key": "y"}, less, deep, {"command": "rm -rf / " + "é" * 50},
        {"n": [0.1, 3, -0.25]}, {"text": {"repeat": ["x", 300_000]}}, {"text": {"repeat": [long, 3000]}},
        {"text": {"repeat": ["🦊", 9000]}}, {"list": [{"k": i} for i in range(700)]},
        {f"f{i}": "v" * 40 for i in range(400)},
        {"a": {"repeat": ["y", 40_000]}, "b": {"repeat": ["password=hunter2 ", 5000]}}, {"k" * 100: "x" * 9000},
        *(value for value, _ in places_tests.VALUES.values()),
    ]  # fmt: skip


def expanded(value: Any) -> Any:
    """The value itself, where a long text is described."""
    if isinstance(value, dict):
        if value.keys() == {"repeat"}:
            return value["repeat"][0] * value["repeat"][1]
        return {name: expanded(item) for name, item in value.items()}
    return [expanded(item) for item in value] if isinstance(value, list) else value


def vectors() -> dict[str, Any]:
    names = sorted({*secrets_tests_names(), *PIECES, "DB_PASSWORD", "authHeader", "cookies", "cookiesX", "pwd2"})
    return {
        "texts": [[text, redact_text(text), without_pii_text(text, KEY)] for text in texts()],
        "parts": list(_parts()),
        "heads": [[text, 12, plain_text(text, max_chars=12)] for text in texts()[::5]],
        "names": [[name, is_secret_name(name)] for name in names],
        "values": [[value, redact(expanded(value))] for value in values() if not _is_long(value)],
        "payloads": list(_payloads()),
        "outputs": list(_outputs()),
        "novelty": list(_novelty()),
        "held": list(_held()),
        "digests": [
            [text, digest(text.encode()), digest(text.encode(), KEY)] for text in ("", "a", "x" * 128, "é" * 999)
        ],
        "tools": [[name, destroying_verb(name), *_effects(name)] for name in TOOLS],
        "prompts": [[text, bool(prompt_digest(text))] for text in PROMPTS],
        "repeats": [[text, repeated_passage(expanded(text))[1]] for text in REPEATED],
    }


def secrets_tests_names() -> list[str]:
    return [text for text in _texts_of(secrets_tests) if len(text) < 40 and not _has_a_pair(text)]


def _effects(name: str) -> tuple[str, str, bool]:
    effect = known_effect(name, None)
    return effect.value, known_effect(name, Effect.MUTATE).value, only_keeps(name, effect)


def _parts() -> Iterator[list[Any]]:
    """Texts with secrets of published forms, in parts, so that no scanner takes this file for a leak."""
    found = [around.replace("{}", secret) for secret in kinds_tests.PUBLISHED.values() for around in KIND_ROUND]
    found += [f"{name}: {secret}" for name, secret in kinds_tests.BESIDE.values()]
    for text in found:
        yield [[text[at : at + 6] for at in range(0, len(text), 6)], redact_text(text), redact_text(text, KEY)]


def _payloads() -> Iterator[dict[str, Any]]:
    for value in values():
        for max_bytes in (0, 64, 8192, 262_144):
            for key, pii in ((b"", None), (KEY, KEY))[: 1 + (max_bytes == 8192)]:
                made = plain(expanded(value), max_bytes=max_bytes, keys=Keys(key, pii))
                written = orjson.dumps(made.value, option=orjson.OPT_SORT_KEYS)
                yield {
                    "value": value,
                    "max_bytes": max_bytes,
                    "keyed": bool(key),
                    **({"plain": made.value} if len(written) < 300 else {"plain_digest": digest(written)}),
                    "digest": made.digest,
                    "size_bytes": made.size_bytes,
                    "opaque": made.opaque,
                    "unread_from": made.unread_from,
                }


def _outputs() -> Iterator[list[Any]]:
    for chars in (0, 12, 512):
        settings = GuardSettings(mode="local", max_output_chars=chars)
        for value in values():
            if value is not None:
                yield [value, chars, describe_output(expanded(value), settings)]


def _novelty() -> Iterator[list[Any]]:
    seen = SeenWords()
    for result, args in RESULTS:
        counted = seen.take(expanded(result), args=expanded(args))
        yield [result, args, counted.model_dump(include={"new_words", "words", "results"})]  # it counts no operands


def _held() -> Iterator[list[Any]]:
    """A call and its result, and another call with what it sends of the secrets of the first."""
    token = f"GITHUB_TOKEN={held_tests.TOKEN}\n"
    environment = ("bash", {"command": "cat .env"})
    commands = (*held_tests.UPLOADS, *held_tests.NO_UPLOADS)
    tried: list[tuple[str, Any, Any, str, Any]] = [
        *((*environment, token, "bash", held_tests.post(text)) for text in held_tests.ENCODED.values()),
        *((*environment, token, "bash", {"command": command}) for command in commands),
        *((*environment, token, case[0], case[1]) for case in _cases_of(held_tests.test_where_it_goes_decides)),
    ]
    for command, result, text, _ in _cases_of(held_tests.test_what_a_session_has_read_decides):
        tried.append(("bash", {"command": command}, result, "bash", held_tests.post(text)))
    for action, result, text, _ in held_tests.ANSWERS.values():
        tried.append((action, {"name": "db"}, result, "send_mail", {"to": "a@example.org", "body": [text]}))
    for kind, secret in kinds_tests.PUBLISHED.items():
        for host in ("example.org", *sorted(HOSTS[kind])[:1]):
            tried.append(
                ("read", {"path": "a"}, f"use {secret}", "http_post", {"url": f"https://{host}/", "x": secret})
            )
    for read_by, read_args, result, action, args in tried:
        held = HeldSecrets(KEY)
        held.take(read_args, result, action=read_by)
        sent = [one.model_dump(exclude_none=True) for one in held.sent(action, args)]
        yield [read_by, _in_parts(read_args), _in_parts(result), action, _in_parts(args), sent]


def _cases_of(test: Any) -> Iterator[tuple[Any, ...]]:
    for mark in test.pytestmark:
        yield from (tuple(case.values) for case in mark.args[1])


def _in_parts(value: Any) -> Any:
    """Its texts in parts, so that no scanner takes this file for a leak."""
    if isinstance(value, dict):
        return {name: _in_parts(item) for name, item in value.items()}
    if isinstance(value, list):
        return list(map(_in_parts, value))
    return {"parts": [value[at : at + 6] for at in range(0, len(value), 6)]} if isinstance(value, str) else value


def _texts_of(module: Any) -> Iterator[str]:
    for test in vars(module).values():
        for mark in getattr(test, "pytestmark", ()):
            if mark.name == "parametrize":
                yield from _strings(mark.args[1])


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        yield from _strings([*value, *value.values()])
    elif isinstance(value, list | tuple):  # also a param of pytest, which is a tuple
        for one in value:
            yield from _strings(one)


def _has_a_pair(text: str) -> bool:
    """Two halves beside each other: one letter to JSON."""
    return any("\ud800" <= a <= "\udbff" and "\udc00" <= b <= "\udfff" for a, b in itertools.pairwise(text))


def _is_long(value: Any) -> bool:
    return "repeat" in json.dumps(value) or len(json.dumps(value)) > 2000


def written() -> str:
    """The file, one case a line."""
    parts = [
        f'"{name}":[\n' + ",\n".join(json.dumps(case, separators=(",", ":")) for case in cases) + "\n]"
        for name, cases in vectors().items()
    ]
    return "{" + ",\n".join(parts) + "}\n"


if __name__ == "__main__":
    FILE.write_text(written(), encoding="ascii")
    print(f"wrote {FILE.name}: {FILE.stat().st_size} bytes")
