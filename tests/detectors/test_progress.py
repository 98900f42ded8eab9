import pytest

from haltline.detectors.progress import changes, changes_sql, subject, waits


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
        "import pandas\ndf.to_csv('x')",
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
