"""Cases for the TypeScript client over Kafka, recorded from this implementation, so that the two cannot part.

`python -m tests.clients.kafka_vectors` writes them.
"""

import json
import random
import tempfile
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final, cast

from confluent_kafka import Message
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

from haltline.interventions.agent.enforcement.fail_policy import WORDS, holds_word
from haltline.interventions.agent.rules.throttled import Throttled
from haltline.interventions.agent.transport.kafka_records import control_record
from haltline.interventions.agent.transport.signature_check import Sealed
from haltline.interventions.state.call_digest import parameters_of
from haltline.schemas import wire
from haltline.schemas.decisions import Decision
from haltline.schemas.events import Effect, Usage
from haltline.schemas.partitioner import partition_of
from haltline.schemas.seals import Sealer, Seals
from tests.clients.enforcer_sequences import NOW_MS, sequences
from tests.clients.rule_sequences import WRONG, rule_sequences, spooled

FILE: Final = Path(__file__).resolve().parents[2] / "clients/typescript/test/vectors/kafka.json"


def vectors() -> dict[str, Any]:
    return {
        "enforcer": sequences(),
        "decisions": [[text, _decision_of(text)] for text in _DECISIONS],
        "controls": [[key, text, _control_of(key, text)] for key, text in _CONTROLS],
        "partitions": [[key, [partition_of(key, count) for count in (1, 4, 12, 7)]] for key in _KEYS],
        "parameters": [
            [action, targets, parameters_of(action, {}, targets, "d" * 32)]
            for action, targets in (("rm", []), ("é", ["b=2", "a=1"]), ("x", ["\U0001f600=1", "\uffee=1"]))
        ],
        "words": [
            [text, holds_word(text.encode())]
            for text in _WRITTEN + [f'"{word}"' for word in sorted(word.decode() for word in WORDS)]
        ],
        "throttled": [_throttled(random.Random(seed)) for seed in range(8)],
        "rules": rule_sequences(),
        "wrong_rules": list(WRONG),
        "spooled": spooled(),
        "seals": _seals(),
    }


# What is read of records.

_DECISION = {
    "v": 1, "decision_id": "d1", "session_id": "s1", "event_id": "e1", "time": NOW_MS, "level": "BLOCK",
    "code": "c", "reason": "r",
}  # fmt: skip
_CONTROL = {
    "v": 1, "scope": "session", "id": "s1", "state": "killed", "code": "c", "reason": "r", "decision_id": "d1",
    "since": NOW_MS,
}  # fmt: skip


def _changed(of: dict[str, Any], *changes: dict[str, Any]) -> list[str]:
    """The record unchanged, without each of its fields, and with each of these changes, as JSON."""
    lacking = [{key: value for key, value in of.items() if key != name} for name in of]
    return [json.dumps(one) for one in (of, *lacking, *(of | change for change in changes))]


_DECISIONS: Final = [
    *_changed(
        _DECISION,
        {"of_a_newer_version": {"x": 1}},
        {"v": 2},
        *({"level": level} for level in ("EXPLODE", 7)),
        {"mode": "sometimes"},
        {"scope": "galaxy"},
        *({"time": f"2026-06-16T12:00:00{end}"} for end in ("Z", ".250+02:00", "")),
        *({"time": time} for time in (1, None)),
        {"session_id": ""},
        {"limits": {"max_tokens": "many"}},
        {"arguments": [1]},
        {"approval": {"request_id": "r"}},
        {"approval": {"request_id": "r", "nonce": "n", "parameters": "p", "since": NOW_MS, "expires": 1}},
        {"message": None, "mode": None},
    ),
    *("", "[]", "{", "null"),
    json.dumps(_DECISION).replace(str(NOW_MS), "NaN"),
]
_CONTROLS: Final = [
    *(("session:s1", text) for text in _changed(_CONTROL, {"state": "suspicious"}, {"v": 2}, {"spared": "s1"})),
    ("tool:drop_table", "{"),
    ("target:a=b:c", ""),
    ("fleet:*", "[]"),
    *((key, "{") for key in ("galaxy:1", "session:", "session", "")),
]


def _decision_of(text: str) -> list[Any] | None:
    try:
        read = wire.decode(Decision, text.encode())
    except wire.InvalidRecord:
        return None
    return [read.decision_id, read.session_id, read.event_id, read.time, read.level, read.scope, read.mode, read.code]


def _control_of(key: str, text: str) -> list[Any] | None:
    read = control_record(key, text.encode())
    return None if read is None else [read.scope, read.id, read.state, read.code, read.decision_id, read.since]


# The rest.

