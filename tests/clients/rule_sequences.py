"""The results of Python's rules, step by step, for random calls with fixed seeds; and records of its spool."""

import json
import random
import tempfile
from pathlib import Path
from typing import Any, Final

from haltline.interventions.agent.rules.book import RuleBook, RuleTicket
from haltline.interventions.agent.rules.objection import Objection
from haltline.interventions.agent.rules.settings import ClientRules
from haltline.interventions.agent.transport.disk_spool import DiskSpool
from tests.clients.enforcer_sequences import NOW_MS

_STEPS: Final = 60
RULES: Final[tuple[dict[str, Any], ...]] = (
    {"session_budget": 1.0, "action_budgets": {"get_*": 0.3}, "prices": {"*": 0.1, "get_as?et": 0.05},
     "budget_warning_thresholds": [50, 80]},
    {"run_budget": 0.5, "prices": {"run": 0.2}, "denied_actions": ["drop_*", "[!a-z]*"], "strict_mode": False},
    {"allowed_actions": ["get_*", "run", "*__run", "delete_asset"], "denied_actions": ["*.delete_asset", "x[]a]y"]},
    {"rate_limits": {"run": {"max_count": 2, "window_seconds": 3}, "get_*": [{"max_count": 4, "window_seconds": 9},
     {"max_count": 3, "window_seconds": 2}], "dropTable": {"max_count": 0, "window_seconds": 1}}},
    {"loop_rules": [{"threshold": 3, "window_seconds": 4, "arg_exclude": ["note"]}, {"action": "run", "threshold": 2}]},
    {"evidence_requirements": {"delete_*": ["get_*", "run"], "run": ["get_asset"]},
     "evidence_max_age_seconds": {"delete_*": 4}},
    {"argument_constraints": {"run": {"required": ["a"], "properties": {"a": {"type": "integer", "minimum": 1,
     "maximum": 7.5}, "note": {"pattern": "^[\\w ]{2,}$", "max_length": 3}}}, "*": [{"properties": {"a": {"enum":
     [1, "x", [1]]}}}, {"properties": {"list": {"type": "array", "max_length": 1}, "n": {"minimum": 0}}}]}},
    {"argument_constraints": {"*": {"properties": {"a": {"type": "number"}, "note": {"type": "string"},
     "list": {"type": "object"}, "n": {"type": "null"}}}}, "strict_mode": False},
    {"session_budget": 0, "rate_limits": {"*": {"max_count": 9, "window_seconds": 60}}, "loop_rules": [{}]},
)  # fmt: skip
"""In the form of a file of rules."""
WRONG: Final[tuple[Any, ...]] = (
    [], {"budget": 1}, {"session_budget": -1}, {"session_budget": "1"}, {"denied_actions": "rm"},
    {"denied_actions": [""]}, {"allowed_actions": [1]},
    {"rate_limits": {"*": {"max_count": 1}}}, {"rate_limits": {"*": {"max_count": 1.5,
    "window_seconds": 1}}}, {"prices": {"": 1}}, {"loop_rules": [{"threshold": 1}]}, {"loop_rules": [{"every": 2}]},
    {"argument_constraints": {"*": {"properties": {"a": {"pattern": "("}}}}}, {"strict_mode": None},
    {"argument_constraints": {"*": {"properties": {"a": {"type": "text"}}}}}, {"budget_warning_thresholds": [100]},
    {"evidence_max_age_seconds": {"run": 1}},
)  # fmt: skip
_ACTIONS: Final = ("get_asset", "getAsset", "run", "mcp__x__run", "delete_asset", "mcp.delete_asset", "drop_table",
                   "dropTable", "9lives", "x]y")  # fmt: skip
_ARGUMENTS: Final[tuple[dict[str, Any], ...]] = (
    {}, {"a": 1}, {"a": 1, "note": "x"}, {"a": 8, "note": "abcd"}, {"a": 1.5, "list": [1, 2]}, {"a": None}, {"a": True},
    {"a": "x", "list": {"k": 1}}, {"a": [1], "note": None, "n": None}, {"note": "y", "a": 1},
    {"list": [{"b": 1, "a": 2}]}, {"list": [{"a": 2, "b": 1}]},
    {"n": "900"}, {"n": -0.5}, {"note": "\U0001f98a\u00e9 "}, {"note": ["rm"]},
)  # fmt: skip


def rule_sequences() -> list[dict[str, Any]]:
    return [{"rules": rules, "steps": _steps(random.Random(seed), rules)} for seed, rules in enumerate(RULES)]


def _said(objection: Objection | None) -> list[str] | None:
    return None if objection is None else [objection.code, objection.message]


def _steps(rng: random.Random, rules: dict[str, Any]) -> list[list[Any]]:
    book, now = RuleBook(ClientRules(**rules)), NOW_MS
    steps: list[list[Any]] = []
    running: list[RuleTicket] = []
    while len(steps) < _STEPS:
        now += rng.choice((0, 400, 1_000, 3_000))
        action, args = rng.choice(_ACTIONS), rng.choice(_ARGUMENTS)
        kind = rng.choices(("begin", "end", "release", "spend", "begin_run", "changed"), (9, 5, 1, 1, 1, 1))[0]
        if kind == "begin":
            cost = rng.choice((None, None, 0.1, 0.25))
            ticket = book.begin(action, args, now, cost_usd=cost)
            assert ticket is not None
            steps.append([kind, action, args, now, cost, _said(ticket.refused), list(map(_said, ticket.objections))])
            if ticket.refused is None:
                running.append(ticket)
        elif kind in {"end", "release"} and running:
            at, is_ok = rng.randrange(len(running)), rng.random() < 0.8
            ticket = running.pop(at)
            if kind == "end":
                steps.append([kind, at, now, is_ok, book.end(ticket, now, ok=is_ok)])
            else:
                book.release(ticket)
                steps.append([kind, at])
        elif kind == "spend":
            book.spend(0.05)
            steps.append([kind, 0.05])
        elif kind == "begin_run":
            book.begin_run()
            steps.append([kind])
        elif kind == "changed":
            wrong = book.against_changed(action, args)
            steps.append([kind, action, args, _said(wrong), wrong is not None and wrong.blocks])
    return steps


SPOOLED: Final = (("haltline.actions", "s1", "{}"), ("haltline.feedback", "é", json.dumps({"a": "\U0001f98a"})))


def spooled() -> dict[str, Any]:
    """The bytes of a file of these records, in hex digits."""
    with tempfile.TemporaryDirectory() as folder:
        spool = DiskSpool(folder, max_bytes=1000)
        for topic, key, value in SPOOLED:
            assert spool.append(topic, key.encode(), value.encode())
        spool.close()
        (file,) = Path(folder).iterdir()
        return {"records": SPOOLED, "file": file.read_bytes().hex()}
