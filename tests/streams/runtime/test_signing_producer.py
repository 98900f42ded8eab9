"""A worker with a key, and an agent that believes nobody else."""

from pathlib import Path

from haltline.schemas.keys import make_keys
from tests.cli.test_cli import haltline


def test_a_key_that_is_none_is_refused_before_the_worker_starts(tmp_path: Path) -> None:
    public = make_keys(tmp_path / "worker.pem")
    done = haltline("worker", "--sealing-key", str(public), "--bootstrap", "127.0.0.1:9")
    assert (done.exit_code, "expected an ed25519 private key" in done.stderr) == (2, True)
