"""Fingerprints of calls and results: equal if they differ only in what varies by itself.

Masked in a call: thoughts, descriptions and comments; times, nonces, request ids and attempt numbers; in one that only
reads, also temporary paths, ports, addresses and durations of sleeps. The subject of a call is never masked. For a call
that changes something, every other value counts, and truncated texts are compared by the digest of the whole. A loop
key, declared by the tool or the policy, replaces all of this. Masked in a result: times, durations, addresses and ids;
other numbers count as progress.
"""

from datetime import datetime
from functools import lru_cache
from hashlib import blake2b
from typing import Any

from haltline.detectors.features.tool import KnownTool
from haltline.detectors.features.vocabulary import set_of
from haltline.schemas import expressions as re
from haltline.schemas.events import ActionEvent, Effect
from haltline.schemas.record import JsonObject, canonical_json

# Module constants, as they are read at every event: looking up enum members is ten times as slow.
_EXEC, _MUTATE = Effect.EXEC, Effect.MUTATE

_EMPTY = blake2b(digest_size=6)
_READ_CHARS = 4096
"""Characters of a text that are masked; the rest is compared unchanged."""
_RESULT_CHARS = 2048
_CUT, _CUT_IN_TRACES = b"[cut", "…[+".encode()
"""Marks of a truncated text, by the agent's side or in recorded traces."""
_NOW_MS = 86_400_000
"""Milliseconds. A time this close to the event's own is the time of the call, not its subject."""

_LOOKING = frozenset({Effect.READ, Effect.POLL, Effect.NETWORK})
_CHANGING = frozenset({Effect.WRITE, Effect.MUTATE, Effect.DESTRUCTIVE})

_THOUGHTS = set_of("arguments that explain a call")
_COUNTERS = set_of("arguments that count tries")
_IDS = set_of("arguments that identify a request")
_ASKS = frozenset(("query", "q", "searchterm", "searchquery", "searchtext", "keywords", "question"))
"""Words in a search: their case and the spaces between them do not matter."""
_TIMES = set_of("arguments that say when")
_KEPT = frozenset(("about", "asks"))
_NOT_IN_KEYS = str.maketrans("", "", "_- .")
_ID = re.compile(r"[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}|[0-9a-f]{32}|[0-9a-f]{40}")
_ABOUT = ("id", "uuid", "key", "name", "path", "file", "url", "uri", "ref", "sha", "commit", "target", "hash")
"""Suffixes of argument names that identify the call's subject."""

