"""Secrets recognized by their names.

A name may be a field of JSON, in text before `=` or `:`, an option of a command (`--password x`), or in a sentence
("the password is x"). Values in text with less than three letters are not found.
"""

from typing import Final

from haltline.interventions.agent.redaction.marks import Found
from haltline.interventions.agent.redaction.places import place_of
from haltline.interventions.agent.redaction.stand_ins import is_stand_in
from haltline.schemas import expressions as re

# No secret begins with these: a shell variable or command, a template, and words for an empty value.
NO_VALUE = r"(?!\$[({A-Z_]|[{<]|(?i:null|none|nil|true|false|undefined)\b)"
_VALUE = (
    r"(?:(?<=\")[^\"\n\[]{3,256}(?<!\\)(?=\")|(?<=')[^'\n\[]{3,256}(?<!\\)(?=')"
    r"|(?:[^\s\"'&,;\[\\]|\\(?!\\{0,15}[\"'])){3,512})"
)
_VALUE_CHARS: Final = 512
_REST: Final = re.compile(r"[^\s\"'&,;\[\\]*")
_SUFFIX = (
    r"(?:[_-]?(?i:access|key|base|value|hash|data|text|string|b64|prod|dev|test|staging|live|v?[0-9]{1,3})"
    r"(?![a-z])){0,3}"
)
_QUOTED = r"\\{0,15}[\"']\s{0,8}(?::|=>)\s{0,8}\\{0,15}[\"']?"
_SCHEME = (
    r"(?:(?i:basic|bearer|digest|token|negotiate|apikey|ssws|bot|key|oauth|jwt|splunk|geniekey)[ \t]{1,4}(?=\S))?+"
)


def _after(colon: str = r":(?![:/])", but: str = "") -> re.Pattern[str]:
    """Match `PGPASSWORD=hunter2`, `?token=abc`, `"password": "hunter2"`, `x-api-key: abc`; the name stays."""
    joined = rf"[ \t]{{0,4}}(?:=>|:=|={{1,2}}|{colon})[ \t]{{0,4}}(?:!!str[ \t]|&\w{{1,40}}[ \t])?\\?[\"']?"
    spaced = rf"(?:{joined}|{_QUOTED}){NO_VALUE}"
    return re.compile(rf"({_SUFFIX}(?:=[\"']?|{spaced}){but})({_VALUE})")


# `arn:aws:secretsmanager:...:secret:prod/db` and `org/token:latest` are no values of that name.
_SPACED_COLON = r":(?=[ \t\"'])"
# A number of tokens is no token, and PWD=/srv is a directory.
NO_COUNT = r"(?!\d{1,5}(?:\.\d{1,3})?[kKmM]?(?![^\s\"'&,;)}\]]))"
_NO_PATH = r"(?![/~.$]|[A-Za-z]:\\)"
PATH = re.compile(r"[/~.$]|[A-Za-z]:\\")
# In sentences a word follows, unless it has digits.
_IN_WORDS = re.compile(
    r"([ \t]{0,3}(?:=|:|[ \t](?:is|was)(?=[ \t:]):?)[ \t]{0,3}[\"'`]?|[ \t]{1,3}[\"'`]?(?=[A-Za-z0-9_+/=.-]{20}))"
    r"(?![{<$(])((?=[^\s]{0,128}[0-9])(?=[^\s]{0,128}[A-Za-z])[^\s\"'`,;\[]{6,256})"
)
_AFTER_NAME: dict[str, re.Pattern[str]] = {
    **dict.fromkeys(("api_key", "api-key", "apikey", "access_key", "access-key", "accesskey"), _after()),
    **dict.fromkeys(("account_key", "account-key", "accountkey", "private_key", "private-key"), _after()),
    **dict.fromkeys(("app_key", "app-key", "appkey", "application_key", "application-key", "master_key"), _after()),
    **dict.fromkeys(("encryption_key", "signing_key", "signing-key", "license_key", "subscription-key"), _after()),
    **dict.fromkeys(("client-key-data", "presharedkey", "privatekey"), _after()),
    **dict.fromkeys(("password", "passwd", "passphrase", "passcode"), _after()),
    **dict.fromkeys(("api key", "access key", "private key", "auth key"), _IN_WORDS),
    "secret": _after(_SPACED_COLON),
    "token": _after(_SPACED_COLON, NO_COUNT),
    "pwd": _after(but=_NO_PATH),
    "authorization": re.compile(rf"((?:[ \t]{{0,4}}[:=][ \t]{{0,4}}[\"']?|{_QUOTED}){_SCHEME}{NO_VALUE})({_VALUE})"),
    # auth=("bob", "x"), HTTPBasicAuth("bob", "x")
    "auth": re.compile(
        rf"({_QUOTED}{NO_VALUE}|\\{{0,15}}[\"']?[ \t]{{0,2}}[:=]?[ \t]{{0,2}}[(\[][ \t]?"
        rf"\\{{0,15}}[\"'][^\"'\n]{{1,64}}\\{{0,15}}[\"'],[ \t]?\\{{0,15}}(?=[\"'])[\"'])"
        rf"({_VALUE})"
    ),
    "cookie": re.compile(r"(s?(?:\\{0,3}[\"'])?[ \t]{0,4}:[ \t]{0,4}(?:\\{0,3}[\"'])?)([^\r\n\"'\[{]{3,})"),
}
NAMES: Final = tuple(_AFTER_NAME)
OF_OPTIONS: Final = frozenset(name for name in _AFTER_NAME if " " not in name) - {"auth", "authorization", "pwd"}
_IN_SENTENCES: Final = frozenset(("password", "passphrase", "passcode", "token", "secret"))

