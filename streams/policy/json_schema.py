"""The JSON Schema of a policy document, with the settings of every rule."""

from copy import deepcopy
from typing import Any

from haltline.detectors import PATTERNS
from haltline.detectors.framework.base import Pattern
from haltline.detectors.framework.plugins import NO_PLUGINS, Plugins
from haltline.detectors.framework.setting_schema import descriptions, schema_of
from haltline.interventions.levels.default_levels import default_level, default_mode
from haltline.schemas.author_rules import PARTS as AUTHOR_PARTS
from haltline.schemas.author_rules import AuthorRules, CallRules
from haltline.schemas.correlation import Correlation, Selection
from haltline.schemas.findings import Severity
from haltline.schemas.intervening import PARTS as INTERVENTION_PARTS
from haltline.schemas.policy import (
    ApprovalRules,
    Exemption,
    Operations,
    Override,
    Policy,
    ProbationRules,
    Published,
    Rule,
    Tool,
)
from haltline.schemas.record import JsonObject
from haltline.schemas.removed_rules import REMOVED

_DESCRIBED = (
    Tool, Rule, Override, Exemption, Operations, ApprovalRules, ProbationRules, Published,
    Correlation, Selection, *INTERVENTION_PARTS, *AUTHOR_PARTS,
)  # fmt: skip


def policy_schema(plugins: Plugins = NO_PLUGINS) -> JsonObject:
    """Return the JSON Schema (2020-12) of policy documents, for completion and checks in editors.

    A document that it accepts can be loaded, except for errors that a schema cannot express: settings of a rule that
    must be in order, overrides that are only wrong together, correlations that do not fit their type, rules about
    unknown correlations, and texts that are not times. Of other packages' detectors it includes those of `plugins`.

    Raises:
        ValueError: a detector of another package cannot be used.

    """
    schema: JsonObject = Policy.model_json_schema(mode="validation")
    schema["$schema"] = "https://json-schema.org/draft/2020-12/schema"
    schema["title"] = "haltline policy"
    definitions = schema["$defs"]
    _describe(schema, Policy)
    for model in _DESCRIBED:
        _describe(definitions[model.__name__], model)
    _describe(definitions[AuthorRules.__name__], CallRules)
    any_rule = definitions.pop("Rule")
    detectors = (*PATTERNS.values(), *(plugins.find(name) for name in plugins.ids))
    rules = {detector.id: _rule(any_rule, detector, definitions) for detector in detectors}
    rules |= {name: any_rule | {"title": name, "deprecated": True, "description": "Gone."} for name in REMOVED}
    for holder in (schema, definitions["Override"], definitions["ProbationRules"]):
        holder["properties"]["rules"] |= {
            "properties": rules,
            "patternProperties": {"^correlation_[a-z][a-z0-9_]{0,63}$": any_rule},
            "additionalProperties": False,
        }
        holder["properties"]["rules"].pop("propertyNames", None)
    schema["properties"]["v"]["const"] = 1
    return schema


def _describe(schema: JsonObject, model: type) -> None:
    for name, text in descriptions(model).items():
        schema["properties"][name]["description"] = text


def _rule(any_rule: JsonObject, detector: type[Pattern[Any]], definitions: JsonObject) -> JsonObject:
    rule = deepcopy(any_rule)
    settings = schema_of(detector)
    definitions.update(settings.pop("$defs", {}))
    rule["title"] = detector.id
    rule["description"] = (
        f"{detector.__doc__ or ''}{' Runs only where a policy names it.' if detector.optional else ''}"
    )
    rule["properties"]["settings"] = settings
    rule["properties"]["mode"]["default"] = default_mode(detector.id).value
    levels = ", ".join(f"{severity.value} {default_level(detector.id, severity).value}" for severity in Severity)
    rule["properties"]["levels"]["description"] = f"What a finding of a severity leads to; left out: {levels}."
    return rule
