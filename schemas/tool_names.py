"""The destructive verb in a tool's name, however it is spelled; used by the worker and by the agent's side.

A name is folded first (compatibility forms, letters that look alike, marks, invisible characters, case), then split
into words, which are searched for a verb that deletes or destroys.

Misses: names without meaning (`tidy`, `process`); most languages other than English; verbs joined with an object that
is not in the list.
"""

import unicodedata
from functools import lru_cache

from haltline.schemas import expressions as re

_LOOKS_LIKE = str.maketrans(
    "\u0430\u0435\u0456\u043e\u0440\u0441\u0443\u0445\u0455\u0501\u0458\u04bb\u0261\u04cf\u043a\u043c\u0442\u0432\u043d\u03b5\u03bf\u03c1\u03b9\u03ba\u03bd\u03c5\u03c4\u03b1\u03b2"
    "\u0269\u0131\u0259\u0251\u0578\u057d\u0581\u029f",
    "aeiopcyxsdjhglkmtbheopiknvtabiieanugl",
) | {ord("ß"): "ss", ord("ł"): "l", ord("ø"): "o", ord("đ"): "d", ord("æ"): "ae", ord("œ"): "oe"}
"""Small letters of other alphabets that look like Latin ones. Unicode's own forms cover marks (`é`) and wide or
mathematical letters."""
_DIGITS_AS_LETTERS = str.maketrans("01345@$", "oieasas")

_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_BETWEEN = re.compile(r"[\W_]+")
_LAST_PART = re.compile(r"__|[./:]")
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
FOREIGN_VERBS = frozenset((
    "loeschen", "loschen", "losche", "loesche", "loscht", "entfernen", "entferne", "vernichten", "leeren",
    "zerstoren",
    "zerstoeren", "supprimer", "supprime", "effacer", "efface", "detruire", "vider", "enlever", "eliminar", "elimine",
    "borrar", "borra", "borre", "suprimir", "destruir", "vaciar", "quitar", "excluir", "apagar", "deletar",
    "esvaziar", "eliminare", "elimina", "cancella", "cancellare", "distruggere", "svuotare", "svuota", "rimuovere",
    "rimuovi", "verwijder", "verwijderen", "vernietig", "vernietigen", "usun", "usunac", "skasuj", "wyczysc",
    "radera", "wis", "slett", "slette", "slet", "poista", "tyhjenna", "smazat", "smaz", "odstranit", "vymazat",
    "zmazat",
    "torles", "torol", "eltavolit", "sterge", "stergere", "obrisi", "izbrisi", "ukloni", "hapus", "padam", "xoa",
    "kaldir", "temizle", "burahin", "futa", "ezabatu", "istrinti", "dzest", "kustuta", "udalit", "steret", "ochistit",
    "vydalyty", "izbriy", "sil", "silmek", "ta_bort", "eyda", "dileu", "tanggalin", "shanchu", "sakujo", "sakje",
))  # fmt: skip
"""Verbs of other languages in Latin letters, without their marks."""
IN_OTHER_LETTERS = (
    "削除", "消去", "破棄", "抹消", "删除", "刪除", "清空", "销毁", "銷毀", "移除", "抹除", "擦除", "삭제", "제거",
    "파기", "지우",
    "удал", "стер", "очист", "уничтож", "видал", "знищ", "изтри", "премахни", "избриш", "обриш", "ukloni",
    "διαγραφ", "διάγραψ", "κατάργησ", "διαγράψ", "حذف", "مسح", "إزالة", "محو", "מחק", "מחיק", "הסר", "हटा", "मिटा",
    "মুছ",
    "ลบ", "ลบทิ้ง", "நீக்க", "xóa", "წაშლა", "ջնջել",
)  # fmt: skip
"""The same in other scripts, anywhere in a name."""
_SHOWS = (
    "表示",
    "一覧",
    "列表",
    "목록",
    "показ",
    "спис",
    "восстанов",
    "отмен",
    "復元",
    "恢复",
    "복구",
    "取消",
    "استعادة",
    "ביטול",
)
"""Parts that make the verb an object: a list of deleted things, their restoration."""
_DIGIT_IN_WORD = re.compile(r"[a-z][013457@$][a-z]")

