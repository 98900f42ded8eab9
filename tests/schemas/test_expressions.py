"""The time of every expression over text from outside grows no faster than the text."""

import ast
import functools
import importlib
import inspect
import re
import signal
import time
from collections import defaultdict
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from types import FrameType
from typing import Any, Final

import pytest

import haltline
from haltline.interventions.agent.redaction.forms import TABLE, _form_of, behind_word
from haltline.schemas import expressions
from tests.schemas.expression_texts import text, units

ROOT: Final = Path(haltline.__file__).parent
KINDS: Final = "kinds.json"
ROWS: Final = "haltline.detectors.commands.effects.rows"
USED: Final = "import expressions as re"
SHORT: Final = 500
"""Characters of the shortest text; the longest has 64 times as many."""
SLOW_S: Final = 0.05
QUICK_S: Final = SLOW_S / 16**2
"""What takes no longer for four times the shortest text is quick with the longest one, even if it is quadratic."""
ENDLESS_S: Final = 4.0
LINEAR: Final = 3
"""The growth of time for twice the text that is no longer taken for linear: quadratic is 4."""


class Endless(Exception):
    """A text took longer than any that is read in linear time."""


def modules() -> Iterator[str]:
    """The names of those that can have an expression, by their texts: nothing is imported before a test runs."""
    for file in sorted(ROOT.glob("*/**/*.py")):
        if USED in file.read_text(encoding="utf-8"):
            yield ".".join(file.relative_to(ROOT.parent).with_suffix("").parts).removesuffix(".__init__")


@functools.cache
def registered() -> dict[str, list[re.Pattern[Any]]]:
    """Every expression, by its module: those that it compiles, when it is loaded or first used, and those in calls."""
    found: dict[str, list[re.Pattern[Any]]] = defaultdict(list)
    for name in modules():
        module = importlib.import_module(name)
        for value in vars(module).values():
            if isinstance(value, functools._lru_cache_wrapper) and not inspect.signature(value).parameters:
                value()
        found[name] += _in_calls(Path(str(module.__file__)))
    for expression, name in expressions.compiled.items():
        if name != ROWS:  # their conditions: tests/detectors/commands/test_rows.py
            found[name].append(expression)
    of_kinds = *(_form_of(row).pattern for row in TABLE["forms"]), *map(behind_word, TABLE["beside"])
    found[KINDS] = [re.compile(one) for one in of_kinds]
    return found


def _in_calls(file: Path) -> Iterator[re.Pattern[Any]]:
    for call in ast.walk(ast.parse(file.read_bytes())):
        match call:
            case ast.Call(ast.Attribute(ast.Name("re"), name), [ast.Constant(pattern), *_]) if name != "compile":
                yield re.compile(pattern, re.IGNORECASE if "IGNORECASE" in ast.unparse(call) else 0)


@functools.cache
def matched_whole() -> set[Any]:
    """The patterns of the expressions that modules match with whole texts; all of a module if it names none."""
    found: set[Any] = set()
    for name in modules():
        module = importlib.import_module(name)
        calls = re.findall(r"(\w+)\.fullmatch\b", Path(str(module.__file__)).read_text(encoding="utf-8"))
        named = [getattr(module, call, None) for call in calls if call != "re"]
        if all(isinstance(one, re.Pattern) for one in named):
            found |= {one.pattern for one in named if isinstance(one, re.Pattern)}
        else:
            found |= {one.pattern for one in registered()[name]}
    return found


def seconds(expression: re.Pattern[Any], text: Any, *, whole: bool) -> float:
    """Return the least processor time of three to find everything in a text, and to match it as a whole."""

    def stop(_: int, __: FrameType | None) -> None:
        raise Endless

    def once() -> float:
        start = time.process_time()
        for _ in expression.finditer(text):
            pass
        if whole:
            expression.fullmatch(text)
        return time.process_time() - start

    before = signal.signal(signal.SIGVTALRM, stop)
    try:
        signal.setitimer(signal.ITIMER_VIRTUAL, ENDLESS_S)
        first = once()
        return first if first < QUICK_S else min(first, once(), once())
    except Endless:
        return ENDLESS_S
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


def slow_texts(expression: re.Pattern[Any], *, whole: bool) -> Iterator[tuple[str, str]]:
    """Yield the beginnings and units of texts for which the expression's time grows faster than the text."""
    written = expression.pattern if isinstance(expression.pattern, str) else expression.pattern.decode("latin-1")

    def of(length: int) -> float:
        one = text(start, unit, length)
        given = one if isinstance(expression.pattern, str) else one.encode("latin-1", "replace")
        return seconds(expression, given, whole=whole)

    for start, unit in units(written, expression.flags):
        if (soon := of(4 * SHORT)) < QUICK_S or soon < 2 * LINEAR * of(SHORT):
            continue
        if all(grows([of(length * SHORT) for length in (16, 32, 64)]) for _ in range(2)):  # once may be by chance
            yield start, unit


def grows(times: list[float]) -> bool:
    """Return whether times, each for twice the text, grow faster than the text."""
    grown = all(after > LINEAR * before for before, after in pairwise(times))
    return times[-1] >= ENDLESS_S or (times[-1] > SLOW_S and grown)


@pytest.mark.wide  # each expression of the product, a minute of a processor
@pytest.mark.parametrize("module", [*modules(), KINDS])
def test_expressions_take_time_linear_in_the_text(module: str) -> None:
    assert registered().keys() == {*modules(), KINDS}
    slow = {
        one.pattern: found
        for one in registered()[module]
        if (found := next(slow_texts(one, whole=one.pattern in matched_whole()), None))
    }
    assert slow == {}
