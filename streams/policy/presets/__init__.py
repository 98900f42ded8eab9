"""Policies to begin with, as data beside this file; a document that names one is spelled out when it is loaded."""

from functools import cache
from importlib.resources import files

from haltline.schemas.policy import Policy, Preset, Rule


def spell_out(policy: Policy) -> Policy:
    """The policy with the rules of its preset written into it; what the document says itself comes before them.

    What is in force is then in the document, whole: another release with another preset changes nothing in it.
    """
    if policy.preset is None:
        return policy
    begun = read(policy.preset)
    rules = {name: _over(begun.rules.get(name, Rule()), rule) for name, rule in policy.rules.items()}
    fields = {name: getattr(begun, name) for name in begun.model_fields_set - policy.model_fields_set}
    return policy.model_copy(update={**fields, "rules": {**begun.rules, **rules}, "preset": None})


@cache
def read(preset: Preset) -> Policy:
    """What a preset says: a policy that is only in part filled in."""
    import yaml  # noqa: PLC0415 - an agent whose policy names no preset needs no YAML

    text = (files(__name__) / f"{preset.value}.yaml").read_text(encoding="utf-8")
    return Policy.model_validate(yaml.safe_load(text) or {})


def _over(begun: Rule, rule: Rule) -> Rule:
    fields = {name: getattr(rule, name) for name in rule.model_fields_set}
    merged = {"settings": {**begun.settings, **rule.settings}, "levels": {**begun.levels, **rule.levels}}
    return begun.model_copy(update={**fields, **merged})