_DESTROYS = frozenset((
    "delete", "del", "drop", "truncate", "destroy", "purge", "wipe", "erase", "remove", "rm", "rmdir", "rmtree",
    "unlink", "nuke", "obliterate", "annihilate", "eradicate", "expunge", "shred", "zap", "trash", "decommission",
    "deprovision", "teardown", "deregister", "unregister", "deletion", "deleting", "removal", "dropping",
    "destruction", "uninstall", "undeploy", "dispose", "discard", "deleter", "eraser", "remover",
    "purger", "wiper", "destroyer", "terminator", "shredder", "obliterator", "dropper", "unprovision", "wiping",
    "purging", "erasing", "removing", "destroying", "erasure", "vaporize", "demolish", "incinerate", "exterminate",
    "raze", "bulldoze", "pulverize", "extirpate", "vanquish",
    *FOREIGN_VERBS,
))  # fmt: skip
"""Verbs that destroy anywhere in a name."""
_DESTROYS_IN_FRONT = frozenset((
    "archive", "clear", "cleanup", "empty", "flush", "prune", "evict", "retire", "scrub", "expire", "reset",
    "terminate", "overwrite", "vacuum",
))  # fmt: skip
"""Verbs that destroy only at the beginning: `clear_table`, not `is_clear`."""
_PHRASES = (
    "get_rid_of", "to_trash", "tear_down", "clean_up", "tear_it_down", "blow_away", "throw_away", "do_away_with",
    "wipe_out",
)  # fmt: skip
_BEFORE_ALL = (
    "get_rid_of",
    "format_disk",
    "format_drive",
    "format_volume",
    "kill_table",
    "kill_database",
    "kill_asset",
    "make_it_gone",
)
_HARMLESS = frozenset((
    "get", "list", "read", "search", "find", "describe", "show", "view", "fetch", "count", "check", "query", "select",
    "is", "has", "can", "may", "should", "preview", "plan", "simulate", "validate", "verify", "test", "estimate",
    "explain", "ask", "suggest", "undelete", "undrop", "restore", "recover", "revert", "undo", "unarchive", "cancel",
    "create", "add", "insert", "write", "make", "generate", "send", "notify", "log", "watch", "wait", "poll", "open",
    "export", "download", "render", "format", "parse", "grep", "glob", "lookup", "monitor", "audit", "review",
    "think",
    "compare", "diff", "prevent", "protect", "disable", "edit", "save", "dry", "await", "inspect", "analyze", "todo",
))  # fmt: skip
"""Verbs at the beginning that make the rest an object: `list_delete_requests`."""
_MODIFIERS = frozenset((
    "safe", "safely", "soft", "hard", "force", "forced", "bulk", "batch", "mass", "multi", "permanently", "permanent",
    "quick", "fast", "async", "do", "try", "admin", "api", "auto", "really", "just", "smart", "secure", "tool", "my",
    "perform", "exec", "execute", "run", "v1", "v2", "v3", "sync", "all", "fully", "internal", "please",
))  # fmt: skip
_RECREATABLE_OBJECTS = frozenset((
    "cache", "caches", "screen", "console", "terminal", "selection", "filter", "filters", "highlight", "highlights",
    "clipboard", "formatting", "input", "form", "field", "whitespace", "duplicates", "background", "breakpoint",
    "breakpoints", "label", "labels", "tag", "tags", "reaction", "reactions", "watch", "watcher", "reviewer",
    "assignee", "prefix", "suffix", "punctuation", "stopwords", "noise", "outliers", "html", "timer", "alarm", "todo",
    "todos", "context", "memory", "conversation", "chat", "history", "cookies", "logs", "output", "canvas", "markers",
    "password", "session", "state", "zoom", "mock", "mocks", "counter", "counters",
    "search", "marks", "editor", "view", "tmp", "temp", "call", "thread",
))  # fmt: skip
"""Recreatable objects of a weak verb (`clear_cache`, `remove_filter`)."""
_WEAK = _DESTROYS_IN_FRONT | frozenset(
    ("remove", "discard", "dispose", "trash", "unlink", "del", "remover", "removing", "terminator")
)
_RUN_TOGETHER = re.compile(
    r"(delete|destroy|truncate|purge|remove|erase|wipe|drop|nuke|unlink|flush)"
    r"(?:all|asset|table|file|folder|dir|record|row|user|database|db|bucket|index|dataset|collection|object|schema)s?"
)


