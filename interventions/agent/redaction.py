"""Secrets are taken out before anything leaves the process: by the name they go under, or by their form.

Replaced by `[redacted:kind]`. Applied to arguments, targets, errors and the head of outputs. What
has neither a telling name nor a known form is not found; leave such arguments out of the call.
"""

import re
from typing import Any

from haltline.interventions.agent.pii import without_pii_text
from haltline.schemas.events import Task

_MAX_DEPTH = 64

_KEY = re.compile(
    r"api[_-]?key|secret|token|password|passwd|authorization|credential|private[_-]?key",
    re.IGNORECASE,
)

_NAMES = ("api_key", "api-key", "apikey", "secret", "token", "password", "passwd", "private_key", "private-key")

_FORMS: tuple[tuple[str, tuple[str, ...], re.Pattern[str]], ...] = tuple(
    (kind, literals, re.compile(form, re.DOTALL))
    for kind, literals, form in (
        (
            "private_key",
            ("PRIVATE KEY-----",),
            r"-----BEGIN [A-Z ]{0,32}PRIVATE KEY-----.*?(?:-----END [A-Z ]{0,32}PRIVATE KEY-----|\Z)",
        ),
        ("aws_access_key", ("AKIA", "ASIA"), r"\b(?:AKIA|ASIA)[0-9A-Z]{16}\b"),
        (
            "github_token",
            ("ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_"),
            r"\b(?:gh[pousr]_[A-Za-z0-9]{20,}|github_pat_\w{20,})",
        ),
        ("slack_token", ("xox",), r"\bxox[a-z]-[A-Za-z0-9-]{10,}"),
        ("stripe_key", ("k_live_", "k_test_"), r"\b[sr]k_(?:live|test)_[A-Za-z0-9]{16,}"),
        ("api_key", ("sk-",), r"\bsk-[A-Za-z0-9_-]{16,}"),
        ("jwt", ("eyJ",), r"\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{4,}\.[A-Za-z0-9_-]*"),
        ("bearer", ("earer ",), r"(?<=[Bb]earer )[A-Za-z0-9._~+/-]{8,}=*"),
        ("url_password", ("://",), r"(?<=://)[^\s/:@]{0,64}:[^\s/@]{1,256}(?=@)"),
    )
)
"""Kind, texts without one of which it cannot be there (looking for them is a hundred times faster), and form."""

# `PGPASSWORD=hunter2`, `?token=abc`, `"password": "hunter2"`: the name stays, the value goes.
_AFTER_NAME = re.compile(r"(=[\"']?|[\"']\s{0,8}:\s{0,8}[\"'])([^\s\"'&,;\[]{3,})")


# The four letters beyond ASCII that are equal to one of ASCII when case is ignored.
_FOLDED = ("\u0130", "\u0131", "\u017f", "\u212a")


def may_hold_secrets(text: str) -> bool:
    """Whether a text, or the text of JSON, has to be looked at more closely. False is sure: it holds no secret.

    Nothing that is looked for has a letter that JSON escapes.
    """
    # One after the other without a loop, which would take three times as long; a test holds that none is missing.
    lower = text.lower()
    if (
        "private" in lower
        or "akia" in lower
        or "asia" in lower
        or (
            "gh" in lower
            and ("ghp_" in lower or "gho_" in lower or "ghu_" in lower or "ghs_" in lower or "ghr_" in lower)
        )
        or "github_pat_" in lower
        or "xox" in lower
        or "k_live_" in lower
        or "k_test_" in lower
        or "sk-" in lower
        or "eyj" in lower
        or "earer " in lower
        or "://" in lower
        or "secret" in lower
        or "token" in lower
        or "passw" in lower
        or "api_key" in lower
        or "apikey" in lower
        or "api-key" in lower
        or "authorization" in lower
        or "credential" in lower
    ):
        return True
    return not text.isascii() and any(letter in text for letter in _FOLDED)


def is_secret_name(name: str) -> str | None:
    """The kind of secret that goes under such a name, or None."""
    found = _KEY.search(name)
    return None if found is None else found.group().lower().replace("-", "_")


def redact_text(text: str) -> str:
    """The text without what has the form of a secret."""
    if not may_hold_secrets(text):
        return text
    for kind, literals, form in _FORMS:
        if any(literal in text for literal in literals):
            text = form.sub(f"[redacted:{kind}]", text)
    lower = _lower(text)
    for name in _NAMES:
        if name in lower:
            text, lower = _without_named(text, lower, name)
    return text


def _without_named(text: str, lower: str, name: str) -> tuple[str, str]:
    kept: list[str] = []
    done, at = 0, lower.find(name)
    while at >= 0:
        found = _AFTER_NAME.match(text, at + len(name))
        if found is not None:
            kept += [text[done : found.start(2)], f"[redacted:{name.replace('-', '_')}]"]
            done = found.end()
        at = lower.find(name, max(done, at + 1))
    if not kept:
        return text, lower
    text = "".join([*kept, text[done:]])
    return text, _lower(text)


def _lower(text: str) -> str:
    """In lower case, place by place: a few letters have a lower case of two."""
    lower = text.lower()
    return lower if len(lower) == len(text) else "".join(c.lower() if c.isascii() else c for c in text)


def redact(value: Any, depth: int = 0) -> Any:
    """A copy of a JSON value without secrets. Changes nothing in place; what lies too deep is cut."""
    if isinstance(value, str):
        return redact_text(value)
    if depth > _MAX_DEPTH:
        return "[cut]"
    if isinstance(value, dict):
        return {key: _redact_named(key, item, depth) for key, item in value.items()}
    if isinstance(value, list):
        return [redact(item, depth + 1) for item in value]
    return value


def _redact_named(name: str, value: Any, depth: int) -> Any:
    kind = is_secret_name(name)
    if kind is None or value is None or isinstance(value, bool):
        return redact(value, depth + 1)
    if kind == "token" and isinstance(value, int | float):
        return value  # max_tokens, token_count: numbers of tokens, not tokens
    return f"[redacted:{kind}]"


def without_secrets(task: Task | None, *, pii: bytes | None = None) -> Task | None:
    """The task, its goal without secrets; with `pii`, a key for digests, also without what belongs to persons."""
    if task is None:
        return None
    goal = redact_text(task.goal)
    return task.model_copy(update={"goal": goal if pii is None else without_pii_text(goal, pii)})
