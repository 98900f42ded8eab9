import base64
import datetime
import json
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.simulator.memory_table import MemoryAuditTable
from haltline.interventions.agent.redaction.pii import is_card_number
from haltline.schemas import wire
from haltline.schemas.control import REMOVED_KINDS, CommandKind
from haltline.schemas.events import ActionEvent, Novelty, Usage
from haltline.schemas.native import EventFields
from haltline.streams.audit import summary
from haltline.streams.audit.columns import to_arrow
from haltline.streams.audit.event_columns import ordinary_events
from haltline.streams.audit.reading import KafkaRecord, Reader
from haltline.streams.audit.redacting import KINDS, Headers, Redaction
from haltline.streams.audit.settings import AuditSettings
from haltline.streams.audit.writer import Place
from tests.builders import cases
from tests.schemas.test_native import EVENT, inner, odd, values
from tests.streams.audit.records import NOW_MS, TODAY, TOPICS, command, event, one_of_each, policy, record
from tests.streams.audit.tables import READER, writer

MS_PER_DAY = 86_400_000


def test_key_and_headers_that_are_not_text_are_kept_whole_and_a_letter_without_any_cannot_be_read() -> None:
    headers = (("a", b"text"), ("a", b"\xff"), ("n", None))
    read = READER.row(record(TOPICS.actions, b"x", key=b"a\xff", headers=headers), NOW_MS)
    assert (read["key"], read["key_bytes"]) == ("a\\xff", b"a\xff")
    assert orjson.loads(read["headers"]) == [["a", "text"], ["a", None, "/w=="], ["n", None]]
    assert READER.row(record(TOPICS.dead_letter, b"x"), NOW_MS)["decode_error"] is not None


@pytest.mark.parametrize("kind", sorted(REMOVED_KINDS))
def test_a_command_of_an_earlier_release_is_kept_in_the_same_columns(kind: CommandKind) -> None:
    given = {"command_id": "c1", "kind": kind, "id": "s1", "by": "sdk", "reason": "as before", "time": NOW_MS}
    more = {"request_id": "r1", "request": {"action": "transfer", "expires_s": 60}, "replayed": {"status": "success"}}
    row = READER.row(record(TOPICS.commands, orjson.dumps(given | more)), NOW_MS)
    assert (row.get("decode_error"), row["kind"], row["session_id"]) == (None, kind, "s1")
    assert row["summary"] == f"session_{kind} by sdk: as before"


@pytest.mark.parametrize(
    ("timestamp_ms", "shown_ms", "day"),
    [(NOW_MS - 40 * MS_PER_DAY, NOW_MS - 40 * MS_PER_DAY, TODAY - 40), (None, None, TODAY), (-1, None, TODAY),
     (0, 0, TODAY), (NOW_MS + 2 * MS_PER_DAY, NOW_MS + 2 * MS_PER_DAY, TODAY), (2**62, None, TODAY)],
    ids=["weeks ago", "none", "before 1970", "a clock that was never set", "the day after tomorrow", "no year"],
)  # fmt: skip
def test_a_wild_timestamp_is_kept_and_makes_no_folder(timestamp_ms: int | None, shown_ms: int | None, day: int) -> None:
    row = READER.row(record(TOPICS.actions, event().to_json(), timestamp_ms=timestamp_ms), NOW_MS)
    assert (row["timestamp_ms"], row["timestamp"], row["event_date"]) == (timestamp_ms, shown_ms, day)


def cells(name: str, *values: object) -> list[object]:
    column = to_arrow([{name: value} for value in values])[name]
    return [column[index].as_py() for index in range(len(values))]