def folded(name: str) -> str:
    """The name as it looks: without marks and invisible characters, in Latin letters where they look alike."""
    if name.isascii():
        return name
    plain = unicodedata.normalize("NFKD", name)
    shown = "".join(char for char in plain if unicodedata.category(char) not in ("Mn", "Cf", "Cc"))
    return "".join(
        alike.upper() if char.isupper() else alike for char in shown for alike in (char.lower().translate(_LOOKS_LIKE),)
    )


def words(name: str) -> tuple[str, ...]:
    """The words of a name in lower case: `dropTable`, `drop-table` and `DROP TABLE` are `drop`, `table`."""
    return _words_of_short(name) if len(name) <= _MAX_CACHED_CHARS else _words(name)


def _words(name: str) -> tuple[str, ...]:
    return tuple(word for word in _BETWEEN.split(_CAMEL.sub("_", folded(name)).lower()) if word)


_words_of_short = lru_cache(maxsize=4096)(_words)
"""Cached: there are few tool names, and every call splits each several times."""


def names_of(action: str) -> tuple[str, ...]:
    """Return the forms of a tool's name to match: `mcp__warehouse__dropTable` is also `drop_table`."""
    # `mcp__warehouse__drop_table` and `catalog.delete_asset` match by their last part. `deleteAsset` and `delete-asset`
    # are `delete_asset`.
    snake = _HUMP.sub("_", action).lower().replace("-", "_")
    return action.lower(), snake, _LAST_PART.split(snake)[-1]


def is_recreatable(name: str) -> bool:
    """Return whether a name refers to something recreatable, such as a filter or a selection."""
    return not _RECREATABLE_OBJECTS.isdisjoint(words(name))


def destroying_verb(name: str) -> str:
    """The destructive verb in a tool's name, or an empty text."""
    return _destroying_verb(name) if len(name) <= _MAX_CACHED_CHARS else ""


_MAX_CACHED_CHARS = 512


@lru_cache(maxsize=4096)
def _destroying_verb(name: str) -> str:
    if not name.isascii():
        plain = unicodedata.normalize("NFC", name).lower()
        for piece in IN_OTHER_LETTERS:
            if piece in plain:
                return "" if any(other in plain for other in _SHOWS) else piece
    name = folded(name)
    last = _LAST_PART.split(name.strip())[-1]
    found = _verb(words(last))
    if found is None and last != name:
        found = _verb(words(name))
    if not found and _DIGIT_IN_WORD.search(name.lower()) is not None:
        low = name.lower()
        found = _verb(words(low.translate(_DIGITS_AS_LETTERS))) or _verb(
            words(low.replace("1", "l").translate(_DIGITS_AS_LETTERS))
        )
    return found or ""


def _verb(parts: tuple[str, ...]) -> str | None:
    """The destructive verb; empty: the verb is another one; None: no verb is recognised."""
    at = 0
    while at < len(parts) - 1 and parts[at] in _MODIFIERS:
        at += 1
    lead, rest = (parts[at], parts[at + 1 :]) if parts else ("", ())
    joined = "_".join(parts)
    if joined.startswith(_BEFORE_ALL):
        return "get_rid_of" if lead == "get" else f"{lead}_{rest[0]}"
    if lead in _HARMLESS:
        return ""
    for phrase in _PHRASES:
        if phrase in joined:
            return phrase
    run_together = _RUN_TOGETHER.fullmatch(lead)
    if run_together is not None:
        return run_together[1]
    verb = lead if lead in _DESTROYS_IN_FRONT else next((word for word in parts if word in _DESTROYS), None)
    if verb is None:
        return None
    about = rest if verb == lead else tuple(word for word in parts if word != verb)
    if verb in _WEAK and (not _RECREATABLE_OBJECTS.isdisjoint(about) or (verb in _DESTROYS_IN_FRONT and not about)):
        return ""
    return verb
