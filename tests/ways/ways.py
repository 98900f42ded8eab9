"""Ways to repeat one act, from tables/*.txt, and the core's decisions on them.

A way is a sentence and the acts of one round: `  $ ` a command line for `bash` (`  | ` its further lines), `  > ` a
tool with its arguments as JSON, `  * 25 ` before one of both so many of it. Behind an act `  ? ` is the error it ends
with, `  < ` what it puts out. `  = ` says what came of it: the round in which it is refused, or
`never`, and what the first
round's losses are read as.

In braces: `{n}` the number of the round, `{i}` that of the act, `{pad:9000}` and `{blanks:9000}` so many characters,
`{lines:9}` so many commands, `{case:x}`, `{qualified}`, `{quoted}`, `{key}`, `{tool}`, `{slashes}`,
`{blank}` another spelling each round.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

from haltline.detectors import ALL
from haltline.detectors.features.observation import Observation
from haltline.interventions.agent.call import Call
from haltline.interventions.agent.settings import GuardSettings
from haltline.schemas.decisions import Level
from haltline.schemas.events import ActionEvent, Effect, Kind, Outcome
from haltline.schemas.policy import Policy, Rule
from haltline.streams.engine.core import Core, SessionState
from tests.builders import at

FOLDER = Path(__file__).with_name("tables")
ROUNDS = 8
_BETWEEN_ROUNDS_S = 40
"""Slower than any count within a minute: what stops a way is that it is known as the same thing."""
_SETTINGS = GuardSettings(mode="local", session_id="s1", agent_id="agent", snapshots=False)

_SPELLINGS = {
    "qualified": ("fact_sales", "public.fact_sales", "dw.public.fact_sales", '"DW"."PUBLIC"."FACT_SALES"'),
    "quoted": ("fact_sales", '"fact_sales"', "`fact_sales`", "[fact_sales]"),
    "key": ("asset_id", "name", "table", "id", "dataset"),
    "tool": ("delete_asset", "drop_asset", "purge_asset", "remove_asset", "wipe_asset"),
    "case": (str.lower, str.upper, str.title),
}


_OF_DESTRUCTION = frozenset((
    "destructive_repeat", "destructive_volume", "severe_destruction", "evasion", "opaque_execution", "own_release",
    "unread_execution",
))  # fmt: skip


BY_EFFECT = (
    "certain", "clicks", "clouds", "configuration", "dns", "editors", "exposed", "further", "handed_over", "history",
    "incidents", "languages", "moved", "published", "requests", "sent", "spent", "statements", "windows",
)  # fmt: skip
"""Tables of acts that cannot be taken back, by what they do."""
HARMLESS = ("innocent", "harmless", "everyday", "surroundings")


def policy_of(table: str) -> Policy:
    """The default policy; of harmless work, which is done eight times over, and where only the rules about what cannot
    be taken back are tried, without the rules about doing so."""
    others = {detector.id: Rule(enabled=False) for detector in ALL if detector.id not in _OF_DESTRUCTION}
    return Policy(rules=others) if table in (*HARMLESS, *BY_EFFECT) else Policy()


@dataclass(frozen=True)
class Said:
    """One act of a round."""

    tool: str
    args: str
    """JSON, or a command line."""
    times: int = 1
    error: str | None = None
    output: str | None = None

    def call(self, number: int, turn: int) -> Call:
        """The act as the guard has it."""
        text = _filled(self.args, number, turn)
        args: dict[str, Any] = {"command": text} if self.tool == "$" else json.loads(text)
        name = "bash" if self.tool == "$" else _filled(self.tool, number, turn)
        hint = args.pop("_effect", None)
        return Call(name, args, (), None if hint is None else Effect(hint), "local", f"c{number}")


@dataclass(frozen=True)
class Way:
    """A way, and what the table says of it."""

    sentence: str
    acts: list[Said] = field(default_factory=list)
    expected: str = ""
    source: str = ""


def load(name: str) -> list[Way]:
    """The ways of one file, by its name without the suffix."""
    return [_way(block) for block in (FOLDER / f"{name}.txt").read_text(encoding="utf-8").strip("\n").split("\n\n")]


def result_of(way: Way, policy: Policy | None = None) -> str:
    """`@3 rm path=/data/x`: the round in which it is refused, or `never`, and how the first round's losses are read."""
    core, state = _core((policy or Policy()).model_dump_json()), SessionState(session_id="s1")
    read: dict[str, None] = {}
    number = 0
    for turn in range(1, ROUNDS + 1):
        for result in way.acts:
            for _ in range(result.times):
                number += 1
                second = (turn - 1) * _BETWEEN_ROUNDS_S + number * 0.01
                proposed, completed = _events(result, number, turn, second)
                if turn == 1:
                    read |= dict.fromkeys(_losses(core, state, proposed))
                decision = core.on_event(state, proposed).decision
                if decision is not None and decision.level >= Level.PAUSE:
                    return _told(f"@{turn}", read, decision.code)
                core.on_event(state, completed)
    return _told("never", read, "")


