"""Policy documents in YAML or JSON: read, checked, and refused with the line that is wrong."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import orjson
import yaml
from pydantic import ValidationError

from haltline.detectors import catalogue
from haltline.detectors.framework.plugins import NO_PLUGINS, Plugins
from haltline.detectors.framework.settings import adapters
from haltline.schemas.policy import Policy
from haltline.schemas.problems import problem_of
from haltline.schemas.removed_rules import gone
from haltline.schemas.wire import VERSION
from haltline.streams.engine.core import Core
from haltline.streams.engine.effective_rules import without_effect
from haltline.streams.policy import presets, yaml_text


class BadPolicy(ValueError):
    """A policy document that cannot be used: which file and line, what was expected, what was given."""


def load_policy(path: Path, plugins: Plugins = NO_PLUGINS) -> Policy:
    """Reads and checks a policy document, its detectors' settings included; its preset is spelled out.

    Raises:
        BadPolicy: it is not YAML, a field is unknown or wrong, or a detector refuses its settings.
        OSError: the file cannot be read.

    """
    return parse_policy(read_file(path), str(path), plugins)


def read_file(path: Path) -> str:
    """The text of a document, as far as one is read.

    Raises:
        BadPolicy: it is no UTF-8.
        OSError: the file cannot be read.

    """
    with path.open("rb") as file:
        data = file.read(4 * yaml_text.MAX_CHARS + 1)
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise BadPolicy(f"{path}: expected UTF-8 text, got {error}") from None


def may_be_cut(text: str) -> bool:
    """Whether a document may be the beginning of one: its last line has no end, and no bracket closes all of it."""
    return not text.endswith("\n") and not (text.lstrip().startswith("{") and text.rstrip().endswith("}"))


def parse_policy(text: str, source: str = "policy", plugins: Plugins = NO_PLUGINS) -> Policy:
    """As `load_policy`, from text; `source` is named in errors, `plugins` are other packages' detectors."""
    root, fields = _read(text, source)
    if fields.get("v", VERSION) != VERSION:
        raise BadPolicy(f"{source}:{_line(root, ['v'])}: v: expected {VERSION}, got {fields['v']!r:.80}")
    try:
        # As JSON, and strictly: "3" is no number here, as it is none for the published schema.
        policy = Policy.model_validate_json(orjson.dumps(fields), strict=True)
        policy = presets.spell_out(policy)
        _check_types(policy, plugins)
        Core(policy, plugins)
    except ValidationError as error:
        problem = problem_of(error)
        raise BadPolicy(f"{source}:{_line(root, problem.steps)}: {problem.place}: {problem.text}") from error
    except orjson.JSONEncodeError as error:
        raise BadPolicy(f"{source}: expected values that JSON has, got {error}") from error
    except ValueError as error:
        # The rules name the place themselves: `rules.<id>.settings.<field>: ...`.
        steps = str(error).partition(":")[0].split(".")
        raise BadPolicy(f"{source}:{_line(root, steps)}: {error}") from error
    except Exception as error:  # a setting's own check, of whatever package, must not end who reads the document
        raise BadPolicy(f"{source}: expected a policy that can be used, got {error!r:.300}") from error
    return policy


def in_vain(policy: Policy, plugins: Plugins = NO_PLUGINS) -> list[str]:
    """What a policy says without effect, one line for each: rules that are gone, overrides that need an exemption."""
    return [*gone_rules(policy), *without_effect(policy, catalogue(policy, plugins))]


def gone_rules(policy: Policy) -> list[str]:
    """The rules of a policy that this release no longer has, one line for each place."""
    lines = gone("rules", policy.rules)
    for number, override in enumerate(policy.overrides):
        lines += gone(f"overrides.{number}.rules", override.rules)
    lines += gone("operations.probation.rules", policy.operated.probation.rules)
    return lines if policy.opinion is None else lines + gone("opinion.rules", policy.opinion.rules)


def _read(text: str, source: str) -> tuple[yaml.Node | None, dict[str, Any]]:
    try:
        root, fields = yaml_text.read(text)
    except yaml_text.BadYaml as bad:
        line = "" if bad.line is None else f":{bad.line}"
        raise BadPolicy(f"{source}{line}: not YAML: {bad.problem}") from None
    if fields is None:
        raise BadPolicy(f"{source}: expected a mapping of policy fields, got an empty document; {{}} is every default")
    if not isinstance(fields, dict):
        raise BadPolicy(f"{source}:1: expected a mapping of policy fields, got {type(fields).__name__}")
    _refuse_doubles(root, source)
    return root, _whole(fields)


def _refuse_doubles(node: yaml.Node | None, source: str) -> None:
    """YAML would take the last of two rules with one name, and say nothing."""
    if isinstance(node, yaml.MappingNode):
        keys = set()
        for key, value in node.value:
            if isinstance(key, yaml.ScalarNode):
                if key.value in keys:
                    raise BadPolicy(
                        f"{source}:{key.start_mark.line + 1}: expected each name once, got {key.value!r} again"
                    )
                keys.add(key.value)
            _refuse_doubles(value, source)
    elif isinstance(node, yaml.SequenceNode):
        for item in node.value:
            _refuse_doubles(item, source)


def _whole(value: Any) -> Any:
    """3.0 is the integer 3 for JSON Schema, whatever the parser makes of it; names are text."""
    if isinstance(value, dict):
        return {str(name): _whole(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_whole(item) for item in value]
    return int(value) if isinstance(value, float) and value.is_integer() and abs(value) < 2**53 else value


def _check_types(policy: Policy, plugins: Plugins) -> None:
    """Raises ValueError for a setting that a detector would take although its type is another."""
    known = catalogue(policy, plugins)
    named_rules = [(f"rules.{name}", name, rule) for name, rule in policy.rules.items()]
    for number, override in enumerate(policy.overrides):
        named_rules += [(f"overrides.{number}.rules.{name}", name, rule) for name, rule in override.rules.items()]
    for place, name, rule in named_rules:
        checks = adapters(known[name]) if name in known else {}  # what is not known is reported by the core
        for setting, value in rule.settings.items():
            if setting not in checks:
                continue
            try:
                checks[setting].validate_json(orjson.dumps(value), strict=True)
            except ValidationError as error:
                expected = error.errors()[0]["msg"].removeprefix("Input should be ")
                raise ValueError(f"{place}.settings.{setting}: expected {expected}, got {value!r:.120}") from None


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
