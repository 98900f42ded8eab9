"""`python -m benchmarks.novelty`: what it takes on the agent's side to count the new words of a result.

Of many rounds the best counts, for on a machine that does other things too only that is repeatable. With recorded
sessions it also counts how many new words the sketch takes for known ones.
"""

import json
import random
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from rich.console import Console

from haltline.interventions.agent.novelty import SeenWords, words_of
from haltline.streams.replay.traces import read_traces

AIM_US: Final = 100.0
"""For a result of 4 KB."""
_SIZES: Final = (200, 4096, 65_536)
_TEXTS: Final = 20
_ROUNDS: Final = 200


def texts_of(size: int, chance: random.Random) -> list[str]:
    """Lines as of a listing or a log; 4 KB have some 160 distinct words, as recorded results of that length have."""
    names = ["".join(chance.choices("abcdefghijklmnopqrstuvwxyz_", k=chance.randint(3, 12))) for _ in range(220)]
    weights = [1 / rank for rank in range(1, len(names) + 1)]

    def line() -> str:
        folder, file, *rest = chance.choices(names, weights, k=7)
        return f"{folder}/{file}.py:{chance.randint(1, 60)}: {' '.join(rest)}"

    return ["\n".join(line() for _ in range(size // 20))[:size] for _ in range(_TEXTS)]


def best_us(size: int, *, known: bool) -> float:
    """Microseconds for one result of so many characters, whose words all are known already or all are new."""
    texts, seen = texts_of(size, random.Random(7)), SeenWords()

    def best(text: str) -> float:
        def once() -> int:
            own = seen if known else SeenWords()
            own.take(text if known else "warm")
            began = time.perf_counter_ns()
            own.take(text)
            return time.perf_counter_ns() - began

        return min(once() for _ in range(_ROUNDS * 4096 // (4096 + size))) / 1000

    return sum(map(best, texts)) / len(texts)


def wrong_in(files: Sequence[Path]) -> tuple[int, int]:
    """New words in the beginnings of recorded results, and how many of them the sketch took for known ones."""
    new = found = 0
    for file in files:
        for session in read_traces(file):
            seen, known = SeenWords(), set[bytes]()
            for _, event in session.events:
                if event.output_head is None:
                    continue
                known.update(words_of(event.args) if event.args else ())
                words = set(words_of(event.output_head))
                new += len(words - known)
                found += seen.take(event.output_head, args=event.args).new_words
                known |= words
    return new, new - found


def main(arguments: Sequence[str] | None = None) -> int:
    """0: within the aim. The arguments are files of recorded sessions."""
    console, files = Console(), [Path(name) for name in (sys.argv[1:] if arguments is None else arguments)]
    times: dict[str, float] = {}
    ways: tuple[tuple[str, Callable[[int], float]], ...] = (
        ("known", lambda size: best_us(size, known=True)),
        ("new", lambda size: best_us(size, known=False)),
    )
    for size in _SIZES:
        for name, measure in ways:
            times[f"{size} {name}"] = measure(size)
            console.print(f"{size:6d} characters, all words {name:5s}: {times[f'{size} {name}']:8.1f} us")
    if files:
        new, wrong = wrong_in(files)
        console.print(f"{new} new words in recorded sessions, {wrong} of them taken for known ones")
    console.print(json.dumps({"us": {name: round(us, 1) for name, us in times.items()}}), soft_wrap=True)
    return int(times["4096 known"] > AIM_US)


if __name__ == "__main__":
    sys.exit(main())
