"""Secrets are taken out before anything leaves the process: by the name they go under, or by their form.

Replaced by `[redacted:kind]`. Applied to arguments, targets, errors and the head of outputs. A name tells a secret as a
field of JSON, and in text before `=` or `:`, and as an option of a command (`--password x`). What has neither a telling
name nor a known form is not found, nor is a value in text of less than three letters; leave such arguments out of the
call.
"""

import re
from typing import Any, Final

from pydantic_core import SchemaValidator
from pydantic_core.core_schema import str_schema

from haltline.interventions.agent.redaction.pii import without_pii_text
from haltline.schemas.events import Task

_MAX_DEPTH = 64

_KEY = re.compile(
    r"(?:api|access|account|private)[_-]?key|secret|token|password|passwd|passphrase|pwd\Z|authorization|credential"
    r"|auth[_-]?header|auth\Z|cookie(?=s?\Z)",
    re.IGNORECASE,
)

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
        ("gitlab_token", ("glpat-",), r"\bglpat-[A-Za-z0-9_-]{16,}"),
        ("npm_token", ("npm_",), r"\bnpm_[A-Za-z0-9]{20,}"),
        ("google_key", ("AIza",), r"\bAIza[A-Za-z0-9_-]{30,}"),
        ("huggingface_token", ("hf_",), r"\bhf_[A-Za-z0-9]{20,}"),
        ("jwt", ("eyJ",), r"\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{4,}\.[A-Za-z0-9_-]*"),
        ("bearer", ("earer ",), r"(?<=[Bb]earer )[A-Za-z0-9._~+/-]{8,}=*"),
        ("url_password", ("://",), r"(?<=://)[^\s/:@]{0,64}:[^\s/@]{1,256}(?=@)"),
    )
)
"""Kind, texts without one of which it cannot be there (looking for them is a hundred times faster), and form."""

# What no secret begins with: a variable or a command of the shell, a template, and that there is none.
_NO_VALUE = r"(?!\$[({A-Z_]|[{<]|(?i:null|none|nil|true|false|undefined)\b)"
_VALUE = (
    r"(?:(?<=\")[^\"\n\[]{3,256}(?<!\\)(?=\")|(?<=')[^'\n\[]{3,256}(?<!\\)(?=')"
    r"|(?:[^\s\"'&,;\[\\]|\\(?![\"'])){3,})"
)
_SUFFIX = (
    r"(?:[_-]?(?i:access|key|base|value|hash|data|text|string|b64|prod|dev|test|staging|live|v?[0-9]{1,3})"
    r"(?![a-z])){0,3}"
)
_QUOTED = r"\\{0,3}[\"']\s{0,8}(?::|=>)\s{0,8}\\{0,3}[\"']?"
_SCHEME = r"(?:(?i:basic|bearer|digest|token|negotiate|apikey)[ \t]{1,4}(?=\S))?+"


def _after(colon: str = r":(?![:/])", but: str = "") -> re.Pattern[str]:
    """`PGPASSWORD=hunter2`, `?token=abc`, `"password": "hunter2"`, `x-api-key: abc`: the name stays, the value goes."""
    spaced = rf"(?:[ \t]{{0,4}}(?:=>|:=|={{1,2}}|{colon})[ \t]{{0,4}}\\?[\"']?|{_QUOTED}){_NO_VALUE}"
    return re.compile(rf"({_SUFFIX}(?:=[\"']?|{spaced}){but})({_VALUE})")


# `arn:aws:secretsmanager:...:secret:prod/db` and `org/token:latest` are no values of that name.
_SPACED_COLON = r":(?=[ \t\"'])"
# The number of tokens is no token, and PWD=/srv is a directory.
_NO_COUNT = r"(?!\d{1,5}(?:\.\d{1,3})?[kKmM]?(?![^\s\"'&,;)}\]]))"
_NO_PATH = r"(?![/~.$]|[A-Za-z]:\\)"
_PATH = re.compile(r"[/~.$]|[A-Za-z]:\\")
_AFTER_NAME: dict[str, re.Pattern[str]] = {
    **dict.fromkeys(("api_key", "api-key", "apikey", "access_key", "access-key", "accesskey"), _after()),
    **dict.fromkeys(("account_key", "account-key", "accountkey", "private_key", "private-key"), _after()),
    **dict.fromkeys(("password", "passwd", "passphrase"), _after()),
    "secret": _after(_SPACED_COLON),
    "token": _after(_SPACED_COLON, _NO_COUNT),
    "pwd": _after(but=_NO_PATH),
    "authorization": re.compile(rf"((?:[ \t]{{0,4}}[:=][ \t]{{0,4}}[\"']?|{_QUOTED}){_SCHEME}{_NO_VALUE})({_VALUE})"),
    "auth": re.compile(rf"({_QUOTED}{_NO_VALUE})({_VALUE})"),
    "cookie": re.compile(r"(s?(?:\\{0,3}[\"'])?[ \t]{0,4}:[ \t]{0,4}(?:\\{0,3}[\"'])?)([^\r\n\"'\[{]{3,})"),
}
_NAMES = tuple(_AFTER_NAME)
_OF_OPTIONS = frozenset(_NAMES) - {"auth", "authorization", "pwd"}

