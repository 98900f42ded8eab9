"""The fail policy: which calls wait for a verdict, and which are refused if none arrives in time.

In mode `async` a verdict is also requested for calls whose arguments contain a word of destruction, besides those whose
name or effect is destructive. Arguments are only searched for words: the worker parses the call and decides. A false
match costs one wait for a verdict; without a verdict the call's effect decides, and local work that it would lose.
"""

from typing import Final

import orjson

from haltline.interventions.agent.call import Call
from haltline.interventions.agent.settings import GuardSettings
from haltline.schemas.events import Effect

LOOKS: Final = frozenset({Effect.READ, Effect.POLL})
"""Effects of calls that change nothing."""


def _words(*listed: str) -> frozenset[bytes]:
    return frozenset(word.encode() for word in listed)


WORDS: Final = _words(
    # files and devices
    "rm", "rmdir", "unlink", "shred", "truncate", "wipe", "wipefs", "rimraf", "del", "delete", "erase", "dd", "mkfs",
    "mke2fs", "fdisk", "parted", "blkdiscard", "destroy", "remove", "removedirs", "rmtree", "rmsync", "unlinksync",
    "rm_rf", "rm_r", "rm_f", "remove_dir", "remove_dir_all", "remove_file", "remove_tree", "clear", "overwrite",
    # databases, stores, brokers
    "drop", "dropdb", "dropdatabase", "update", "vacuum", "deletemany", "deleteone", "flushall", "flushdb", "flush",
    "reset", "purge", "expunge", "xdelete", "downgrade", "undo",
    # versions, containers, clusters, clouds
    "hard", "force", "clean", "checkout", "restore", "switch", "discard", "prune", "rmi", "down", "drain", "uninstall",
    "terminate", "rb", "deregister", "gsutil", "rclone", "replicas",
    # the system, and programs that run other code
    "kill", "shutdown", "reboot", "halt", "chmod", "chown", "crontab", "userdel", "iptables", "eval", "exec", "xargs",
    "base64", "b64decode",
)  # fmt: skip

_WORD_CHARS: Final = b"abcdefghijklmnopqrstuvwxyz0123456789_"
# Lower case letters; every character outside of words becomes a blank.
_SPACED: Final = bytes(low if low in _WORD_CHARS else 32 for low in (bytes([code]).lower()[0] for code in range(256)))
_QUOTES: Final = b"\"'\\"
_QUOTE, _BACKSLASH = ord("'"), ord("\\")  # searching bytes for a number is fast


def may_destroy(call: Call, settings: GuardSettings) -> bool:
    """Return whether an argument contains a word of destruction, or was truncated. Read once for each call."""
    if call.has_destructive_word is None:
        call.has_destructive_word = _has_destructive_word(call, settings)
    return call.has_destructive_word


def _has_destructive_word(call: Call, settings: GuardSettings) -> bool:
    call.describe(settings)
    described = call.described
    if described is None:
        return True
    if described.unread_from is not None:
        return True  # truncated: the rest may contain anything
    written = described.encoded
    if written is None:
        written = orjson.dumps(described.value)
    return holds_word(written)


def holds_word(written: bytes) -> bool:
    """Return whether JSON text contains one of the words, also after an escaped line break, or with quotes in it."""
    if _BACKSLASH in written:
        plain = written.replace(b"\\n", b" ").replace(b"\\t", b" ").replace(b"\\r", b" ")
        return _holds(plain.translate(_SPACED)) or _holds(plain.translate(_SPACED, _QUOTES))
    return _holds(written.translate(_SPACED)) or (_QUOTE in written and _holds(written.translate(_SPACED, b"'")))


def _holds(spaced: bytes) -> bool:
    return not WORDS.isdisjoint(spaced.split())
