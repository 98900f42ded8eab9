from hypothesis import example, given
from hypothesis import strategies as st

from haltline.interventions.agent.destinations import _SENDING_COMMAND
from haltline.interventions.agent.held_secrets import _HOLDS_CREDENTIALS
from haltline.interventions.agent.redaction.searching import searching

FORMS = (_SENDING_COMMAND, _HOLDS_CREDENTIALS)
PIECES = st.sampled_from([
    "curl", "nc", "git", "push", "/dev/tcp/", "requests", "DNS", "env", ".env", "x.env", ".key", "secret", "_secrets",
    "get", "credential", "cat", "set", " ", "\n", "-", ".", "_", "'", '"', ";", "a", "é", "\u017fet", "\ud800", "",
])  # fmt: skip


@given(st.lists(PIECES, max_size=8).map("".join))
@example("curl")
@example("cat secrets")
def test_the_same_is_found_as_by_python(text: str) -> None:
    for form in FORMS:
        assert searching(form)(text) is (form.search(text) is not None), form.pattern
