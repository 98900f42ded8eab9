from haltline.interventions.agent.rules.book import Kept, Replays


def test_a_result_is_given_again_until_it_is_too_old() -> None:
    replays = Replays(ttl_s=3600)
    assert replays.begin("c", "pay", "k", 0) is None
    replays.end("c", Kept("paid", True, 0))
    assert replays.begin("c", "pay", "k", 3_600_000) == Kept("paid", True, 0)
    assert replays.begin("c", "refund", "k", 3_600_000) is None, "of another tool it is another call"
    assert replays.begin("c", "pay", "k", 3_600_001) is None, "too old: to be recreated"


def test_what_failed_may_be_tried_again_and_what_is_kept_is_bounded() -> None:
    replays = Replays(ttl_s=3600, max_kept=2)
    for key, kept in (("k", None), ("k", None), *((key, Kept(key, True, 0)) for key in "abc")):
        assert replays.begin("c", "pay", key, 0) is None
        replays.end("c", kept)
    assert [replays.begin("c", "pay", key, 0) is None for key in "abc"] == [True, False, False]
