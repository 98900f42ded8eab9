"""Secrets that do not follow their name directly: in brackets, as an argument, in XML, in pairs, in a block of YAML.

Each place is a part of one expression, matched behind the name; for some, what precedes the name decides.
"""

from typing import Final

from haltline.schemas import expressions as re

_BEFORE_CHARS: Final = 160
_PAIR_CHARS: Final = 400
_QUOTE: Final = r"\\{0,15}[\"'`]"
_FILL: Final = r"(?:fill|type|send_keys|sendKeys|press_sequentially|pressSequentially|setValue|set_value|input)"
_TYPE: Final = (
    r"(?:&(?:'static[ \t])?)?(?:str|string|String|Text|bytes|SecretStr|Optional\[str\]|str[ \t]?\|[ \t]?None|char\[\])"
)
_VALUE_NAME: Final = r"(?i:value|val|parametervalue|content)"
# A number is taken whole, so that it is read in one way.
_SUFFIX: Final = (
    r"(?:[._-]?(?:(?i:access|key|base|value|prod|dev|test|staging|live)(?![A-Za-z])"
    r"|[vV]?[0-9]{1,9}(?![A-Za-z0-9]))){0,3}"
)

_QUOTED_PLACES: Final = "|".join((
    # os.environ['PASSWORD'] = "x", ENV["PASSWORD"] ||= "x"
    rf"(?:{_QUOTE})?[\])]{{1,2}}[ \t]{{0,4}}(?:\|\||\?\?)?=(?!=)[ \t]{{0,4}}",
    # process.env.PASSWORD || "x"
    rf"(?:{_QUOTE})?[\])]{{0,2}}[ \t]{{1,4}}(?:\|\||\?\?|or)[ \t]{{1,4}}",
    # password: str = "x", const PASSWORD: &str = "x", os.environ["PASSWORD"]: str = "x"
    rf"(?:{_QUOTE}\]{{1,2}})?:?[ \t]{{0,2}}{_TYPE}[ \t]{{0,2}}=[ \t]{{0,2}}",
    # {"name": "PASSWORD", "value": "x"}, <add key="Password" value="x"/>
    (
        rf"(?P<pair>{_QUOTE}[,;]?\s{{0,40}}(?:[\w-]{{1,20}}={_QUOTE}[^\"'<>\n]{{0,60}}{_QUOTE}\s{{1,8}}){{0,2}}"
        rf"(?:{_QUOTE})?{_VALUE_NAME}(?:{_QUOTE})?\s{{0,4}}[:=]\s{{0,4}})"
    ),
    # [["PASSWORD", "x"]]
    (
        rf"(?P<row>{_QUOTE}[ \t]{{0,2}},\s{{0,40}}"
        rf"(?={_QUOTE}(?=[^\"'`\\\n]{{0,128}}[0-9])[^\"'`\\\n]{{0,128}}[A-Za-z][^\"'`\\\n]{{0,384}}{_QUOTE}\s?\]))"
    ),
    # setenv("PASSWORD", "x"), page.fill("#password", "x")
    rf"(?P<argument>[\]\w-]{{0,12}}(?:{_QUOTE}\]{{1,2}})?{_QUOTE}[ \t]{{0,2}},[ \t]{{0,4}}(?:with:[ \t]?)?)",
    # get_by_label("Password").fill("x"), querySelector("#password").value = "x"
    rf"[\w \t\]*:-]{{0,20}}{_QUOTE}[ \t}})\]]{{1,5}}\.(?:value[ \t]?=|(?:{_FILL}|val)\()[ \t]?",
    # password = """x
    r"[ \t]{0,4}=[ \t]{0,4}\"\"(?=\")",
))  # fmt: skip
_PLACE: Final = re.compile(
    rf"{_SUFFIX}(?:"
    rf"(?:{_QUOTED_PLACES}){_QUOTE}\n?(?P<quoted>[^\"'`\\\n]{{3,512}})"
    r"|(?P<tag>(?:[ \t][^<>\n]{0,200})?>|[\w.-]{0,20}</(?:name|key)>\s{0,80}<(?:value|string)>"
    rf"|{_QUOTE}[^<>\n]{{0,80}}>(?:\s{{0,80}}<value>)?)"
    r"\s{0,80}(?:<!\[CDATA\[)?(?P<element>[^<>\s][^<>\n]{2,512}?)(?=\]\]>|\s{0,80}</)"
    rf"|(?P<item>(?:{_QUOTE})?[ \t]{{0,4}}\n[ \t-]{{0,40}}{_VALUE_NAME}:[ \t]{{1,4}}"
    r"|[ \t]{1,4}-(?i:value)[ \t]{1,4})"
    r"[\"']?(?P<listed>[^\s\"']{3,512})"
    r"|\"(?:\r\n|\\r\\n|\n|\\n){2}(?P<part>[^\s\"\\]{3,512})"
    r"|:[ \t]{1,4}[|>][+-]?[0-9]?[+-]?[ \t]{0,4}\n(?:[ \t]{0,40}\n){0,2}"
    r"(?P<indent>[ \t]{1,40})(?P<block>\S[^\n]*(?:\n(?P=indent)[^\n]*){0,120})"
    r"|(?P<line>:[ \t]{0,4}\r?\n[ \t]{1,40}[\"']?(?=\S{0,128}[0-9])(?=\S{0,128}[A-Za-z]))"
    r"(?P<below>[^\s\"'\[\]{}()<>|&*#,]{3,256}(?<!:))[\"']?[ \t]{0,4}(?=[\r\n]|\Z)"
    r"|(?P<set>[\"'\]]{0,3}[ \t]{1,4}[\"']?)(?P<assigned>[^\s\"';|&)]{3,256})"
    r")",
    re.ASCII,
)
_BEFORE: Final = {
    "argument": re.compile(
        r"(?:[sg]et_?env|putenv|\.get|setdefault|fetch|store|set_?property|\.put|\.set|\.add|header|define|set_var"
        rf"|setenvironmentvariable|{_FILL}|fill_in|By\.\w{{1,20}})(?:[ (]\s?(?:[\"'`]\s?,)?|,[ \t]?)"
        r"\\{0,15}[\"'`][^`\n()]{0,60}\Z",
        re.IGNORECASE | re.ASCII,
    ),
    "pair": re.compile(
        r"(?:name|key|field|id|type|header)\\{0,15}[\"']?[ \t]{0,4}[:=][ \t]{0,4}\\{0,15}[\"'][\w.:/ -]{0,80}\Z",
        re.IGNORECASE | re.ASCII,
    ),
    "row": re.compile(r"[\[,]\s{0,40}\[\s?\\{0,15}[\"'`][\w.-]{0,60}\Z", re.ASCII),
    "line": re.compile(r"(?:^|\n)[ \t-]{0,40}[\"']?[\w.-]{0,60}\Z", re.ASCII),
    "tag": re.compile(
        r"<[A-Za-z_][\w:.-]{0,60}\Z|<(?:name|key)>[\w.-]{0,60}\Z"
        r"|<(?:property|string|entry|param|parameter|setting|config|env|arg|item|prop|add)[ \t][^<>]{0,120}?"
        r"(?:name|key)[ \t]?=[ \t]?[\"'][\w.:/-]{0,80}\Z|<\Z",
        re.ASCII,
    ),
    "item": re.compile(r"(?:[Nn]ame|[Kk]ey)[ \t]?:[ \t]{1,4}[\"']?[\w.-]{0,80}\Z|Env:[\w.-]{0,80}\Z", re.ASCII),
    "set": re.compile(
        r"(?:^|[\s;&|\"'(])(?:set(?:[ \t]+-{1,2}[A-Za-z-]{1,20}){1,4}|setenv)[ \t]{1,4}[\w.]{0,60}\Z"
        r"|[ \t](?:fill|type)[ \t]{1,4}[\"'][^\"'\n]{0,60}\Z",
        re.ASCII,
    ),
}  # fmt: skip
_VALUE_FIRST: Final = re.compile(
    rf"{_VALUE_NAME}\\{{0,15}}[\"']?\s{{0,4}}[:=]\s{{0,4}}\\{{0,15}}[\"']([^\"'\\\n]{{3,256}})\\{{0,15}}[\"']"
    r"(?:[,;]\s{0,40}|\s{1,40})\\{0,15}[\"']?"
    r"(?i:name|key)\\{0,15}[\"']?\s{0,4}[:=]\s{0,4}\\{0,15}[\"'][\w.:/-]{0,80}\Z",
    re.ASCII,
)
_VALUES: Final = ("quoted", "element", "listed", "part", "block", "below", "assigned")


def place_of(text: str, at: int, behind: int) -> tuple[int, int] | None:
    """Return the place of the secret whose name begins at `at` and ends before `behind`."""
    found = _PLACE.match(text, behind)
    if found is not None:
        before = text[max(0, at - _BEFORE_CHARS) : at]
        if all(found[part] is None or needed.search(before) for part, needed in _BEFORE.items()):
            return found.span(next(name for name in _VALUES if found[name] is not None))
    if text[behind : behind + 1] in "\"'\\":
        first = max(0, at - _PAIR_CHARS)
        found = _VALUE_FIRST.search(text[first:at])
        if found is not None:
            return first + found.start(1), first + found.end(1)
    return None
