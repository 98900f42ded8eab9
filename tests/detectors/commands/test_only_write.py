"""What is told of a command line that only writes a file is what the parser says of it."""

from hypothesis import given, settings
from hypothesis import strategies as st

from haltline.detectors.commands.shell import interpreter as shell
from haltline.detectors.commands.shell.only_write import only_write
from haltline.detectors.commands.step_budget import StepBudget
from tests.builders import cases

PIECES = (
    *("cat ", "cat  ", "<<'EOF'", "<< 'E'", "<<EOF", " > ", ">", "a.py", "./b/../c", "/x//y", "2", "-f", "\n", "\n",
      "\n"),
    *("EOF", "E", "EOF\n", "\nEOF", "\nEOF\n", "~x", "…", "\ue003", "\ue010", "{a,b}", "$(rm x)", "'", '"', "\\",
      "\r\n"),
    *(" ", "\t", "rm -rf z", "; ls", "#", "\x0b", "<<", "|", "&"),
)  # fmt: skip
STARTS = ("cat <<'EOF' > a.py\n", "cat > ./b/../c <<'EOF'\n", "cat<<'EOF'>x\n", "cat <<'2'>2\n", "cat  >2 << 'E'\n", "")


@settings(max_examples=200)
@given(
    st.sampled_from(STARTS),
    st.lists(st.sampled_from(PIECES), max_size=10).map("".join),
    st.sampled_from((None, "/w", "a/../b")),
)
def test_it_is_what_the_parser_says(start: str, rest: str, cwd: str | None) -> None:
    written = only_write(start + rest, cwd)
    assert written is None or (written,) == shell._read(start + rest, cwd, StepBudget())[0]


@cases(
    "command, text",
    {
        "a file of two lines": ("cat <<'EOF' > a\nx\ny\nEOF\n", "x\ny"),
        "the file first, and no end of the last line": ("cat > a <<'EOF'\nx\nEOF", "x"),
        "an empty file": ("cat <<'EOF' > a\nEOF", ""),
        "one that was cut": ("cat <<'EOF' > a\nx\n", "x"),
        "a tilde is no home": ("cat <<'EOF' > a\n~\nEOF", "./~"),
        "a command behind it": ("cat <<'EOF' > a\nx\nEOF\nls", None),
        "variables are filled in": ("cat <<EOF > a\n$x\nEOF", None),
        "a long one": (f"cat <<'EOF' > a\n{'x' * 20_000}\nEOF", None),
    },
)
def test_only_what_is_written_word_for_word_is_told(command: str, text: str | None) -> None:
    written = only_write(command, None)
    assert (None if written is None else written.stdin) == text
