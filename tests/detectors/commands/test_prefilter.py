"""A piece of a program that is a part of many words counts where it matters."""

from haltline.detectors.commands import prefilter
from tests.builders import cases


@cases(
    "text, is_read",
    {
        "a file that is opened to be read": ("f = open('a')", False),
        "one that is opened to be written anew": ("f = open('a', 'w')", True),
        "the same in bytes, by name": ('f = open("a", mode="wb")', True),
        "a program that is opened": ("os.popen('rm a')", True),
        "words around eval": ("retrieval = medieval('ls a')", False),
        "eval": ("eval('rm a')", True),
        "words around system": ("filesystem, systematic = 'ls', 'a'", False),
        "a command line that is run": ("os.system('rm a')", True),
        "one that only shows": ("subprocess.run(['ls', 'a'])", False),
        "a command of Rust": ('std::process::Command::new("rm")', True),
        "a function of another module": ("client.fs.rm('a')", True),
        "the same name without the module": ("x.rename('/a', '/tmp/a')", False),
        "a client's method": ("client.create_refund(x)", True),
        "the same of no client": ("form.create_refund(x)", False),
    },
)
def test_a_piece_of_many_words_counts_where_it_matters(text: str, is_read: bool) -> None:
    assert prefilter.may_destroy_by_code(text) is is_read
