"""`python -m benchmarks.stagnation`: trains the model of the detector `stagnation`, and measures the policy with it.

Judged and recorded sessions are read from folders. There are two cross-validations: by task, and with each source left
out in turn. Each session is run under a policy whose model was trained without its task, or its source. --write writes
the model of all sessions, with the results. --sweep prints runaways stopped against false stops for each value of a
setting instead, cross-validated by task; --plot also draws them.
"""

import argparse
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from hashlib import blake2b
from math import inf
from pathlib import Path

import orjson
from pydantic import TypeAdapter
from rich.console import Console

from benchmarks import command
from benchmarks.quality import curve, picture, report
from benchmarks.quality.judging import Judged, judge
from benchmarks.quality.sessions import JUDGED, TRACES, Kind, Known, default_files, files_in, read, read_judgements
from benchmarks.quality.summary import summarize
from benchmarks.runaways import FAMILIES
from haltline.cli.common import console as console_for_people
from haltline.cli.policy_option import read_policy
from haltline.detectors import ALL
from haltline.detectors.features.additive_model import Model
from haltline.schemas.policy import Policy, Rule
from haltline.schemas.record import Values
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
VERSION = 3
"""Version of the model: scores of different versions cannot be compared."""
FOLDS = 5
_USAGE = 2
_WEIGHTS = {
    Kind.STOP: (1.0, 1.0), Kind.HINT: (1.0, 0.6), Kind.SOUND: (1.0, 0.0), Kind.SOLVED: (0.5, 0.0),
    Kind.MODERN: (0.0, 0.0), Kind.MODERN_SOUND: (0.5, 0.0),
}  # fmt: skip
"""Weights of sound and of fruitless steps, by kind of session. "Solved" is a weaker label than a judge's. Modern
runaways are measured only, not learned from, because heads of results do not show what is missing."""
_GENERATED_WEIGHT = 0.5
_HIDDEN = frozenset({"destruction", "off_task", "other", "talk_without_action"})
"""Classes of runaways whose steps may look new: their weight is `_HIDDEN_WEIGHT`, as other rules find them."""
_HIDDEN_WEIGHT = 0.3


def main(arguments: Sequence[str] | None = None) -> int:
    """Return the exit code: 0, or 2 if there are no sessions to learn from."""
    parser = _options()
    args = parser.parse_args(arguments)
    if args.plot is not None and args.sweep is None:
        parser.error("--plot: expected --sweep with it")
    progress = Console(stderr=True)
    try:
        judgements = read_judgements(args.judged)
        files = [*files_in(args.judged), *(args.traces or default_files())]
        present = [file for file in files if file.exists()]
        for file in files:
            if file not in present:
                progress.print(f"{file}: not found; left out", highlight=False)
        sessions = read(present, judgements)
    except (OSError, UnreadableTrace) as error:
        print(f"benchmarks.stagnation: expected judged sessions, got {error}", file=sys.stderr)
        return _USAGE
    policy = read_policy(args.policy)
    learned = [known for known in sessions if known.kind in _WEIGHTS]
    examples = dict(zip((k.session_id for k in learned), examples_of(learned), strict=True))
    folds: dict[str, Callable[[Known], str]] = {
        "task": lambda k: str(_fold(task_of(k.session_id))),
        "source": source_of,
    }
    if args.sweep is not None:
        swept = _swept(learned, examples, policy, args.sweep, jobs=args.jobs, console=progress)
        if args.plot is not None:
            args.plot.write_text(picture.picture(swept), encoding="utf-8")
        curve.show(swept, console_for_people())
        return 0
    measured = {}
    for name, fold in folds.items():
        if name in args.by:
            judged = cross_validated(learned, examples, fold, policy, jobs=args.jobs, console=progress)
            console = console_for_people()
            console.print(f"\nBy {name} left out")
            summary = summarize(judged, [detector.id for detector in ALL])
            report.show(summary, judged, console)
            measured[name] = _counts(judged)
    if args.write is not None:
        model = trained(examples.values(), sources=len({source_of(k) for k in learned}))
        quality = {
            f"{name} left out: {what}": count for name, counts in measured.items() for what, count in counts.items()
        }
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
        judged, (sound, runaway) = known.judgement, _WEIGHTS[known.kind]
        span = None
        if judged is not None and judged.signal is not None:
            span = Span(judged.begins, judged.signal, inf if judged.ends is None else judged.ends)
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
    return fit(*arrays(used), seed=SEED, name="shipped", version=VERSION, trained=reported)


def cross_validated(
    sessions: Sequence[Known],
    examples: dict[str, Example],
    fold_of: Callable[[Known], str],
    policy: Policy,
    *,
    jobs: int,
    console: Console,
) -> list[Judged]:
    """Judge every session under a policy whose model was trained without its fold."""
    judged: list[Judged] = []
    for inside, unseen in _folds(sessions, examples, fold_of, policy):
        judged += judge(inside, unseen, jobs=jobs, console=console)
    return judged


def _swept(
    sessions: Sequence[Known],
    examples: dict[str, Example],
    policy: Policy,
    sweep: str,
    *,
    jobs: int,
    console: Console,
) -> curve.Swept:
    """Cross-validate by task for each value of a setting."""
    folds = _folds(sessions, examples, lambda known: str(_fold(task_of(known.session_id))), policy)
    return curve.added([curve.measure(inside, unseen, sweep, jobs=jobs, console=console) for inside, unseen in folds])


def _folds(
    sessions: Sequence[Known], examples: dict[str, Example], fold_of: Callable[[Known], str], policy: Policy
) -> Iterator[tuple[list[Known], Policy]]:
    """Yield the sessions of each fold, with a policy whose model was trained on the others."""
    for fold in sorted({fold_of(known) for known in sessions}):
        outside = [examples[known.session_id] for known in sessions if fold_of(known) != fold]
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


def _counts(judged: Sequence[Judged]) -> dict[str, str]:
    """The results that are stored with the model: `COUNT of TOTAL` for each measure of each kind of session."""
    of = Counter(j.known.kind.value for j in judged)
    true = Counter(
        (j.known.kind.value, what)
        for j in judged
        for what in j.seen["haltline"].measures(j.known)
        if what != "within 3"
    )
    return {f"{kind} {what}": f"{count} of {of[kind]}" for (kind, what), count in sorted(true.items())}


def _options() -> argparse.ArgumentParser:
    parser = command.options(
        "benchmarks.stagnation",
        __doc__,
        "--jobs 2 --write detectors/features/stagnation.model.json",
    )
    parser.add_argument("traces", nargs="*", type=Path, metavar="FILE", help=f"recorded traces ({TRACES.name}/)")
    parser.add_argument(
        "--judged", type=Path, default=JUDGED, metavar="DIR", help="judged sessions with verdicts.jsonl"
    )
    parser.add_argument("--policy", type=Path, metavar="FILE", help="the policy document (YAML; every default)")
    parser.add_argument(
        "--by", nargs="*", choices=("task", "source"), default=("task", "source"), help="sources to leave out in turn"
    )
    parser.add_argument("--jobs", type=int, default=1, help="processes (%(default)s)")
    parser.add_argument("--sweep", metavar="SETTING=VALUES", help="as benchmarks.quality: rules.NAME.settings.X=2,3,5")
    parser.add_argument("--plot", type=Path, metavar="FILE.svg", help="with --sweep: as a picture")
    parser.add_argument("--write", type=Path, metavar="FILE", help="write the model of all sessions")
    return parser


if __name__ == "__main__":
    command.run(main)
