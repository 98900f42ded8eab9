from haltline.interventions.agent.enforcement.token_bucket import TokenBucket


def test_a_burst_passes_then_so_many_in_a_second() -> None:
    now_s = 0.0
    allowance = TokenBucket(per_s=2, burst=3, clock_s=lambda: now_s)
    assert [allowance.take() for _ in range(5)] == [0, 0, 0, None, None]
    now_s = 1.0
    assert [allowance.take() for _ in range(3)] == [2, 0, None]
    now_s = 100.0
    assert [allowance.take() for _ in range(4)] == [1, 0, 0, None]
