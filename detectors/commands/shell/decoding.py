r"""The output of a filter for a known input: base64, hexadecimal, `rev`, `tr`, escapes of `printf` and `echo -e`.

Misses: ciphers with a key (`openssl enc`), compression, filters that are programs themselves (`sed`, `awk`, `python`).
"""

import base64
import binascii
from collections.abc import Callable, Mapping

from haltline.detectors.commands.shell.invocation import Invocation
from haltline.schemas import expressions as re

_MAX_CHARS = 64 * 1024
_ESCAPE = re.compile(r"\\(?:x([0-9a-fA-F]{1,2})|0?([0-7]{1,3})|u([0-9a-fA-F]{4})|([nrt\\]))")
_PLAIN = {"n": "\n", "r": "\r", "t": "\t", "\\": "\\"}
_RANGE = re.compile(r"(.)-(.)", re.DOTALL)
_CLASSES = {
    "[:lower:]": "abcdefghijklmnopqrstuvwxyz",
    "[:upper:]": "ABCDEFGHIJKLMNOPQRSTUVWXYZ",
    "[:digit:]": "0123456789",
}
_DIRECTIVE = re.compile(r"(?<!%)%[-+0 #]*+\d*+(?:\.\d++)?[sdbqc]")


def unescaped(text: str) -> str:
    r"""Replace escapes such as `\x72`, `\0162` and `\n` by their characters."""
    if "\\" not in text:
        return text

    def char(found: re.Match[str]) -> str:
        if found[1] or found[3]:
            return chr(int(found[1] or found[3], 16))
        return chr(int(found[2], 8)) if found[2] else _PLAIN[found[4]]

    return _ESCAPE.sub(char, text)


def printed(arguments: tuple[str, ...]) -> str:
    """Return the output of `printf`."""
    form, *values = arguments
    form = unescaped(form)
    count = len(_DIRECTIVE.findall(form))
    if not count:
        return form.replace("%%", "%")
    shown: list[str] = []
    for at in range(0, max(len(values), 1), count):
        given = iter(values[at : at + count])
        shown.append(_DIRECTIVE.sub(lambda _, given=given: next(given, ""), form))  # type: ignore[misc] # bound now
    return "".join(shown)[:_MAX_CHARS]


def _base64(text: str, arguments: tuple[str, ...]) -> str | None:
    if not {"-d", "-D", "--decode", "-di", "-id"}.intersection(arguments):
        return None
    return from_base64(text)


def from_base64(text: str) -> str | None:
    """Return the text that base64 encodes; None if it is invalid."""
    try:
        return base64.b64decode("".join(text.split()), validate=False).decode(errors="replace")
    except (binascii.Error, ValueError):
        return None


def decoded_wide(text: str) -> str:
    """Return the text of PowerShell's `-EncodedCommand`: base64 of UTF-16; empty if it is invalid."""
    try:
        return base64.b64decode(text, validate=False).decode("utf-16-le", errors="replace")
    except (binascii.Error, ValueError):
        return ""


def _xxd(text: str, arguments: tuple[str, ...]) -> str | None:
    if not any(word.startswith("-") and "r" in word for word in arguments):
        return None
    try:
        return bytes.fromhex("".join(text.split())).decode(errors="replace")
    except ValueError:
        return None


def _rev(text: str, _: tuple[str, ...]) -> str | None:
    return "\n".join(line[::-1] for line in text.splitlines())


def _tr(text: str, arguments: tuple[str, ...]) -> str | None:
    sets = [_expanded(word) for word in arguments if not word.startswith("-")]
    if "-d" in arguments and sets:
        return text.translate({ord(char): None for char in sets[0]})
    if len(sets) < 2 or not sets[1]:
        return None
    to = sets[1] + sets[1][-1] * max(0, len(sets[0]) - len(sets[1]))
    return text.translate({ord(char): to[at] for at, char in enumerate(sets[0])})


def _expanded(text: str) -> str:
    for name, chars in _CLASSES.items():
        text = text.replace(name, chars)

    def spread(found: re.Match[str]) -> str:
        first, last = ord(found[1]), ord(found[2])
        return "".join(map(chr, range(first, last + 1))) if 0 <= last - first < 256 else found[0]

    return unescaped(_RANGE.sub(spread, text))[:1024]


FILTERS: Mapping[str, Callable[[str, tuple[str, ...]], str | None]] = {
    "base64": _base64,
    "gbase64": _base64,
    "xxd": _xxd,
    "rev": _rev,
    "tr": _tr,
}


def filtered(invocation: Invocation) -> str | None:
    """Return the output of a filter for its input; None if the program is no known filter, or the output is unknown."""
    read = FILTERS.get(invocation.name)
    if read is None or invocation.stdin is None or len(invocation.stdin) > _MAX_CHARS:
        return None
    return read(invocation.stdin, invocation.argv[1:])