@cases(
    "name, values, expected",
    {
        "a number beyond 64 bits": ("offset", (1, 2**63, -(2**63)), [1, None, -(2**63)]),
        "half a surrogate pair": ("summary", ("a", "\ud800", None), ["a", None, None]),
        "a number beyond a double": ("cost_usd", (1, 10**400, 0.5), [1.0, None, 0.5]),
        "bytes and none and no bytes": ("raw", (b"\x00\xff", b"", None), [b"\x00\xff", b"", None]),
        "a list with a bad text": ("targets", (["a", "b"], ["\ud800"], [], None), [["a", "b"], [], [], []]),
        "days": ("event_date", (20_000, None), [datetime.date(2024, 10, 4), None]),
        "milliseconds": (
            "timestamp",
            (1_780_000_000_001, None),
            [datetime.datetime(2026, 5, 28, 20, 26, 40, 1000, tzinfo=datetime.UTC), None],
        ),
    },
)
def test_a_cell_that_does_not_fit_is_null_and_the_others_stay(
    name: str, values: tuple[object, ...], expected: list[object]
) -> None:
    assert cells(name, *values) == expected


# Rows stay byte for byte what an earlier release made of the same records, whichever way they are made. Each line is a
# record and the cells of its row, some of records that were mutated. Of those that cannot be read the text of the error
# is left out: it is that of a library.
LINES = [orjson.loads(line) for line in Path(__file__).with_name("golden_rows.jsonl").read_bytes().splitlines()]
TEXTS_OF_LIBRARIES = ("decode_error", "summary")


def from_base64(text: str | None) -> bytes | None:
    return None if text is None else base64.b64decode(text)


def record_of(line: dict[str, Any]) -> KafkaRecord:
    topic, partition, offset, time_ms, key, value, headers = line["record"]
    pairs = tuple((name, from_base64(text)) for name, text in headers)
    return KafkaRecord(topic, partition, offset, time_ms, from_base64(key), from_base64(value), pairs)


def cells_of(row: dict[str, Any]) -> dict[str, Any]:
    left_out = TEXTS_OF_LIBRARIES if row.get("decode_error") is not None else ()
    cells = {name: cell for name, cell in row.items() if cell is not None and name not in left_out}
    return {name: base64.b64encode(cell).decode() if isinstance(cell, bytes) else cell for name, cell in cells.items()}


@pytest.mark.parametrize("flush_every", [1, 7, len(LINES)])
def test_rows_are_what_they_were(flush_every: int) -> None:
    table = MemoryAuditTable()
    records = [record_of(line) for line in LINES]
    sink = writer(table, *{Place(one.topic, one.partition) for one in records}, redact=True)
    for number, one in enumerate(records, 1):
        sink.add(one)
        if number % flush_every == 0 or number == len(records):
            sink.flush(NOW_MS)
    made = {(row["topic"], row["partition"], row["offset"]): cells_of(row) for row in table.rows}
    assert made == {tuple(line["record"][:3]): line["row"] for line in LINES}


KEY = "AKIA" + "ABCDEFGHIJKLMNOP"
TOKEN = "ghp_" + "a1" * 12
JWT = "eyJ" + "hbGciOiJIUzI1NiJ9" + ".eyJzdWIiOiIxIn0." + "c2ln"
FOUND = [
    ("aws_access_key", KEY), ("github_token", TOKEN), ("slack_token", "xox" + "b-1234567890-abc"),
    ("stripe_key", "sk_live" + "_abcdefghijklmnop"), ("api_key", "sk-" + "abcdefghijklmnopqrst"), ("jwt", JWT),
    ("private_key", "-----BEGIN RSA PRIVATE KEY-----\nabc\n-----END RSA PRIVATE KEY-----"),
    ("url_password", "https://ada:hunter2@example.org/x"), ("gitlab_token", "glpat-" + "a1B2" * 5),
    ("npm_token", "npm_" + "a1B2" * 9), ("google_key", "AIza" + "a1B2-" * 7), ("huggingface_token", "hf_" + "a1B2" * 8),
    ("access_key", "AWS_SECRET_ACCESS_KEY=wJalrXUtnFEMI"), ("accountkey", "AccountKey=ab+/cd=="),
    ("password", "password: hunter2"), ("password", "password = hunter2"), ("password", "login --password hunter2"),
    ("password", "curl -u bob:hunter2 x"), ("passphrase", "passphrase=hunter2"), ("pwd", "pwd=hunter2"),
    ("token", "token: abc123"), ("api_key", "x-api-key: abc123"),
    ("authorization", "Authorization: Basic Ym9iOmh1bnRlcjI="), ("email", "ada.lovelace+x@mail.example.org"),
    ("us_ssn", "078-05-1120"), ("credit_card", "4111 1111 1111 1111"), ("credit_card", "378282246310005"),
    ("phone_us", "(555) 867-5309"), ("phone_us", "555.867.5309"),
]  # fmt: skip
NOT_FOUND = [
    "1780000000000", "2026-05-28T20:26:40Z", "550e8400-e29b-41d4-a716-446655440000", "4111 1111 1111 1112",
    "10.0.192.168", "000-12-3456", "task-12", "v1.22.333", "react@18.2.0", "high_", "a token of it",
]  # fmt: skip
everything = Redaction()


