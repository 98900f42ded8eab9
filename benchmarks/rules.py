"""The rules that the engines of a measurement run."""

from collections.abc import Sequence
from pathlib import Path

import yaml

from haltline.detectors import PATTERNS
from haltline.schemas.policy import Policy, Rule

CORE = ("destructive_repeat", "destructive_volume", "error_repetition", "resource_growth")
"""The first rules, for which throughput has targets: destruction, repeated errors, growth."""


def only(rules: Sequence[str]) -> Policy:
    """The default policy with these rules only; without names, with every rule."""
    off = {name: Rule(enabled=False) for name in PATTERNS if rules and name not in rules}
    return Policy(name="bench", rules=off)


def document(rules: Sequence[str], folder: Path) -> Path:
    """Write such a policy as a file for `--policy`."""
    file = folder / f"bench-policy-{len(rules)}.yaml"
    file.parent.mkdir(exist_ok=True)
    off = {name: {"enabled": False} for name in only(rules).rules}
    file.write_text(yaml.safe_dump({"name": "bench", "rules": off}))
    return file
