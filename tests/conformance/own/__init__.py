"""Cases of one driver alone, by its name: the traps of its framework. A process imports those of its driver."""

from collections.abc import Callable

from tests.conformance.cases import Case

OWN: dict[str, Case] = {}


def own(name: str) -> Callable[[Callable[[], None]], Callable[[], None]]:
    """Adds a case that runs what it needs itself."""

    def add(check: Callable[[], None]) -> Callable[[], None]:
        assert name not in OWN
        OWN[name] = Case(name, lambda _seen: check())
        return check

    return add
