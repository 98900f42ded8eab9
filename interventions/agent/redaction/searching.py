"""Searches by regular expressions with the fast engine in Rust that pydantic includes."""

from collections.abc import Callable, Iterable
from functools import cache
from typing import Final

from pydantic_core import SchemaValidator
from pydantic_core.core_schema import str_schema

from haltline.schemas import expressions as re

_LOOKS: Final = {
    r"(?<![\s\S])": "^",
    r"(?![\s\S])": "$",
    r"(?<![\w.-])": r"(?:^|[^\w.-])",
    r"(?<![A-Za-z0-9])": "(?:^|[^A-Za-z0-9])",
    r"(?![\w-])": r"(?:$|[^\w-])",
}
"""Rust's have no lookaround. To test for a match only, the adjacent letter may be included."""


def search_any(patterns: Iterable[str]) -> Callable[[str], bool]:
    """Return a function that tests a text for any of these Rust expressions; False for lone surrogates.

    The same one for the same expressions: it becomes faster as it is used, because the engine keeps its states.
    """
    return _search("|".join(patterns))


@cache
def _search(pattern: str) -> Callable[[str], bool]:
    return SchemaValidator(str_schema(pattern=pattern)).isinstance_python


def searching(form: re.Pattern[str]) -> Callable[[str], bool]:
    """Return a test like `form.search`, for an ASCII expression whose lookarounds are among `_LOOKS`."""

    @cache
    def quick() -> Callable[[str], bool]:  # compiled on first use, as it takes milliseconds
        pattern = form.pattern
        for look, instead in _LOOKS.items():
            pattern = pattern.replace(look, instead)
        ignores = "(?i)" if form.flags & re.IGNORECASE else ""
        return search_any([f"{ignores}{pattern}"])

    return lambda text: quick()(text) if text.isascii() else form.search(text) is not None
