import re
import urllib.request
from datetime import timedelta

import pytest

from haltline.cli.operator.audit.verify_periodically import verify_again
from haltline.streams.audit.verify import Problem, Verification


def test_the_last_verification_is_reported_and_a_table_that_is_away_is_none(capsys: pytest.CaptureFixture[str]) -> None:
    well = Verification(rows=7, unsigned=2)
    broken = Verification(rows=9, problems=[Problem("haltline.actions[0]", 3, "changed")])
    results = iter((well, OSError("no table"), broken))
    reported: list[str] = []
    text = ""

    def once() -> Verification:
        nonlocal text
        text += capsys.readouterr().err
        port = re.search(r"serves /metrics on port (\d+)", text)
        assert port is not None
        with urllib.request.urlopen(f"http://127.0.0.1:{port[1]}/metrics", timeout=10) as answer:
            reported.append(answer.read().decode())
        result = next(results, None)
        if result is None:
            raise KeyboardInterrupt
        if isinstance(result, OSError):
            raise result
        return result

    with pytest.raises(KeyboardInterrupt):
        verify_again(timedelta(milliseconds=1), "127.0.0.1", 0, once)
    assert "haltline_audit_chain_intact" not in reported[0], "nothing was verified yet"
    for sample in ("chain_intact 1.0", "verified_rows 7.0", "unsigned_rows 2.0"):
        assert [f"haltline_audit_{sample}" in one for one in reported[1:3]] == [True, True]
    moments = [re.search(r"verification_timestamp_seconds (\S+)", one) for one in reported[1:]]
    assert moments[0] is not None
    assert moments[1] is not None
    assert moments[0][1] == moments[1][1], "what could not be verified is no verification"
    assert "haltline_audit_chain_intact 0.0" in reported[3]
    assert "no table" in text
