"""A piece of a program that is a part of many words counts where it matters."""

from haltline.detectors.commands import prefilter
from tests.builders import cases


@cases(
    "text, is_read",
    {
        "a file that is opened to be read": ("f = open('a')", False),
        "one that is opened to be written anew": ("f = open('a', 'w')", True),
        "the same in bytes, by name": ('f = open("a", mode="wb")', True),
        "the same with an escape": ("f = open('a', '\\x77')", True),
        "a mode that is decoded": ("m = base64.b64decode(x); f = open('a', m)", True),
        "a program that is opened": ("fs.popen('a')", True),
        "words around eval": ("retrieval = medieval(evaluate)", False),
        "eval": ("Eval(x)", True),
        "eval of an object": ("x.instance_eval", True),
        "words around system": ("filesystem, systematic", False),
        "a command line that is run": ("os.system(x)", True),
        "a process of .NET": ("[System.Diagnostics.Process]::Start(x)", True),
        "words around command": ("class BaseCommand: subcommands", False),
        "the module of an old Python": ("commands.getoutput(x)", True),
        "a command of Rust": ("std::process::Command::new(x)", True),
        "beside a letter that is not plain all is read": ("\u0130 x = 1", True),
    },
)
def test_a_piece_of_many_words_counts_where_it_matters(text: str, is_read: bool) -> None:
    assert prefilter.may_destroy_by_code(text) is is_read
