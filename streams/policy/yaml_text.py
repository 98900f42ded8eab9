"""A YAML reader for untrusted text with limits: no aliases, and bounded depth, values and characters.

A document of 300 bytes with recursive aliases takes gigabytes as a value; one of a million brackets takes a minute.
Invalid text is refused during reading, before any value is built, so reading ends, in any thread.
"""

import threading
from collections.abc import Sequence
from typing import Any, Final

import yaml

MAX_CHARS: Final = 1024 * 1024
"""The length limit of a text, in characters."""
MAX_DEPTH: Final = 32
MAX_NODES: Final = 10_000
"""The most keys and values of one document. PyYAML reads some thousands of them in a second."""
MAX_NUMBER_CHARS: Final = 64
"""The longest scalar that is not text, such as a number or a date: YAML has base-60 numbers of any length."""

_READING: Final = threading.Lock()
"""Serializes reading: PyYAML is Python code, and parallel reads would block the process's other work."""
_TEXT: Final = "tag:yaml.org,2002:str"


class BadYaml(ValueError):
    """A text cannot be read: why, and in which line if known."""

    def __init__(self, problem: str, line: int | None = None) -> None:
        super().__init__(problem if line is None else f"line {line}: {problem}")
        self.problem = problem
        self.line = line


def read(text: str) -> tuple[yaml.Node | None, Any]:
    """Return the document node of a text, and its value; both are None for an empty text.

    Raises:
        BadYaml: it is not YAML, or exceeds the limits of this module.

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
    # PyYAML's constructors raise various exceptions: `!!bool x` a KeyError, `!!int ""` an IndexError.
    except Exception as error:
        raise BadYaml(f"expected values that YAML has, got {error!r:.200}") from None


def value_of(text: str) -> Any:
    """Return only the value, like `read`."""
    return read(text)[1]


def line_of(node: yaml.Node, steps: Sequence[str]) -> int:
    """Return the line, from 1, of the deepest existing node on the path."""
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
    """A loader that composes nodes within the limits."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._nodes = 0
        self._depth = 0

    def compose_mapping_node(self, anchor: Any) -> yaml.MappingNode:
        """Refuse repeated names, of which YAML would silently take the last value."""
        node: yaml.MappingNode = super().compose_mapping_node(anchor)
        seen = set[str]()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode):
                if key.value in seen:
                    raise _refused(f"expected each name once, got {key.value!r} again", key)
                seen.add(key.value)
        return node

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


def _refused(problem: str, place: yaml.Event | yaml.Node) -> yaml.MarkedYAMLError:
    mark: Any = place.start_mark  # types-pyyaml has two classes of marks
    return yaml.MarkedYAMLError(problem=problem, problem_mark=mark)
