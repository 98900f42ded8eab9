from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from haltline.detectors.features.observation import CallTracker, Observation, Phase
from haltline.detectors.features.tool_classifier import Classifier
from haltline.schemas.events import ActionEvent, Effect
from haltline.schemas.policy import Policy, Reading, Tool
from tests.builders import cases, event

CLASSIFIER = Classifier(Policy())


def read(e: ActionEvent, classifier: Classifier = CLASSIFIER) -> Observation:
    """The event as the first of its session."""
    return Observation(e, classifier=classifier, phase=Phase.BOTH, calls=CallTracker())


def lost(e: ActionEvent, classifier: Classifier = CLASSIFIER) -> list[str]:
    """Verb and target of what the event would destroy."""
    return [f"{d.verb} {d.target}" for d in read(e, classifier).destroys]


@pytest.mark.parametrize(
    ("action", "effect"),
    [
        ("delete_asset", Effect.DESTRUCTIVE),
        ("deleteAsset", Effect.DESTRUCTIVE),
        ("mcp__warehouse__drop_table", Effect.DESTRUCTIVE),
        ("assets/delete", Effect.DESTRUCTIVE),
        ("undelete_asset", Effect.READ),
        ("Bash", Effect.EXEC),
        ("get_user", Effect.READ),
        ("get_and_remove", Effect.DESTRUCTIVE),
        ("find_and_replace", Effect.MUTATE),
        ("get_terms_and_conditions", Effect.READ),
        ("WebSearch", Effect.READ),
        ("job_status", Effect.POLL),
        ("update_reservation_flights", Effect.MUTATE),
        ("Edit", Effect.WRITE),
        ("send_mail", Effect.NETWORK),
        ("no_such_tool", Effect.READ),
    ],
)
def test_effect_by_name(action: str, effect: Effect) -> None:
    assert read(event(0, action)).effect is effect


_NAMES = (
    "action operation method verb command query filter where label text selector button element prompt task "
    "path paths url content new_str ids force recursive args input params body code"
)
_TOLD = _NAMES.split()
_WORDS = [
    "delete",
    "click",
    "DELETE",
    "rm -rf /srv",
    "drop table a",
    "Delete project",
    "*",
    "",
    "https://a.example/b?c",
]
_PLAIN = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8)
_JSON = st.recursive(
    _PLAIN | st.sampled_from(_WORDS),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(_TOLD), inner, max_size=3),
    max_leaves=8,
)
_TOOLS = (
    "browser_click run bash sql query delete_asset update_record http_request delegate_task move_file git "
    "set_acl send_mail transfer write_file str_replace_editor eval_js dialog cypher publish x"
)


@settings(max_examples=200)
@given(st.sampled_from(_TOOLS.split()), st.dictionaries(st.sampled_from(_TOLD), _JSON, max_size=4))
def test_arguments_of_any_type_are_taken_in(action: str, args: dict[str, Any]) -> None:
    act = read(event(0, action, args=args))
    assert all(found.target for found in act.destroys)
    assert all(act.targets)


def test_hints_raise_the_policy_is_asked_first_and_the_producers_targets_come_before_arguments() -> None:
    assert read(event(0, "get_user", effect=Effect.DESTRUCTIVE)).effect is Effect.DESTRUCTIVE, "a hint raises"
    assert read(event(0, "delete_asset", effect=Effect.READ)).effect is Effect.DESTRUCTIVE, "a hint never lowers"
    assert read(event(0, "no_such_tool", effect=Effect.MUTATE)).effect is Effect.MUTATE, "a hint says what is not known"
    policy = Policy(
        tools=(
            Tool(match="delete_draft", effect=Effect.WRITE),
            Tool(match="warehouse", effect=Effect.EXEC, reading=Reading.SQL),
        ),
        target_args=("draft_no",),
    )
    classifier = Classifier(policy)
    assert read(event(0, "delete_draft"), classifier).effect is Effect.WRITE
    assert classifier.targets(event(0, "x", args={"draft_no": 7, "id": 9})) == ("draft_no=7",)
    assert lost(event(0, "warehouse", args={"query": "DROP TABLE t"}), classifier) == ["drop_table table=t"]
    e = event(0, "x", args={"asset_id": "a"}, targets=["asset_id=b", "asset_id=b", "asset_id=c"])
    assert CLASSIFIER.targets(e) == ("asset_id=b", "asset_id=c")


