"""What is read of YAML from outside, and what is refused before anything is built of it."""

import pytest

from haltline.streams.policy.yaml_text import MAX_CHARS, MAX_DEPTH, MAX_NODES, BadYaml, value_of

LEVELS = "\n".join(f"l{n}: &l{n} [{', '.join([f'*l{n - 1}'] * 10)}]" for n in range(1, 10))
BILLION = f"l0: &l0 {'x' * 16}\n{LEVELS}\n"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        pytest.param(BILLION, "line 2: expected a value, got an alias", id="aliases of aliases, 7 GB"),
        pytest.param("a: &a [*a]", "line 1: expected a value, got an alias", id="an alias of itself"),
        pytest.param("[" * 5_000, f"line 1: expected at most {MAX_DEPTH} levels", id="brackets without end"),
        pytest.param(f"[{'1,' * (MAX_NODES + 1)}]", f"expected at most {MAX_NODES} keys and values", id="a long list"),
        pytest.param("x" * (MAX_CHARS + 1), f"expected at most {MAX_CHARS} characters", id="a long text"),
        pytest.param("1" + ":1" * 50_000, "expected a number of at most", id="a long number to the base of 60"),
        pytest.param("1" + ":1" * 30 + ".5", None, id="a shorter one is one"),
        pytest.param("9" * 100_000, "expected a number of at most", id="a long number"),
        pytest.param('!!int ""', "expected values that YAML has", id="a number of no digits"),
        pytest.param("2001-02-30", "expected values that YAML has", id="a day that there is not"),
        pytest.param("!!python/object/apply:os.system [ls]", "could not determine a constructor", id="a program"),
        pytest.param("a: 1\n---\na: 2", "but found another document", id="two documents"),
        pytest.param("a: [", "line 1: expected the node content", id="one that was cut"),
    ],
)
def test_a_document_beyond_the_bounds_is_refused(text: str, problem: str | None) -> None:
    if problem is None:
        assert isinstance(value_of(text), float)
        return
    with pytest.raises(BadYaml) as bad:
        value_of(text)
    assert problem in str(bad.value)
