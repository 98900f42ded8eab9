from haltline.interventions.agent.prompts import Prompts, prompt_digest, says_something_new
from tests.builders import cases


@cases(
    "text",
    {
        "go on": "continue",
        "in other words": "Please keep going, from where you left off!",
        "consent": "yes",
        "in German": "Ja, mach bitte weiter.",
        "in Chinese": "请继续。",
        "a sign": "👍",
        "nothing": " ",
    },
)
def test_nothing_new_is_said_by(text: str) -> None:
    assert not says_something_new(text, ())


@cases(
    "text",
    {
        "another task": "now the attic",
        "a refusal": "no",
        "a way": "continue, but leave the tests alone",
        "where to look": "try again with python3",
        "to undo": "go back",
        "many words": " ".join(["go", "on"] * 20),
        "another number": "fix issue 42",
    },
)
def test_something_new_is_said_by(text: str) -> None:
    assert says_something_new(text, {prompt_digest("fix issue 41")})


def test_a_prompt_that_was_given_before_is_nothing_new_whatever_its_case_and_punctuation() -> None:
    assert not says_something_new("Fix  the build!", {prompt_digest("fix the build")})


def test_the_oldest_prompt_is_forgotten_first() -> None:
    prompts = Prompts()
    for number in range(Prompts.MOST + 1):
        prompts.take(f"issue {number}")
    assert [prompts.take(f"issue {number}") for number in (1, 0)] == [False, True]
