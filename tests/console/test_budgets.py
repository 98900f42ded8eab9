from concurrent.futures import ThreadPoolExecutor

from sqlalchemy import Engine

from haltline.console.read_model.store import empty
from haltline.console.routes import spending as budgets
from haltline.console.routes.spending import Call, Rejection, Spent
from haltline.console.sdk_rules import ConsoleRules
from tests.builders import cases

NOW_MS = 1_750_000_000_000
RULES = ConsoleRules.model_validate(
    {"rules": {"run_budget": 2.0, "action_budgets": {"train_*": 1.0}}, "budgets": {"groups": {"g*": 1.5}}}
)


def refused(engine: Engine, cost_usd: float, action: str = "read", run: str = "r", group: str = "") -> Rejection | None:
    return budgets.reserve(engine, RULES, Call(action, cost_usd, run, group))[1]


def test_a_budget_is_never_overshot_however_many_ask_at_once(engine: Engine) -> None:
    with ThreadPoolExecutor(8) as threads:
        answers = list(threads.map(lambda _: refused(engine, 0.125), range(40)))
    assert answers.count(None) == 16
    assert {answer for answer in answers if answer is not None} == {Rejection("run", 2.125, 2.0)}


def test_what_is_spent_takes_the_place_of_what_was_held(engine: Engine) -> None:
    assert refused(engine, 1.5) is None
    assert refused(engine, 0.75) == Rejection("run", 2.25, 2.0)
    cheaper = Spent("r/1", NOW_MS, Call("read", 0.25, "r"))
    budgets.spend(engine, [cheaper])
    budgets.spend(engine, [cheaper])
    assert refused(engine, 1.75) is None, "told twice, counted once"
    assert refused(engine, 0.25) == Rejection("run", 2.25, 2.0)


@cases(
    "call, kind",
    {
        "an action's glob": ({"cost_usd": 1.25, "action": "train_large"}, "action"),
        "a group, of any run": ({"cost_usd": 1.75, "group": "g7"}, "group"),
        "the run": ({"cost_usd": 2.5}, "run"),
    },
)
def test_each_budget_is_looked_at(engine: Engine, call: dict[str, object], kind: str) -> None:
    answer = refused(engine, **call)  # type: ignore[arg-type]
    assert answer is not None
    assert answer.budget_type == kind
    assert refused(engine, 0.5, "train_small") is None
    assert refused(engine, 0.75, "train_large") == Rejection("action", 1.25, 1.0), "of all that match together"


def test_what_is_spent_outlives_a_read_model_that_is_recreated(engine: Engine) -> None:
    assert refused(engine, 2.0) is None
    empty(engine)
    assert refused(engine, 0.5) == Rejection("run", 2.5, 2.0)
    assert refused(engine, 0.5, run="another") is None