_KEYS: Final = ["s1", "", "a", "ab", "abc", "abcd", "session-" * 9, "é\U0001f600", *(f"n{n}" for n in range(20))]
_WRITTEN: Final = [
    '{"cmd":"ls -la"}', '{"cmd":"rm -rf /"}', '{"cmd":"ls\\nrm x"}', '{"q":"DROP TABLE x"}', '{"q":"dropped"}',
    "{\"c\":\"r'm' x\"}", '{"c":"r\\"m\\" x"}', '{"c":"\\\\rm x"}', '{"c":"formé"}', "{}",
]  # fmt: skip


def _throttled(rng: random.Random) -> list[list[Any]]:
    throttled, now, steps = Throttled(300.0), NOW_MS, []
    for _ in range(40):
        kind = rng.choice(("take", "note", "note", "used", "against", "against", "pass"))
        effect: Effect = rng.choice(list(Effect))
        if kind == "take":
            limits = {rng.choice(("max_file_operations", "max_tokens", "batch_size")): float(rng.randint(0, 4))}
            until = rng.choice((None, now + 60_000))
            throttled.take(limits, now, until)
            steps.append([kind, limits, now, until])
        elif kind == "note":
            throttled.note(effect)
            steps.append([kind, effect])
        elif kind == "used":
            throttled.used(Usage(input_tokens=2))
            steps.append([kind, 2])
        elif kind == "against":
            steps.append([kind, effect, now, throttled.against(effect, now) is not None])
        else:
            now += rng.choice((1_000, 100_000))
    return steps


def _seals() -> dict[str, Any]:
    """Entries and decisions in their order, some by another key, of another topic, old, or without a seal."""
    with tempfile.TemporaryDirectory() as folder:
        by: dict[str, Sealer] = {}
        for name, seed in (("other", b"2"), ("own", b"1")):
            private, file = Ed25519PrivateKey.from_private_bytes(seed * 32), Path(folder) / name
            file.write_bytes(private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
            public = private.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
            by[name] = Sealer(file)
        (Path(folder) / "own.pub").write_bytes(public)
        sealed = Sealed(Seals.of_files([Path(folder) / "own.pub"]))
    key, value = b"session:s1", json.dumps(_CONTROL).encode()
    lifted = json.dumps(_CONTROL | {"state": "probation"}).encode()

    def header(who: str, of: bytes | None, at_ms: int, topic: str = "haltline.control") -> list[list[str]]:
        name, text = by[who].seal(topic, key, of, at_ms)
        return [[name, text.decode()]]

    entries: list[tuple[bytes | None, list[list[str]]]] = [
        (None, header("other", None, NOW_MS)),
        (lifted, []),
        (value, header("own", value, NOW_MS)),
        (None, []),
        (None, header("other", None, NOW_MS + 1)),
        (lifted, header("own", value, NOW_MS + 1)),
        (lifted, header("own", lifted, NOW_MS + 1, "haltline.interventions")),
        (lifted, header("own", lifted, NOW_MS - 61_000)),
        (value, header("own", value, NOW_MS) * 2),
        (value, [["haltline-seal", "{}"]]),
        (value, [["haltline-seal", "no JSON"]]),
        (lifted, header("own", lifted, NOW_MS + 2)),
        (None, header("own", None, NOW_MS + 3)),
    ]
    standing: bytes | None = None
    expected: list[Any] = []
    for given, headers in entries:
        encoded = [(name, text.encode()) for name, text in headers]
        record = {"topic": "haltline.control", "key": key, "value": given, "headers": encoded}
        answers = {**record, "partition": 0, "offset": 0}.items()
        message = SimpleNamespace(**{name: partial(lambda answer: answer, answer) for name, answer in answers})
        standing = sealed.entry(key.decode(), cast("Message", message), standing)
        read = None if standing is None else control_record(key.decode(), standing)
        stands = None if read is None else [read.state, read.code]
        expected.append([None if given is None else given.decode(), headers, stands])
    return {"public": public.decode(), "key": key.decode(), "topic": "haltline.control", "entries": expected}


def as_text() -> str:
    """One case a line."""
    sections = []
    for name, cases in vectors().items():
        if isinstance(cases, dict):
            sections.append(f"{json.dumps(name)}: {json.dumps(cases)}")
        else:
            lines = ",\n".join(json.dumps(case, separators=(",", ":")) for case in cases)
            sections.append(f"{json.dumps(name)}: [\n{lines}\n]")
    return "{\n" + ",\n".join(sections) + "\n}\n"


if __name__ == "__main__":
    FILE.write_text(as_text(), encoding="utf-8")
