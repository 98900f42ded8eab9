"""The rules that the console enforces for Agent Sentinel's SDK, in one file: rules, approvals and budgets."""

import os
import tomllib
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated, Any, Final

from pydantic import Field

from haltline.interventions.agent.rules.settings import Arguments, ClientRules, Glob, RateLimit, Usd
from haltline.schemas.problems import problem_of
from haltline.schemas.record import Part
from haltline.streams.policy.yaml_text import BadYaml, value_of

NOTHING: Final = "nothing-is-allowed"
"""A non-existent action: to the SDK, an empty list of allowed actions means no restriction."""


class ApprovalsWanted(Part):
    """The calls that need a person's approval first."""

    actions: tuple[Glob, ...] = ()
    tags: tuple[str, ...] = ()
    risk_levels: tuple[str, ...] = ()
    threshold_usd: Usd | None = None
    """Calls with at least this cost."""
    timeout_s: Annotated[int, Field(ge=1, le=86_400)] = 3600

    def __bool__(self) -> bool:
        return bool(self.actions or self.tags or self.risk_levels or self.threshold_usd is not None)

    def why(self, action: str, cost_usd: float) -> str | None:
        """Why a call needs approval, by its name and cost; None: it does not."""
        matching = next((glob for glob in self.actions if fnmatchcase(action, glob)), None)
        if matching is not None:
            return f"{action} matches {matching}, which needs an approval"
        if self.threshold_usd is not None and cost_usd >= self.threshold_usd:
            return f"{cost_usd:g} USD, and from {self.threshold_usd:g} USD on an approval is required"
        return None


class Budgets(Part):
    """Spending limits per calendar month (UTC), besides the rules' budgets of a run."""

    monthly_usd: Usd | None = None
    """For all agents together."""
    groups: Annotated[dict[Glob, Usd], Field(max_length=1024)] = Field(default_factory=dict)
    """For each group with a matching id; a group is an argument of the SDK's `CostTracker`."""


class ConsoleRules(Part):
    """All of the rules; nothing is limited by default."""

    rules: ClientRules = ClientRules()
    approvals: ApprovalsWanted = ApprovalsWanted()
    budgets: Budgets = Budgets()

    @classmethod
    def from_file(cls, file: str | os.PathLike[str]) -> "ConsoleRules":
        """Read a TOML file (`*.toml`), or one in YAML or JSON. Raises ValueError, which names the file, and OSError."""
        path = Path(file)
        try:
            text = path.read_text(encoding="utf-8")
            document = tomllib.loads(text) if path.suffix == ".toml" else value_of(text)
            return cls.model_validate(document if document is not None else {})
        except BadYaml as error:
            raise ValueError(f"{path}: expected rules in YAML, JSON or TOML, got {error}") from error
        except ValueError as error:
            problem = problem_of(error) if hasattr(error, "errors") else error  # type: ignore[arg-type]
            raise ValueError(f"{path}: expected rules, approvals and budgets: {problem}") from error

    def for_sdk(self, known: frozenset[str]) -> dict[str, Any]:
        """The rules in the fields of Agent Sentinel's policies.

        The SDK compares names and has no globs, so a glob is sent together with the `known` actions that match it. The
        SDK keeps one limit per action: the strictest of several.
        """
        rules = self.rules

        def named(glob: str) -> list[str]:
            return [glob, *sorted(action for action in known if action != glob and fnmatchcase(action, glob))]

        def spread(by_glob: dict[str, Any]) -> dict[str, Any]:
            return {action: value for glob, value in reversed(by_glob.items()) for action in named(glob)} | by_glob

        lists = [globs for globs in (rules.allowed_actions, *rules.also_allowed) if globs is not None]
        allowed = [a for a in dict.fromkeys(n for globs in lists[:1] for g in globs for n in named(g)) if _on(a, lists)]
        document: dict[str, Any] = {
            "session_budget": rules.session_budget,
            "run_budget": rules.run_budget,
            "action_budgets": spread(rules.action_budgets),
            "denied_actions": list(dict.fromkeys(n for g in rules.denied_actions for n in named(g))),
            "allowed_actions": allowed or ([NOTHING] if lists else None),
            "rate_limits": spread({glob: _strictest(limits) for glob, limits in rules.rate_limits.items()}),
            "argument_constraints": spread({g: _merged(parts) for g, parts in rules.argument_constraints.items()}),
            "evidence_requirements": spread({g: list(of) for g, of in rules.evidence_requirements.items()}),
            "evidence_max_age_seconds": spread(dict(rules.evidence_max_age_seconds)),
        }
        approvals = self.approvals
        if approvals:
            document |= {
                "require_approval": True,
                "approval_actions": list(dict.fromkeys(n for g in approvals.actions for n in named(g))),
                "approval_tags": list(approvals.tags),
                "approval_risk_levels": list(approvals.risk_levels),
                "approval_threshold_usd": approvals.threshold_usd,
                "approval_timeout_seconds": approvals.timeout_s,
            }
        return {name: value for name, value in document.items() if value not in (None, [], {})}


def _on(action: str, lists: list[tuple[str, ...]]) -> bool:
    return all(any(fnmatchcase(action, glob) for glob in globs) for globs in lists)


def _strictest(limits: tuple[RateLimit, ...]) -> dict[str, int]:
    least = min(limits, key=lambda limit: limit.max_count / limit.window_seconds)
    return {"max_count": least.max_count, "window_seconds": max(1, round(least.window_seconds))}


def _merged(parts: tuple[Arguments, ...]) -> dict[str, Any]:
    """Merged constraints of arguments; if several differ, the last one counts."""
    properties: dict[str, dict[str, Any]] = {}
    for part in parts:
        for name, constraint in part.properties.items():
            merged = constraint.model_dump(mode="json", exclude_none=True)
            longest = merged.pop("max_length", None)
            if longest is not None:  # the SDK supports expressions only
                merged.setdefault("pattern", rf"\A[\s\S]{{0,{longest}}}\Z")
            properties.setdefault(name, {}).update(merged)
    return {
        "type": "object",
        "required": list(dict.fromkeys(name for part in parts for name in part.required)),
        "properties": properties,
    }
