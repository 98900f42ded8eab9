"""The loader of policy documents from a file, a mapping or text. Errors name the position."""

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson
from pydantic import ValidationError

from haltline.detectors import catalogue
from haltline.detectors.framework.plugins import NO_PLUGINS, Plugins
from haltline.detectors.framework.settings import adapters
from haltline.schemas.policy import Policy, PolicyDocument
from haltline.schemas.problems import problem_of
from haltline.schemas.removed_rules import gone
from haltline.schemas.wire import VERSION
from haltline.streams.engine.core import Core
from haltline.streams.engine.effective_rules import without_effect
from haltline.streams.engine.plugins import installed
from haltline.streams.policy import presets

if TYPE_CHECKING:
    import yaml

_NO_OPINIONS = (
    "opinion: second opinions are gone and the section has no effect: label sessions (`haltline label`), or set "
    "`mode: warn` for the rules"
)
_MAX_READ_BYTES = 4 * 1024 * 1024
"""The size limit of a file: the longest text in UTF-8. Longer files are refused without reading the rest."""


class BadPolicy(ValueError):
    """A policy document cannot be used: which file and line, what was expected, what was given."""


class UnreadablePolicy(BadPolicy):
    """A file cannot be read: which one, and why."""


@dataclass(frozen=True)
class _Document:
    """The fields of a document, with their positions."""

    source: str
    fields: Mapping[Any, Any]
    root: "yaml.Node | None" = None
    """The YAML node of a text, with the position of each field."""

    def at(self, steps: Sequence[str]) -> str:
        """Return the position of these fields: the document, and the line if it has lines."""
        if self.root is None:
            return self.source
        return f"{self.source}:{_yaml_text(self.source).line_of(self.root, steps)}"


def load_policy(document: PolicyDocument, plugins: Plugins | None = None) -> Policy:
    """Read and check a policy as `haltline policy check` does: its preset is expanded.

    A text is the path of a document. The settings of detectors and correlations are checked too; detectors of other
    packages are those of `plugins`, by default the installed ones.

    Raises:
        BadPolicy: the file cannot be read or is not YAML, a field is unknown or wrong, or a detector refuses its
            settings. It is a ValueError that names the position, what was expected and what was given.

    """
    return load_core(document, plugins).policy


def load_core(document: PolicyDocument, plugins: Plugins | None = None, *, alone: bool = False) -> Core:
    """Return the core of a policy: checked as by `load_policy`, built as `Core` is. Raises BadPolicy."""
    offered = installed() if plugins is None else plugins
    if isinstance(document, Policy):
        return _core(_Document("policy", {}), document, offered, alone=alone)
    if isinstance(document, (str, os.PathLike)):
        return _checked(_of_text(_text_of(Path(document)), str(document)), offered, alone=alone)
    if isinstance(document, Mapping):
        return _checked(_Document("policy", document), offered, alone=alone)
    raise BadPolicy(f"policy: expected a path, a mapping of policy fields or a Policy, got {type(document).__name__}")


def _text_of(path: Path) -> str:
    try:
        return read_file(path)
    except BadPolicy:
        raise
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path
        reason = error.strerror if isinstance(error, OSError) else error
        raise UnreadablePolicy(f"{path!s:.200}: expected a file that can be read, got {reason}") from None


def read_file(path: Path) -> str:
    """Return the text of a document, up to the size limit.

    Raises:
        BadPolicy: it is not UTF-8.
        OSError: the file cannot be read.

    """
    with path.open("rb") as file:
        data = file.read(_MAX_READ_BYTES + 1)
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise BadPolicy(f"{path}: expected UTF-8 text, got {error}") from None


def may_be_cut(text: str) -> bool:
    """Return whether a document may be truncated: its last line has no end, and no bracket encloses all of it."""
    return not text.endswith("\n") and not (text.lstrip().startswith("{") and text.rstrip().endswith("}"))


def parse_policy(text: str, source: str = "policy", plugins: Plugins = NO_PLUGINS) -> Policy:
    """Load a policy from text like `load_policy`; errors name `source`, `plugins` are other packages' detectors."""
    return _checked(_of_text(text, source), plugins).policy


def in_vain(policy: Policy, plugins: Plugins = NO_PLUGINS) -> list[str]:
    """Return the policy's settings without effect: removed parts, and each override that loosens, a line each."""
    removed = [] if policy.opinion is None else [_NO_OPINIONS]
    return [*removed, *gone(_rules_of(policy)), *without_effect(policy, catalogue(policy, plugins))]


