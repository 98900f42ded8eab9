"""Irreversible database statements that the tokens in `sql` do not show: an extensible table.

The rows of `statements.txt` cover dialects of SQL, Cypher, SPARQL, CQL and MongoDB scripts.

Misses: conditions that are true because of what is in the database.
"""

from functools import cache

from haltline.detectors.commands.model import LOSSES, ActEffect, Badness, Destruction
from haltline.detectors.commands.names import is_for_tests, is_production, is_throwaway
from haltline.detectors.commands.rows import rows_of, words_of
from haltline.schemas import expressions as re

_ROWS = tuple(line.split(" | ", 1) for line in rows_of("statements"))
MAYBE = tuple(piece.replace("+", " ") for piece in words_of("pieces of statements"))
"""Lower-case substrings of statements; a text without any of them matches no row."""
_MAX_CHARS = 16 * 1024
_WORD = re.compile(r"[a-z_]+")
OF_MANY_THINGS = frozenset(("database", "schema", "keyspace", "catalog", "tablespace", "owned", "dataset"))
_WORKING_STATE = re.compile(
    r"(?:shopping_)?(?:cart|basket|wishlist|draft)s?(?:_(?:items?|lines?|rows?|entry|entries))?"
)
"""Tables whose single rows are tidied away: what was in a cart was not bought, and a draft was not sent."""


@cache
def _rows() -> list[tuple[ActEffect, str, re.Pattern[str]]]:
    """Return the effect, the verb and the pattern of each row, compiled when a statement may match one."""
    acts = [(*act.partition(" ")[::2], re.compile(pattern, re.IGNORECASE)) for act, pattern in _ROWS]
    return [(ActEffect(effect), verb, pattern) for effect, verb, pattern in acts]


def loss(verb: str, kind: str, name: str, *, temporary: bool = False, whole: bool = True) -> Destruction:
    """Return a loss in a database; `whole`: of the object itself or all its contents."""
    bad = Badness.PLAIN
    if (
        temporary
        or name.startswith("#")
        or (is_throwaway(name) and not is_production(name))
        or (not whole and _WORKING_STATE.fullmatch(name.rpartition(".")[2]) is not None)
    ):
        bad = Badness.SCRATCH
    elif whole and (is_production(name) or (kind in OF_MANY_THINGS and not is_for_tests(name))):
        bad = Badness.SEVERE
    return Destruction(verb, f"{kind}={name}", bad)


def acts(text: str) -> tuple[Destruction, ...]:
    """Return the acts of a text of statements by the table."""
    text = text[:_MAX_CHARS]
    if "'" in text or "--" in text or "/*" in text:
        text = _STRINGS.sub(_kept, text)
    low = text.lower()
    if not any(piece in low for piece in MAYBE):
        return ()
    found: dict[Destruction, None] = {}
    for effect, verb, pattern in _rows():
        match = pattern.search(text)
        if match is None:
            continue
        kind, named = next(
            ((name, value) for name, value in match.groupdict().items() if value and name != "each"), ("on", "")
        )
        about = " ".join(named.lower().replace("`", "").replace('"', "").split())[:120] or match[0][:60].lower()
        if not kind.startswith("on"):
            found[loss(verb, kind, about, whole=verb != "delete_rows")] = None
            continue
        named_verb = verb or "_".join(_WORD.findall(match[0].lower())[:3])[:60]
        bad = Badness.SCRATCH if is_throwaway(about) and not is_production(about) else Badness.PLAIN
        found[Destruction(named_verb, f"statement={about}", bad, effect)] = None
    better = any(not act.target.startswith("statement=") for act in found)
    return tuple(act for act in found if not (better and act.effect in LOSSES and act.target.startswith("statement=")))


_STRINGS = re.compile(
    r"--[^\n]*+\n?|/\*.*?(?:\*/|\Z)|\b(?:VALUES?|=)\s*+\(?\s*+\'(?:[^\']++|\'\')*+(?:\'|\Z)", re.IGNORECASE | re.DOTALL
)


def _kept(found: re.Match[str]) -> str:
    """Drop a comment or a stored text; keep the value of an option."""
    text = found[0]
    return text if re.search(r"retention|expire|interval", text, re.IGNORECASE) else " "