_TIME = r"20\d\d-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?"
_EPOCH = r"1(?<![\w.]1)[5-9]\d{8}(?:\d{3})?(?:\.\d+)?(?!\w)"
# Patterns begin with a literal where they can: Python searches for that first.
_TIMES_IN = re.compile(_TIME)
_EPOCHS_IN = re.compile(_EPOCH)
_PORTS_IN = re.compile(r":(?<=[\w\]]:)\d{4,5}(?!\w)")
_PORT_OPTIONS_IN = re.compile(r"(-port|PORT)[ =]\d{4,5}\b")
_ADDRESSES_IN = re.compile(r"0x[0-9a-fA-F]{4,16}\b")
_TEMP_IN = re.compile(r"/(?:tmp|var/folders)/(?:tmp[\w.]{4,}|[\w./+-]{0,200}\d[\w./+-]*)")
_ATTEMPTS_IN = re.compile(r"\b([Aa]ttempt|[Rr]etry)[ _#:=-]{0,3}\d+")
_SLEEPS_IN = re.compile(r"sleep\s+[\d.]+[smh]?")
_QUERIES_IN = re.compile(r"[?&](?:_|t|ts|time|timestamp|nonce|cb|rand|seed|request_?id|trace_?id)=[^&\s'\"]+")
_HEADERS_IN = re.compile(r"-[Ii][Dd]: ?[\w-]{8,}")
_COMMENTS_IN = re.compile(r"#(?<![^\s]#)(?!!)[^\n]*")
# A first character of a set is searched for faster than `\b`.
_CLOCKS_IN = re.compile(r"\d(?<!\w\d)\d?:\d\d:\d\d(?:[.,]\d+)?")
_DURATIONS_IN = re.compile(r"\d(?<!\w\d)\d*(?:\.\d+)? ?(?:[mnuµ]?s|secs?|seconds?|min|minutes?|hours?)\b")
_IDS_IN = re.compile(r"[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}")
_NUMBERS_IN = re.compile(r"0(?<!\w0)x[0-9a-fA-F]+\b")
_NAMED_IN = re.compile(
    r"(?i)(\b(?:pid|elapsed|duration|uptime|latency|took|timestamp|(?:request|trace|chunk)[_ ]?id)\w*\"?\W{1,4})[\w.-]+"
)
_NAMES = ("pid", "elapsed", "duration", "uptime", "latency", "took", "timestamp", "request", "trace", "chunk")
"""Every text that the pattern matches contains one of these."""
_TEMP_IN_RESULTS = re.compile(r"/tmp/[\w./+-]+")
_IN_WAITING: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r"\b\d\d?:\d\d\b"), "<time>"),
    (re.compile(r"\b(?:\d+[dhms])+\b"), "<duration>"),
    (re.compile(r"(?i)(\b(?:attempts?|tr(?:y|ies)|retr(?:y|ies)|polls?|polled|checks?|checked|ticks?|heartbeats?|pings?"
                r"|counter|seq(?:uence)?|requests?|waited|waiting|age|iteration|round|resource_?version)\"?"
                r"[ #:=-]{0,4})\d+"), r"\1#"),
    (re.compile(r"(?i)\b\d+(?= (?:attempts?|tries|retries|polls?|checks?|ticks?|heartbeats?|pings?|times?)\b)"), "#"),
)  # fmt: skip
"""What else varies by itself in the answers to a poll."""


def fingerprint(event: ActionEvent, args: JsonObject | None, action: str, tool: KnownTool) -> str:
    """12 hex digits, equal for the same call; if something was masked, `.` and digits of the unmasked call follow.

    Two calls of a program that changes something are the same only if those digits are equal too. `args`: those that
    the call uses; if it uses none, all of them count.
    """
    args, args_digest, hint = args or event.args, event.args_digest, event.effect
    if event.loop_key is not None:
        return digest(f"{action}\0loop\0{event.loop_key}".encode())
    if tool.loop_key is not None:
        arguments = event.args or {}
        return digest(
            action.encode() + canonical_json({name: arguments[name] for name in tool.loop_key if name in arguments})
        )
    if not args:
        return digest(f"{action}\0{args_digest or ','.join(event.targets)}".encode())
    runs = tool.effect is _EXEC
    closely = not runs and ((tool.effect or hint or _MUTATE) not in _LOOKING or hint in _CHANGING)
    kept: JsonObject = {}
    cleaned = False
    for name, value in args.items():
        sort = _sort_of(name)
        if (
            sort
            and sort not in _KEPT
            and _is_left_out(sort, name, value, action, closely=closely, runs=runs, time_ms=event.time)
        ):
            continue
        plain = value if closely or type(value) is not str else _plain(value, runs=runs, about=sort == "about")
        if sort == "asks" and not closely and not runs and type(plain) is str:
            plain = " ".join(plain.lower().split())
        cleaned = cleaned or plain is not value
        kept[name] = plain
    data = canonical_json(kept or args)
    if args_digest and b"[" in data and (_CUT in data or _CUT_IN_TRACES in data):
        return digest(action.encode() + args_digest.encode())
    found = digest(action.encode() + data)
    return f"{found}.{digest(canonical_json(args))[:6]}" if cleaned and runs else found


def digest(data: bytes) -> str:
    """12 hex digits: collisions between calls of one session are negligible."""
    hashed = _EMPTY.copy()
    hashed.update(data)
    return hashed.hexdigest()


