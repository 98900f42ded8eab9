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


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        pytest.param(
            "cd /x && PYTHONPATH=. python -m pytest | tail -3", {"cd", "python", "tail"}, id="one after another"
        ),
        pytest.param("for f in a b; do sudo rm $f; done", {"for", "rm", "done"}, id="in a loop"),
        pytest.param("/usr/bin/git log; ./run.sh", {"git", "run.sh"}, id="by path"),
        pytest.param("sudo -n A=1 rm x", {"rm"}, id="behind what wraps it"),
        pytest.param("find . -exec rm x; ls | xargs cp x", {"find", "rm", "ls", "cp"}, id="run by others"),
        pytest.param("", set(), id="nothing"),
    ],
)
def test_programs(command: str, expected: set[str]) -> None:
    assert programs(command) == expected


def test_of_a_long_command_line_both_ends_are_read() -> None:
    assert programs("cat > t.py <<E\n" + "x = 1\n" * 10_000 + "E\npython t.py") >= {"cat", "python"}


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        pytest.param("python t.py", True, id="an interpreter"),
        pytest.param("./run.sh", True, id="a script"),
        pytest.param("rm -rf x && make", True, id="after something else"),
        pytest.param("rm -rf x; ls", False, id="none"),
        pytest.param("grep python x", False, id="only its name"),
    ],
)
def test_produces(command: str, expected: bool) -> None:
    assert produces(command) is expected


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        pytest.param("cat <<'EOF' > a/b.py\nx > 1\nEOF", "a/b.py", id="before the file"),
        pytest.param("cat > b.py << EOF\nx\nEOF\n", "b.py", id="behind the file"),
        pytest.param("cat > b.py << EOF\nx", "b.py", id="never closed"),
        pytest.param("cat > b.py <<EOF\nx\nEOF\nrm c", "", id="more behind it"),
        pytest.param("cat b.py", "", id="no heredoc"),
        pytest.param("cat <<EOF | tee b.py\nx\nEOF", "", id="into a pipe"),
    ],
)
def test_written_file(command: str, expected: str) -> None:
    assert written_file(command) == expected


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        pytest.param("import pandas\ndf.to_csv('x')", True, id="writes a table"),
        pytest.param("import shutil\nshutil.copy('a', 'b')", True, id="copies"),
        pytest.param("print(open('x').read())", False, id="reads"),
    ],
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


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        pytest.param("SELECT updated FROM t", False, id="a query"),
        pytest.param("insert into t values (1)", True, id="an insert"),
        pytest.param("WITH x AS (SELECT 1) UPDATE t SET a = 1", True, id="an update behind a query"),
    ],
)
def test_changes_data(statement: str, expected: bool) -> None:
    assert changes_sql(statement) is expected


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        pytest.param("sleep 5; curl localhost", True, id="sleeps first"),
        pytest.param("while true; do sleep 1; done", True, id="sleeps in a loop"),
        pytest.param("python -c 'import time; time.sleep(3)'", True, id="sleeps in a program"),
        pytest.param("grep sleep x.py", False, id="looks for the word"),
        pytest.param("curl localhost", False, id="does not wait"),
    ],
)
def test_waits(command: str, expected: bool) -> None:
    assert waits(command) is expected


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        pytest.param("python reproduce.py --fast", "python reproduce.py", id="program and argument"),
        pytest.param("cd /testbed && python reproduce.py", "python reproduce.py", id="behind a cd"),
        pytest.param("PYTHONPATH=. timeout 5 python -u reproduce.py", "python reproduce.py", id="behind what wraps it"),
        pytest.param("export A=1; git push origin main", "git push", id="behind an export"),
        pytest.param("ls", "ls", id="no argument"),
        pytest.param("", "", id="nothing"),
        pytest.param("x" * 1000, "x" * 120, id="cut"),
    ],
)
def test_subject(command: str, expected: str) -> None:
    assert subject(command) == expected


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        pytest.param("echo x > a", True, id="a redirection"),
        pytest.param("mkdir -p a/b", True, id="a folder"),
        pytest.param("git checkout -b fix", True, id="a branch"),
        pytest.param("git checkout a.py", False, id="a file restored"),
        pytest.param("grep x a 2>/dev/null", False, id="nothing"),
        pytest.param("sed -i s/a/b/ c", False, id="an edit"),
    ],
)
def test_may_create(command: str, expected: bool) -> None:
    assert may_create(command) is expected


@pytest.mark.parametrize(
    ("command", "found"),
    [
        pytest.param("sed -i s/a/b/ x", False, id="one that writes"),
        pytest.param("cd /srv && cp a b", False, id="the write comes last"),
        pytest.param("cp a b && python t.py", True, id="the write comes before"),
        pytest.param("cat > t.py <<'EOF'\nprint(1)\nEOF", False, id="a file that is all of it"),
        pytest.param("cat > t.py <<'EOF'\nprint(1)\nEOF\npython t.py", True, id="a file, and then a program"),
        pytest.param("python t.py | tail; ls", False, id="no write at all"),
        pytest.param("", False, id="nothing"),
    ],
)
def test_what_a_command_line_that_failed_may_have_changed(command: str, found: bool) -> None:
    assert changes_before_end(command) is found


@pytest.mark.parametrize(
    ("answer", "found"),
    [
        pytest.param(
            "No replacement was performed, old_str `x = 1` did not appear verbatim in a.py.", True, id="no text"
        ),
        pytest.param("no changes made", True, id="no changes"),
        pytest.param("table orders already exists, skipping", True, id="it is there"),
        pytest.param("On branch main\nnothing to commit, working tree clean", True, id="nothing to commit"),
        pytest.param("a.py is unchanged", True, id="unchanged"),
        pytest.param("The file a.py has been edited. Review the changes", False, id="an edit"),
        pytest.param("created note 7", False, id="something was made"),
    ],
)
def test_what_an_answer_says_of_a_change(answer: str, found: bool) -> None:
    assert says_unchanged(answer) is found
