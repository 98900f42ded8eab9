"""Irreversible database statements that the tokens in `sql` do not show: an extensible table.

The rows of `statements.txt` cover dialects of SQL, Cypher, SPARQL, CQL and MongoDB scripts.

Misses: conditions that are true because of what is in the database.
"""

from functools import cache
from itertools import islice

from haltline.detectors.commands.model import LOSSES, ActEffect, Badness, Destruction
from haltline.detectors.commands.names import is_for_tests, is_production, is_throwaway
from haltline.detectors.commands.rows import expression_of, rows_of, words_of
from haltline.schemas import expressions as re

_ROWS = tuple(line.split(" | ", 1) for line in rows_of("statements"))
MAYBE = tuple(piece.replace("+", " ") for piece in words_of("pieces of statements"))
"""Lower-case substrings of statements; a text without any of them matches no row."""
_MAX_CHARS, _MAX_MATCHES = 16 * 1024, 32
_UNKNOWN = "statement="
"""What the kind of a target is not known of."""
_WORD = re.compile(r"[a-z_]+")
OF_MANY_THINGS = frozenset(("database", "schema", "keyspace", "catalog", "tablespace", "owned", "dataset"))
_WORKING_STATE = expression_of("a table of a working state")
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


def acts(text: str, *, database: str = "") -> tuple[Destruction, ...]:
    """Return the acts of a text of statements by the table; `database` is the one of the connection, if it is known."""
    text = text[:_MAX_CHARS]
    if "'" in text or "--" in text or "/*" in text:
        text = _STRINGS.sub(_kept, text)
    low = text.lower()
    if not any(piece in low for piece in MAYBE):
        return ()
    found: dict[Destruction, None] = {}
    for effect, verb, pattern in _rows():
        for match in islice(pattern.finditer(text), _MAX_MATCHES if verb else 1):
            found[_act(effect, verb, match, database)] = None
    better = any(not act.target.startswith(_UNKNOWN) for act in found)
    return tuple(act for act in found if not (better and act.effect in LOSSES and act.target.startswith(_UNKNOWN)))


def _act(effect: ActEffect, verb: str, match: re.Match[str], database: str) -> Destruction:
    groups = [(name, value) for name, value in match.groupdict().items() if name != "each"]
    kind, named = next((pair for pair in groups if pair[1]), (groups[0][0] if groups else "on", ""))
    about = " ".join(named.lower().replace("`", "").replace('"', "").split())[:120]
    kind = kind.rstrip("234")  # further places for it
    if kind != "on" and (about or database):
        return loss(verb, kind, about or database, whole=verb != "delete_rows")
    about = about or match[0][:60].lower()
    named_verb = verb or "_".join(_WORD.findall(match[0].lower())[:3])[:60]
    bad = Badness.SCRATCH if is_throwaway(about) and not is_production(about) else Badness.PLAIN
    return Destruction(named_verb, f"{_UNKNOWN}{about}", bad, effect)


_STRINGS = expression_of("texts and comments of statements", re.IGNORECASE | re.DOTALL)


def _kept(found: re.Match[str]) -> str:
    """Drop a comment or a stored text; keep the value of an option."""
    text = found[0]
    return text if re.search(r"retention|expire|interval", text, re.IGNORECASE) else " "