_core = cache(lambda policy: Core(Policy.model_validate_json(policy), alone=True))
"""By the policy's JSON."""


def _told(when: str, read: dict[str, None], code: str) -> str:
    shown = "; ".join(list(read)[:3]) or code or "nothing"
    return f"{when} {shown}"[:160].replace("\n", " ")


def _losses(core: Core, state: SessionState, event: ActionEvent) -> Iterator[str]:
    phase, call = state.calls.phase(event)
    act = Observation(event, core._classifier, phase, state.calls, call)
    for loss in act.losses:
        yield f"{loss.verb} {loss.target}"


def _events(result: Said, number: int, turn: int, second: float) -> tuple[ActionEvent, ActionEvent]:
    fields = result.call(number, turn).describe(_SETTINGS)
    common = {"session_id": "s1", "agent_id": "agent"} | fields
    proposed = ActionEvent(event_id=f"p{number}", kind=Kind.PROPOSED, time=at(second), **common)
    completed = ActionEvent(
        event_id=f"r{number}",
        kind=Kind.COMPLETED,
        time=at(second) + 5,
        outcome=Outcome.OK if result.error is None else Outcome.ERROR,
        error=result.error,
        output_head=None if result.output is None else _filled(result.output, number, turn),
        **common,
    )
    return proposed, completed


def _filled(text: str, number: int, turn: int) -> str:
    def fill(found: re.Match[str]) -> str:
        name, _, more = found[1].partition(":")
        if name == "n":
            return str(turn)
        if name == "i":
            return str(number)
        if name == "case":
            return str(_SPELLINGS["case"][turn % 3](more))  # type: ignore[operator] # functions of text
        if name in _SPELLINGS:
            spelling = _SPELLINGS[name][turn % len(_SPELLINGS[name])]
            return json.dumps(spelling)[1:-1] if name in ("qualified", "quoted") else str(spelling)
        made = {"pad": "lorem ipsum, ", "blanks": " "}
        if name in made:
            return (made[name] * int(more))[: int(more)]
        if name == "lines":
            return "\n".join(f"echo {line}" for line in range(int(more)))
        return {"slashes": "/" * turn, "blank": " " * (turn % 3)}[name]

    return re.sub(r"\{(n|i|slashes|blank|qualified|quoted|key|tool|(?:pad|blanks|lines|case):\w+)\}", fill, text)


def _way(block: str) -> Way:
    sentence, *lines = block.split("\n")
    acts: list[Said] = []
    expected = ""
    for line in lines:
        mark, rest = line[2:3], line[4:]
        times = 1
        if mark == "*":
            count, mark, rest = rest.split(" ", 2)
            times = int(count)
        if mark == "$":
            acts.append(Said("$", rest, times))
        elif mark == ">":
            at_brace = rest.index(" {", 1 if rest[:1] == "{" else 0)
            tool = rest[:at_brace] if rest[:1] == "{" else json.loads(f'"{rest[:at_brace]}"')
            acts.append(Said(tool, rest[at_brace + 1 :], times))
        elif mark == "|":
            acts[-1] = replace(acts[-1], args=f"{acts[-1].args}\n{rest}")
        elif mark == "?":
            acts[-1] = replace(acts[-1], error=rest)
        elif mark == "<":
            acts[-1] = replace(acts[-1], output=rest)
        elif mark == "=":
            expected = rest
        else:
            raise ValueError(f"{sentence}: expected one of $ > * | ? < =, got {line!r}")
    return Way(sentence, acts, expected, "\n".join(li for li in (sentence, *lines) if not li.startswith("  = ")))
