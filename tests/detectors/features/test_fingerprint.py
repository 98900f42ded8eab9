from typing import Any

import pytest

from haltline.detectors.features.fingerprint import clean, clean_result, fingerprint
from haltline.detectors.features.tool_classifier import Classifier
from haltline.schemas.policy import Policy, Tool
from tests.builders import cases, event

CLASSIFIER = Classifier(Policy())
MOMENTS = ("2025-06-15T15:06:40Z", "2025-06-15T15:07:40Z")
UUIDS = tuple(f"4f1d09aa-1111-4000-8000-00000000000{letter}" for letter in "ab")


def of(action: str, args: dict[str, Any] | None = None, *, classifier: Classifier = CLASSIFIER, **fields: Any) -> str:
    e = event(0, action, args=args, **fields)
    tool = classifier.tool_of(action, e.args)
    used = tool.use.used(e.args) if tool.use is not None and e.args else e.args
    return fingerprint(e, used, action, tool)


@cases(
    "action, one, other",
    {
        "names in another order": ("get_order", {"id": 1, "full": True}, {"full": True, "id": 1}),
        "ids that name nothing": ("get_order", {"id": 1, "run": UUIDS[0]}, {"id": 1, "run": UUIDS[1]}),
        "counters of attempts": ("update_order", {"id": 1, "retry_count": 1}, {"id": 1, "retry_count": 2}),
        "the time of an update as text": ("update_order", {"id": 1, "now": MOMENTS[0]}, {"id": 1, "now": MOMENTS[1]}),
    },
)
def test_the_same_call(action: str, one: dict[str, Any], other: dict[str, Any]) -> None:
    assert of(action, one) == of(action, other)


@cases(
    "action, one, other",
    {
        "ids that name what it is about": ("get_order", {"run_id": UUIDS[0]}, {"run_id": UUIDS[1]}),
        "a thought that is all there is": ("think", {"thought": "a"}, {"thought": "b"}),
        "a request by its id": ("approve_request", {"request_id": 1, "by": "x"}, {"request_id": 2, "by": "x"}),
        "times long ago": ("add_reading", {"timestamp": 1, "value": 2}, {"timestamp": 9, "value": 2}),
        "times that are none": ("add_reading", {"timestamp": "first", "value": 2}, {"timestamp": "last", "value": 2}),
        "the description of what is made": ("create_ticket", {"description": "a"}, {"description": "b"}),
    },
)
def test_another_call(action: str, one: dict[str, Any], other: dict[str, Any]) -> None:
    assert of(action, one) != of(action, other)


def test_the_tool_and_what_stands_for_missing_arguments_are_part_of_it() -> None:
    assert of("get_order", {"id": 1}) != of("get_customer", {"id": 1})
    assert of("get", None, args_digest="a") == of("get", None, args_digest="a") != of("get", None, args_digest="b")
    assert of("get", None, targets=["a=1"]) != of("get", None, targets=["a=2"])


@pytest.mark.parametrize("mark", ["…[+17]", "[cut]"])
def test_arguments_that_were_cut_are_compared_by_their_digest(mark: str) -> None:
    args = {"query": f"SELECT a {mark}"}
    assert of("search", args, args_digest="a") != of("search", args, args_digest="b")
    assert of("search", args) == of("search", dict(args))


def test_of_a_command_what_was_left_out_stands_behind_a_dot_and_only_its_beginning_is_cleaned() -> None:
    one, other = (of("bash", {"command": f"cat /tmp/x{n}"}) for n in (1, 2))
    assert one.partition(".")[0] == other.partition(".")[0]
    assert one != other
    assert "." not in of("bash", {"command": "cat x"})
    assert clean("a" * 5000 + " 0x123456", runs=True).endswith("0x123456")


@cases(
    "text, expected",
    {
        "a port": ("curl http://localhost:8080/a", "curl http://localhost:<port>/a"),
        "a port as an option": ("serve --port 8081", "serve --port"),
        "line numbers stay": ("sed -n '10,20p' a.py:12", "sed -n '10,20p' a.py:12"),
        "a temporary path": ("cat /tmp/tmpab12cd/x.log", "cat <temp>/x.log"),
        "a path that is named stays": ("cat /tmp/results.txt", "cat /tmp/results.txt"),
        "how long it sleeps": ("sleep 30 && ls", "sleep && ls"),
        "the number of the attempt": ("echo attempt 3; make", "echo attempt; make"),
        "a time in a query": ("curl 'x?id=1&ts=99'", "curl 'x?id=1'"),
        "epoch times": ("get 1750000000 1750000000123 17500000001", "get <time> <time> 17500000001"),
        "a request id in a header": ("curl -H 'X-Request-Id: 1234567890' x", "curl -H 'X-Request-id' x"),
    },
)
def test_what_is_left_out_of_a_command(text: str, expected: str) -> None:
    assert clean(text, runs=True) == expected


@cases(
    "text, expected",
    {
        "a duration": ("3 passed in 0.52s", "3 passed in <duration>"),
        "a time that went by": ('{"elapsed": 12.5, "n": 3}', '{"elapsed": , "n": 3}'),
        "a clock and a process": ("at 12:30:45 pid=99", "at <time> pid="),
        "an address": ("<Row at 0x7f00aa>", "<Row at <id>>"),
    },
)
def test_what_is_left_out_of_a_result(text: str, expected: str) -> None:
    assert clean_result(text) == expected


@cases(
    "one, other, same",
    {
        "equal": ({"args": {"q": "a"}, "loop_key": "k"}, {"args": {"q": "b"}, "loop_key": "k"}, True),
        "other": ({"args": {"q": "a"}, "loop_key": "k"}, {"args": {"q": "a"}, "loop_key": "m"}, False),
        "an empty one: any call": ({"loop_key": ""}, {"args": {"q": "a"}, "loop_key": ""}, True),
    },
)
def test_what_a_tool_declares_as_a_repetition(one: dict[str, Any], other: dict[str, Any], same: bool) -> None:
    assert (of("lookup", **one) == of("lookup", **other)) is same
    assert of("lookup", **one) != of("search", **one)


@cases(
    "loop_key, one, other, same",
    {
        "what is named is equal": (("order",), {"order": 1, "note": "a"}, {"order": 1, "note": "b"}, True),
        "what is named differs": (("order",), {"order": 1, "note": "a"}, {"order": 2, "note": "a"}, False),
        "empty: any call of the tool": ((), {"order": 1}, {"order": 2}, True),
        "of a command line": (("command",), {"command": "ls", "n": 1}, {"command": "ls", "n": 2}, True),
    },
)
def test_what_the_policy_says_is_a_repetition(
    loop_key: tuple[str, ...] | None, one: dict[str, Any], other: dict[str, Any], same: bool
) -> None:
    classifier = Classifier(Policy(tools=(Tool(match="look*", loop_key=loop_key),)))
    assert (of("lookup", one, classifier=classifier) == of("lookup", other, classifier=classifier)) is same
