"""YAML from outside, read within bounds: no aliases, so deep, so many values, so many characters.

A document of 300 bytes whose aliases name each other is gigabytes as a value; one of a million brackets takes a minute.
What is refused is refused where it is read, before anything is built: so reading ends, in whatever thread it is done.
"""

import threading
from collections.abc import Sequence
from typing import Any, Final

import yaml

MAX_CHARS: Final = 1024 * 1024
"""The longest text that is read."""
MAX_DEPTH: Final = 32
MAX_NODES: Final = 10_000
"""Keys and values of one document. PyYAML reads some thousands of them in a second."""
MAX_NUMBER_CHARS: Final = 64
"""Of a number, a date or whatever else is no text: YAML has numbers to the base of 60, of any length."""

_READING: Final = threading.Lock()
"""One text at a time: PyYAML is Python, and several would take the interpreter from whatever else a process does."""
_TEXT: Final = "tag:yaml.org,2002:str"


class BadYaml(ValueError):
    """A text that is not read: why, and in which line, where that is known."""

    def __init__(self, problem: str, line: int | None = None) -> None:
        super().__init__(problem if line is None else f"line {line}: {problem}")
        self.problem = problem
        self.line = line


def read(text: str) -> tuple[yaml.Node | None, Any]:
    """The document of a text, and its value; of an empty one both are None.

    Raises:
        BadYaml: it is not YAML, or beyond the bounds of this module.

    """
    if len(text) > MAX_CHARS:
        raise BadYaml(f"expected at most {MAX_CHARS} characters, got {len(text)}")
    try:
        with _READING:
            loader = _Loader(text)
            root = loader.get_single_node()
            return root, None if root is None else loader.construct_document(root)
    except yaml.MarkedYAMLError as error:
        line = None if error.problem_mark is None else error.problem_mark.line + 1
        raise BadYaml(error.problem or str(error), line) from None
    # PyYAML's constructors raise what they happen to: `!!bool x` a KeyError, `!!int ""` an IndexError.
    except Exception as error:
        raise BadYaml(f"expected values that YAML has, got {error!r:.200}") from None


def value_of(text: str) -> Any:
    """As `read`, the value alone."""
    return read(text)[1]


def refuse_doubles(node: yaml.Node | None) -> None:
    """YAML would take the last of two values with one name, without an error. Raises BadYaml."""
    if isinstance(node, yaml.MappingNode):
        keys = set()
        for key, value in node.value:
            if isinstance(key, yaml.ScalarNode):
                if key.value in keys:
                    raise BadYaml(f"expected each name once, got {key.value!r} again", key.start_mark.line + 1)
                keys.add(key.value)
            refuse_doubles(value)
    elif isinstance(node, yaml.SequenceNode):
        for item in node.value:
            refuse_doubles(item)


def line_of(node: yaml.Node, steps: Sequence[str]) -> int:
    """The line, from 1, of the deepest node on the way that is there."""
    line: int = node.start_mark.line + 1
    for step in steps:
        if isinstance(node, yaml.MappingNode):
            found = next(((key, value) for key, value in node.value if key.value == step), None)
            if found is None:
                return line
            key, node = found
            line = key.start_mark.line + 1
        elif isinstance(node, yaml.SequenceNode) and step.isdigit() and int(step) < len(node.value):
            node = node.value[int(step)]
            line = node.start_mark.line + 1
        else:
            return line
    return line


class _Loader(yaml.SafeLoader):
    """Composes nodes within the bounds."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._nodes = 0
        self._depth = 0

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        event: yaml.Event = self.peek_event()  # type: ignore[no-untyped-call]  # types-pyyaml has none
        self._nodes += 1
        if isinstance(event, yaml.AliasEvent):
            raise _refused("expected a value, got an alias; aliases are not read", event)
        if self._nodes > MAX_NODES:
            raise _refused(f"expected at most {MAX_NODES} keys and values, got more", event)
        if self._depth >= MAX_DEPTH:
            raise _refused(f"expected at most {MAX_DEPTH} levels, got more", event)
        self._depth += 1
        node: yaml.Node | None = super().compose_node(parent, index)
        self._depth -= 1
        if isinstance(node, yaml.ScalarNode) and node.tag != _TEXT and len(node.value) > MAX_NUMBER_CHARS:
            raise _refused(f"expected a number of at most {MAX_NUMBER_CHARS} characters, got {len(node.value)}", event)
        return node


def _refused(problem: str, event: yaml.Event) -> yaml.MarkedYAMLError:
    mark: Any = event.start_mark  # types-pyyaml knows of two classes of marks
    return yaml.MarkedYAMLError(problem=problem, problem_mark=mark)
