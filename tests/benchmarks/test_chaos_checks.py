"""The check of the audit; the simulator's mistakes show that the other checks of a chaos run find differences."""

from benchmarks.chaos import verify
from benchmarks.chaos.expected import Place


def test_the_audit_must_hold_each_record_once_with_its_bytes() -> None:
    log: dict[Place, bytes | None] = {("t", 0, 0): b"a", ("t", 0, 1): None}
    assert verify.check_audit([(("t", 0, 1), None), (("t", 0, 0), b"a")], log).ok
    for rows in (
        [(("t", 0, 0), b"a")],
        [(("t", 0, 0), b"a"), (("t", 0, 0), b"a"), (("t", 0, 1), None)],
        [(("t", 0, 0), b"b"), (("t", 0, 1), None)],
        [(("t", 0, 0), b"a"), (("t", 0, 1), None), (("t", 1, 0), b"a")],
    ):
        assert len(verify.check_audit(rows, log).differences) == 1
