"""Irreversible database statements that the tokens in `sql` do not show: an extensible table.

A line is `effect | pattern`; the pattern's group `on` is the target. The table covers dialects of SQL, Cypher, SPARQL,
CQL and MongoDB scripts.

Misses: conditions that are true because of what is in the database.
"""

from haltline.detectors.commands.model import ActEffect, Badness, Destruction
from haltline.detectors.commands.names import is_production, is_throwaway
from haltline.schemas import expressions as re

_TABLE = r"""
exposes | \bGRANT\s+(?:ALL(?:\s+PRIVILEGES)?|OWNERSHIP|CONTROL|DBA|SUPER|SYSADMIN|IMPERSONATE)\b[^;]{0,200}?\bTO\s+(?P<on>[^;]{1,80})
exposes | \bGRANT\b[^;]{0,200}?\bTO\s+(?P<on>PUBLIC|\'?%\'?|ANONYMOUS|EVERYONE|GUEST)\b
exposes | \bGRANT\s+(?:ROLE\s+)?"?\w*(?:admin|owner|superuser|sysadmin|dba|root)\w*"?\s+TO\s+(?P<on>[^;]{1,80})
exposes | \b(?:ALTER|CREATE)\s+(?:USER|ROLE|LOGIN)\s+(?P<on>\S+)[^;]{0,200}?\b(?:SUPERUSER|BYPASSRLS|CREATEROLE|ADMIN)\b
exposes | \bALTER\s+TABLE\s+(?P<on>\S+)\s+(?:DISABLE|NO\s+FORCE)\s+ROW\s+LEVEL\s+SECURITY
exposes | \b(?:ALTER\s+SERVER\s+ROLE|sp_addsrvrolemember|sp_addrolemember|ALTER\s+ROLE)\b[^;]{0,80}?(?:ADD\s+MEMBER|,)\s*(?P<on>[^;]{1,80})
exposes | \bgrantRolesToUser\(\s*["\'](?P<on>\w+)["\'][^)]{0,80}(?:root|admin|owner|Any)
destroys | \bREVOKE\s+(?:ALL|OWNERSHIP)\b[^;]{0,120}?\b(?P<on>ON\s+[^;]{1,80}|FROM\s+[^;]{1,80})
destroys | \bALTER\s+TABLE\s+(?P<on>\S+)[^;]{0,120}?\bMODIFY\s+TTL\b
destroys | \bALTER\s+(?:TABLE|SCHEMA|DATABASE)\s+(?P<on>\S+)[^;]{0,200}?\bDATA_RETENTION_TIME_IN_DAYS\s*=\s*[01]\b
destroys | \bALTER\s+TABLE\s+(?P<on>\S+)[^;]{0,200}?(?:deletedFileRetentionDuration|logRetentionDuration|history\.expire\S*)\W+(?:interval\s+)?[01]\b
destroys | \bALTER\s+TABLE\s+(?P<on>\S+)[^;]{0,200}?\bdefault_time_to_live\s*=\s*\d{1,3}\b
destroys | \bALTER\s+TABLE\s+(?P<on>\S+)\s+(?:ON\s+CLUSTER\s+\S+\s+)?UPDATE\s+[^;]{1,160}?\bWHERE\s+(?:1|true|1\s*=\s*1)\s*(?:;|$)
destroys | \bALTER\s+SYSTEM\s+(?:SET|RESET)\s+(?P<on>(?:archive|wal_|fsync|full_page|autovacuum|ssl|log_|recovery|summarize_wal)\w*)
destroys | \bALTER\s+(?:TABLE|DATABASE)\s+(?P<on>\S+)\s+(?:SET\s+(?:UNLOGGED|RECOVERY\s+SIMPLE|OFFLINE)|DISABLE\s+TRIGGER|NOLOGGING|NOARCHIVELOG|DISABLE\s+CHANGE_TRACKING)
destroys | \bSET\s+(?:GLOBAL|PERSIST)\s+(?P<on>(?:sql_log_bin|log_bin|binlog_expire\w*|expire_logs_days|innodb_flush\w*)\s*=\s*\S+)
exposes | \bCREATE\s+POLICY\b[^;]{0,120}?\bON\s+(?P<on>\S+)[^;]{0,200}?\bUSING\s*\(\s*true\s*\)
destroys | \bDROP\s+POLICY\s+(?:IF\s+EXISTS\s+)?(?P<on>[^;]{1,80})
destroys | \bALTER\s+(?:ROLE|USER|LOGIN)\s+(?P<on>\S+)[^;]{0,120}?\b(?:NOLOGIN|ACCOUNT\s+LOCK|DISABLE)\b
destroys | \bg\.[VE]\((?P<on>[^;]{0,120}?)\)[^;]{0,200}?\.drop\(
destroys | \bREASSIGN\s+OWNED\s+BY\s+(?P<on>\S+)
destroys | \bdb\.(?P<on>\w+)\.(?:aggregate|renameCollection)\([^;]{0,400}?(?:\$out|["\']?_?id["\']?\s*:\s*null|dropTarget|,\s*true)
destroys | \bALTER\s+RETENTION\s+POLICY\s+(?P<on>\S+)
overwrites | \bMERGE\s+INTO\s+(?P<on>\S+)[^;]{0,300}?\bON\s+\(?\s*(?:true|1\s*=\s*1)\b[^;]{0,120}?\bTHEN\s+(?:UPDATE|DELETE)
overwrites | \bINSERT\s+OVERWRITE\s+(?:TABLE\s+|INTO\s+)?(?P<on>[\w.`"]+)
overwrites | \bREPLACE\s+INTO\s+(?P<on>\S+)[^;]{0,200}?\bFROM\s+(?P=on)\b
overwrites | \bRESTORE\s+(?:DATABASE|TABLE|LOG|TENANT)\s+(?P<on>[^\s;]+)
overwrites | \bFLASHBACK\s+(?:TABLE|DATABASE)\s*(?P<on>[^\s;]*)
destroys | \bPURGE\s+(?P<on>(?:DBA_)?RECYCLEBIN|TABLE\s+\S+|TABLESPACE\s+\S+|BINARY\s+LOGS|MASTER\s+LOGS)
destroys | \bsp_MSforeach(?:table|db)\b\W*N?\W*(?P<on>(?:DROP|TRUNCATE|DELETE|ALTER|UPDATE)[^\']{0,80})
destroys | \b(?P<on>drop_chunks|add_retention_policy|lo_unlink|pg_drop_replication_slot|dblink_exec|pg_resetwal|xp_cmdshell|drop_hypertable|remove_\w*policy|sp_delete_backuphistory|sp_detach_db|cron\.unschedule)\s*\([^)]{0,80}
destroys | \bRESET\s+(?P<on>MASTER|BINARY\s+LOGS|SLAVE\s+ALL|REPLICA\s+ALL)\b
destroys | \bMATCH\s*(?P<on>\((?:[^;]{0,300}?))\s+DETACH\s+DELETE\b
destroys | \bMATCH\s*(?P<on>\((?:(?!\bWHERE\b)[^;{]){0,300}?)\s+(?:DELETE|REMOVE)\s+\w
destroys | \bMATCH\s*(?P<on>\((?:(?!\bWHERE\b)[^;]){0,300}?)\s+SET\s+\w+\s*=\s*(?:\{\s*\}|null)
overwrites | \bMATCH\s*(?P<on>\((?:(?!\b(?:WHERE|LIMIT|CREATE|MERGE|AGAINST)\b)[^;{]){0,300}?)\s+SET\s+\w+(?:\.\w+\s*=|\s*\+=|:)
destroys | \bCALL\s+(?P<on>apoc\.(?:periodic\.iterate|schema\.assert|nodes\.delete)[^;]{0,120}?(?:DELETE|\{\}))
destroys | ^\s*(?:update=)?(?P<on>(?:CLEAR|DROP)\s+(?:SILENT\s+)?(?:ALL|DEFAULT|NAMED|GRAPH\s*\S*))
overwrites | \bg\.(?P<on>[VE]\(\s*\)(?:\.hasLabel\([^)]{0,80}\))?)\.property\(
destroys | \bDELETE\s*(?:\{[^}]{0,300}\}\s*)?(?:INSERT\s*\{[^}]{0,300}\}\s*)?WHERE\s*(?P<on>\{\s*(?:GRAPH\s+\S+\s*\{\s*)?\?\w+\s+(?:a\s+\S+\s*[;.]\s*(?:\?\w+\s+)?)?[^\s?]\S*\s+\?\w+\s*[.;]?\s*\})
overwrites | \bFOR\s+(?P<each>\w+)\s+IN\s+(?P<on>[\w`]+)\s+(?:UPDATE|REPLACE|REMOVE)\s+(?:(?P=each)\b|\{\s*_key\s*:\s*(?P=each)\.)
destroys | \b(?P<on>DELETE\s+WHERE\s*\{[^}]*\?\w+\s+\?\w+\s+\?\w+[^}]*\})
destroys | \bDELETE\s*(?P<on>\{[^}]*\}\s*WHERE\s*\{\s*\?\w+\s+\?\w+\s+\?\w+)
destroys | (?:getCollection\(\s*["\'](?P<on>\w+)["\']\s*\)|\bdb\.(?P<on2>\w+)|\bcollection\(\s*["\'](?P<on3>\w+)["\']\s*\)|\bdb\[\s*["\'](?P<on4>\w+)["\']\s*\])\s*\.\s*(?:deleteMany|updateMany|remove|update|replaceOne|findOneAndDelete|bulkWrite)\(\s*(?:(?:\{\s*\}|\{\s*["\']?_id["\']?\s*:\s*\{\s*["\']?\$(?:exists|ne|gte?)["\']?\s*:\s*(?:true|null|0|["\']{2})\s*\}\s*\})|\[\s*\{\s*["\']?(?:delete|update)Many["\']?\s*:\s*\{\s*["\']?filter["\']?\s*:\s*(?:\{\s*\}|\{\s*["\']?_id["\']?\s*:\s*\{\s*["\']?\$(?:exists|ne|gte?)["\']?\s*:\s*(?:true|null|0|["\']{2})\s*\}\s*\}))
destroys | \brunCommand\(\s*\{\s*["\']?(?:update|delete)["\']?\s*:\s*["\'](?P<on>\w+)["\'][^;]{0,120}?\bq["\']?\s*:\s*(?:\{\s*\}|\{\s*["\']?_id["\']?\s*:\s*\{\s*["\']?\$(?:exists|ne|gte?)["\']?\s*:\s*(?:true|null|0|["\']{2})\s*\}\s*\})
destroys | \b(?:run|admin)Command\(\s*\{\s*["\']?(?P<on>drop\w*|shutdown|killAllSessions)["\']?\s*:
destroys | \bdb(?:\.|\[)(?P<on>\w+)\]?\.(?:drop|dropIndexes|dropIndex|truncate)\(
destroys | \b(?P<on>db\.(?:getSiblingDB\([^)]*\)\.)?dropDatabase)\(
destroys | \bdb\.(?P<on>\w+)(?:\.createIndex)?\([^)]*expireAfterSeconds["\']?\s*:\s*\d{1,4}\b
destroys | \b(?P<on>FT\.DROPINDEX\s+\S+|FLUSHALL|FLUSHDB)\b
"""
_ROWS = tuple(
    (ActEffect(line.split(" | ", 1)[0]), line.split(" | ", 1)[1]) for line in filter(None, _TABLE.splitlines())
)
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
