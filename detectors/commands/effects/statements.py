"""Irreversible database statements that the tokens in `sql` do not show: an extensible table.

A line is `effect | pattern`; the pattern's group `on` is the target. The table covers dialects of SQL, Cypher, SPARQL,
CQL and MongoDB scripts.

Misses: conditions that are true because of what is in the database.
"""

from haltline.detectors.commands.model import ActEffect, Badness, Destruction
from haltline.detectors.commands.names import is_production, is_throwaway
from haltline.detectors.commands.rows import rows_of
from haltline.schemas import expressions as re

_ROWS = tuple((ActEffect(line.split(" | ", 1)[0]), line.split(" | ", 1)[1]) for line in rows_of("statements"))
MAYBE = (
    "grant", "revoke", "restore", "flashback", "purge", "superuser", "ttl", "retention", "time_to_live",
    "overwrite", "merge", "replace",
    "foreach", "drop", "unlink", "reset", "match", "property(", "clear", "delete", "updatemany", "update", "bulkwrite", "remove",
    "expireafter", "runcommand", "admincommand",
    "row level", "bypassrls", "createrole", "rolemember", "add member", "xp_cmdshell", "flush", "unschedule",
    "detach_db", "alter system", "unlogged", "recovery simple", "set offline", "trigger", "nologging", "log_bin",
    "expire_logs", "policy", "reassign", "nologin", "account lock", "alter login", "$out", "renamecollection",
)  # fmt: skip
"""Lower-case substrings of statements; a text without any of them matches no row."""
_MAX_CHARS = 16 * 1024
_WORD = re.compile(r"[a-z_]+")
_compiled: list[tuple[ActEffect, re.Pattern[str]]] = []


def _rows() -> list[tuple[ActEffect, re.Pattern[str]]]:
    if not _compiled:
        _compiled.extend((effect, re.compile(pattern, re.IGNORECASE)) for effect, pattern in _ROWS)
    return _compiled


def acts(text: str) -> tuple[Destruction, ...]:
    """Return the acts of a text of statements by the table."""
    text = text[:_MAX_CHARS]
    if "'" in text or "--" in text or "/*" in text:
        text = _STRINGS.sub(_kept, text)
    low = text.lower()
    if not any(piece in low for piece in MAYBE):
        return ()
    found: dict[Destruction, None] = {}
    for effect, pattern in _rows():
        match = pattern.search(text)
        if match is None:
            continue
        named = next((value for name, value in match.groupdict().items() if name.startswith("on") and value), "")
        about = " ".join(named.lower().replace("`", "").replace('"', "").split())[:120] or match[0][:60].lower()
        verb = "_".join(_WORD.findall(match[0].lower())[:3])[:60]
        bad = Badness.SCRATCH if is_throwaway(about) and not is_production(about) else Badness.PLAIN
        found[Destruction(verb, f"statement={about}", bad, effect)] = None
    return tuple(found)


_STRINGS = re.compile(
    r"--[^\n]*+\n?|/\*.*?(?:\*/|\Z)|\b(?:VALUES?|=)\s*+\(?\s*+\'(?:[^\']++|\'\')*+(?:\'|\Z)", re.IGNORECASE | re.DOTALL
)


def _kept(found: re.Match[str]) -> str:
    """Drop a comment or a stored text; keep the value of an option."""
    text = found[0]
    return text if re.search(r"retention|expire|interval", text, re.IGNORECASE) else " "
