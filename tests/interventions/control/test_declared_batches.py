import pytest

from haltline.interventions.control.declared_batches import declare
from haltline.interventions.state.session_control import SessionControl
from haltline.schemas.control import Batch, Command, CommandKind
from haltline.schemas.decisions import Decision
from tests.builders import T0_MS, at, cases, some
from tests.interventions.control.core_session import CoreSession

HOUR_S = 3600
ASKED, KILLED = "PAUSE destructive_volume", "KILL session_killed_loop_guard"


def declared(number: int = 1, *, lasts_s: float = 60, max_deletes: int = 100) -> Command:
    batch = Batch(actions="delete_*", targets=["asset_id=stg_*"], max_deletes=max_deletes, expires=at(lasts_s))
    about = {"id": "s1", "by": "ada", "reason": "quarterly clean-up", "time": T0_MS}
    return Command(command_id=f"b{number}", kind=CommandKind.BATCH, batch=batch, **about)


class Session(CoreSession):
    def __init__(self, command: Command) -> None:
        super().__init__()
        self.took(self.core.on_command(None, command))

    def deletes(self, second: float, target: str, *, waits: bool = True) -> Decision:
        return some(self.does(second, target, await_verdict=waits, effect=None).decision)


def codes(session: Session, *targets: str) -> list[str]:
    decisions = [session.deletes(second, target) for second, target in enumerate(targets)]
    return [f"{decision.level.value} {decision.code}" for decision in decisions]


@pytest.mark.parametrize("waits", [True, False], ids=["blocking", "async"])
def test_each_act_that_it_covers_is_reported_with_how_much_is_used(waits: bool) -> None:
    session = Session(declared(max_deletes=40))
    result = [session.deletes(n, f"stg_{n}", waits=waits) for n in range(10)]
    assert {one.code for one in result} == {"declared_batch"}
    assert [(one.values["batch_used"], one.values["batch_max"]) for one in result] == [(n + 1, 40) for n in range(10)]


def test_what_is_beyond_its_maximum_or_was_not_declared_counts_as_always() -> None:
    beyond = codes(Session(declared(max_deletes=5)), *(f"stg_{n}" for n in range(8)))
    assert beyond == ["ALLOW declared_batch"] * 5 + ["ALLOW allowed"] * 2 + [ASKED]
    assert codes(Session(declared()), "fact_1", "fact_2", "fact_3")[-1] == ASKED
    same = codes(Session(declared()), *["stg_1"] * 3)
    assert same == ["ALLOW declared_batch", "NUDGE loop_suspected", KILLED], "the same target again still counts"


def test_it_holds_for_a_shift_at_most_whatever_the_command_says_and_twice_it_is_one() -> None:
    standing = SessionControl()
    for _ in range(2):
        declare(standing, declared(lasts_s=48 * HOUR_S))
    (batch,) = standing.batches
    assert (batch.expires_ms - T0_MS) / 1000 == 8 * HOUR_S
    assert (batch.by, batch.reason) == ("ada", "quarterly clean-up")


@cases(
    "action, targets, second, covered",
    {
        "declared action on a declared target": ("delete_asset", ["asset_id=stg_1"], 0, True),
        "another action is not covered": ("drop_table", ["asset_id=stg_1"], 0, False),
        "another target is not covered": ("delete_asset", ["asset_id=fact"], 0, False),
        "one foreign target spoils it": ("delete_asset", ["asset_id=stg_1", "asset_id=fact"], 0, False),
        "at the moment of expiry it still holds": ("delete_asset", ["asset_id=stg_1"], 60, True),
        "after it, no more": ("delete_asset", ["asset_id=stg_1"], 60.001, False),
    },
)
def test_a_batch_covers_only_what_it_says(action: str, targets: list[str], second: float, covered: bool) -> None:
    standing = SessionControl()
    declare(standing, declared())
    assert (standing.batch_for(action, targets, at(second)) is not None) is covered
