"""`python -m benchmarks.stagnation`: trains the model of the detector `stagnation`, and measures the policy with it.

There are two cross-validations: by task, and with each source left out in turn. Each session is run in a backtest, as a
guard would have let it happen, under a policy whose model was trained without its task, or its source. --write writes
the model of all sessions, with the results.
"""

import argparse
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from math import inf
from pathlib import Path

import orjson
from pydantic import TypeAdapter
from rich.console import Console

from benchmarks import command
from benchmarks.quality import parallel, report
from benchmarks.quality.measuring import OURS, Measured, Outcome, backtested, outcome_of
from benchmarks.quality.playing import Played
from benchmarks.quality.sessions import GROUPS, SHARED, Kind, Known, read_groups
from benchmarks.runaways import FAMILIES
from haltline.cli.common import console as console_for_people
from haltline.cli.policy_option import read_policy
from haltline.detectors.features.additive_model import Model
from haltline.schemas.policy import Policy, Rule
from haltline.schemas.record import Values
from haltline.streams.engine.core import Core
from haltline.streams.learning.examples import Example, arrays
from haltline.streams.learning.fit import fit
from haltline.streams.learning.spans import Span
from haltline.streams.learning.steps import steps_of
from haltline.streams.replay.backtest import Recorded
from haltline.streams.replay.traces import UnreadableTrace

RULE = "stagnation"
GENERATED = range(1000, 1006)
"""Seeds of the generated healthy sessions for training; the tests and `make quality` use others."""
SEED = 1
VERSION = 4
"""Version of the model: scores of different versions cannot be compared."""
ROUNDS = 350
"""Splits of the shipped model: it has more sessions than `haltline learn` usually gets."""
FOLDS = 5
_USAGE = 2
_WEIGHTS = {Kind.STOP: (1.0, 1.0), Kind.HINT: (1.0, 0.6), Kind.SOUND: (1.0, 0.0), Kind.SOLVED: (0.5, 0.0)}
"""Weights of sound and of fruitless steps, by kind of session. "Solved" is a weaker label than a judge's."""
_MODERN_WEIGHTS = {Kind.STOP: (0.0, 0.0), Kind.SOUND: (0.5, 0.0)}
"""Modern runaways are measured only, not learned from, because heads of results do not show what is missing."""
_GENERATED_WEIGHT = 0.5
_HIDDEN = frozenset({"destruction", "off_task", "other", "talk_without_action"})
"""Classes of runaways whose steps may look new: their weight is `_HIDDEN_WEIGHT`, as other rules find them."""
_HIDDEN_WEIGHT = 0.3


def main(arguments: Sequence[str] | None = None) -> int:
    """Return the exit code: 0, or 2 if there are no sessions to learn from."""
    args = _options().parse_args(arguments)
    progress, console = Console(stderr=True), console_for_people()
    try:
        learned = [known for known in read_groups(args.groups) if known.kind in _WEIGHTS]
    except (OSError, UnreadableTrace) as error:
        print(f"benchmarks.stagnation: expected judged sessions, got {error}", file=sys.stderr)
        return _USAGE
    policy = read_policy(args.policy)
    taught = [known for known in learned if "without" not in known.group]
    examples = dict(zip((k.session_id for k in taught), examples_of(taught), strict=True))
    folds: dict[str, Callable[[Known], str]] = {
        "task": lambda k: str(_fold(task_of(k.session_id))),
        "source": source_of,
    }
    quality: dict[str, str] = {}
    for name, fold in folds.items():
        if name in args.by:
            console.print(f"\nBy {name} left out")
            measured = cross_validated(learned, examples, fold, policy, jobs=args.jobs, console=progress)
            report.show(measured, console)
            quality |= {f"{name} left out: {what}": count for what, count in _counts(measured).items()}
    if args.write is not None:
        model = trained(examples.values(), sources=len({source_of(k) for k in taught}))
        written = TypeAdapter(Model).dump_python(model) | {"quality": quality}
        args.write.write_bytes(orjson.dumps(written, option=orjson.OPT_INDENT_2) + b"\n")
        print(f"written: {args.write}")
    return 0


def generated(seeds: Iterable[int] = GENERATED) -> list[Example]:
    """Healthy sessions of kinds that the recordings lack: series, batches, protocols, retries."""
    sessions: list[Recorded] = []
    for family in FAMILIES:
        for seed in () if family.runaway else seeds:
            events = family.case(seed).events
            for name in dict.fromkeys(event.session_id for event in events):
                own = tuple(enumerate(event for event in events if event.session_id == name))
                sessions.append(Recorded(name, own))
    return [Example(steps, None, _GENERATED_WEIGHT) for steps in steps_of(sessions)]


def examples_of(sessions: Sequence[Known]) -> list[Example]:
    """The training example of each session."""
    examples = []
    for known, steps in zip(sessions, steps_of(known.session for known in sessions), strict=True):
        weights = _MODERN_WEIGHTS if known.group == "modern" else {}
        judged, (sound, runaway) = known.judgement, weights.get(known.kind, _WEIGHTS[known.kind])
        span = None
        if known.signal is not None:
            span = Span(judged.begins, known.signal, inf if judged.ends is None else judged.ends)
            runaway *= _HIDDEN_WEIGHT if judged.pattern in _HIDDEN else 1.0
        examples.append(Example(steps, span, sound, runaway))
    return examples


