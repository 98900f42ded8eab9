from typing import Any

import pytest

from haltline.detectors.features.observation import CallTracker, Observation, Phase
from haltline.detectors.features.tool_classifier import Classifier
from haltline.schemas.events import ActionEvent, Effect
from haltline.schemas.policy import Policy, Reading, Tool
from tests.builders import event

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
        ("DROP_TABLE", Effect.DESTRUCTIVE),
        ("truncate_events", Effect.DESTRUCTIVE),
        ("deleteAsset", Effect.DESTRUCTIVE),
        ("delete-asset", Effect.DESTRUCTIVE),
        ("mcp__warehouse__drop_table", Effect.DESTRUCTIVE),
        ("catalog.delete_asset", Effect.DESTRUCTIVE),
        ("assets/delete", Effect.DESTRUCTIVE),
        ("undelete_asset", Effect.READ),
        ("Bash", Effect.EXEC),
        ("run_code", Effect.EXEC),
        ("get_user", Effect.READ),
        ("Read", Effect.READ),
        ("WebSearch", Effect.READ),
        ("job_status", Effect.POLL),
        ("TaskOutput", Effect.POLL),
        ("update_reservation_flights", Effect.MUTATE),
        ("Edit", Effect.WRITE),
        ("send_mail", Effect.NETWORK),
        ("no_such_tool", Effect.READ),
    ],
)
def test_effect_by_name(action: str, effect: Effect) -> None:
    assert read(event(0, action)).effect is effect


@pytest.mark.parametrize(
    ("action", "hint", "effect"),
    [
        pytest.param("get_user", Effect.DESTRUCTIVE, Effect.DESTRUCTIVE, id="a hint raises"),
        pytest.param("delete_asset", Effect.READ, Effect.DESTRUCTIVE, id="a hint never lowers"),
        pytest.param("no_such_tool", Effect.MUTATE, Effect.MUTATE, id="a hint says what is not known"),
    ],
)
def test_hints(action: str, hint: Effect, effect: Effect) -> None:
    assert read(event(0, action, effect=hint)).effect is effect


def test_the_policy_is_asked_first() -> None:
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


@pytest.mark.parametrize(
    ("args", "targets"),
    [
        pytest.param({"asset_id": "a", "reason": "x"}, ("asset_id=a",), id="by name"),
        pytest.param({"id": 7, "table": "t"}, ("table=t",), id="the most telling"),
        pytest.param({"table": "t", "schema": "s", "database": "d"}, ("database=d,schema=s,table=t",), id="qualified"),
        pytest.param({"asset_id": ["a", "b", "a"]}, ("asset_id=a", "asset_id=b"), id="a list, each once"),
        pytest.param({"file_path": "/a//b/../c"}, ("path=/a/c",), id="a path, by whatever name"),
        pytest.param({"asset_id": {"x": 1}}, ("unknown",), id="not a name"),
        pytest.param({"asset_id": ""}, ("unknown",), id="empty"),
        pytest.param({"asset_id": True}, ("unknown",), id="not an id"),
        pytest.param({"asset_id": "x" * 1000}, ("unknown",), id="too long for a name"),
        pytest.param(None, ("unknown",), id="no arguments"),
    ],
)
def test_targets_from_arguments(args: dict[str, Any] | None, targets: tuple[str, ...]) -> None:
    assert CLASSIFIER.targets(event(0, "x", args=args)) == targets


def test_the_producers_targets_come_first() -> None:
    e = event(0, "x", args={"asset_id": "a"}, targets=["asset_id=b", "asset_id=b", "asset_id=c"])
    assert CLASSIFIER.targets(e) == ("asset_id=b", "asset_id=c")