@lru_cache(maxsize=4096)
def _sort_of(name: str) -> str:
    """The kind of value that an argument's name implies; empty: none."""
    key = name.lower().translate(_NOT_IN_KEYS)
    for sort, names in (
        ("thought", _THOUGHTS),
        ("counter", _COUNTERS),
        ("id", _IDS),
        ("time", _TIMES),
        ("asks", _ASKS),
    ):
        if key in names:
            return sort
    if key == "description":
        return "description"
    return "about" if key.endswith(_ABOUT) else ""


def _is_left_out(sort: str, name: str, value: Any, action: str, *, closely: bool, runs: bool, time_ms: int) -> bool:
    match sort:
        case "thought" | "counter":
            return True
        case "id":  # in `approve_request(request_id=...)`, the id is the subject
            return name.lower().translate(_NOT_IN_KEYS).removesuffix("id") not in action.lower().translate(_NOT_IN_KEYS)
        case "time":
            return not closely or _is_now(value, time_ms)
        case "description":
            return runs
    return False


def _is_now(value: Any, time_ms: int) -> bool:
    """Return whether a value is a time close to that of the call."""
    moment = 0.0
    if isinstance(value, int | float):
        moment = value * 1000 if value < 1e11 else value
    elif isinstance(value, str):
        try:
            moment = datetime.fromisoformat(value).timestamp() * 1000
        except ValueError:
            return False
    return abs(moment - time_ms) <= _NOW_MS


def _plain(value: str, *, runs: bool, about: bool) -> str:
    """The text of an argument without what varies by itself."""
    if not about and len(value) in {32, 36, 40} and _ID.fullmatch(value):
        return "<id>"
    return clean(value, runs=runs)


def clean(text: str, *, runs: bool) -> str:
    """Mask what varies by itself in a text of a call that only reads; in programs also comments."""
    rest = ""
    if len(text) > _READ_CHARS:
        text, rest = text[:_READ_CHARS], text[_READ_CHARS:]
    # Checking for one character is almost free, and most texts contain none of these.
    if ":" in text:
        text = _PORTS_IN.sub(":<port>", _TIMES_IN.sub("<time>", text))
    if "1" in text:
        text = _EPOCHS_IN.sub("<time>", text)
    if "/tmp/" in text or "/var/folders/" in text:
        text = _TEMP_IN.sub("<temp>", text)
    if "?" in text:
        text = _QUERIES_IN.sub("", text)
    if "#" in text and runs:
        text = _COMMENTS_IN.sub("", text)
    if "x" in text:
        text = _ADDRESSES_IN.sub("<address>", text)
    if "sleep" in text:
        text = _SLEEPS_IN.sub("sleep", text)
    if "-port" in text or "PORT" in text:
        text = _PORT_OPTIONS_IN.sub(r"\1", text)
    if "ttempt" in text or "etry" in text:
        text = _ATTEMPTS_IN.sub(r"\1", text)
    if "-H" in text:
        text = _HEADERS_IN.sub("-id", text)
    return text.strip() + rest if rest else text.strip()


def clean_result(text: str) -> str:
    """The beginning of a result without what varies by itself."""
    text = text[:_RESULT_CHARS]
    if ":" in text:
        text = _CLOCKS_IN.sub("<time>", _TIMES_IN.sub("<time>", text))
    if "1" in text:
        text = _EPOCHS_IN.sub("<time>", text)
    text = _DURATIONS_IN.sub("<duration>", text)
    if "0x" in text:
        text = _NUMBERS_IN.sub("<id>", text)
    if text.count("-") > 3:
        text = _IDS_IN.sub("<id>", text)
    low = text.lower()
    if not text.isascii() or any(name in low for name in _NAMES):
        text = _NAMED_IN.sub(r"\1", text)
    return _TEMP_IN_RESULTS.sub("<temp>", text) if "/tmp/" in text else text


def clean_waiting(text: str) -> str:
    """The beginning of the answer to a poll, without clocks and counters; progress is kept."""
    text = clean_result(text)
    for pattern, instead in _IN_WAITING:
        text = pattern.sub(instead, text)
    return text
