"""A worker with a key, and an agent that believes nobody else."""

from pathlib import Path

from haltline.interventions.agent import Guard, Refused
from haltline.schemas.keys import make_keys
from haltline.streams.local.embedded_broker import EmbeddedBroker
from tests.cli.test_cli import haltline
from tests.interventions.agent.attempts import attempts, guard_of
from tests.streams.running import running_worker
from tests.waiting import wait_until


def writes(guard: Guard) -> str:
    try:
        with guard.action("update_note"):
            return "executed"
    except Refused as refused:
        return refused.code


def test_verdicts_kills_and_releases_of_a_worker_that_seals_are_believed(
    embedded: EmbeddedBroker, tmp_path: Path
) -> None:
    public = make_keys(tmp_path / "worker.pem")
    by = ("--by", "ada", "--reason", "r", "--bootstrap", embedded.bootstrap)
    with running_worker(embedded.bootstrap, tmp_path / "logs", "--sealing-key", str(tmp_path / "worker.pem")):
        with guard_of(embedded.bootstrap, mode="blocking", verify_key=str(public)) as guard:
            assert attempts(guard, 3) == ["executed", "executed", "session_killed_loop_guard"]
        with guard_of(embedded.bootstrap, "s2", mode="blocking", verify_key=str(public)) as guard:
            assert writes(guard) == "executed"
            assert haltline("contain", "s2", *by).exit_code == 0
            wait_until(lambda: writes(guard) == "session_contained_by_operator", "the agent believes the worker")
            assert haltline("lift", "s2", *by).exit_code == 0
            wait_until(lambda: writes(guard) == "executed", "so it does when that is lifted")
        with guard_of(
            embedded.bootstrap, "s3", mode="blocking", budget_s=0.3, verify_key=str(make_keys(tmp_path / "other.pem"))
        ) as guard:
            # Its key is another one. Where its agent is killed meanwhile, for going on in s3, that holds as frozen.
            assert attempts(guard, 1)[0] in {"no_verdict", "control_entry_not_sealed"}


def test_a_key_that_is_none_is_refused_before_the_worker_starts(tmp_path: Path) -> None:
    public = make_keys(tmp_path / "worker.pem")
    done = haltline("worker", "--sealing-key", str(public), "--bootstrap", "127.0.0.1:9")
    assert (done.exit_code, "expected an ed25519 private key" in done.stderr) == (2, True)
