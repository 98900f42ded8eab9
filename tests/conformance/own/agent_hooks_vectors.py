"""The vectors of agent-hooks's own conformance kit (AH-CTK-...): how each is run, or why it is not.

Imported in every environment: only data.
"""

from typing import Final


def _ids(*numbers: int) -> tuple[str, ...]:
    return tuple(f"AH-CTK-{number:03}" for number in numbers)


# fmt: off
IN_PLACE: Final = _ids(
    1, 2, 3, 10, 20, 21, 30, 40, 60, 70, 74, 80, 81, 83, 84, 85, 86, 87, 90, 91, 93, 94, 95, 97, 99, 105, 120, 122, 123,
    124, 140, 142,
)
"""Haltline takes the place of those of the vector's interceptors whose verdicts it gives."""

BESIDE: Final = _ids(11, 12, 22, 31, 32, 50, 71, 72, 73, 82, 88, 89, 92, 98, 100, 102, 103, 104)
# fmt: on
"""The verdicts are none of haltline's (liftable denies, warnings, evidence, input and output): it is registered after
the vector's interceptors, allows, and changes nothing."""

_NO_BINDING = "no interceptor is bound where the host asks"
_REFUSED = "the host's declaration is refused, so there is no run"
_STREAMED = "the kit's reference host does not release output while it is generated"
NOT_RUN: Final = {
    "AH-CTK-061": _NO_BINDING,
    "AH-CTK-096": "the host fails before it asks an interceptor",
    "AH-CTK-101": _NO_BINDING,
    **dict.fromkeys(_ids(110, 111, 112, 113), _STREAMED),
    "AH-CTK-121": "its document names all interceptors of the host, and their verdicts are none of haltline's",
    "AH-CTK-125": _NO_BINDING,
    "AH-CTK-126": _NO_BINDING,
    **dict.fromkeys(_ids(*range(127, 140), 141, 143), _REFUSED),
}

NAMES: Final = [*IN_PLACE, *BESIDE]
