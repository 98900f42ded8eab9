"""What tokens cost, by the table that ships with `genai-prices`: nothing is fetched."""

from collections import Counter
from datetime import UTC, datetime
from functools import lru_cache
from typing import Final

from haltline.schemas.events import Usage

UNNAMED = "(not told)"
"""The model of turns of which a history does not tell it."""
_SLOT_MS: Final = 1_800_000
"""Prices change at full and half hours: some models cost less at night."""
_UNIT: Final = 1000
_TIERED_TOKENS: Final = 32_000
"""From here on the first models cost more per token. Below, tokens are counted by us: the table takes 0.5 ms a turn."""


class Prices:
    """Prices the turns of one history, and counts their tokens by model."""

    def __init__(self) -> None:
        self.tokens: Counter[str] = Counter()
        """By model."""
        self.unknown: set[str] = set()
        """Models without a price."""

    def of(self, model: str, usage: Usage, time_ms: int) -> float | None:
        """US dollars for what one turn used at a time (epoch ms); None: the model's price is not known."""
        name = model or UNNAMED
        self.tokens[name] += usage.tokens
        if name in self.unknown:
            return None
        counts = usage.input_tokens, usage.cache_read_tokens, usage.output_tokens
        slot = time_ms // _SLOT_MS
        try:
            if sum(counts) >= _TIERED_TOKENS:
                return _cost(model, counts, slot)
            return sum(tokens * each for tokens, each in zip(counts, _each(model, slot), strict=True))
        except LookupError:
            self.unknown.add(name)
            return None


@lru_cache(1024)
def _each(model: str, slot: int) -> tuple[float, ...]:
    """US dollars for one token of input, of input from the cache, and of output. Raises LookupError."""
    kinds = (_UNIT, 0, 0), (0, _UNIT, 0), (0, 0, _UNIT)
    return tuple(_cost(model, kind, slot) / _UNIT for kind in kinds)


def _cost(model: str, counts: tuple[int, int, int], slot: int) -> float:
    """US dollars for tokens of these three kinds. Raises LookupError when the model's price is not known."""
    from genai_prices import Usage as Counted  # noqa: PLC0415  # its table takes 0.3 s to load
    from genai_prices import calc_price  # noqa: PLC0415  # as above

    fresh, cached, output = counts
    counted = Counted(input_tokens=fresh + cached, cache_read_tokens=cached, output_tokens=output)
    moment = datetime.fromtimestamp(slot * _SLOT_MS / 1000, UTC)
    return float(calc_price(counted, model, genai_request_timestamp=moment).total_price)