def stored(raw: bytes | None, headers: Headers = ()) -> dict[str, Any]:
    return Reader(TOPICS, "audit", everything).row(record(TOPICS.actions, raw, headers=headers), NOW_MS)


@pytest.mark.parametrize("ascii_only", [False, True])
def test_what_has_a_known_form_is_taken_out_wherever_it_stands(*, ascii_only: bool) -> None:
    for kind, text in FOUND:
        sent = event(args={"a": [{"b": f"see {text}, ü"}]}, error=text, targets=[f"x={text}"]).to_json()
        row = stored(json.dumps(json.loads(sent), ensure_ascii=ascii_only).encode())
        kept = row["raw"]
        assert text not in json.dumps(json.loads(kept), ensure_ascii=False) + str(row), kind
        assert (kept.count(b"[redacted:" + kind.encode()), row["redacted"]) == (3, kind)
        assert json.loads(kept)["args"]["a"][0]["b"].endswith(", ü")


def test_what_only_looks_alike_stays_byte_by_byte_and_what_goes_under_a_telling_name_does_not() -> None:
    for text in NOT_FOUND:
        raw = json.dumps(json.loads(event(args={"a": text}, usage={"input_tokens": 3}).to_json()), indent=1).encode()
        row = stored(raw)
        assert (row["raw"], row["redacted"]) == (raw, None)
    for one in one_of_each():  # of our own, that hold none
        row = Reader(TOPICS, "audit", everything).row(one, NOW_MS)
        assert (row["raw"], row["redacted"]) == (one.value, None)
    names = "password API_KEY client_secret Authorization x-api-key card_token access_key auth Cookie passphrase db_pwd"
    for name in (*names.split(), "to\u212aen"):
        row = stored(event(args={name: "hunter2", "max_tokens": 7}).to_json())
        assert b"hunter2" not in row["raw"], name
        assert orjson.loads(row["raw"])["args"]["max_tokens"] == 7


def test_ids_and_who_did_it_stay_and_headers_and_what_cannot_be_read_are_looked_through() -> None:
    result = event(session_id="ada@example.org", event_id=TOKEN, error="ada@example.org")
    row = stored(result.to_json())
    assert (row["session_id"], row["event_id"], row["error"]) == ("ada@example.org", TOKEN, "[redacted:email]")
    reader = Reader(TOPICS, "audit", everything)
    by = reader.row(record(TOPICS.commands, command(by="ada@example.org").to_json()), NOW_MS)["by"]
    assert by == "ada@example.org"
    document = policy().to_json()[:-1] + b',"note":"ada@example.org"}'
    assert reader.row(record(TOPICS.policies, document), NOW_MS)["raw"] == document
    row = stored(
        b'{"password": "hunter2", "to": ada@example.org', headers=(("authorization", b"Bearer x"), ("n", None))
    )
    assert row["raw"] == b'{"password": "[redacted:password]", "to": [redacted:email]'
    assert row["headers"] == '[["authorization","[redacted:authorization]"],["n",null]]'
    assert row["redacted"] == "authorization,email,password"
    assert row["kind"] == "unreadable"
    row = stored(b'\xff {"password": "hunter2", "a": "\xe9 ada\\u0040example.org"}')
    assert row["raw"] == b'\xff {"password": "[redacted:password]", "a": "\xe9 [redacted:email]"}', "no text, around it"
    assert row["redacted"] == "email,password"
    assert stored(b"\xff token of \xc3")["raw"] == b"\xff token of \xc3"


