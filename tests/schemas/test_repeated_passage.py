from haltline.schemas.repeated_passage import repeated_passage
from tests.builders import cases

WORDS = "amber basin cedar delta ember fjord grove harbor inlet juniper kelp lagoon meadow north orchard".split()  # noqa: SIM905  # read more easily
PASSAGE = "and then we look at it again with care. "
PROSE = " ".join(f"{one} {other}" for one in WORDS for other in WORDS[:6])
INNER = "this is a unique sentence, id=1. " * 4 + "this is a unique s"


@cases(
    "text, size, repeats",
    {
        "one passage again and again": (PASSAGE * 12, 0, 12),
        "only its beginning is known": ((PASSAGE * 12)[:300], 4000, 100),
        "only its beginning is known, and is marked": (f"{(PASSAGE * 12)[:300]}[cut]", 4000, 100),
        "a beginning that ends with other words": (PASSAGE * 6 + PROSE, 4000, 6),
        "after some words": ("Here is what I found. " + PASSAGE * 20, 0, 20),
        "after many words": (PROSE + PASSAGE * 20, 0, 20),
        "before some words": (PASSAGE * 20 + PROSE, 0, 20),
        "after a code block": ("```\nprint(1)\n```\n" + PASSAGE * 20, 0, 20),
        "with shorter repetitions in it": (INNER * 20, 0, 20),
        "two words": ("go on " * 60, 0, 60),
        "longer than what is read": ("court\n\n  " * 14_645, 0, 7_282),
        "twice is no repetition": (PASSAGE * 2, 0, 0),
        "many words": (" ".join(WORDS * 2), 0, 0),
        "a list": ("\n".join(f"- step {w}: it is done and tested" for w in WORDS), 0, 0),
        "numbered lines": ("\n".join(f"step {n} of 9 is done." for n in range(9)), 0, 0),
        "a table": ("| name | size | name | size |\n" * 20, 0, 0),
        "code": ("```\n" + "print(value_of_it)\n" * 20 + "```", 0, 0),
        "code that does not end": ("Look:\n```\n" + "print(value_of_it)\n" * 20, 0, 0),
        "a ruler": ("=" * 400, 0, 0),
        "nothing": ("", 0, 0),
    },
)
def test_a_passage_that_is_repeated(text: str, size: int, repeats: int) -> None:
    assert abs(repeated_passage(text, size)[1] - repeats) <= 1


def test_the_passage_is_given() -> None:
    assert repeated_passage("Go on! " * 60)[0] in {"go on! ", "on! go ", " go on!"}
