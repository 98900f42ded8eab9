"""Documents with random invalid content."""

from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st

ODD: st.SearchStrategy[object] = st.sampled_from(
    [None, True, 0, -1, 2**70, 1e300, "", "x", "2025-13-41", [], {}, [[]], [None], {"a": {"b": 1}}, "[{"]
)


def mangled(value: Any, draw: Callable[[Any], Any], odd: st.SearchStrategy[object] = ODD) -> Any:
    """The same with something odd at one place."""
    if isinstance(value, dict) and value and draw(st.integers(0, 5)):
        name = draw(st.sampled_from(sorted(value)))
        return value | {name: mangled(value[name], draw, odd)}
    if isinstance(value, list) and value and draw(st.integers(0, 5)):
        index = draw(st.integers(0, len(value) - 1))
        return [*value[:index], mangled(value[index], draw, odd), *value[index + 1 :]]
    return draw(odd)
