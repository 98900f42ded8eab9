"""Secrets are taken out before anything leaves the process: by the name they go under, or by their form.

Replaced by `[redacted:kind]`. Applied to arguments, targets, errors and the head of outputs. What
has neither a telling name nor a known form is not found; leave such arguments out of the call.
"""

import re
from typing import Any

_MAX_DEPTH = 64

_KEY = re.compile(
    r"api[_-]?key|secret|token|password|passwd|authorization|credential|private[_-]?key",
    re.IGNORECASE,
)

_NAMES = r"(?:api[_-]?key|secret|token|password|passwd|private[_-]?key)"

_VALUE = re.compile(
    r"(?P<private_key>-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z))"
    r"|(?P<aws_access_key>\b(?:AKIA|ASIA)[0-9A-Z]{16}\b)"
    r"|(?P<github_token>\b(?:gh[pousr]_[A-Za-z0-9]{20,}|github_pat_\w{20,}))"
    r"|(?P<slack_token>\bxox[a-z]-[A-Za-z0-9-]{10,})"
    r"|(?P<stripe_key>\b[sr]k_(?:live|test)_[A-Za-z0-9]{16,})"
    r"|(?P<api_key>\bsk-[A-Za-z0-9_-]{16,})"
    r"|(?P<jwt>\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{4,}\.[A-Za-z0-9_-]*)"
    r"|(?P<bearer>(?<=[Bb]earer )[A-Za-z0-9._~+/-]{8,}=*)"
    r"|(?P<url_password>(?<=://)[^\s/:@]{0,64}:[^\s/@]{1,256}(?=@))"
    # `PGPASSWORD=hunter2`, `?token=abc`, `"password": "hunter2"`: the name stays, the value goes.
    rf"|(?P<named>(?i:{_NAMES})(?P<between>=[\"']?|[\"']\s*:\s*[\"'])(?P<hidden>[^\s\"'&,;\[]{{3,}}))",
    re.DOTALL,
)


def is_secret_name(name: str) -> str | None:
    """The kind of secret that goes under such a name, or None."""
    found = _KEY.search(name)
    return None if found is None else found.group().lower().replace("-", "_")


def redact_text(text: str) -> str:
    """The text without what has the form of a secret."""
    return _VALUE.sub(_replacement, text)


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


def _replacement(found: re.Match[str]) -> str:
    kind = found.lastgroup
    if kind == "hidden" or found["named"] is not None:
        whole, hidden = found["named"], found["hidden"]
        name = whole[: -len(hidden)]
        return f"{name}[redacted:{is_secret_name(name) or 'secret'}]"
    return f"[redacted:{kind}]"
