"""The look at a program's pieces says the same as the pattern that it stands for."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from haltline.detectors.commands import prefilter

PIECES = (
    *(" rm", "rm", "xrm", "del", "_del", "del ", "model", "delx", "\n!ls", "\n  %x", "a = !x", "a  =  %y", "\n\n \t!"),
    *("%%", "%", "!", "`", "qw", ".git.", "popen(", "Exec", "RM", "Replace", "\r", "\x0b!", " ", "\n", "x", "=", "1"),
)


@settings(max_examples=500)
@given(st.lists(st.sampled_from(PIECES), max_size=8).map("".join))
def test_a_plain_text_is_looked_through_as_by_the_pattern(text: str) -> None:
    assert prefilter.may_destroy_by_code(text) == (prefilter._BY_CODE.search(text) is not None)
    assert prefilter._by_script(text) == (prefilter._BY_SCRIPT.search(text) is not None)


@pytest.mark.parametrize(
    ("text", "is_read"),
    [
        pytest.param("f = open('a')", False, id="a file that is opened to be read"),
        pytest.param("f = open('a', 'w')", True, id="one that is opened to be written anew"),
        pytest.param('f = open("a", mode="wb")', True, id="the same in bytes, by name"),
        pytest.param("f = open('a', '\\x77')", True, id="the same with an escape"),
        pytest.param("m = base64.b64decode(x); f = open('a', m)", True, id="a mode that is decoded"),
        pytest.param("fs.popen('a')", True, id="a program that is opened"),
        pytest.param("retrieval = medieval(evaluate)", False, id="words around eval"),
        pytest.param("Eval(x)", True, id="eval"),
        pytest.param("x.instance_eval", True, id="eval of an object"),
        pytest.param("filesystem, systematic", False, id="words around system"),
        pytest.param("os.system(x)", True, id="a command line that is run"),
        pytest.param("[System.Diagnostics.Process]::Start(x)", True, id="a process of .NET"),
        pytest.param("class BaseCommand: subcommands", False, id="words around command"),
        pytest.param("commands.getoutput(x)", True, id="the module of an old Python"),
        pytest.param("std::process::Command::new(x)", True, id="a command of Rust"),
        pytest.param("\u0130 open('a')", True, id="beside a letter that is not plain all is read"),
    ],
)
def test_a_piece_of_many_words_counts_where_it_matters(text: str, is_read: bool) -> None:
    assert prefilter.may_destroy_by_code(text) is is_read