_OPTION = re.compile(r"(?:^|[\s\"'])-{1,2}(?!-|no-)[\w.-]{0,40}\Z")
_AFTER_OPTION = re.compile(
    rf"({_SUFFIX}[ \t]{{1,4}}[\"']?(?!-|(?:id|name|type|source|src)=){NO_VALUE}{NO_COUNT})({_VALUE})"
)
_BEFORE_OPTION = 48

# Names of tokens of a text, as models have them.
NO_TOKEN: Final = re.compile(
    r"(?:pad|eos|bos|unk|sep|cls|mask|stop|end|start|begin|special|image|video|audio|eot|fim)_?\Z",
    re.IGNORECASE | re.ASCII,
)


def find_named(text: str, lower: str, begin: int, end: int) -> list[Found]:
    """Return the secrets whose names are in this range; `lower` is the text in lower case."""
    found: list[Found] = []
    for name, after in _AFTER_NAME.items():
        at = lower.find(name, begin, end)
        while at >= 0:
            one = _behind(text, name, after, at)
            if one is not None:
                found.append(one)
            at = lower.find(name, max(at + 1, one.end if one is not None else 0), end)
    return found


def _behind(text: str, name: str, after: re.Pattern[str], at: int) -> Found | None:
    behind = at + len(name)
    if name == "token" and NO_TOKEN.search(text[max(0, at - 12) : at]):
        return None
    found = after.match(text, behind)
    if found is None and name in OF_OPTIONS and _OPTION.search(text[max(0, at - _BEFORE_OPTION) : at]):
        found = _AFTER_OPTION.match(text, behind)
    place = None
    if found is None or _is_stand_in(text, name, found):
        place = place_of(text, at, behind)
        if place is not None and is_stand_in(text[slice(*place)], name, quoted=True):
            return None
    if found is None and place is None and name in _IN_SENTENCES:
        found = _IN_WORDS.match(text, behind)
    if place is None:
        if found is None or _is_stand_in(text, name, found):
            return None
        place = found.start(2), _end_of(text, found)
    kind = kind_of_name(name)
    return Found(*place, kind, kind)


def _end_of(text: str, found: re.Match[str]) -> int:
    """Return the end of a value, of which the expression takes a bounded part."""
    rest = _REST.match(text, found.end(2)) if len(found[2]) >= _VALUE_CHARS else None
    return found.end(2) if rest is None else rest.end()


def _is_stand_in(text: str, name: str, found: re.Match[str]) -> bool:
    quoted = text[found.start(2) - 1] in "\"'`"
    if name == "cookie":
        return is_stand_in(found[2], name, quoted=True)
    compared = not quoted and "==" in found[1] and found[2].isidentifier()
    return compared or is_stand_in(found[2], name, quoted=quoted)


def kind_of_name(name: str) -> str:
    """Return the kind as marks name it."""
    return name.replace("-", "_").replace(" ", "_")