@pytest.mark.parametrize(
    ("raw", "kept"),
    [(b'{"args":{"note":"bob@example.com"},"args":{}}', b'{"args":{}}'),
     (b'{"a":[{"n":"bob@example.com","n":1}]}', b'{"a":[{"n":1}]}'),
     (b'{"n":1,"n":"bob@example.com"}', b'{"n":"[redacted:email]"}'),
     (b'{"n":"hunter2","\\u006e":"a token"}', b'{"n":"a token"}')],
    ids=["at the top", "deep inside", "the last one", "a name that is escaped"],
)  # fmt: skip
def test_a_duplicate_name_hides_nothing(raw: bytes, kept: bytes) -> None:
    value, _, kinds = everything.of(raw)
    assert (value, "repeated_name" in (kinds or "")) == (kept, True)


def test_a_card_and_an_option_s_value_are_taken_out_and_only_the_chosen_kinds() -> None:
    result = {"card": 4111111111111111, "no": 4111111111111112, "at": 1780000000000, "argv": ["-x", "--token", "abc"]}
    value, _, kinds = everything.of(orjson.dumps(result))
    assert value == orjson.dumps(
        result | {"card": "[redacted:credit_card]", "argv": ["-x", "--token", "[redacted:token]"]}
    )
    assert kinds == "credit_card,token"
    cards = ["4111111111111111", "4111-1111-1111-1111", "30569309025904"]
    others = ["4111 1111-1111-1111", "4111111111111112", "4222222222222", "1"]
    assert [is_card_number(text) for text in cards + others] == [True] * 3 + [False] * 4
    in_hex = event(event_id=HEX, output_digest=HEX).to_json()
    assert (everything.is_suspicious(in_hex), everything.may_be_found(in_hex.decode())) == (True, False)
    assert everything.of(in_hex) == (in_hex, (), None)
    assert Redaction(["email"]).of(orjson.dumps(result)) == (orjson.dumps(result), (), None)
    raw = event(error=f"{KEY} ada@example.org 078-05-1120").to_json()
    value, _, kinds = Redaction(["email"]).of(raw)
    assert (value, kinds) == (raw.replace(b"ada@example.org", b"[redacted:email]"), "email")
    assert Redaction([]).of(raw) == (raw, (), None)
    with pytest.raises(ValueError, match="got names"):
        AuditSettings(bootstrap="x:1", redact=["names"])
    assert AuditSettings(bootstrap="x:1").redact == KINDS


class Careful(Redaction):
    """Looks through everything."""

    def is_suspicious(self, value: bytes) -> bool:
        return bool(value)

    def may_be_found(self, text: str) -> bool:
        return bool(text)


class Thorough(Redaction):
    """Goes through each field of what is suspicious."""

    def may_be_found(self, text: str) -> bool:
        return bool(text)


WORDS = (
    "password TOKEN PASSWD PRIVATE_KEY private-key AUTHORIZATION Credential secret tokens input_tokens Api-Key "
    "Access_Key ACCOUNTKEY PassPhrase PWD CoOkie aUth to\u212aen pa\u017fsword -- : = x"
)
pieces = st.sampled_from(
    [text for _, text in FOUND] + NOT_FOUND + WORDS.split() + [" = ", ": ", "Basic ", " ", '"', "\n"]
)
numbers = st.sampled_from([4111111111111111, 4111111111111112, 5, 378282246310005, -4111111111111111])
texts = st.lists(pieces, max_size=4).map("".join)


