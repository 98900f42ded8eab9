"""Secrets and personal data are taken out of what a producer without a guard sends, before it is stored. Pure.

The agent's side takes secrets out before anything leaves its process; here the same is done to what did not come
through it, and to personal data. What is found becomes `[redacted:kind]`, in the value and in headers; the record's key
and its ids stay, for they join it with others. All else is kept: a JSON value in which something was found is written
anew, with the same content; one in which nothing was found is stored byte by byte. What is no JSON, or no UTF-8, is
looked through as text, and the bytes around what is found stay. Where a suspicious record says a name twice, which can
hide anything from who looks at the last one, it is written anew with the last one (`repeated_name`).

The chain is of what is stored, so `haltline audit verify` proves the table without knowing what was taken out, and no
digest of the original is kept: a telephone number can be guessed from one. Whoever wants to compare the table with the
topic reads the topic, does to each record what this module does (it depends on nothing but the record and the kinds),
and compares; the column `redacted` says in which records something was taken out.

Documents of policies are not touched: they hold what rules look for, and who writes them is trusted. A replay from the
table sees what is stored.
"""

import json
import re
from collections import Counter
from collections.abc import Collection
from typing import Any, Final

import orjson

from haltline.interventions.agent.personal import PERSONAL, redact_personal
from haltline.interventions.agent.redaction import instead_of_item, is_secret_name, redact, redact_text

SECRETS: Final = "secrets"
KINDS: Final = (SECRETS, *PERSONAL)
"""What can be taken out."""

Headers = tuple[tuple[str, bytes | None], ...]

_MARK: Final = re.compile(r"\[redacted:(\w+)\]")
_MAX_DEPTH: Final = 64

# Fields of a record that join it with others, say who did it, or are of a closed vocabulary; and all ids.
_KEPT: Final = frozenset(
    ("v", "kind", "time", "since", "seq", "id", "by", "effect", "outcome", "level", "would", "scope", "mode", "state",
     "stage", "severity", "code", "detector", "policy", "evidence", "await_verdict")
)  # fmt: skip
_KEPT_ENDINGS: Final = ("_id", "_ids", "_digest")

# Looking for thirty texts in each record would take longer than all else that is done to it. So it is shrunk first, to
# the letters that tell these texts from others, which keeps their order: what is in it is in what is left of it.
_TELLING: Final = b"bcdeghklnprstvwxyzBCDEGHKLNPRSTVWXYZ_-AIJ"
_LESS: Final = bytes(set(range(256)) - set(_TELLING))
_LOWER: Final = bytes.maketrans(b"BCDEGHJKLNPRSTVWXYZ", b"bcdeghjklnprstvwxyz")
# Each begins with a letter that is rare in what is left, for only there is the rest of it tried.
_LEFT_OF_SECRETS: Final = re.compile(
    rb"wr?d|cret|credent|vA?te|zA?tI?n|gh[psr]?_|gthb_pt_|xx|yj|berer|A[ks]IA"
    rb"|k(?:ey|_lve_|_test_|-|en(?!s)|ens(?<!npt_tkens)(?<!tpt_tkens)(?<!cche_red_tkens))"
)
_LEFT_OF_COUNTS: Final = (b"npt_tkens", b"tpt_tkens", b"cche_red_tkens")
"""Of input_tokens, output_tokens and cache_read_tokens, which are in every second record."""
_COUNTS: Final = re.compile(rb"(?:input|output|cache_read)_tokens")
_TEXTS: Final = (
    b"AKIA", b"ASIA", b"ghp_", b"gho_", b"ghu_", b"ghs_", b"ghr_", b"github_pat_", b"xox", b"k_live_", b"k_test_",
    b"sk-", b"eyJ", b"earer ",
)  # fmt: skip
_AUTH: Final = re.compile(rb"auth(?:[\"'\\]|orization|[_-]?header)")
_NAMES: Final = (
    b"secret", b"passw", b"private", b"credential", b"apikey", b"api_key", b"api-key", b"accesskey",
    b"access_key", b"access-key", b"accountkey", b"account_key", b"account-key",
)  # fmt: skip
_ESCAPES: Final = (b"\\u00", b"\\u01", b"\\u21", b"\\/")  # an @ or a letter may be written so, and ://
_ASCII_ESCAPE: Final = re.compile(r"\\u00([2-7][0-9A-Fa-f])|\\/")
# The letters beyond ASCII that are equal to one of ASCII when case is ignored: dotted I, dotless i, long s, Kelvin.
_FOLDED: Final = (b"\xc4\xb0", b"\xc4\xb1", b"\xc5\xbf", b"\xe2\x84\xaa")

_NO_PART_OF_NUMBERS: Final = b"ghijklmnopqrstuvwxyzGHIJKLMNOPQRSTUVWXYZ"  # without a to f: ids join no numbers
_SHAPE: Final = bytes.maketrans(b"123456789 .", b"000000000--")
_CARD: Final = b"0" * 14
_LEAST_CARD: Final = 10**13


