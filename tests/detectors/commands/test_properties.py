"""What holds for every text: nothing raises, everything ends, and the quick look hides nothing."""

import importlib
import pkgutil

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from haltline.detectors import commands
from haltline.detectors.commands import Badness, creations, destructions, sql_destructions
from haltline.detectors.commands.model import MAX_COMMAND_CHARS, MAX_FOUND
from haltline.detectors.commands.reading import parsed_destructions
from haltline.detectors.commands.shell.lexer import lex
from haltline.detectors.session.own_release import OwnRelease
from tests.builders import bash, fires_at
from tests.detectors.commands import cases

# Pieces that mean something to a shell or a database, so that their combinations are interesting.
PIECES = [
    *" \n\t;&|()<>{}'\"`$\\#=,*~!",
    *("&&", "||", "<<", "<<<", "<<-", ">>", "&>", "2>", ">|", "$(", "${", "$((", "))", "<(", "$'", ":", "\\\n", "\r\n"),
    *("rm", "-rf", " / ", "/etc", "a", "~", "x.py", "EOF", "\nEOF\n", "'EOF'", "cat ", "echo ", "printf ", "-n",
      "true"),
    *("sudo ", "env ", "bash ", "sh -c ", "-c", "eval ", "xargs ", "-I{}", "find . ", "-delete", "-exec ", "{}", "+"),
    *("for ", "f", " in ", "do ", "done", "if ", "then ", "fi", "case ", "esac", "while ", "read ", "A=", "$A", "B=r;"),
    *("git ", "push ", "-f", "reset ", "--hard", "checkout ", "branch ", "-D", "clean ", "main", "stash ", "drop",
      "gc "),
    *("psql ", "sqlite3 ", "drop table ", "DELETE FROM ", "update t ", "set a=1", "where ", "truncate ", "--", "/*"),
    *("kubectl ", "delete ", "ns ", "docker ", "exec ", "rm ", "volume ", "aws ", "s3 ", "rb ", "--force",
      "terraform "),
    *("destroy ", "mv ", "cp ", "dd ", "of=", "/dev/sda", "/dev/null", "mkfs.ext4 ", "cd ", "/dev", "$(pwd)", "mktemp"),
    *("python -c ", "os.remove(", "shutil.rmtree(", "os.system(", ")", "node -e ", "redis-cli ", "flushall", "curl -X"),
    *("unlink ", "shred ", "helm ", "un ", "pip uninstall ", "crontab -r", "iptables -F", "replace ", "or ", "é", "$B"),
]  # fmt: skip
TEXTS = st.one_of(
    st.lists(st.sampled_from(PIECES), max_size=24).map("".join),
    st.lists(st.sampled_from(PIECES), max_size=14).map(" ".join),
    st.lists(st.sampled_from(cases.COMMANDS), max_size=3).map("\n".join),
    st.text(max_size=200),
)


@settings(max_examples=150)
@given(TEXTS)
def test_the_quick_look_hides_nothing_that_parsing_finds(text: str) -> None:
    assert destructions(text) == parsed_destructions(text)


@settings(max_examples=100)
@given(st.one_of(TEXTS, st.text(max_size=2000)), st.sampled_from([None, "", "/", "/w/d", "~", "x/..", "/dev", "$X"]))
def test_no_text_raises(text: str, cwd: str | None) -> None:
    found = destructions(text, cwd=cwd)

    assert len(found) == len(set(found)) <= MAX_FOUND
    assert all("=" in d.target and d.badness in Badness for d in found)
    assert len(set(creations(text, cwd=cwd))) <= MAX_FOUND


@settings(max_examples=100)
@given(TEXTS)
@example("'" * 99)
@example("drop " * 99)
def test_no_statement_raises(text: str) -> None:
    assert all("=" in d.target for d in sql_destructions(text))


@given(TEXTS)
def test_the_same_text_reads_the_same(text: str) -> None:
    assert destructions(text) == destructions(text)
    assert lex(text) == lex(text)


