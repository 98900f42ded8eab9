import pytest

from haltline.detectors.features.command_effects import (
    changes,
    changes_before_end,
    changes_by_code,
    changes_sql,
    may_create,
    produces,
    programs,
    says_unchanged,
    subject,
    waits,
    written_file,
)
from tests.cases import cases


@cases(
    "command, expected",
    {
        "one after another": ("cd /x && PYTHONPATH=. python -m pytest | tail -3", {"cd", "python", "tail"}),
        "in a loop": ("for f in a b; do sudo rm $f; done", {"for", "rm", "done"}),
        "by path": ("/usr/bin/git log; ./run.sh", {"git", "run.sh"}),
        "behind what wraps it": ("sudo -n A=1 rm x", {"rm"}),
        "run by others": ("find . -exec rm x; ls | xargs cp x", {"find", "rm", "ls", "cp"}),
        "nothing": ("", set()),
    },
)
def test_programs(command: str, expected: set[str]) -> None:
    assert programs(command) == expected


def test_of_a_long_command_line_both_ends_are_read() -> None:
    assert programs("cat > t.py <<E\n" + "x = 1\n" * 10_000 + "E\npython t.py") >= {"cat", "python"}


@cases(
    "command, expected",
    {
        "an interpreter": ("python t.py", True),
        "a script": ("./run.sh", True),
        "after something else": ("rm -rf x && make", True),
        "none": ("rm -rf x; ls", False),
        "only its name": ("grep python x", False),
    },
)
def test_produces(command: str, expected: bool) -> None:
    assert produces(command) is expected


@cases(
    "command, expected",
    {
        "before the file": ("cat <<'EOF' > a/b.py\nx > 1\nEOF", "a/b.py"),
        "behind the file": ("cat > b.py << EOF\nx\nEOF\n", "b.py"),
        "never closed": ("cat > b.py << EOF\nx", "b.py"),
        "more behind it": ("cat > b.py <<EOF\nx\nEOF\nrm c", ""),
        "no heredoc": ("cat b.py", ""),
        "into a pipe": ("cat <<EOF | tee b.py\nx\nEOF", ""),
    },
)
def test_written_file(command: str, expected: str) -> None:
    assert written_file(command) == expected


@cases(
    "code, expected",
    {
        "writes a table": ("import pandas\ndf.to_csv('x')", True),
        "copies": ("import shutil\nshutil.copy('a', 'b')", True),
        "reads": ("print(open('x').read())", False),
    },
)
def test_changes_by_code(code: str, expected: bool) -> None:
    assert changes_by_code(code) is expected


@pytest.mark.parametrize(
    "command",
    [
        "cat <<'EOF' > a.py\nx = 1\nEOF",
        "echo x >> log.txt",
        "sed -i 's/a/b/' x.py",
        "sed -n -i.bak 1d x",
        "git commit -m x",
        "git -C repo checkout main",
        "cd x && mv a b",
        "pip install numpy",
        "npm ci && npm install",
        "python -c \"open('x', 'w').write('y')\"",
        "tar -xzf a.tgz",
        "curl https://x -o y",
        "make 2>&1 | tee log",
    ],
)
def test_changes_something(command: str) -> None:
    assert changes(command)


@pytest.mark.parametrize(
    "command",
    [
        "ls -la",
        "grep -rn 'a -> b' src",
        "sed -n '1,20p' x.py",
        "git diff HEAD~1",
        "git status",
        "python reproduce.py",
        "pytest -q 2>&1 | tail",
        "find . -name x 2>/dev/null",
        "cat a.py",
        "python -c \"print(open('x').read())\"",
        "awk '$1 >= 3' x",
        "",
    ],
)
def test_changes_nothing(command: str) -> None:
    assert not changes(command)


@cases(
    "statement, expected",
    {
        "a query": ("SELECT updated FROM t", False),
        "an insert": ("insert into t values (1)", True),
        "an update behind a query": ("WITH x AS (SELECT 1) UPDATE t SET a = 1", True),
    },
)
def test_changes_data(statement: str, expected: bool) -> None:
    assert changes_sql(statement) is expected


@cases(
    "command, expected",
    {
        "sleeps first": ("sleep 5; curl localhost", True),
        "sleeps in a loop": ("while true; do sleep 1; done", True),
        "sleeps in a program": ("python -c 'import time; time.sleep(3)'", True),
        "looks for the word": ("grep sleep x.py", False),
        "does not wait": ("curl localhost", False),
    },
)
def test_waits(command: str, expected: bool) -> None:
    assert waits(command) is expected


@cases(
    "command, expected",
    {
        "program and argument": ("python reproduce.py --fast", "python reproduce.py"),
        "behind a cd": ("cd /testbed && python reproduce.py", "python reproduce.py"),
        "behind what wraps it": ("PYTHONPATH=. timeout 5 python -u reproduce.py", "python reproduce.py"),
        "behind an export": ("export A=1; git push origin main", "git push"),
        "no argument": ("ls", "ls"),
        "nothing": ("", ""),
        "cut": ("x" * 1000, "x" * 120),
    },
)
def test_subject(command: str, expected: str) -> None:
    assert subject(command) == expected


@cases(
    "command, expected",
    {
        "a redirection": ("echo x > a", True),
        "a folder": ("mkdir -p a/b", True),
        "a branch": ("git checkout -b fix", True),
        "a file restored": ("git checkout a.py", False),
        "nothing": ("grep x a 2>/dev/null", False),
        "an edit": ("sed -i s/a/b/ c", False),
    },
)
def test_may_create(command: str, expected: bool) -> None:
    assert may_create(command) is expected


@cases(
    "command, found",
    {
        "one that writes": ("sed -i s/a/b/ x", False),
        "the write comes last": ("cd /srv && cp a b", False),
        "the write comes before": ("cp a b && python t.py", True),
        "a file that is all of it": ("cat > t.py <<'EOF'\nprint(1)\nEOF", False),
        "a file, and then a program": ("cat > t.py <<'EOF'\nprint(1)\nEOF\npython t.py", True),
        "no write at all": ("python t.py | tail; ls", False),
        "nothing": ("", False),
    },
)
def test_what_a_command_line_that_failed_may_have_changed(command: str, found: bool) -> None:
    assert changes_before_end(command) is found


@cases(
    "answer, found",
    {
        "no text": ("No replacement was performed, old_str `x = 1` did not appear verbatim in a.py.", True),
        "no changes": ("no changes made", True),
        "it is there": ("table orders already exists, skipping", True),
        "nothing to commit": ("On branch main\nnothing to commit, working tree clean", True),
        "unchanged": ("a.py is unchanged", True),
        "an edit": ("The file a.py has been edited. Review the changes", False),
        "something was made": ("created note 7", False),
    },
)
def test_what_an_answer_says_of_a_change(answer: str, found: bool) -> None:
    assert says_unchanged(answer) is found
