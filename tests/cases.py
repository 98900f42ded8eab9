"""Parameter tables of cases; each case starts with its test id."""

from collections.abc import Mapping

import pytest


def cases(names: str, rows: Mapping[str, object]) -> pytest.MarkDecorator:
    """Run a test once for each row: `{"what it shows": values}`, with `names` of the values as "events, found".

    Values are a tuple, or the value itself where there is only one name. As `pytest.mark.parametrize`, whose ids come
    last.
    """
    single = "," not in names
    values = [pytest.param(*((row,) if single else row), id=shows) for shows, row in rows.items()]  # type: ignore[misc]  # a tuple
    return pytest.mark.parametrize(names, values)