@cases(
    "args, targets",
    {
        "by name": ({"asset_id": "a", "reason": "x"}, ("asset_id=a",)),
        "the most telling": ({"id": 7, "asset_id": "a"}, ("asset_id=a",)),
        "one of what a table holds": ({"id": 7, "table": "t"}, ("table=t/7",)),
        "qualified": ({"table": "t", "schema": "s", "database": "d"}, ("database=d,schema=s,table=t",)),
        "a list, each once": ({"asset_id": ["a", "b", "a"]}, ("asset_id=a", "asset_id=b")),
        "a path, by whatever name": ({"file_path": "/a//b/../c"}, ("path=/a/c",)),
        "too long for a name": ({"asset_id": "x" * 1000}, ("unknown",)),
    },
)
def test_targets_from_arguments(args: dict[str, Any] | None, targets: tuple[str, ...]) -> None:
    assert CLASSIFIER.targets(event(0, "x", args=args)) == targets


EVERY_FIELD = {
    "command": "str_replace", "path": "/srv/a.csv", "file_text": "", "old_str": "x", "new_str": "y", "insert_line": 0,
    "view_range": [],
}  # fmt: skip


@cases(
    "e, expected",
    {
        "by name": (event(0, "delete_asset", "asset_id=a"), ["delete_asset asset_id=a"]),
        "by the producer's hint": (event(0, "tidy", "x=1", effect=Effect.DESTRUCTIVE), ["tidy x=1"]),
        "by SQL": (
            event(0, "run_query", args={"sql": "DELETE FROM t WHERE a = 1; DROP TABLE u"}),
            ["delete_rows table=t", "drop_table table=u"],
        ),
        "an unknown tool with SQL": (event(0, "odd", args={"sql": "DROP TABLE t"}), ["drop_table table=t"]),
        "an edit by an editor that nobody knows": (event(0, "my_files", args=EVERY_FIELD), []),
        "the file that an editor empties": (
            event(0, "file_editor", args={"command": "create", "path": "/srv/a.csv", "file_text": ""}),
            ["empty_file path=/srv/a.csv"],
        ),
        "a key of a file is an edit": (
            event(0, "json_edit_tool", args={"operation": "remove", "file_path": "/srv/a.json", "json_path": "$.x"}),
            [],
        ),
        "an argument that hides in a known tool": (
            event(0, "Edit", args={"file_path": "/a", "old_string": "x", "new_string": "y", "sql": "DROP TABLE t"}),
            ["drop_table table=t"],
        ),
        "where it is done": (event(0, "bash", args={"command": "rm a", "cwd": "/srv"}), ["rm path=/srv/a"]),
    },
)
def test_destroys(e: ActionEvent, expected: list[str]) -> None:
    assert lost(e) == expected


@cases(
    "e, expected",
    {
        "by name": (event(0, "create_asset", "asset_id=a"), ("asset_id=a", "asset=a")),
        "a file": (event(0, "Write", args={"file_path": "/a"}), ("path=/a",)),
        "by SQL": (event(0, "sql", args={"query": "CREATE TABLE t (a int)"}), ("table=t",)),
        "a heredoc without cwd": (event(0, "bash", args={"command": "cat <<E > ./a/../b\nx\nE"}), ("path=b",)),
    },
)
def test_creates(e: ActionEvent, expected: tuple[str, ...]) -> None:
    assert read(e).creates == expected


@cases(
    "e, expected",
    {
        "an unknown tool is taken to": (event(0, "no_such_tool"), True),
        "unless its producer says that it reads": (event(0, "no_such_tool", effect=Effect.READ), False),
        "a command as a list": (event(0, "bash", args={"command": ["sed", "-i", "s/a/b/", "x"]}), True),
        "an insert": (event(0, "sql", args={"query": "INSERT INTO t VALUES (1)"}), True),
        "a program that writes": (event(0, "run_code", args={"code": "open('x','w').write('y')"}), True),
    },
)
def test_changes(e: ActionEvent, expected: bool) -> None:
    assert read(e).changes is expected


def test_a_loop_key_alone_does_not_hide_what_a_tool_does_and_the_cache_of_names_is_bounded() -> None:
    for declared, effect in ((None, Effect.DESTRUCTIVE), (Effect.WRITE, Effect.WRITE)):
        classifier = Classifier(Policy(tools=(Tool(match="drop_*", loop_key=("id",), effect=declared),)))
        known = classifier.tool("drop_table")
        assert (known.effect, known.loop_key) == (effect, ("id",))
    for number in range(4_200):
        classifier.tool(f"tool_{number}")
    assert len(classifier._by_name) <= 4096