def _rules_of(policy: Policy) -> Iterator[str]:
    """Yield the place of each rule that the policy names."""
    yield from (f"rules.{name}" for name in policy.rules)
    for number, override in enumerate(policy.overrides):
        yield from (f"overrides.{number}.rules.{name}" for name in override.rules)
    yield from (f"operations.probation.rules.{name}" for name in policy.operated.probation.rules)


def _checked(document: _Document, plugins: Plugins, *, alone: bool = False) -> Core:
    try:
        fields = _whole(document.fields)
        if fields.get("v", VERSION) != VERSION:
            raise BadPolicy(f"{document.at(['v'])}: v: expected {VERSION}, got {fields['v']!r:.80}")
        # As strict JSON: "3" is not a number, as in the published schema.
        policy = Policy.model_validate_json(orjson.dumps(fields), strict=True)
    except ValidationError as error:
        problem = problem_of(error)
        raise BadPolicy(f"{document.at(problem.steps)}: {problem.place}: {problem.text}") from error
    except (orjson.JSONEncodeError, RecursionError) as error:
        raise BadPolicy(f"{document.source}: expected values that JSON has, got {error}") from error
    return _core(document, policy, plugins, alone=alone)


def _core(document: _Document, policy: Policy, plugins: Plugins, *, alone: bool) -> Core:
    try:
        policy = presets.spell_out(policy)
        _check_types(policy, plugins)
        return Core(policy, plugins, alone=alone)
    except ModuleNotFoundError as error:
        if error.name != "yaml":
            raise BadPolicy(f"{document.source}: expected a policy that can be used, got {error!r:.300}") from error
        raise _no_yaml(document.source) from None
    except ValueError as error:
        # The rules' messages contain the position: `rules.<id>.settings.<field>: ...`.
        steps = str(error).partition(":")[0].split(".")
        raise BadPolicy(f"{document.at(steps)}: {error}") from error
    except Exception as error:  # a setting's check, of any package, must not crash the reader of the document
        raise BadPolicy(f"{document.source}: expected a policy that can be used, got {error!r:.300}") from error


def _of_text(text: str, source: str) -> _Document:
    yaml_text = _yaml_text(source)
    try:
        root, fields = yaml_text.read(text)
    except yaml_text.BadYaml as bad:
        line = "" if bad.line is None else f":{bad.line}"
        raise BadPolicy(f"{source}{line}: not YAML: {bad.problem}") from None
    if fields is None:
        raise BadPolicy(f"{source}: expected a mapping of policy fields, got an empty document; {{}} is every default")
    if not isinstance(fields, dict):
        raise BadPolicy(f"{source}:1: expected a mapping of policy fields, got {type(fields).__name__}")
    return _Document(source, fields, root)


def _yaml_text(source: str) -> Any:
    """Return the YAML reader. It is imported only for text: an agent with a mapping as policy needs no YAML."""
    try:
        from haltline.streams.policy import yaml_text  # noqa: PLC0415 - see above
    except ModuleNotFoundError:
        raise _no_yaml(source) from None
    return yaml_text


def _no_yaml(source: str) -> BadPolicy:
    return BadPolicy(f"{source}: expected PyYAML, which reads policy documents, got none: pip install pyyaml")


def _whole(value: Any) -> Any:
    """Return floats such as 3.0 as integers, as JSON Schema does for any parser; names become text."""
    if isinstance(value, Mapping):
        return {str(name): _whole(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_whole(item) for item in value]
    return int(value) if isinstance(value, float) and value.is_integer() and abs(value) < 2**53 else value


def _check_types(policy: Policy, plugins: Plugins) -> None:
    """Raise ValueError for a setting of the wrong type that a detector would accept."""
    known = catalogue(policy, plugins)
    named_rules = [(f"rules.{name}", name, rule) for name, rule in policy.rules.items()]
    for number, override in enumerate(policy.overrides):
        named_rules += [(f"overrides.{number}.rules.{name}", name, rule) for name, rule in override.rules.items()]
    for place, name, rule in named_rules:
        checks = adapters(known[name]) if name in known else {}  # the core reports unknown rules
        for setting, value in rule.settings.items():
            if setting not in checks:
                continue
            try:
                checks[setting].validate_json(orjson.dumps(value), strict=True)
            except ValidationError as error:
                expected = error.errors()[0]["msg"].removeprefix("Input should be ")
                raise ValueError(f"{place}.settings.{setting}: expected {expected}, got {value!r:.120}") from None
