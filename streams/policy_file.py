"""Policy documents in YAML: read, checked, and refused with the line that is wrong."""

from collections.abc import Sequence
from pathlib import Path

import yaml
from pydantic import ValidationError

from haltline.schemas.policy import Policy
from haltline.streams.core import Core


class BadPolicy(Exception):
    """A policy document that cannot be used: which file and line, what was wanted, what came."""


def load_policy(path: Path) -> Policy:
    """Reads and checks a policy document, its detectors' settings included.

    Raises:
        BadPolicy: it is not YAML, a field is unknown or wrong, or a detector refuses its settings.
        OSError: the file cannot be read.

    """
    return parse_policy(path.read_text(encoding="utf-8"), str(path))


def parse_policy(text: str, source: str = "policy") -> Policy:
    """As `load_policy`, from text; `source` is named in errors."""
    try:
        root = yaml.compose(text, Loader=yaml.SafeLoader)
        fields = yaml.safe_load(text)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = f":{mark.line + 1}" if mark is not None else ""
        raise BadPolicy(f"{source}{line}: not YAML: {getattr(error, 'problem', None) or error}") from error
    if fields is None:
        fields = {}
    if not isinstance(fields, dict):
        raise BadPolicy(f"{source}:1: wanted a mapping of policy fields, got {type(fields).__name__}")
    try:
        policy = Policy.model_validate(fields)
        Core(policy)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(str(step) for step in first["loc"])
        line_number = _line(root, [str(step) for step in first["loc"]])
        raise BadPolicy(f"{source}:{line_number}: {place}: {first['msg']}, got {first['input']!r:.80}") from error
    except ValueError as error:
        # The detectors name the place themselves: `rules.<id>.settings.<field>: ...`.
        steps = str(error).partition(":")[0].split(".")
        raise BadPolicy(f"{source}:{_line(root, steps)}: {error}") from error
    return policy


def _line(node: yaml.Node | None, steps: Sequence[str]) -> int:
    """The line, from 1, of the deepest node on the way that is there."""
    if node is None:
        return 1
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
