"""Redaction of secrets before anything leaves the process.

Secrets are recognized by their form (`forms`), by a provider's name beside them (`beside`), by their own name
(`named`), and in command lines by the program's options (`command_lines`, `piped`). `[redacted:kind]` replaces them;
under a key the mark also has a digest, so that equal secrets can be matched. Redaction covers arguments, targets,
errors and the beginning of outputs. Other secrets are not found; leave such arguments out of the call.
"""

from collections.abc import Callable
from functools import cache, lru_cache
from typing import Any, Final, NamedTuple

from haltline.interventions.agent.redaction.beside import find_beside, find_random, may_be_beside
from haltline.interventions.agent.redaction.command_lines import (
    find_command_lines,
    may_be_command_lines,
    may_be_programs,
    secret_items,
)
from haltline.interventions.agent.redaction.fields import MAY_BE_FIELDS, names_of_fields
from haltline.interventions.agent.redaction.forms import AT_FIRST, find_forms, is_of_both, may_be_forms
from haltline.interventions.agent.redaction.marks import BEGIN, Found, Keys, mark, marked
from haltline.interventions.agent.redaction.named import (
    NAMES,
    NO_COUNT,
    NO_TOKEN,
    NO_VALUE,
    OF_OPTIONS,
    PATH,
    find_named,
    kind_of_name,
)
from haltline.interventions.agent.redaction.pii import without_pii_text
from haltline.interventions.agent.redaction.piped import find_piped, may_be_piped
from haltline.interventions.agent.redaction.searching import search_any
from haltline.interventions.agent.redaction.stand_ins import is_template
from haltline.schemas import expressions as re
from haltline.schemas.events import Task

_MAX_DEPTH: Final = 64
_WINDOW_CHARS: Final = 2048
_NAME_CHARS: Final = 12  # a shorter name of a field has no secret in it
_MARGIN_CHARS: Final = 512  # longer than any identifying text

_KEY: Final = re.compile(
    r"(?:api|access|account|private|app|application|master|encryption|signing|license|subscription)[_-]?key|secret|token"
    r"|password|passwd|passphrase|passcode|presharedkey|client-key-data|pwd\Z|authorization|credential"
    r"|auth[_-]?header|auth\Z|cookie(?=s?\Z)|(?P<doubtful>key\Z|pass\Z|pw\Z|pat\Z|sas\Z|psk\Z|dsn\Z|creds?\Z)",
    re.IGNORECASE,
)
_ITEM_OPTION: Final = re.compile(r"-{1,2}(?!-|no-)[\w.-]{1,60}")
_ITEM_VALUE: Final = re.compile(rf"\A(?:(?!-|\[redacted:){NO_VALUE}{NO_COUNT})")


# Without a match of these, ignoring case, there is no named secret. A test checks that none is missing.
MAY_BE_NAMED: Final = (
    r"(?i:(?:api|access|account|private|app|application|master|encryption|signing|license|subscription|auth)[ _-]?key)",
    r"(?i:secret|passw|passphrase|passcode|presharedkey|client-key-data|pwd|cookie|credential)",
    r"(?i:token|auth(?:[\"'\\]|orization|[_-]?header| ?[=:]? ?[(\[]))",
    "[\u0130\u0131\u017f\u212a]",  # equal to ASCII letters when case is ignored
)


_PRODUCERS: Final = r"echo|printf|Write-|<<"

Look = Callable[[str], bool]


class Looks(NamedTuple):
    """Tests for kinds of secrets in a text. Each is fast, and misses none.

    Some share one pass, within the engine's limit of cached states.
    """

    named: Look
    """Secrets by name, or beside a word."""
    started: Look
    """Forms that begin with a known text."""
    inside_or_programs: Look
    """The fastest; matches more texts than `otherwise`."""
    inside: Look
    programs: Look
    by_name: Look
    beside: Look
    optioned: Look
    piped: Look

    def formed(self, text: str) -> bool:
        """Forms of any kind."""
        return self.started(text) or self.inside(text)

    def in_commands(self, text: str) -> bool:
        """Command lines with secrets."""
        return self.programs(text) and (self.optioned(text) or self.piped(text))

    def otherwise(self, text: str) -> bool:
        """Forms that do not begin with a known text, and command lines."""
        return self.inside_or_programs(text) and (self.inside(text) or self.in_commands(text))


