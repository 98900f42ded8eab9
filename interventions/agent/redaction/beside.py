"""Secrets without a distinctive form, found by an adjacent word: a provider's name and "key", as in `kinds.json`.

Random-looking values under a name such as `app_key` count as well, also for unknown providers. Hex digests and UUIDs
are not secrets unless the word shows it.
"""

import math
from collections import Counter
from collections.abc import Iterator
from functools import cache
from typing import Final

from haltline.interventions.agent.redaction.forms import TABLE, behind_word, compiled, one_of
from haltline.interventions.agent.redaction.marks import Found
from haltline.schemas import expressions as re

_IDENTIFIER_CHARS: Final = 64
_LEAST_BITS: Final = 3.2
_TELLS: Final = r"key|token|secret|pass|passw|pw|auth|[_-]pat|creds?|credentials?|sas|psk|mnemonic|seed|dsn|webhook"
_JOINS: Final = r"[\"'`]{0,2}[ \t]{0,4}(?:=>|:=|==?|:|[ \t]is)[ \t]{0,4}[\"'`]{0,2}"
# After the word: the rest of the name, which must be a secret's, and what joins it with its value.
_GAP: Final = re.compile(rf"([A-Za-z0-9_.-]{{0,40}}(?: (?:[A-Za-z]{{2,12}} ){{0,2}}?[A-Za-z]{{2,12}})?){_JOINS}")
_TELLING: Final = re.compile(rf"(?:{_TELLS})(?:[_-][A-Za-z0-9_-]{{0,14}}|[0-9]{{0,3}})\Z", re.IGNORECASE | re.ASCII)
_IDENTIFIER: Final = re.compile(r"[A-Za-z0-9_.-]{0,60}\Z")
_WEAK_WORDS: Final = ("key", "pass", "_pw", "auth", "_pat", "cred", "creds", "_sas", "psk", "mnemonic", "dsn")
_WEAK: Final = re.compile(rf"{_JOINS}([A-Za-z0-9+/=_.~!@#%^*-]{{16,512}})(?![A-Za-z0-9])")
_NO_SECRETS_NAME: Final = re.compile(
    r"public|primary|foreign|cache|partition|sort|row|index|dedup|idempot|routing|group|object|fingerprint|loop|lookup"
    r"|hash|digest|sum\b|map|event|unique|join|natural|composite|bucket|path|file|ssh|known|host|config|i18n|label|stack",
    re.IGNORECASE | re.ASCII,
)
_DIGEST: Final = re.compile(
    r"(?:0x)?[0-9a-fA-F]+|[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}|(?:sha|md5|blake)[0-9a-z]{0,4}[:-].*|[0-9.,:-]+"
)
_RUN: Final = re.compile(r"[A-Za-z0-9+]{12,}")
# `pass` alone names a password only if the value follows directly.
_PASS: Final = re.compile(
    r"(?:=[\"']?|\\?[\"'][ \t]{0,4}:[ \t]{0,4}\\?[\"']|[\"']\][ \t]{0,4}=[ \t]{0,4}[\"'])(?!\$|[{<(])"
    r"([^ \t\r\n\"'&,;\[\\(]{3,128})(?![A-Za-z0-9(])"
)
_PASS_NAME: Final = re.compile(
    r"(?:\A|[^A-Za-z]|db|user|root|admin|smtp|mail|ftp|ssh|redis|proxy|bind|auth|sudo|my|usr|login|ldap)\Z",
    re.IGNORECASE | re.ASCII,
)
_NO_PASS: Final = re.compile(
    r"\A(?:true|false|none|null|yes|[0-9]{1,5}%?|ed(?![A-Za-z0-9_]).*)\Z", re.IGNORECASE | re.ASCII
)


def may_be_beside() -> Iterator[str]:
    """Yield regular expressions for Rust; without a match, this module finds nothing."""
    joins = r"(?:\\*[\"'`]){0,2}(?:[ \t]|\\t){0,4}(?:=|:|is)[>=]?(?:[ \t]|\\t){0,4}(?:\\*[\"'`]){0,2}"
    yield rf"(?i:{_TELLS})(?:[_-][A-Za-z0-9_-]{{0,14}}|[0-9]{{0,3}}){joins}[^ \t\r\n\"'`,;]{{14}}"
    yield r"(?i:pass)\\?(?:=|[\"'])"


@cache
def _providers() -> re.Pattern[str]:
    return re.compile(one_of(sorted({word for row in TABLE["beside"] for word in row["words"]})))


@cache
def _forms() -> dict[str, list[tuple[str, str]]]:
    """Return kinds and forms by word."""
    forms: dict[str, list[tuple[str, str]]] = {}
    for row in TABLE["beside"]:
        for word in row["words"]:
            forms.setdefault(word, []).append((row["kind"], behind_word(row)))
    return forms


def find_beside(text: str, lower: str, begin: int, end: int) -> list[Found]:
    """Return the secrets whose name begins in this range; `lower` is the text in lower case."""
    found: list[Found] = []
    for word in _providers().finditer(lower, begin, end):
        gap = _GAP.match(text, word.end())
        if gap is None or _TELLING.search(text, word.start(), gap.end(1)) is None:
            continue
        for kind, form in _forms()[word.group()]:
            secret = compiled(form).match(text, gap.end())
            if secret is not None:
                found.append(Found(secret.start(), secret.end(), kind, kind))
                break
    return found


def find_random(text: str, lower: str, begin: int, end: int) -> list[Found]:
    """Return random-looking values under a name such as `storage_key`; under `pass`, any value."""
    found: list[Found] = []
    for name in _WEAK_WORDS:
        at = lower.find(name, begin, end)
        while at >= 0:
            found += _weak(text, name, at)
            at = lower.find(name, at + len(name), end)
    return found


def _weak(text: str, name: str, at: int) -> Iterator[Found]:
    after = at + len(name)
    before = text[max(0, at - _IDENTIFIER_CHARS) : at]
    if name == "pass":
        short = _PASS.match(text, after)
        if short is not None and _PASS_NAME.search(before) and not _NO_PASS.match(short[1]):
            yield Found(*short.span(1), "password", "password")
            return
    secret = _WEAK.match(text, after)
    if secret is None:
        return
    identifier = _IDENTIFIER.search(before)
    identifier_text = identifier.group() if identifier is not None else ""
    if name == "key" and not identifier_text.strip("_.-"):
        return  # too generic a name
    if not is_random(secret[1]):
        return
    if _NO_SECRETS_NAME.search(identifier_text) is None:
        kind = f"{name.strip('_')}"
        yield Found(*secret.span(1), kind, kind)


def is_random(text: str) -> bool:
    """Return whether a text looks random: letters of both cases and digits in one run, evenly spread."""
    if text.islower() or text.isupper() or _DIGEST.fullmatch(text) is not None:
        return False
    runs = _RUN.findall(text)
    if not any(
        any(c.isdigit() for c in run) and any(c.islower() for c in run) and any(c.isupper() for c in run)
        for run in runs
    ):
        return False
    counts = Counter(text)
    return -sum(n / len(text) * math.log2(n / len(text)) for n in counts.values()) >= _LEAST_BITS
