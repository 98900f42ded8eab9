"""Texts in place of a secret: variables, templates, attributes, and placeholders of documentation."""

from typing import Final

from haltline.schemas import expressions as re

_TELLS: Final = r"(?i:pass|pw|token|secret|key|cred|auth)"

# Code that refers to a secret without containing it: a call, an attribute, a type's name, a variable, a template.
_CODE: Final = re.compile(
    r"^(?:[A-Za-z_][A-Za-z0-9_.]{0,80}\(|(?:self|this|cls|os|req|request|settings|config|args|options|opts|kwargs|process|params|data|env"
    r"|ctx|user|form|cleaned_data|validated_data|fake|var|local|module|vars|inputs|steps|each|props|state)[.?]"
    r"|(?:str|string|String|int|bool|Optional|bytes|Any|object|char|Text"
    r"|unicode|basestring|SecretStr|undefined|number|boolean|required|optional|input|self|value|varchar|VARCHAR)"
    r"(?:[|)\].!?]|\Z)|\.\.\.|\*+\Z|\(|\)|=|\||/\*|--|#|\+|->|x{3,}\Z|X{3,}\Z"
    r"|\$(?:env:|[({]|[A-Z_][A-Z0-9_]*(?![A-Za-z0-9])|[a-z_]*(?:pass|pw|token|secret|key|cred|auth)[a-z_]*(?![A-Za-z0-9]))"
    r"|[{<]|%[({]|%[A-Za-z_]+%\Z|!{1,2}[A-Za-z_]+\Z|\?|(?:null|none|nil|true|false|undefined|None|True|False)[)}\]]*\Z)"
)
# `password=db_password`, `token: accessToken`, `password = aws_db_instance.main.password`
_IDENTIFIER: Final = re.compile(
    rf"^(?:(?=[A-Za-z_.]*{_TELLS})(?:[a-z]+(?:[_.][a-z]+)+|[a-z]+(?:[A-Z][a-z]+)+)[)}}\]]*\Z"
    rf"|(?=[a-z_.A-Z]*{_TELLS})(?:[a-z_]+\.)+[A-Za-z_]+[)}}\]]*\Z)",
    re.ASCII,
)
_PLACEHOLDER: Final = re.compile(
    rf"^(?:(?=[a-z_. -]{{0,80}}{_TELLS})(?:your|my|the|insert|enter|replace|put|paste|add|example|dummy|sample|some)"
    r"(?:[_. -][a-z]+)+\W{0,2}\Z"
    r"|(?:change|replace)[_ -]me\Z|placeholder\Z|(?:[a-z]{2,9}[_-]){1,3}(?:x{3,}|\*{3,}|\.{3})"
    r"|(?:key|token|password|secret|pass)\Z)",
    re.IGNORECASE | re.ASCII,
)
_CONSTANT: Final = re.compile(r"^(?=[A-Z_]*(?:PASS|PW|TOKEN|SECRET|KEY|CRED|AUTH))[A-Z]+(?:_[A-Z]+)+\Z")
_IN_FORM: Final = re.compile(r"x{6}|X{6}|\*{4}|\.\.\.|[Yy](?:our|OUR)[_-]|(?i:[_-](?:here|placeholder))\Z")
_IN_ADDRESS: Final = re.compile(
    r"^(?:(?:\$[A-Za-z_][A-Za-z0-9_]*|\$?\{[^}]*\}?\}?|%s|%\([^)]*\)s|\*+|x+|X+|password|PASSWORD|pass|PASS|passwd|pwd|secret|token|TOKEN)"
    r"|(?i:your[_-][a-z_-]+)|\[redacted:.*)",
    re.ASCII,
)
_TEMPLATE: Final = re.compile(
    r"^(?:\$?\{\{[^{}]+\}\}|\$\{[^{}]+\}|\$[A-Z_][A-Z0-9_]*|<[A-Za-z][A-Za-z _-]*>|%[A-Z_]+%)", re.ASCII
)
_COUNT: Final = re.compile(r"^[0-9]{1,5}(?:\.[0-9]{1,3})?[kKmM]?\Z")
"""A number of tokens."""
_FORM_CHARS: Final = 200


def is_stand_in(value: str, name: str, *, quoted: bool) -> bool:
    """Return whether the value under a secret's name is no secret."""
    if _CODE.match(value) is not None or value.strip("():.,").lower() in (name, name.replace("_", "")):
        return True
    if not quoted and _IDENTIFIER.match(value) is not None:
        return True
    if name == "token" and _COUNT.match(value) is not None:
        return True
    return _PLACEHOLDER.match(value) is not None or _CONSTANT.match(value) is not None


def is_stand_in_form(secret: str) -> bool:
    """Return whether a text of a secret's form is a placeholder such as `sk-xxxxxxxx`."""
    return len(secret) <= _FORM_CHARS and _IN_FORM.search(secret) is not None


def is_password_set(secret: str) -> bool:
    """Return whether `user:password` of an address has a password, not a variable or a template."""
    return _IN_ADDRESS.fullmatch(secret.partition(":")[2]) is None


def is_template(value: str) -> bool:
    """Return whether a field's whole value is a variable or a template."""
    return _TEMPLATE.fullmatch(value) is not None
