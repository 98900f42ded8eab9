"""What tokens cost, by the table that ships with `genai-prices`: nothing is fetched."""

from collections import Counter
from datetime import UTC, datetime
from functools import lru_cache
from typing import TYPE_CHECKING, Final, NamedTuple

from haltline.schemas.events import Usage

if TYPE_CHECKING:
    from genai_prices.types import PriceCalculation

UNNAMED = "(not told)"
"""The model of turns of which a history does not tell it."""
_SLOT_MS: Final = 1_800_000
"""Prices change at full and half hours: some models cost less at night."""
_SLOTS_A_DAY: Final = 48
_UNIT: Final = 1000


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
        fresh, cached, output = usage.input_tokens, usage.cache_read_tokens, usage.output_tokens
        slot = time_ms // _SLOT_MS
        try:
            rates = _rates(model, slot if _differs_by_hour(model) else slot - slot % _SLOTS_A_DAY)
            if fresh + cached > rates.until:
                return float(_priced(model, (fresh, cached, output), slot).total_price)
            return fresh * rates.fresh + cached * rates.cached + output * rates.output
        except LookupError:
            self.unknown.add(name)
            return None


class _Rates(NamedTuple):
    """US dollars for one token. They are counted with here, as the table takes 0.5 ms a turn."""

    fresh: float
    cached: float
    output: float
    until: float
    """With more tokens of input than these, each costs more."""


@lru_cache(1024)
def _rates(model: str, slot: int) -> _Rates:
    """Raises LookupError when the model's price is not known."""
    kinds = (_UNIT, 0, 0), (0, _UNIT, 0), (0, 0, _UNIT)
    priced = [_priced(model, kind, slot) for kind in kinds]
    fresh, cached, output = (float(one.total_price) / _UNIT for one in priced)
    tiers = [tier.start for price in vars(priced[0].model_price).values() for tier in getattr(price, "tiers", ())]
    return _Rates(fresh, cached, output, min(tiers, default=float("inf")))


@lru_cache(256)
def _differs_by_hour(model: str) -> bool:
    """Whether a price of the model holds for a part of each day. Raises LookupError."""
    from genai_prices.types import TimeOfDateConstraint  # noqa: PLC0415  # as in `_priced`

    prices = _priced(model, (0, 0, 0), 0).model.prices
    return isinstance(prices, list) and any(isinstance(one.constraint, TimeOfDateConstraint) for one in prices)


def _priced(model: str, counts: tuple[int, int, int], slot: int) -> "PriceCalculation":
    """What the table says of tokens of these three kinds. Raises LookupError when the model's price is not known."""
    from genai_prices import Usage as Counted  # noqa: PLC0415  # its table takes 0.3 s to load
    from genai_prices import calc_price  # noqa: PLC0415  # as above

    fresh, cached, output = counts
    counted = Counted(input_tokens=fresh + cached, cache_read_tokens=cached, output_tokens=output)
    moment = datetime.fromtimestamp(slot * _SLOT_MS / 1000, UTC)
    return calc_price(counted, model, genai_request_timestamp=moment)
