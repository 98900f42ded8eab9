"""What tokens cost, by the table that ships with `genai-prices`: nothing is fetched."""

from collections import Counter
from datetime import UTC, datetime

from haltline.schemas.events import Usage

UNNAMED = "(not told)"
"""The model of turns of which a history does not tell it."""


class Prices:
    """Prices the turns of one history, and counts their tokens by model."""

    def __init__(self) -> None:
        self.tokens: Counter[str] = Counter()
        """By model."""
        self.unknown: set[str] = set()
        """Models without a price."""

    def of(self, model: str, usage: Usage, time_ms: int) -> float | None:
        """US dollars for what one turn used at a time (epoch ms); None: the model's price is not known."""
        from genai_prices import Usage as Counted  # noqa: PLC0415  # its table takes 0.3 s to load
        from genai_prices import calc_price  # noqa: PLC0415  # as above

        name = model or UNNAMED
        self.tokens[name] += usage.tokens
        if name in self.unknown:
            return None
        counted = Counted(
            input_tokens=usage.input_tokens + usage.cache_read_tokens,
            cache_read_tokens=usage.cache_read_tokens,
            output_tokens=usage.output_tokens,
        )
        try:
            price = calc_price(counted, model, genai_request_timestamp=datetime.fromtimestamp(time_ms / 1000, UTC))
        except LookupError:
            self.unknown.add(name)
            return None
        return float(price.total_price)
