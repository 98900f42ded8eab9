from datetime import UTC, datetime

import pytest
from genai_prices import Usage as Counted
from genai_prices import calc_price
from hypothesis import given
from hypothesis import strategies as st

from haltline.schemas.events import Usage
from haltline.streams.scan.prices import Prices

MODELS = (
    "claude-sonnet-4-5",
    "gpt-5",
    "gpt-4o",
    "gemini-2.5-pro",
    "deepseek-chat",
    "claude-3-opus-latest",
)
tokens = st.integers(0, 40_000) | st.integers(0, 2_000_000)


@given(
    model=st.sampled_from(MODELS),
    fresh=tokens,
    cached=tokens,
    output=tokens,
    minute=st.integers(28_800_000, 29_900_000),
)
def test_a_turn_costs_what_the_table_says(model: str, fresh: int, cached: int, output: int, minute: int) -> None:
    usage = Usage(input_tokens=fresh, cache_read_tokens=cached, output_tokens=output)
    counted = Counted(input_tokens=fresh + cached, cache_read_tokens=cached, output_tokens=output)
    said = calc_price(counted, model, genai_request_timestamp=datetime.fromtimestamp(minute * 60, UTC))
    assert Prices().of(model, usage, minute * 60_000) == pytest.approx(float(said.total_price))


def test_a_model_without_a_price_is_named_and_its_tokens_are_counted() -> None:
    prices = Prices()
    for model in ("gpt-of-my-own", ""):
        assert prices.of(model, Usage(input_tokens=3, output_tokens=4), 1_760_000_000_000) is None
    assert prices.tokens == {"gpt-of-my-own": 7, "(not told)": 7}
    assert prices.unknown == {"gpt-of-my-own", "(not told)"}
