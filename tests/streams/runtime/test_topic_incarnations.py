"""What counts in the topics as they are, and what in topics that are no more."""

from haltline.streams.runtime.metrics import Metrics
from haltline.streams.runtime.topic_ids import Logs
from haltline.streams.runtime.topic_incarnations import TopicIncarnations
from tests.cases import cases

CHANGELOG = "states"
PLACE = ("actions", 0)
BEFORE = Logs({"actions": "a1", "commands": "c1"}, "s1")
NOW = Logs({"actions": "a2", "commands": "c1"}, "s1")
UNKNOWN = Logs({})


def lives(logs: Logs, **ends: int) -> tuple[TopicIncarnations, Metrics]:
    metrics = Metrics()
    found = TopicIncarnations(logs, CHANGELOG, metrics)
    found.ends = {(topic, 0): end for topic, end in ends.items()}
    return found, metrics


def counted(metrics: Metrics, topic: str) -> float | None:
    return metrics.registry.get_sample_value("haltline_topics_made_anew_total", {"topic": topic})


@cases(
    "logs, committed, beside, marks, begins_at, reported",
    {
        "as it was": (NOW, 40, NOW.in_commit("actions"), [], 40, 0),
        "recreated and grown beyond": (NOW, 40, BEFORE.in_commit("actions"), [], None, 1),
        "recreated, and the cluster forgot what was committed": (NOW, None, "", [BEFORE.mark], None, 1),
        "nothing was committed": (NOW, None, "", [b"", NOW.mark], None, 0),
        "recreated, and said by an earlier one": (NOW, 40, NOW.in_commit("actions"), [BEFORE.mark], 40, 0),
        "committed by an older release": (NOW, 40, "", [], 40, 0),
        "committed by an older release, beyond the end": (NOW, 140, "", [], None, 1),
        "no ids, beyond the end": (UNKNOWN, 140, "", [], None, 1),
        "the same log lost its end": (NOW, 140, NOW.in_commit("actions"), [], 100, 0),
    },
)
def test_where_reading_begins(
    logs: Logs, committed: int | None, beside: str, marks: list[bytes], begins_at: int | None, reported: int
) -> None:
    found, metrics = lives(logs, actions=100)
    for _ in range(2):
        assert found.begins_at(PLACE, committed, beside, marks) == begins_at
    assert len(found.notes) == reported
    assert counted(metrics, "actions") == (reported or (0 if logs.ids else None))


def test_a_changelog_that_was_recreated_is_reported_and_reading_goes_on_where_it_was() -> None:
    found, metrics = lives(Logs(BEFORE.ids, "s2"), actions=100)
    assert found.begins_at(PLACE, 40, BEFORE.in_commit("actions"), []) == 40
    assert counted(metrics, CHANGELOG) == 1
    assert "topic states was recreated: what sessions were known for is lost" in found.notes[0]


@cases(
    "logs, committed, includes_at_most",
    {
        "all that was committed is there: the end may lag": (UNKNOWN, {PLACE: (40, "")}, {}),
        "the end is the offset that was committed": (UNKNOWN, {PLACE: (100, "")}, {}),
        "less is there than was committed": (UNKNOWN, {PLACE: (140, "")}, {"actions": 100}),
        "nothing is committed": (UNKNOWN, {}, {"actions": 100}),
        "committed of another topic of that name": (NOW, {PLACE: (40, BEFORE.in_commit("actions"))}, {"actions": 100}),
    },
)
def test_what_a_state_without_known_logs_can_include(
    logs: Logs, committed: dict[tuple[str, int], tuple[int, str]], includes_at_most: dict[str, int]
) -> None:
    found = TopicIncarnations(logs, CHANGELOG, Metrics())
    found.assign({PLACE: 100}, committed)
    assert found.ends_for(0, b"") == includes_at_most
