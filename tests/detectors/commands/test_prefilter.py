"""The look at a program's pieces says the same as the pattern that it stands for."""

from hypothesis import given, settings
from hypothesis import strategies as st

from haltline.detectors.commands import prefilter

PIECES = (
    *(" rm", "rm", "xrm", "del", "_del", "del ", "model", "delx", "\n!ls", "\n  %x", "a = !x", "a  =  %y", "\n\n \t!"),
    *("%%", "%", "!", "`", "qw", ".git.", "open(", "Exec", "RM", "Replace", "\r", "\x0b!", " ", "\n", "x", "=", "1"),
)


@settings(max_examples=500)
@given(st.lists(st.sampled_from(PIECES), max_size=8).map("".join))
def test_a_plain_text_is_looked_through_as_by_the_pattern(text: str) -> None:
    assert prefilter.may_destroy_by_code(text) == (prefilter._BY_CODE.search(text) is not None)
    assert prefilter._by_script(text) == (prefilter._BY_SCRIPT.search(text) is not None)
