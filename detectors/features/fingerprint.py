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

from haltline.detectors.commands.rows import words_of
from haltline.detectors.features.masks import masked, masks_of
from haltline.detectors.features.tool import KnownTool
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

_KINDS = {
    word: kind
    for kind in ("thought", "counter", "id", "time", "asks", "description")
    for word in words_of(f"arguments by kind: {kind}")
}
"""Arguments by what they are about; `asks`: words in a search, whose case and spaces do not matter."""
_KEPT = frozenset(("about", "asks"))
_NOT_IN_KEYS = str.maketrans("", "", "_- .")
_ID = re.compile(r"[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}|[0-9a-f]{32}|[0-9a-f]{40}")
_ABOUT = ("id", "uuid", "key", "name", "path", "file", "url", "uri", "ref", "sha", "commit", "target", "hash")
"""Suffixes of argument names that identify the call's subject."""

_OF_CALLS, _OF_PROGRAMS = masks_of("calls"), masks_of("calls", "programs")
_OF_RESULTS, _OF_POLLS = masks_of("results"), masks_of("results", "answers to a poll")


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
    return _KINDS.get(key) or ("about" if key.endswith(_ABOUT) else "")


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
    return masked(text[:_READ_CHARS], _OF_PROGRAMS if runs else _OF_CALLS).strip() + text[_READ_CHARS:]


def clean_result(text: str) -> str:
    """The beginning of a result without what varies by itself."""
    return masked(text[:_RESULT_CHARS], _OF_RESULTS)


def clean_waiting(text: str) -> str:
    """The beginning of the answer to a poll, without clocks and counters; progress is kept."""
    return masked(text[:_RESULT_CHARS], _OF_POLLS)