@cache
def looks() -> Looks:
    """Return the tests, created on first use."""
    starts, *inside = may_be_forms()
    programs = (may_be_programs(), _PRODUCERS)
    # All of them in one pass would exceed the engine's limit of cached states.
    return Looks(
        named=search_any((*MAY_BE_NAMED, MAY_BE_FIELDS, *may_be_beside())),
        started=search_any((starts,)),
        inside_or_programs=search_any((*list(may_be_forms(AT_FIRST))[1:], *programs)),
        inside=search_any(inside),
        programs=search_any(programs),
        by_name=search_any(MAY_BE_NAMED),
        beside=search_any(may_be_beside()),
        optioned=search_any(may_be_command_lines()),
        piped=search_any((may_be_piped(),)),
    )


def may_hold_secrets(text: str) -> bool:
    """Return whether a text, or JSON text, needs a closer search. False: it certainly contains no secret."""
    quick = looks()  # inlined, as it runs for every text of every call
    if quick[0](text) or quick[1](text) or (quick[2](text) and (quick.inside(text) or quick.in_commands(text))):
        return True
    return not (text.isascii() or _is_unicode(text))


def may_have_a_form(text: str) -> bool:
    """Like `may_hold_secrets`, without secrets recognized only by name; for valid Unicode."""
    return looks().started(text) or looks().otherwise(text)


def _is_unicode(text: str) -> bool:
    """Return False for lone surrogates, which Rust does not accept as text."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def is_secret_name(name: str) -> str | None:
    """Return the kind of secret under such a name, or None."""
    kind = _kind_of_field(name)
    return kind or None


@lru_cache(4096)
def _kind_of_field(name: str) -> str | None:
    """Return the kind of a field by its name; empty: the value decides; None: no secret."""
    found = _KEY.search(name)
    if found is None or BEGIN in name or (found.group().lower() == "token" and NO_TOKEN.search(name[: found.start()])):
        return None
    return "" if found["doubtful"] else kind_of_name(found.group().lower())


def find_secrets(text: str) -> list[Found]:
    """Return the ranges of secrets in a text, the most specific kind first; they may overlap."""
    quick = looks()
    is_text = text.isascii() or _is_unicode(text)
    found: list[Found] = []

    def windows(look: Look) -> list[tuple[int, int]]:
        return _windows(text, look if is_text else _any_text)

    for begin, end in windows(quick.formed):
        found += find_forms(text, begin, end)
    for begin, end in windows(quick.optioned):
        found += find_command_lines(text, begin, end)
    for begin, end in windows(quick.piped):
        found += find_piped(text, begin, end)
    by_name, beside = windows(quick.by_name), windows(quick.beside)
    lower = _lower(text) if by_name or beside else ""
    for find, places in ((find_beside, beside), (find_named, by_name), (find_random, beside)):
        for begin, end in places:
            found += find(text, lower, begin, end)
    return found


def _any_text(_text: str) -> bool:
    return True


def _windows(text: str, look: Look) -> list[tuple[int, int]]:
    """Return the parts of a text in which secrets may begin."""
    if len(text) <= _WINDOW_CHARS + _MARGIN_CHARS:
        return [(0, len(text))] if look(text) else []
    windows: list[tuple[int, int]] = []
    for begin in range(0, len(text), _WINDOW_CHARS):
        end = min(begin + _WINDOW_CHARS, len(text))
        if look(text[max(0, begin - _MARGIN_CHARS) : end + _MARGIN_CHARS]):
            if windows and windows[-1][1] == begin:
                windows[-1] = (windows[-1][0], end)
            else:
                windows.append((begin, end))
    return windows


def redact_text(text: str, key: bytes = b"") -> str:
    """Return the text without recognizable secrets; with a key, marks have digests."""
    if len(text) <= _WINDOW_CHARS and not may_hold_secrets(text):
        return text
    return marked(text, find_secrets(text), key)


def _lower(text: str) -> str:
    """Return the lower case with the same length: some letters have a lower case of two."""
    lower = text.lower()
    return lower if len(lower) == len(text) else "".join(c.lower() if c.isascii() else c for c in text)


def redact(value: Any, key: bytes = b"", depth: int = 0) -> Any:
    """Return a copy of a JSON value without secrets; too deep levels are cut. Does not change the value."""
    if isinstance(value, str):
        return redact_text(value, key)
    if depth > _MAX_DEPTH:
        return "[cut]"
    if isinstance(value, dict):
        names = names_of_fields(value)
        return {
            redact_text(name, key) if len(name) > _NAME_CHARS else name: redact_field(
                names.get(name) or name, item, key, depth
            )
            for name, item in value.items()
        }
    if isinstance(value, list):
        if is_table_of_names(value):
            return [[redact_text(name, key), redact_field(name, item, key, depth + 1)] for name, item in value]
        instead = instead_of_items(value, key)
        return [instead.get(at) or redact(item, key, depth + 1) for at, item in enumerate(value)]
    return value


def is_table_of_names(items: list[Any]) -> bool:
    """Return whether a list has pairs of names and texts, of which one may be a secret: `[["DB_PASSWORD", "x1"]]`."""
    return all(
        isinstance(item, list) and len(item) == 2 and isinstance(item[0], str) and isinstance(item[1], str)
        for item in items
    ) and any(is_secret_name(name) is not None and is_of_both(text) for name, text in items)


def instead_of_items(items: list[Any], key: bytes = b"") -> dict[int, str]:
    """Return replacements, by index, of items that contain a secret as an option's value: `["--password", "x"]`."""
    instead = _lines_of_key(items, key)
    for at, (start, end) in secret_items(items).items():
        item = items[at]
        instead[at] = f"{item[:start]}{mark('password', item[start:end], key)}{item[end:]}"
    for at in range(1, len(items)):
        item, before = items[at], items[at - 1]
        if at not in instead and isinstance(before, str) and isinstance(item, str) and _ITEM_OPTION.fullmatch(before):
            kind = next((name for name in NAMES if name in OF_OPTIONS and before.lower().endswith(name)), None)
            if kind is not None and _ITEM_VALUE.match(item):
                instead[at] = mark(kind_of_name(kind), item, key)
    return instead


