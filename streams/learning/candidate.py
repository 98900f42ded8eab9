"""A learned model in a policy document: first beside the one in force, then replacing it. Pure."""

from typing import Any

import yaml
from pydantic import TypeAdapter

from haltline.detectors.features.additive_model import Model
from haltline.detectors.session.stagnation import Stagnation
from haltline.detectors.session.stagnation_candidate import StagnationCandidate
from haltline.schemas.decisions import Mode
from haltline.schemas.policy import Policy, Rule

_IN_FORCE, _TRIED = Stagnation.id, StagnationCandidate.id


def with_candidate(policy: Policy, model: Model) -> Policy:
    """Return the policy with the model in shadow beside the one in force: same thresholds, same levels."""
    rule = policy.rules.get(_IN_FORCE, Rule())
    settings = rule.settings | {"model": TypeAdapter(Model).dump_python(model, mode="json")}
    tried = Rule(mode=Mode.SHADOW, settings=settings, **({"levels": rule.levels} if rule.levels else {}))
    return next_version(policy, policy.rules | {_TRIED: tried})


def promoted(policy: Policy) -> Policy:
    """Return the policy with the candidate's model in force, and without the candidate.

    Raises:
        ValueError: the document has no candidate with a model.

    """
    tried = policy.rules.get(_TRIED, Rule())
    if "model" not in tried.settings:
        raise ValueError(f"rules.{_TRIED}.settings.model: expected a model, as haltline learn writes it, got none")
    rules = {name: rule for name, rule in policy.rules.items() if name != _TRIED}
    rule = rules.get(_IN_FORCE, Rule())
    settings = rule.settings | {"model": tried.settings["model"]}
    return next_version(policy, rules | {_IN_FORCE: rule.model_copy(update={"settings": settings})})


def document(policy: Policy) -> str:
    """Return the policy as YAML, with only the fields that are set."""
    fields: dict[str, Any] = policy.model_dump(mode="json", exclude_unset=True, exclude={"published", "preset"})
    return yaml.safe_dump(fields, sort_keys=False, default_flow_style=None, width=120)


def next_version(policy: Policy, rules: dict[str, Rule]) -> Policy:
    """Return the policy with these rules, and the next version if it has one: each published document has its own."""
    version = {"version": policy.version + 1} if "version" in policy.model_fields_set else {}
    return policy.model_copy(update={**version, "rules": rules})