@given(
    st.dictionaries(texts, numbers | texts | st.lists(texts, max_size=2) | st.dictionaries(texts, texts, max_size=2)),
    st.booleans(),
)
def test_the_quick_look_misses_nothing_that_is_found(document: dict[str, object], as_text: bool) -> None:
    raw = str(document).encode() if as_text else json.dumps(document).encode()
    assert everything.of(raw + b"\xff") == Careful().of(raw + b"\xff")
    assert everything.of(orjson.dumps(document)) == Careful().of(orjson.dumps(document))
    assert everything.of(raw) == Careful().of(raw)
    values = [None, raw, b"\xff", orjson.dumps(document)]
    assert everything.suspicious(values) == {n for n, one in enumerate(values) if one and everything.is_suspicious(one)}


HEX = "5f41111111111111118b"
beside = st.sampled_from(["", *'a5_.-\n\t\r\b\f"\\/ 4', "\\n", "\u00e9", "\u2028", "\U0001f600"])
cards = st.sampled_from(["4111111111111111", "4111 1111 1111 1111", "4111-1111-1111-1111", "378282246310005", HEX])
lone = st.tuples(beside, cards, beside).map("".join)
fields = st.lists(st.tuples(st.sampled_from(["a", "b", "c_id"]) | lone, lone | numbers | st.lists(lone | numbers)))


@given(fields, st.booleans(), st.integers(0, 70))
def test_the_closer_look_misses_nothing_either(said: list[tuple[str, object]], ascii_only: bool, depth: int) -> None:
    both = [tuple(json.dumps(one, ensure_ascii=ascii_only) for one in field) for field in said]
    raw = ("[" * depth + "{" + ",".join(f"{name}:{value}" for name, value in both) + "}" + "]" * depth).encode()
    assert everything.of(raw) == Thorough().of(raw)
    assert everything.of(raw[1:]) == Thorough().of(raw[1:])


NAMES = set(ActionEvent.model_fields) - {"task", "checkpoint", "secrets_sent"}
FULL = {name: value for name, value in EVENT.items() if name != "task"}


def read_as(event: ActionEvent | EventFields) -> dict[str, object]:
    columns = {name: getattr(event, name) for name in NAMES} | {"summary": summary.of_event(event)}
    for name, model in (("usage", Usage), ("output_novelty", Novelty)):
        columns[name] = columns[name] and {field: getattr(columns[name], field) for field in model.model_fields}
    return columns


def quickly(raw: bytes | None, headers: Headers = ()) -> dict[str, object] | None:
    _, event, _ = ordinary_events([b"{", raw, b"]"], [(), headers, ()])
    return None if event is None else read_as(event)


@pytest.mark.parametrize("name", ["content-type", "Content-Type", "ce_specversion"])
def test_another_format_is_left_to_the_model(name: str) -> None:
    raw = event().to_json()
    assert quickly(raw, ((name, b"x"),)) is None
    assert quickly(raw, (("traceparent", b"x"),)) is not None


names = st.sampled_from([*EVENT, "checkpoint", "other"])


@given(st.dictionaries(names, values | odd | inner, max_size=3), st.sets(names, max_size=3))
def test_whatever_stands_in_a_field_it_is_what_the_model_says_or_left_to_it(
    changed: dict[str, object], left_out: set[str]
) -> None:
    fields = {name: value for name, value in (FULL | changed).items() if name not in left_out}
    raw = json.dumps(fields).encode(errors="surrogatepass")
    assert (quick := quickly(raw)) is None or quick == read_as(wire.decode_event(raw))