@given(st.sampled_from(cases.DESTRUCTIVE), st.text("abc x;'\"", max_size=20))
def test_quoted_text_is_no_command(command: str, other: str) -> None:
    quoted = "'" + f"{command} {other}".replace("'", "'\\''") + "'"

    assert destructions(f"echo {quoted}") == ()


@given(st.sampled_from([command for _, command, losses in cases.load("files") if losses]))
def test_a_command_destroys_the_same_in_a_shell_of_its_own(command: str) -> None:
    quoted = "'" + command.replace("'", "'\\''") + "'"

    assert destructions(f"sudo bash -c {quoted}") == destructions(command)


REPEATED = [
    *("$(", "${", "((", "$((", "`", '"$(', "a=(", "<<a ", "<<a\n", "$A", "A=$A$A;", "{a,b}", "{a,", "(", "'", '"',
      "\\"),
    *("rm {a,b}{c,d} ", "sh -c ", "eval ", "xargs ", "find . -exec ", "rm $f ", "/..", "-name x ", "[", "{",
      "kubectl "),
    *("os.remove(", "drop table a,", "(delete from a ", "alter table t drop ", "update t set ", "/*", "$a$", "> "),
    *("sudo ", "env A=1 ", "cd a; ", "bash <<E\n", "python - <<E\n", "os.system('", "cat <<'E' > x\n", "git push "),
    *("for f in a b; do ", "for f in a b; do rm $f; done; ", "while x; do ", "A=$(echo $A $A);",
      "os.remove(a" + " " * 99),
    *("find a b -name c -name d -exec sh -c 'rm {}' \\; ", "echo a b c | xargs -I% sh -c 'rm % %'; "),
]  # fmt: skip


_LONG_CHARS = MAX_COMMAND_CHARS // 16
"""What grows faster than the text is seen at this length already; all of it would take minutes."""


@pytest.mark.parametrize(
    "piece", [*REPEATED[:8], *(pytest.param(piece, marks=pytest.mark.wide) for piece in REPEATED[8:])]
)
@pytest.mark.parametrize("start", ["", "rm x; A='a b c d e f g h'; find / -delete -o "])
def test_repetition_of_anything_comes_to_an_end(start: str, piece: str) -> None:
    # Without bounds these take minutes, or the whole stack: quadratic scans, nesting, values that double.
    text = (start + piece * _LONG_CHARS)[:_LONG_CHARS]

    assert len(parsed_destructions(text)) <= MAX_FOUND
    assert len(creations(text)) <= MAX_FOUND
    assert len(sql_destructions(text)) <= MAX_COMMAND_CHARS


@pytest.mark.parametrize("piece", ["@", "#", "/*!", "--", "[a", "$(kill ", "haltline|xargs ", "haltlinepolicy", "\n"])
def test_what_took_minutes_comes_to_an_end_at_full_length(piece: str) -> None:
    for start in ("haltline kill ", 'psql -c "delete from a '):
        text = (start + piece * MAX_COMMAND_CHARS)[:MAX_COMMAND_CHARS]

        assert len(fires_at(OwnRelease(), [bash(0, text)])) <= 1
        assert len(parsed_destructions(text)) <= MAX_FOUND


_READ_NOTHING = ("model", "shell.invocation", "shell.syntax", "reading")


@pytest.mark.parametrize(
    "module",
    [
        m.name.removeprefix(f"{commands.__name__}.")
        for m in pkgutil.walk_packages(commands.__path__, f"{commands.__name__}.")
    ],
)
def test_every_module_that_reads_says_what_it_misses(module: str) -> None:
    loaded = importlib.import_module(f"{commands.__name__}.{module}")
    docstring = loaded.__doc__ or ""

    assert docstring
    assert "Misses:" in docstring or hasattr(loaded, "__path__") or module in _READ_NOTHING