def _lines_of_key(items: list[Any], key: bytes) -> dict[int, str]:
    """Return marks, by index, of the lines of a private key that is given as a list of them."""
    instead: dict[int, str] = {}
    inside = False
    for at, item in enumerate(items):
        if not isinstance(item, str):
            inside = False
        elif inside:
            instead[at] = mark("private_key", item, key)
            inside = "-----END" not in item
        else:
            begun = item.rpartition("-----BEGIN ")[2] if "-----BEGIN " in item else ""
            inside = "PRIVATE KEY" in begun and "-----END" not in begun
    return instead


def redact_field(name: str, value: Any, key: bytes = b"", depth: int = 0) -> Any:
    """Return a field's value without secrets, which its name may indicate."""
    kind = _kind_of_field(name)
    if kind is None:
        return redact_text(value, key) if isinstance(value, str) else redact(value, key, depth + 1)
    if value is None or isinstance(value, bool):
        return value
    if not kind:
        return _doubtful(name, value, key) if isinstance(value, str) else redact(value, key, depth + 1)
    if kind == "token" and isinstance(value, int | float):
        return value  # max_tokens, token_count: numbers of tokens, not tokens
    if isinstance(value, str) and is_template(value):
        return value
    if kind == "pwd" and isinstance(value, str) and PATH.match(value):
        return redact(value, key, depth + 1)  # the working directory
    return mark(kind, value, key) if isinstance(value, str) else mark(kind)


def _doubtful(name: str, value: str, key: bytes) -> str:
    """Redact the value of a name that indicates a secret only if the value looks like one."""
    assigned = f"{name}={value}"
    return marked(assigned, find_secrets(assigned), key).removeprefix(f"{name}=")


def without_secrets(task: Task | None, keys: Keys) -> Task | None:
    """Return the task with its goal redacted; with a key for personal data, also without this."""
    if task is None:
        return None
    goal = redact_text(task.goal, keys.digest)
    return task.model_copy(update={"goal": goal if keys.pii is None else without_pii_text(goal, keys.pii)})
