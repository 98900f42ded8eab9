import orjson

from haltline.schemas.decisions import Mode
from haltline.schemas.policy import Exemption, Override, Policy, Rule
from haltline.schemas.wire import decode
from tests.builders import cases

NOW_MS = 1_800_000_000_000


def override(rule: Rule, *, agent: str = "*", session: str = "*", exemption: Exemption | None = None) -> Override:
    return Override(agent=agent, session=session, rules={"r": rule}, exemption=exemption)


def policy(*overrides: Override) -> Policy:
    return Policy(overrides=overrides)


@cases(
    "agent, session, holds",
    {
        "both globs match": ("catalog-cleaner", "batch-1", True),
        "another session": ("catalog-cleaner", "chat-1", False),
        "another agent": ("reviewer", "batch-1", False),
        "ids are told apart by case": ("Catalog-cleaner", "batch-1", False),
        "a glob is of the whole id": ("my-catalog-", "batch-1", False),
    },
)
def test_an_override_holds_for_the_agents_and_sessions_that_it_names(agent: str, session: str, holds: bool) -> None:
    ours = policy(override(Rule(), agent="catalog-*", session="batch-*"))
    assert bool(ours.overrides_for(agent, session, NOW_MS)) is holds


def test_overrides_hold_in_their_order_and_keep_on_the_wire_what_they_say() -> None:
    agents = enumerate(("*", "other", "a*"))
    first, second, third = (override(Rule(settings={"n": n}), agent=agent) for n, agent in agents)
    assert policy(first, second, third).overrides_for("a1", "s", NOW_MS) == (first, third)
    ours = policy(override(Rule(settings={"loop_at": 5})), override(Rule(mode=Mode.WARN)))
    theirs = decode(Policy, orjson.dumps(orjson.loads(ours.model_dump_json(exclude_unset=True))))
    assert [o.rules["r"].model_fields_set for o in theirs.overrides] == [{"settings"}, {"mode"}]