def trained(examples: Iterable[Example], *, sources: int) -> Model:
    """Train a model on these sessions."""
    recorded = list(examples)
    used = [*recorded, *generated()]
    reported: Values = {
        "on": "recorded sessions of agents, judged event by event, and sessions that their source calls solved",
        "sessions": len(recorded),
        "runaways": sum(example.runaway is not None for example in recorded),
        "steps": sum(len(example.steps.numbers) for example in recorded),
        "generated_healthy_sessions": len(used) - len(recorded),
        "sources": sources,
        "seed": SEED,
    }
    return fit(*arrays(used), seed=SEED, name="shipped", version=VERSION, trained=reported, rounds=ROUNDS)


def cross_validated(
    sessions: Sequence[Known],
    examples: Mapping[str, Example],
    fold_of: Callable[[Known], str],
    policy: Policy,
    *,
    jobs: int,
    console: Console,
) -> Measured:
    """Run every session under a policy whose model was trained without its fold."""
    outcomes: list[Outcome] = []
    for inside, unseen in _folds(sessions, examples, fold_of, policy):
        done = parallel.run(_Run(inside, unseen), range(len(inside)), jobs=jobs, what="Sessions", console=console)
        outcomes += [outcome_of(known, played) for known, played in zip(inside, done, strict=True)]
    return Measured({OURS: outcomes})


@dataclass
class _Run:
    sessions: Sequence[Known]
    policy: Policy
    _core: Core | None = None

    def __call__(self, number: int) -> Played:
        self._core = self._core or Core(self.policy)
        return backtested(self._core, self.sessions[number])


def _folds(
    sessions: Sequence[Known], examples: Mapping[str, Example], fold_of: Callable[[Known], str], policy: Policy
) -> Iterator[tuple[list[Known], Policy]]:
    """Yield the sessions of each fold, with a policy whose model was trained on the others."""
    for fold in sorted({fold_of(known) for known in sessions}):
        outside = {k.session_id: examples[k.session_id] for k in sessions if fold_of(k) != fold}.values()
        yield [k for k in sessions if fold_of(k) == fold], with_model(policy, trained(outside, sources=0))


def with_model(policy: Policy, model: Model) -> Policy:
    """The policy, with this model for the rule."""
    rule = policy.rules.get(RULE, Rule())
    settings = rule.settings | {"model": TypeAdapter(Model).dump_python(model, mode="json")}
    return policy.model_copy(update={"rules": policy.rules | {RULE: rule.model_copy(update={"settings": settings})}})


def source_of(known: Known) -> str:
    """The source, as named in the tables of judged sessions."""
    return known.source


def task_of(session_id: str) -> str:
    """The session's task, the same for all agents with that task: its name without the parts that differ."""
    source, _, rest = session_id.partition(":")
    parts = rest.split("/")
    if source == "nyuctf":  # AGENT/CATEGORY_NAME, or AGENT/YEAR/EVENT/CATEGORY/NAME/RUN
        name = "".join(parts[3:5]) if len(parts) > 4 else parts[-1]
    elif source in {"miniswe", "sweagent"}:
        name, source = rest.rpartition(":")[2], "swe"
    else:
        name = rest
    return f"{source}:{''.join(filter(str.isalnum, name.lower()))}"


def _fold(task: str) -> int:
    return blake2b(task.encode(), digest_size=4).digest()[0] % FOLDS


def _counts(measured: Measured) -> dict[str, str]:
    """The results that are stored with the model: `COUNT of TOTAL` by set."""
    counts: dict[str, str] = {}
    for group, row in measured.rows(OURS, lambda known: known.group).items():
        for kind, figures in row.as_json().items():
            of = figures["sessions"]
            counts |= {f"{group}, {kind}: {what}": f"{figures[what]} of {of}" for what in ("refused_any", "hinted")}
            if "late_calls" in figures:
                counts[f"{group}, {kind}: late calls made"] = f"{figures['late_calls_made']} of {figures['late_calls']}"
                counts[f"{group}, {kind}: held"] = f"{figures['held']} of {figures['can_be_held']}"
    return counts


def _options() -> argparse.ArgumentParser:
    parser = command.options(
        "benchmarks.stagnation",
        __doc__,
        "--jobs 2 --write detectors/features/stagnation.model.json",
    )
    parser.add_argument(
        "--groups", nargs="*", choices=tuple(GROUPS), default=tuple(GROUPS), help=f"sets of {SHARED.name}/ (all)"
    )
    parser.add_argument("--policy", type=Path, metavar="FILE", help="the policy document (YAML; every default)")
    parser.add_argument(
        "--by", nargs="*", choices=("task", "source"), default=("task", "source"), help="sources to leave out in turn"
    )
    parser.add_argument("--jobs", type=int, default=1, help="processes (%(default)s)")
    parser.add_argument("--write", type=Path, metavar="FILE", help="write the model of all sessions")
    return parser


if __name__ == "__main__":
    command.run(main)
