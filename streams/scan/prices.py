"""What tokens cost, by the table that ships with `genai-prices`: nothing is fetched."""

from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from typing import TYPE_CHECKING, Final, NamedTuple

from haltline.streams.importing.steps import Turn

if TYPE_CHECKING:
    from genai_prices.types import PriceCalculation

UNNAMED = "(not told)"
"""The model of turns of which a history does not tell it."""
_SLOT_MS: Final = 1_800_000
"""Prices change at full and half hours: some models cost less at night."""
_SLOTS_A_DAY: Final = 48
_UNIT: Final = 1000


@dataclass
class Spent:
    """What one model used in a session on one day: tokens, and US dollars."""

    day: str
    """In UTC; empty: the history has no times."""
    model: str
    turns: int = 0
    input: int = 0
    """Tokens that no cache had, and that were not written to one."""
    output: int = 0
    cached: int = 0
    """Tokens that were read from a cache."""
    written: int = 0
    """Tokens that were written to a cache."""
    cost_usd: float = 0.0
    cached_usd: float = 0.0
    """Of the cost, that of reading from a cache, as far as it is by the table; so is the next."""
    written_usd: float = 0.0

    @property
    def tokens(self) -> int:
        """All tokens."""
        return self.input + self.output + self.cached + self.written


class Prices:
    """Prices the turns of one history, and sums them by session, day and model."""

    def __init__(self) -> None:
        self.spent: dict[tuple[str, str, str], Spent] = {}
        """By the session, the day and the model."""
        self.unknown: set[str] = set()
        """Models without a price."""

    def of(self, turn: Turn) -> float | None:
        """US dollars for what one turn used: as recorded, else by the table; None: the model's price is not known."""
        name, usage, day = turn.model or UNNAMED, turn.usage, _day(turn.time_ms // 86_400_000)
        if not usage.tokens and not usage.cost_usd:
            return 0.0
        spent = self.spent.get((turn.session_id, day, name))
        if spent is None:
            spent = self.spent[turn.session_id, day, name] = Spent(day, name)
        spent.turns += 1
        spent.input += max(0, usage.input_tokens - sum(turn.written))
        spent.output += usage.output_tokens
        spent.cached += usage.cache_read_tokens
        spent.written += sum(turn.written)
        if usage.cost_usd:
            spent.cost_usd += usage.cost_usd
            return usage.cost_usd
        if name in self.unknown:
            return None
        try:
            cost = self._by_table(turn, spent)
        except LookupError:
            self.unknown.add(name)
            return None
        spent.cost_usd += cost
        return cost

    @staticmethod
    def _by_table(turn: Turn, spent: Spent) -> float:
        model, usage, (short, long) = turn.model, turn.usage, turn.written
        fresh, cached, output = max(0, usage.input_tokens - short - long), usage.cache_read_tokens, usage.output_tokens
        slot = turn.time_ms // _SLOT_MS
        rates = _rates(model, slot if _differs_by_hour(model) else slot - slot % _SLOTS_A_DAY)
        of_cached, of_written = cached * rates.cached, short * rates.short + long * rates.long
        cost = by_rates = fresh * rates.fresh + of_cached + of_written + output * rates.output
        if usage.input_tokens + cached > rates.until and by_rates:
            counts = _Counts(fresh, cached, output, short, long)
            cost = float(_priced(model, counts, slot).total_price)
        spent.cached_usd += of_cached * (cost / by_rates if by_rates else 1)
        spent.written_usd += of_written * (cost / by_rates if by_rates else 1)
        return cost


@lru_cache(64)
def _day(number: int) -> str:
    """The date of a day since 1970."""
    return datetime.fromtimestamp(number * 86_400, UTC).strftime("%Y-%m-%d")


class _Counts(NamedTuple):
    """Tokens of one turn: not of a cache, read from one, of output, and written to one for 5 minutes or an hour."""

    fresh: int = 0
    cached: int = 0
    output: int = 0
    short: int = 0
    long: int = 0


class _Rates(NamedTuple):
    """US dollars for one token of each kind. They are counted with here, as the table takes 0.5 ms a turn."""

    fresh: float
    cached: float
    output: float
    short: float
    long: float
    until: float
    """With more tokens of input than these, each costs more."""


@lru_cache(1024)
def _rates(model: str, slot: int) -> _Rates:
    """Raises LookupError when the model's price is not known."""
    priced = [_priced(model, _Counts(**{kind: _UNIT}), slot) for kind in _Counts._fields]
    tiers = [tier.start for price in vars(priced[0].model_price).values() for tier in getattr(price, "tiers", ())]
    fresh, cached, output, short, long = (float(one.total_price) / _UNIT for one in priced)
    return _Rates(fresh, cached, output, short, long, min(tiers, default=float("inf")))


@lru_cache(256)
def _differs_by_hour(model: str) -> bool:
    """Whether a price of the model holds for a part of each day. Raises LookupError."""
    from genai_prices.types import TimeOfDateConstraint  # noqa: PLC0415  # as in `_priced`

    prices = _priced(model, _Counts(), 0).model.prices
    return isinstance(prices, list) and any(isinstance(one.constraint, TimeOfDateConstraint) for one in prices)


def _priced(model: str, counts: _Counts, slot: int) -> "PriceCalculation":
    """What the table says of these tokens. Raises LookupError when the model's price is not known."""
    from genai_prices import Usage as Counted  # noqa: PLC0415  # its table takes 0.3 s to load
    from genai_prices import calc_price  # noqa: PLC0415  # as above

    fresh, cached, output, short, long = counts
    counted = Counted(
        input_tokens=fresh + cached + short + long,
        cache_read_tokens=cached,
        output_tokens=output,
        cache_write_tokens=short + long,
        cache_write_1h_tokens=long,
    )
    moment = datetime.fromtimestamp(slot * _SLOT_MS / 1000, UTC)
    try:
        return calc_price(counted, model, genai_request_timestamp=moment)
    except LookupError:
        _, provider, name = model.rpartition("/")  # as litellm names it
        if not provider:
            raise
        return calc_price(counted, name, genai_request_timestamp=moment)