class Redaction:
    """Takes out what is of some of `KINDS`. Raises ValueError when one is not known."""

    def __init__(self, kinds: Collection[str] = KINDS) -> None:
        if unknown := sorted(set(kinds) - set(KINDS)):
            raise ValueError(f"redact: wanted some of {', '.join(KINDS)}, came {', '.join(unknown)}")
        self._secrets = SECRETS in kinds
        self._personal = tuple(kind for kind in PERSONAL if kind in kinds)
        self._mail = "email" in kinds
        self._numbers = len(self._personal) > self._mail

    def of(self, value: bytes | None, headers: Headers = ()) -> tuple[bytes | None, Headers, str | None]:
        """Value and headers as they are stored, and the kinds that were taken out, separated by commas."""
        suspicious = bool(value) and self.is_suspicious(value or b"")
        if not suspicious and not headers:
            return value, headers, None
        taken: Counter[str] = Counter()
        if suspicious:
            value = self._value(value or b"", taken)
        headers = tuple((name, self._header(name, text, taken)) for name, text in headers)
        return value, headers, ",".join(sorted(taken)) or None

    def is_suspicious(self, value: bytes) -> bool:
        """Whether something may be in it. Quick; never no where something is found."""
        return (
            (b"\\" in value and any(one in value for one in _ESCAPES))
            or (self._mail and b"@" in value)
            or (self._numbers and _may_have_numbers(value))
            or (self._secrets and _may_have_secrets(value))
        )

    def _value(self, value: bytes, taken: Counter[str]) -> bytes:
        text = value.decode(errors="surrogateescape")
        try:
            said = orjson.loads(value)
        except orjson.JSONDecodeError:
            plain = _ASCII_ESCAPE.sub(_unescaped, text)
            without = self._text(plain)
            return value if without == plain else self._noted(text, without, taken) or value
        without = self._json(said, 0)
        if _says_a_name_twice(text):
            taken["repeated_name"] += 1
        elif without == said:
            return value
        anew = orjson.dumps(without)
        return self._noted(text, anew.decode(), taken) or value

    def _header(self, name: str, value: bytes | None, taken: Counter[str]) -> bytes | None:
        if not value:
            return value
        if self._secrets and (kind := is_secret_name(name)) is not None:
            taken[kind] += 1
            return f"[redacted:{kind}]".encode()
        return self._value(value, taken) if self.is_suspicious(value) else value

    @staticmethod
    def _noted(before: str, after: str, taken: Counter[str]) -> bytes | None:
        """What is stored, its kinds counted; None where it is the same."""
        if after == before:
            return None
        taken.update(Counter(_MARK.findall(after)) - Counter(_MARK.findall(before)))
        return after.encode(errors="surrogateescape")

    def _text(self, text: str) -> str:
        if self._secrets:
            text = redact_text(text)
        return redact_personal(text, self._personal) if self._personal else text

    def _json(self, value: Any, depth: int) -> Any:
        if isinstance(value, str):
            return self._text(value)
        if depth > _MAX_DEPTH:
            return "[cut]"
        if isinstance(value, dict):
            without: dict[str, Any] = {}
            for name, one in value.items():
                clean = self._text(name)
                if clean in without:  # two names that were told apart by what was taken out
                    clean = f"{clean} {len(without)}"
                without[clean] = self._named(name, one, depth)
            return without
        if isinstance(value, list):
            return [
                (self._secrets and instead_of_item(value, at)) or self._json(one, depth + 1)
                for at, one in enumerate(value)
            ]
        if type(value) is int and "credit_card" in self._personal and value >= _LEAST_CARD:
            clean = redact_personal(str(value), ("credit_card",))
            return value if clean == str(value) else clean
        return value

    def _named(self, name: str, value: Any, depth: int) -> Any:
        if self._secrets and _is_secret(name):
            return self._json(redact({name: value})[name], depth + 1)
        if depth == 0 and (name in _KEPT or name.endswith(_KEPT_ENDINGS)):
            return value
        return self._json(value, depth + 1)


def _may_have_numbers(value: bytes) -> bool:
    shape = value.translate(_SHAPE, _NO_PART_OF_NUMBERS)
    return (
        b"000-00-0000" in shape or b"000-000-0000" in shape or b"000)" in shape or _CARD in shape.translate(None, b"-")
    )


def _may_have_secrets(value: bytes) -> bool:
    if b"@" in value and b"://" in value:
        return True
    lower = value.lower()
    # Without a loop, which would take three times as long; their letters tell too little to be looked for in less.
    if (
        (b"auth" in lower and _AUTH.search(lower))
        or b"pwd" in lower
        or b"cookie" in lower
        or b"passphrase" in lower
        or b"curl" in lower
        or b"glpat-" in value
        or b"npm_" in value
        or b"AIza" in value
        or b"hf_" in value
    ):
        return True
    if not value.isascii() and any(letter in value for letter in _FOLDED):
        return True
    if not _LEFT_OF_SECRETS.search(value.translate(_LOWER, _LESS)):
        return False
    if any(text in value for text in _TEXTS) or any(name in lower for name in _NAMES):
        return True
    return lower.count(b"token") > len(_COUNTS.findall(lower))


def _is_secret(name: str) -> bool:
    return is_secret_name(name) is not None and not name.encode().translate(_LOWER, _LESS).endswith(_LEFT_OF_COUNTS)


def _unescaped(found: re.Match[str]) -> str:
    """A letter that was written as an escape; quotes and backslashes stay as they were, for they end texts."""
    letter = chr(int(found[1], 16)) if found[1] else "/"
    return found.group() if letter in '"\\' else letter


def _says_a_name_twice(text: str) -> bool:
    class Twice(Exception):
        pass

    def once(pairs: list[tuple[str, Any]]) -> None:
        if len({name for name, _ in pairs}) < len(pairs):
            raise Twice

    try:
        json.loads(text, object_pairs_hook=once)
    except (Twice, RecursionError):
        return True
    return False