@pytest.mark.parametrize(
    ("e", "expected"),
    [
        pytest.param(event(0, "delete_asset", "asset_id=a"), ["delete_asset asset_id=a"], id="by name"),
        pytest.param(event(0, "delete_asset"), ["delete_asset unknown"], id="by name, of what is not said"),
        pytest.param(
            event(0, "mcp__w__drop_table", "table=t"), ["drop_table table=t"], id="by the last part of the name"
        ),
        pytest.param(event(0, "tidy", "x=1", effect=Effect.DESTRUCTIVE), ["tidy x=1"], id="by the producer's hint"),
        pytest.param(
            event(0, "run_query", args={"sql": "DELETE FROM t WHERE a = 1; DROP TABLE u"}),
            ["delete_rows table=t", "drop_table table=u"],
            id="by SQL",
        ),
        pytest.param(event(0, "run_query", args={"sql": "SELECT 1"}), [], id="a query"),
        pytest.param(
            event(0, "request", args={"method": "delete", "url": "http://x/y"}),
            ["http_delete url=http://x/y"],
            id="by HTTP",
        ),
        pytest.param(event(0, "request", args={"method": "GET", "url": "http://x/y"}), [], id="an HTTP read"),
        pytest.param(event(0, "get_asset", "asset_id=a"), [], id="a read"),
        pytest.param(event(0, "bash", args={"command": 7}), [], id="a command that is none"),
        pytest.param(event(0, "bash"), [], id="no command"),
        pytest.param(
            event(0, "odd", args={"cmd": "rm /srv/a"}), ["rm path=/srv/a"], id="an unknown tool with a command"
        ),
        pytest.param(
            event(0, "odd", args={"sql": "DROP TABLE t"}), ["drop_table table=t"], id="an unknown tool with SQL"
        ),
        pytest.param(
            event(0, "bash", args={"command": "rm a", "cwd": "/srv"}), ["rm path=/srv/a"], id="where it is done"
        ),
    ],
)
def test_destroys(e: ActionEvent, expected: list[str]) -> None:
    assert lost(e) == expected


@pytest.mark.parametrize(
    ("e", "expected"),
    [
        pytest.param(event(0, "create_asset", "asset_id=a"), ("asset_id=a",), id="by name"),
        pytest.param(event(0, "Write", args={"file_path": "/a"}), ("path=/a",), id="a file"),
        pytest.param(event(0, "sql", args={"query": "CREATE TABLE t (a int)"}), ("table=t",), id="by SQL"),
        pytest.param(event(0, "get_asset", "asset_id=a"), (), id="a read"),
        pytest.param(
            event(0, "bash", args={"command": "cat > a <<'E'\nx\nE", "cwd": "/w"}), ("path=/w/a",), id="a heredoc"
        ),
        pytest.param(
            event(0, "bash", args={"command": "cat <<E > ./a/../b\nx\nE"}), ("path=b",), id="a heredoc without cwd"
        ),
        pytest.param(
            event(0, "bash", args={"command": "cat <<E > a\nx\nE\ntouch b"}),
            ("path=a", "path=b"),
            id="more after a heredoc",
        ),
    ],
)
def test_creates(e: ActionEvent, expected: tuple[str, ...]) -> None:
    assert read(e).creates == expected


@pytest.mark.parametrize(
    ("e", "expected"),
    [
        pytest.param(event(0, "Edit", args={"file_path": "/a"}), True, id="an edit"),
        pytest.param(event(0, "update_user"), True, id="a change"),
        pytest.param(event(0, "no_such_tool"), True, id="an unknown tool is taken to"),
        pytest.param(event(0, "no_such_tool", effect=Effect.READ), False, id="unless its producer says that it reads"),
        pytest.param(event(0, "get_user"), False, id="a read"),
        pytest.param(event(0, "bash", args={"command": "ls"}), False, id="a command that reads"),
        pytest.param(event(0, "bash", args={"command": ["sed", "-i", "s/a/b/", "x"]}), True, id="a command as a list"),
        pytest.param(event(0, "sql", args={"query": "SELECT 1"}), False, id="a query"),
        pytest.param(event(0, "sql", args={"query": "INSERT INTO t VALUES (1)"}), True, id="an insert"),
        pytest.param(event(0, "run_code", args={"code": "open('x','w').write('y')"}), True, id="a program that writes"),
    ],
)
def test_changes(e: ActionEvent, expected: bool) -> None:
    assert read(e).changes is expected


def test_the_cache_of_names_is_bounded() -> None:
    classifier = Classifier(Policy())
    for number in range(10_000):
        classifier.tool(f"tool_{number}")
    assert len(classifier._by_name) <= 4096


@pytest.mark.parametrize(
    ("tool", "effect"),
    [
        pytest.param(Tool(match="drop_*", loop_key=("id",)), Effect.DESTRUCTIVE, id="what is known otherwise holds"),
        pytest.param(Tool(match="drop_*", loop_key=("id",), effect=Effect.WRITE), Effect.WRITE, id="unless it is said"),
    ],
)
def test_a_loop_key_alone_does_not_hide_what_a_tool_does(tool: Tool, effect: Effect) -> None:
    known = Classifier(Policy(tools=(tool,))).tool("drop_table")
    assert (known.effect, known.loop_key) == (effect, ("id",))
