"""A history for which every figure of a backtest was computed by hand.

One rule is on: `destructive_repeat`, which nudges at the second delete of one thing and kills at the third.
The strict policy kills at the second. Each delete costs 2 USD when it is made, 5 USD when it is prevented.

| session | deletes one table at second | label       | stopped now           | stopped if strict    |
| ------- | --------------------------- | ----------- | --------------------- | -------------------- |
| loop    | 0, 6, 12, 18                | confirmed   | at 4 (the third)      | at 2 (the second)    |
| pair    | 100, 106                    | missed      |                       | at 2                 |
| tidy    | 200, 206                    | false_alarm |                       | at 2                 |
| once    | 300                         |             |                       |                      |
"""

from pathlib import Path
from typing import Any

import orjson
import pytest

from haltline.detectors import ALL
from haltline.schemas.events import Outcome
from tests.streams.commands import said
from tests.streams.replay.recorded import LiveLog, deletes, label_of

SECONDS = {"loop": (0, 6, 12, 18), "pair": (100, 106), "tidy": (200, 206), "once": (300,)}
LABELS = {"loop": "confirmed", "pair": "missed", "tidy": "false_alarm"}
PRICES = {"prices": [{"action": "delete_asset", "usd": 5}]}
SHADOWED = {detector.id: {"mode": "shadow"} for detector in ALL if detector.id != "destructive_repeat"}
KILL_AT_SECOND = {"levels": {"low": "KILL"}}


def policy(name: str, **rule: Any) -> dict[str, Any]:
    return {"name": name, "rules": SHADOWED | {"destructive_repeat": rule}, "interventions": PRICES}


@pytest.fixture(scope="module")
def history(tmp_path_factory: pytest.TempPathFactory) -> Path:
    log = LiveLog()
    for session, seconds in SECONDS.items():
        costs = {None: {}, Outcome.OK: {"usage": {"cost_usd": 2}}}
        log.events(e.model_validate(e.model_dump() | costs[e.outcome]) for e in deletes(session, *seconds))
    for session, label in LABELS.items():
        name, rule = (None, "destructive_repeat") if label == "missed" else (f"of {session}", None)
        log.command(label_of(session, label, name, rule=rule))
    return log.audited(tmp_path_factory.mktemp("history") / "audit")


@pytest.fixture(scope="module")
def policies(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("policies")
    for name, rule in (("now", {}), ("strict", KILL_AT_SECOND)):
        (folder / f"{name}.yaml").write_bytes(orjson.dumps(policy(name, **rule)))
    return folder


def run(history: Path, *arguments: object) -> str:
    code, output = said("backtest", history, *arguments)
    assert code == 0, output
    return output


def stop(session: str, number: int) -> dict[str, Any]:
    event = deletes(session, *SECONDS[session])[number]
    return {"seq": number, "event_id": event.event_id, "detector": "destructive_repeat", "level": "KILL"}


def totals(stopped: int, nudged: int, prevented: float, after: float, **by_label: int) -> dict[str, Any]:
    return {
        "sessions": 4, "stopped": stopped, "nudged": nudged, "asks": 0, "stopped_by_label": by_label,
        "cost_prevented_usd": prevented, "cost_after_stop_usd": after,
    }  # fmt: skip


NOW = totals(1, 2, 5.0, 4.0, confirmed=1) | {
    "quality": {"right": 1, "wrong": 0, "overlooked": 1, "precision": 1.0, "recall": 0.5}
}
STRICT = totals(3, 0, 15.0, 10.0, confirmed=1, false_alarm=1, missed=1) | {
    "quality": {"right": 2, "wrong": 1, "overlooked": 0, "precision": 0.6667, "recall": 1.0}
}


def test_trips_that_appear_and_move_by_session_with_what_both_policies_come_to(history: Path, policies: Path) -> None:
    options = ("--policy", policies / "strict.yaml", "--against", policies / "now.yaml", "--json")
    *sessions, last = map(orjson.loads, run(history, *options).splitlines())
    reported = {one["session_id"]: (one["change"], one["first"], one["against"]) for one in sessions}
    assert reported == {
        "loop": ("moves", stop("loop", 2), {"level": "KILL", "first": stop("loop", 4)}),
        "pair": ("appears", stop("pair", 2), {"level": "NUDGE", "first": None}),
        "tidy": ("appears", stop("tidy", 2), {"level": "NUDGE", "first": None}),
        "once": ("same", None, {"level": "ALLOW", "first": None}),
    }
    changes = {"moves": 1, "appears": 2, "same": 1}
    assert last == {"summary": {"changes": changes, "policy": STRICT, "against": NOW}}


def test_a_sweep_over_one_threshold(history: Path, policies: Path, tmp_path: Path) -> None:
    place = "rules.destructive_repeat.settings.same_target_prior"
    options = ("--policy", policies / "now.yaml", "--sweep", f"{place}=1,2,9", "--plot", tmp_path / "s.svg", "--json")
    rows = list(map(orjson.loads, run(history, *options).splitlines()))
    none = {"right": 0, "wrong": 0, "overlooked": 2, "precision": None, "recall": 0.0}
    assert rows == [
        {"setting": place, "value": 1, **NOW},
        {"setting": place, "value": 2, **totals(1, 2, 5.0, 2.0, confirmed=1), "quality": NOW["quality"]},
        {"setting": place, "value": 9, **totals(0, 3, 0.0, 0.0), "quality": none},
    ]
    drawn = (tmp_path / "s.svg").read_text()
    assert all(f">{text}</text>" in drawn for text in ("sessions", place, "stopped", "nudged", "stopped: confirmed"))
    shown = run(history, *options[:3], f"{place}=1,9")
    assert [line.replace("│", " ").split() for line in shown.splitlines() if "%" in line] == [
        ["1", "1", "0", "2", "1", "100%", "50%"],
        ["9", "0", "0", "3", "0", "-", "0%"],
    ], shown
