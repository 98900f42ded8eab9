"""A short run of the hostile client: nothing falls, and what must be refused is."""

from collections.abc import Mapping

import pytest

from benchmarks.hostile import ATTACKS, CONSOLE, INTAKE, Seen, run


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Seen]:
    """Of each kind one attack; the count ends it, and the time only where something hangs."""
    kinds = sum(len(attacks) for attacks in ATTACKS.values())
    return run(tmp_path_factory.mktemp("hostile"), seconds=120.0, attacks=kinds, hold_s=0.5)


@pytest.mark.parametrize("name", [CONSOLE, INTAKE])
def test_every_probe_is_answered_while_it_is_attacked(found: Mapping[str, Seen], name: str) -> None:
    assert (found[name].waits_s != [], found[name].unanswered) == (True, 0)


@pytest.mark.parametrize(
    ("name", "attack", "answers"),
    [
        pytest.param(CONSOLE, "32 MB without a key", {"401", "closed"}, id="a stranger's body"),
        pytest.param(CONSOLE, "32 MB with a key", {"413", "closed"}, id="a body that is too long"),
        pytest.param(CONSOLE, "8 MB of empty lists", {"413"}, id="empty lists"),
        pytest.param(CONSOLE, "numbers that are none", {"422"}, id="numbers that are none"),
        pytest.param(CONSOLE, "64 MB in 64 KB", {"413"}, id="a bomb"),
        pytest.param(CONSOLE, "aliases of aliases", {"400"}, id="aliases"),
        pytest.param(CONSOLE, "a policy of 200 000 values", {"400"}, id="a large policy"),
        pytest.param(CONSOLE, "a header of 8 MB", {"closed"}, id="a long header"),
        pytest.param(INTAKE, "32 MB without a token", {"401", "closed"}, id="a stranger's body at the intake"),
        pytest.param(INTAKE, "64 MB in 64 KB", {"413"}, id="a bomb at the intake"),
        pytest.param(INTAKE, "half a million spans", {"400"}, id="spans at the intake"),
    ],
)
def test_an_attack_is_refused(found: Mapping[str, Seen], name: str, attack: str, answers: set[str]) -> None:
    actual = {answer for (of, answer) in found[name].answers if of == attack}
    assert actual
    assert actual <= answers


def test_memory_has_a_bound(found: Mapping[str, Seen]) -> None:
    for seen in found.values():
        assert seen.rss_peak < 1024 * 1024 * 1024
