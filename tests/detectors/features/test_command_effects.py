from collections.abc import Callable
from typing import Any

from haltline.detectors.features.command_effects import (
    changes,
    changes_before_end,
    changes_by_code,
    changes_existing,
    changes_sql,
    does_nothing,
    may_create,
    may_write,
    produces,
    programs,
    says_unchanged,
    subject,
    uncommitted,
    untracked,
    waits,
    written_file,
)
from tests.builders import cases

WRITTEN = "cat > t.py <<'EOF'\nprint(1)\nEOF"


def listed(output: str) -> tuple[str, ...] | None:
    return uncommitted("git status", output)


@cases(
    "function, given, expected",
    {
        "programs: one after another": (programs, "cd /x && A=. python -m pytest | tail -3", {"cd", "python", "tail"}),
        "produces: an interpreter": (produces, "python t.py", True),
        "writes a file: before the file": (written_file, "cat <<'EOF' > a/b.py\nx > 1\nEOF", "a/b.py"),
        "writes a file: more behind it": (written_file, "cat > b.py <<EOF\nx\nEOF\nrm c", ""),
        "changes by code: writes a table": (changes_by_code, "import pandas\ndf.to_csv('x')", True),
        "changes by code: reads": (changes_by_code, "print(open('x').read())", False),
        "changes data: an update behind a query": (changes_sql, "WITH x AS (SELECT 1) UPDATE t SET a = 1", True),
        "waits: for a rollout": (waits, "kubectl rollout status deploy/web --timeout=30s", True),
        "waits: looks for the word": (waits, "grep sleep x.py", False),
        "does nothing: a command behind a colon": (does_nothing, " : ls -la", True),
        "does nothing: if it fails, as it never does": (does_nothing, ": ls || echo failed", True),
        "does nothing: signs in quotes": (does_nothing, ': "ls; rm"', True),
        "does nothing: not what follows it": (does_nothing, ": ls; ls", False),
        "does nothing: a redirect of a program": (does_nothing, "> pip install x", False),
        "subject: program and argument": (subject, "python reproduce.py --fast", "python reproduce.py"),
        "subject: cut": (subject, "x" * 1000, "x" * 120),
        "may create: a branch": (may_create, "git checkout -b fix", True),
        "may create: a file restored": (may_create, "git checkout a.py", False),
        "uncommitted: the short list": (
            listed,
            " M src/a b.py\n?? new.py\nA  c.py\nR  d -> e",
            ("src/a b.py", "c.py", "d -> e"),
        ),
        "uncommitted: the long one": (listed, "On branch main\n\tmodified:   src/a.py\n", ("src/a.py",)),
        "untracked: the short list": (untracked, " M a.py\n?? drafts/\n?? b.md", ("drafts", "b.md")),
        "may write: git that takes back": (may_write, "git reset --soft HEAD~1", True),
        "may write: looking": (may_write, "cd app && git log | head -3; cat a 2>/dev/null; grep x b", False),
        "uncommitted: none": (listed, "nothing to commit, working tree clean", ()),
        "uncommitted: no word of it": (lambda text: uncommitted("ls", text), " M a", None),
        "changes what is there: only new things": (changes_existing, "mkdir -p a/b && touch a/b/c && git add a", False),
        "changed before it failed: the write comes before": (changes_before_end, "cp a b && python t.py", True),
        "changed before it failed: a file that is all of it": (changes_before_end, WRITTEN, False),
        "changed before it failed: a file, and then a program": (changes_before_end, f"{WRITTEN}\npython t.py", True),
        "unchanged: no text": (
            says_unchanged,
            "No replacement was performed, old_str `x = 1` did not appear verbatim in a.py.",
            True,
        ),
        "unchanged: it is there": (says_unchanged, "table orders already exists, skipping", True),
    },
)
def test_what_is_read_of_a_command_line(function: Callable[[Any], object], given: object, expected: object) -> None:
    assert function(given) == expected


def test_of_a_long_command_line_both_ends_are_read() -> None:
    assert programs("cat > t.py <<E\n" + "x = 1\n" * 10_000 + "E\npython t.py") >= {"cat", "python"}


CHANGES = [
    "cat <<'EOF' > a.py\nx = 1\nEOF", "sed -i 's/a/b/' x.py", "git commit -m x", "cd x && mv a b",
    "pip install numpy", "python -c \"open('x', 'w').write('y')\"", "curl https://x -o y", "make 2>&1 | tee log",
]  # fmt: skip
LOOKS = [
    "ls -la", "grep -rn 'a -> b' src", "sed -n '1,20p' x.py", "git status", "python reproduce.py",
    "find . -name x 2>/dev/null", "python -c \"print(open('x').read())\"", "awk '$1 >= 3' x", "",
]  # fmt: skip


def test_what_changes_something_and_what_does_not() -> None:
    for command in CHANGES:
        assert changes(command)
    for command in LOOKS:
        assert not changes(command)
