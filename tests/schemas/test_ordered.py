import operator
from collections.abc import Callable
from itertools import pairwise

import pytest

from haltline.schemas.decisions import Level, Mode
from haltline.schemas.events import Effect
from haltline.schemas.findings import Severity
from haltline.schemas.ordered import OrderedName

ORDERS: dict[type[OrderedName], list[str]] = {
    Severity: ["low", "medium", "high", "critical"],
    Level: ["ALLOW", "NUDGE", "REINFORCE", "THROTTLE", "PAUSE", "BLOCK", "ROLLBACK", "KILL"],
    Mode: ["shadow", "warn", "enforce"],
    Effect: ["read", "poll", "write", "network", "exec", "mutate", "destructive"],
}
of_every_order = pytest.mark.parametrize("names", ORDERS, ids=lambda names: names.__name__)


@of_every_order
def test_members_are_in_the_documented_order_and_every_comparison_goes_by_it(names: type[OrderedName]) -> None:
    members = list(names)
    assert [member.value for member in members] == ORDERS[names]
    for lower, higher in pairwise(names):
        assert lower < higher >= lower
        assert higher > lower <= higher
        assert not higher < lower
        assert not lower >= higher
    assert (max(reversed(members)), min(reversed(members))) == (members[-1], members[0])
    by_alphabet = sorted(members, key=str)
    assert by_alphabet != members == sorted(by_alphabet)


@pytest.mark.parametrize("compare", [operator.lt, operator.le, operator.gt, operator.ge])
@pytest.mark.parametrize("other", ["medium", Level.NUDGE, Effect.READ], ids=["a text", "a level", "an effect"])
def test_a_severity_is_not_compared_with(other: str, compare: Callable[[str, str], bool]) -> None:
    for one, another in ((Severity.LOW, other), (other, Severity.LOW)):
        with pytest.raises(TypeError, match="compared"):
            compare(one, another)
