from collections.abc import Iterator
from pathlib import Path

import pytest

from haltline.interventions.agent.settings import GuardSettings
from haltline.schemas.control import ControlState
from haltline.schemas.decisions import ScopeKind
from haltline.schemas.events import Kind
from haltline.schemas.keys import make_keys
from haltline.schemas.seals import Sealer
from haltline.streams.local.embedded_broker import EmbeddedBroker
from tests.interventions.agent.attempts import attempts, guard_of
from tests.interventions.agent.stand_in import StandIn, now_ms, standing
from tests.waiting import wait_until

FROZEN = standing(state=ControlState.FROZEN, code="session_frozen")


@pytest.fixture
def key(tmp_path: Path) -> str:
    return str(make_keys(tmp_path / "worker.pem"))


@pytest.fixture
def sealer(key: str) -> Sealer:
    return Sealer(Path(key).with_suffix(""))


@pytest.fixture
def worker(embedded: EmbeddedBroker, sealer: Sealer) -> Iterator[StandIn]:
    with StandIn(embedded.bootstrap, sealer=sealer) as stand_in:
        yield stand_in


def test_what_the_worker_seals_is_obeyed_if_it_is_new(embedded: EmbeddedBroker, worker: StandIn, key: str) -> None:
    with guard_of(embedded.bootstrap, mode="blocking", verify_key=key) as guard:
        assert attempts(guard, 1) == ["executed"]
        worker.control(FROZEN)
        wait_until(lambda: attempts(guard, 1) == [FROZEN.code], "the sealed stop has come")
        worker.release(ScopeKind.SESSION, "s1")
        wait_until(lambda: attempts(guard, 1) == ["executed"], "so has the sealed release")
        worker.control(FROZEN)
        worker.seal_ms = now_ms() - 120_000
        worker.release(ScopeKind.SESSION, "s1")
        with guard_of(embedded.bootstrap, mode="blocking", verify_key=key) as later:
            assert attempts(later, 1) == [FROZEN.code]
        worker.seal_ms = now_ms() - 30_000  # less than clocks may differ by
        worker.release(ScopeKind.SESSION, "s1")
        wait_until(lambda: attempts(guard, 1) == ["executed"], "a worker's clock may be slow")
        worker.seal_ms = None
        worker.control(standing())
        wait_until(lambda: guard.killed, "and the sealed kill")


@pytest.mark.parametrize("forged", ["not sealed", "sealed with another key"])
def test_a_forged_verdict_is_none(
    embedded: EmbeddedBroker, worker: StandIn, key: str, tmp_path: Path, forged: str
) -> None:
    make_keys(tmp_path / "other.pem")
    worker.sealer = None if forged == "not sealed" else Sealer(tmp_path / "other.pem")
    with guard_of(embedded.bootstrap, mode="blocking", budget_s=0.3, first_budget_s=0.3, verify_key=key) as guard:
        assert attempts(guard, 1) == ["no_verdict"], "it destroys, and nobody has allowed it"
    wait_until(lambda: worker.of(Kind.PROPOSED), "the worker was asked")


def test_nobody_else_releases_a_stop(embedded: EmbeddedBroker, worker: StandIn, sealer: Sealer, key: str) -> None:
    worker.control(FROZEN)
    worker.sealer = None
    worker.release(ScopeKind.SESSION, "s1")
    worker.control(standing(state=ControlState.CONTAINED, code="softer"))
    with guard_of(embedded.bootstrap, verify_key=key) as guard:
        assert attempts(guard, 1) == [FROZEN.code]
        worker.sealer = sealer
        worker.release(ScopeKind.SESSION, "s1")
        wait_until(lambda: attempts(guard, 1) == ["executed"], "a worker does")


def test_a_forged_stop_freezes_until_a_worker_speaks(
    embedded: EmbeddedBroker, worker: StandIn, sealer: Sealer, key: str
) -> None:
    worker.sealer = None
    worker.control(standing(ScopeKind.TOOL, "delete_asset"))
    with guard_of(embedded.bootstrap, mode="async", verify_key=key) as guard:
        assert attempts(guard, 1) == ["control_entry_not_sealed"]
        assert not guard.killed
        worker.sealer = sealer
        worker.release(ScopeKind.TOOL, "delete_asset")
        wait_until(lambda: attempts(guard, 1) == ["executed"], "a worker says that nothing stands")


def test_a_key_is_found_in_the_environment_and_checked_at_once(tmp_path: Path, sealer: Sealer, key: str) -> None:
    with pytest.raises(ValueError, match="verify_key: expected files of public keys"):
        guard_of("127.0.0.1:9", verify_key=str(tmp_path / "none.pem"))
    with pytest.raises(ValueError, match="expected an ed25519 public key"):
        guard_of("127.0.0.1:9", verify_key=key.removesuffix(".pub"))
    environ = {"HALTLINE_VERIFY_KEY": key, "HALTLINE_BOOTSTRAP": "127.0.0.1:9"}
    assert GuardSettings.from_env(environ).verify_key == key
