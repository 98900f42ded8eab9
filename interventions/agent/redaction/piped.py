"""Secrets that are piped, or given as a here-document, to a program that reads a password from standard input."""

from collections.abc import Iterator
from typing import Final

from haltline.interventions.agent.redaction.command_lines import arguments_of, is_no_secret
from haltline.interventions.agent.redaction.marks import Found
from haltline.schemas import expressions as re

_KIND: Final = "password"
_LINE_CHARS: Final = 400
_DOCUMENT_CHARS: Final = 4096
_READER: Final = re.compile(
    r"--password-stdin|--with-token|--pass(?:word|phrase)-(?:fd|stdin)|--(?:pw|token|key|secret|pass)-stdin"
    r"|-pass(?:in|out)?[ \t]+(?:stdin|fd:)"
    r"|sudo(?:[ \t]+-[A-Za-z-]+(?:[ \t]+root)?){0,8}[ \t]+(?:-[A-Za-z]{0,4}S|--stdin)"
    r"|chpasswd|smbpasswd|kinit|luks(?:Format|Open|AddKey)|secrets?[ \t:]+(?:set|create|put|add)|vault[ \t]+login"
    r"|pass[ \t]+insert|htpasswd[ \t]+-[A-Za-z]*i|auth[ \t]+login|apikey[ \t]+set|login[ \t]+-{1,2}stdin|[ \t]su[ \t]"
    r"|(?:^|[|;&\n]|sudo)[ \t]*passwd(?![A-Za-z0-9_.:-])|(?:file|key|pass\w{0,8})[= \t]+/dev/stdin"
    r"|--password(?:-file)?[= ]-(?![A-Za-z0-9_-])"
    r"|ansible-vault[ \t]+encrypt_string|(?:npm|pnpm|yarn)[ \t]+(?:login|adduser)"
    r"|file=(?:[\w.-]{1,60}=)?/dev/stdin|data-file=-"
    r"|ssh-add[ \t]+-(?![\w-])|env[ \t]+add[ \t]|(?:kv|versions)[ \t]+(?:put|add)[ \t]|cryptsetup[ \t]"
)
_MAY_READ: Final = (
    r"stdin|-fd|with-token|sudo|passwd|kinit|luks|secret|login|insert|apikey|(?:[ \t]|\\t)su(?:[ \t]|\\t)"
    r"|--password|ansible-vault|fd:|data-file=-|ssh-add|adduser|(?:env|kv|versions)(?:[ \t]|\\t)+(?:add|put)|cryptsetup"
)
_PAIRS: Final = re.compile(r"chpasswd")
_PRODUCER: Final = re.compile(r"(?<![A-Za-z0-9_.-])(?:echo|printf|Write-Output|Write-Host)[ \t]")
_HERE: Final = re.compile(r"<<<[ \t]*(?:\"([^\"\n]{1,256})\"|'([^'\n]{1,256})'|([^ \t\n\"';|&)]{1,256}))")
_DOCUMENT: Final = re.compile(r"<<-?[ \t]*[\"']?([A-Za-z_][A-Za-z0-9_]{0,40})[\"']?[^\n]{0,200}\n")


def may_be_piped() -> str:
    """Return a regular expression for Rust; without a match, nothing is piped to a password reader."""
    return rf"(?:echo|printf|Write-|<<)(?s:.)*?(?:{_MAY_READ})|(?:{_MAY_READ})(?s:.)*?<<"


def find_piped(text: str, begin: int, end: int) -> list[Found]:
    """Return the secrets of producers that begin in this range, and of here-documents whose reader does."""
    if _READER.search(text, begin, min(len(text), end + _LINE_CHARS)) is None:
        return []
    return [
        Found(start, until, _KIND, _KIND)
        for places in (_echoed(text, begin, end), _in_documents(text, begin, end))
        for start, until in places
    ]


def _echoed(text: str, begin: int, end: int) -> Iterator[tuple[int, int]]:
    for producer in _PRODUCER.finditer(text, begin, end):
        arguments = list(arguments_of(text, producer.start(), producer.end()))
        if not arguments:
            continue
        at = arguments[-1].start + len(arguments[-1].text)
        while at < len(text) and text[at] in " \t\"'\\":
            at += 1
        if text[at : at + 1] != "|" or text[at : at + 2] == "||":
            continue
        reader = _READER.search(_line(text, at))
        if reader is None:
            continue
        for one in arguments:
            if not one.text.startswith("-") and "%s" not in one.text:
                yield from _secret(one.text, one.start, is_pair=_PAIRS.search(reader.group()) is not None)


def _in_documents(text: str, begin: int, end: int) -> Iterator[tuple[int, int]]:
    at = text.find("<<", begin, end)
    while at >= 0:
        first = max(text.rfind("\n", 0, at) + 1, at - _LINE_CHARS)
        reader = _READER.search(text[first:at] + _line(text, at))
        done = at + 3
        if reader is not None:
            is_pair = _PAIRS.search(reader.group()) is not None
            for start, until in _input_texts(text, at):
                yield from _secret(text[start:until], start, is_pair=is_pair)
                done = until
        at = text.find("<<", done, end)


def _input_texts(text: str, at: int) -> Iterator[tuple[int, int]]:
    """Yield the text after `<<<`, or the lines of a document."""
    here = _HERE.match(text, at)
    if here is not None:
        yield here.span(here.lastindex or 0)
        return
    document = _DOCUMENT.match(text, at)
    if document is None:
        return
    start = document.end()
    for line in text[start : start + _DOCUMENT_CHARS].split("\n"):
        if line.strip(" \t\r") == document[1]:
            return
        yield start, start + len(line)
        start += len(line) + 1


def _line(text: str, at: int) -> str:
    line = text[at : at + _LINE_CHARS]
    return line.partition("\n")[0]


def _secret(line: str, at: int, *, is_pair: bool) -> Iterator[tuple[int, int]]:
    if is_pair:
        for pair in re.finditer(r"[^ \t\r\n:\\]{1,64}:((?:[^ \t\r\n\\]|\\(?!n)){1,256})", line):
            if not is_no_secret(pair[1]):
                yield at + pair.start(1), at + pair.end(1)
    elif line.strip(" \t\r") and not is_no_secret(line):
        yield at, at + len(line)
