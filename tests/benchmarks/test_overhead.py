import orjson
import pytest

from benchmarks.overhead import ASYNC, BARE, LOCAL, PEER, main


def test_every_way_is_measured_over_the_same_calls(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--pieces", "2", "--json"]) == 0
    document = orjson.loads(capsys.readouterr().out)
    assert [cost["name"] for cost in document["costs"]] == [BARE, PEER, ASYNC, LOCAL]
    assert all(cost["best_us"] <= cost["median_us"] for cost in document["costs"])
    assert [cost["times_peer"] for cost in document["costs"]][1] == 1.0
