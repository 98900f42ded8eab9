"""Bulk work that an operator declared, through the core and the real codec."""

import pytest

from haltline.interventions.control.declared_batches import MAX_BATCHES, declare
from haltline.interventions.state.session_control import SessionControl
from haltline.schemas.control import Batch, Command, CommandKind
from haltline.schemas.decisions import Decision
from haltline.schemas.events import ActionEvent, Kind
from haltline.streams.engine.core import Core, SessionState
from haltline.streams.sessions import state_codec

T0_MS = 1_750_000_000_000
HOUR_S = 3600


def declared(number: int = 1, *, lasts_s: float = 60, **batch: object) -> Command:
    result = {"actions": "delete_*", "targets": ["asset_id=stg_*"], "max_deletes": 100} | batch
    return Command(
        command_id=f"b{number}",
        kind=CommandKind.BATCH,
        id="s1",
        by="ada",
        reason="quarterly clean-up",
        time=T0_MS,
        batch=Batch.model_validate({"expires": T0_MS + round(lasts_s * 1000)} | result),
    )


class Session:
    def __init__(self, command: Command) -> None:
        self.core = Core()
        self.state: SessionState = self.core.on_command(None, command).state
        self.calls = 0

    def deletes(self, second: float, target: str, *, waits: bool = True) -> Decision | None:
        self.calls += 1
        outcome = self.core.on_event(
            self.state,
            ActionEvent(
                event_id=f"e{self.calls}",
                kind=Kind.PROPOSED,
                session_id="s1",
                time=T0_MS + round(second * 1000),
                call_id=f"c{self.calls}",
                action="delete_asset",
                targets=[f"asset_id={target}"],
                await_verdict=waits,
            ),
        )
        self.state = state_codec.decode(state_codec.encode(outcome.state))
        return outcome.decision


def shown(decision: Decision | None) -> tuple[str, object, object]:
    assert decision is not None
    return (
        f"{decision.level.value} {decision.code}",
        decision.values.get("batch_used"),
        decision.values.get("batch_max"),
    )


@pytest.mark.parametrize("waits", [pytest.param(True, id="blocking"), pytest.param(False, id="async")])
def test_each_act_that_it_covers_is_reported_with_how_much_is_used(waits: bool) -> None:
    session = Session(declared(max_deletes=40))
    result = [shown(session.deletes(n, f"stg_{n}", waits=waits)) for n in range(10)]
    assert result == [("ALLOW declared_batch", n + 1, 40) for n in range(10)]


def test_what_is_beyond_its_maximum_counts_as_always() -> None:
    session = Session(declared(max_deletes=5))
    result = [shown(session.deletes(n, f"stg_{n}"))[0] for n in range(8)]
    assert result == ["ALLOW declared_batch"] * 5 + ["ALLOW allowed"] * 2 + ["PAUSE destructive_volume"]


def test_the_same_target_again_still_counts() -> None:
    session = Session(declared())
    result = [shown(session.deletes(n, "stg_1")) for n in range(3)]
    assert [s[0] for s in result] == [
        "ALLOW declared_batch",
        "NUDGE loop_suspected",
        "KILL session_killed_loop_guard",
    ]
    assert [s[1] for s in result] == [1, 2, 3]


def test_what_was_not_declared_counts_beside_it() -> None:
    session = Session(declared())
    result = [shown(session.deletes(n, f"fact_{n}"))[0] for n in range(3)]
    assert result[-1] == "PAUSE destructive_volume"


def test_it_holds_for_a_shift_at_most_whatever_the_command_says() -> None:
    standing = SessionControl()
    declare(standing, declared(lasts_s=48 * HOUR_S))
    (batch,) = standing.batches
    assert (batch.expires_ms - T0_MS) / 1000 == 8 * HOUR_S
    assert (batch.by, batch.reason) == ("ada", "quarterly clean-up")


def test_the_same_command_twice_is_one_batch() -> None:
    standing = SessionControl()
    for _ in range(2):
        declare(standing, declared())
    assert len(standing.batches) == 1


@pytest.mark.parametrize(
    ("action", "targets", "second", "covered"),
    [
        pytest.param("delete_asset", ["asset_id=stg_1"], 0, True, id="declared action on a declared target"),
        pytest.param("drop_table", ["asset_id=stg_1"], 0, False, id="another action is not covered"),
        pytest.param("delete_asset", ["asset_id=fact"], 0, False, id="another target is not covered"),
        pytest.param("delete_asset", ["asset_id=stg_1", "asset_id=fact"], 0, False, id="one foreign target spoils it"),
        pytest.param("delete_asset", ["asset_id=stg_1"], 60, True, id="at the moment of expiry it still holds"),
        pytest.param("delete_asset", ["asset_id=stg_1"], 60.001, False, id="after it, no more"),
    ],
)
def test_a_declared_batch_covers_only_what_it_says(
    action: str, targets: list[str], second: float, covered: bool
) -> None:
    standing = SessionControl()
    declare(standing, declared())
    assert (standing.batch_for(action, targets, T0_MS + int(second * 1000)) is not None) is covered


def test_no_more_batches_are_kept_than_the_bound() -> None:
    standing = SessionControl()
    for number in range(40):
        declare(standing, declared(number, max_deletes=number + 1))
    assert [b.max_deletes for b in standing.batches] == list(range(41 - MAX_BATCHES, 41))