_OPTION = re.compile(r"(?:^|[\s\"'])-{1,2}(?!-|no-)[\w.-]{0,40}\Z")
_AFTER_OPTION = re.compile(
    rf"({_SUFFIX}[ \t]{{1,4}}[\"']?(?!-|(?:id|name|type|source|src)=){_NO_VALUE}{_NO_COUNT})({_VALUE})"
)
_BEFORE_OPTION = 48

# `curl -u user:password`: the user stays.
_CURL = re.compile(
    r"(\bcurl\b[^\n|;]{0,300}?\s(?:-[A-Za-z]{0,8}u|--(?:proxy-)?user)[ =]{0,2}[\"']?[^\s:\"']{0,64}:)"
    r"([^\s\"'\[]{1,256})"
)
_ITEM_OPTION = re.compile(r"-{1,2}(?!-|no-)[\w.-]{1,60}")
_ITEM_VALUE = re.compile(rf"(?!-|\[redacted:){_NO_VALUE}{_NO_COUNT}")


# Where one of these is found, in letters of any case, there may be a secret. A test holds that none is missing.
_MAY_BE: Final = (
    r"(?:api|access|account|private)[_-]?key|akia|asia|gh[pousr]_|github_pat_|xox|k_(?:live|test)_|sk-|eyj|earer |://",
    r"secret|token|passw|passphrase|pwd|auth(?:[\"'\\]|orization|[_-]?header)|cookie|credential|glpat-|npm_|aiza|hf_|curl",
    "PRIVATE KEY-----",
    "(?-i:[\u0130\u0131\u017f\u212a])",  # equal to letters of ASCII when case is ignored
)
# Each text is looked through, so it is done with Rust's regular expressions, which need one turn for all of this and a
# tenth of the time. Pydantic brings them.
_may_be: Final = SchemaValidator(str_schema(pattern="(?i)" + "|".join(_MAY_BE))).isinstance_python


def may_hold_secrets(text: str) -> bool:
    """Whether a text, or the text of JSON, has to be looked at more closely. False is sure: it holds no secret.

    Nothing that is looked for has a letter that JSON escapes.
    """
    return _may_be(text) or not (text.isascii() or _is_unicode(text))


def _is_unicode(text: str) -> bool:
    """False: it has lone surrogates, which are no text to Rust."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


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
    if "curl" in lower:
        text = _CURL.sub(r"\1[redacted:password]", text)
        lower = _lower(text)
    for name in _NAMES:
        if name in lower:
            text, lower = _without_named(text, lower, name)
    return text


def _without_named(text: str, lower: str, name: str) -> tuple[str, str]:
    kept: list[str] = []
    after = _AFTER_NAME[name]
    done, at = 0, lower.find(name)
    while at >= 0:
        end = at + len(name)
        found = after.match(text, end)
        if found is None and name in _OF_OPTIONS and _OPTION.search(text[max(0, at - _BEFORE_OPTION) : at]):
            found = _AFTER_OPTION.match(text, end)
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
        return [instead_of_item(value, at) or redact(item, depth + 1) for at, item in enumerate(value)]
    return value


def instead_of_item(items: list[Any], at: int) -> str | None:
    """`[redacted:kind]` in place of an item that is the value of the option before it: `["--password", "x"]`."""
    item, before = items[at], items[at - 1] if at else None
    if not isinstance(before, str) or not isinstance(item, str) or not _ITEM_OPTION.fullmatch(before):
        return None
    kind = next((name for name in _NAMES if name in _OF_OPTIONS and before.lower().endswith(name)), None)
    return None if kind is None or not _ITEM_VALUE.match(item) else f"[redacted:{kind.replace('-', '_')}]"


def _redact_named(name: str, value: Any, depth: int) -> Any:
    kind = is_secret_name(name)
    if kind is None or value is None or isinstance(value, bool):
        return redact(value, depth + 1)
    if kind == "token" and isinstance(value, int | float):
        return value  # max_tokens, token_count: numbers of tokens, not tokens
    if kind == "pwd" and isinstance(value, str) and _PATH.match(value):
        return redact(value, depth + 1)  # the working directory
    return f"[redacted:{kind}]"


def without_secrets(task: Task | None, *, pii: bytes | None = None) -> Task | None:
    """The task, its goal without secrets; with `pii`, a key for digests, also without what belongs to persons."""
    if task is None:
        return None
    goal = redact_text(task.goal)
    return task.model_copy(update={"goal": goal if pii is None else without_pii_text(goal, pii)})
