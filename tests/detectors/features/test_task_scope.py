import pytest

from haltline.detectors.features import task_scope


@pytest.mark.parametrize(
    ("path", "globs", "changes", "covered"),
    [
        pytest.param("src/main.ex", ("src/**",), True, True, id="below a folder"),
        pytest.param("src/a/b/c.py", ("src/**/c.py",), True, True, id="two stars go through folders"),
        pytest.param("src/c.py", ("src/**/c.py",), True, True, id="two stars stand for no folder too"),
        pytest.param("src/a/c.py", ("src/*.py",), True, False, id="one star stays within its folder"),
        pytest.param("src/a/c.py", ("src",), True, True, id="a folder covers what is below it"),
        pytest.param("src/a/c.py", ("src/",), True, True, id="a folder with a slash too"),
        pytest.param("source/a.py", ("src",), True, False, id="another folder"),
        pytest.param("srcs/a.py", ("src",), True, False, id="a folder whose name begins alike"),
        pytest.param("/testbed/src/a.py", ("src/**",), True, True, id="a relative glob at any depth"),
        pytest.param("src/a.py", ("/testbed/src/**",), True, True, id="a relative path in the folder of the glob"),
        pytest.param("lib/a.py", ("/testbed/src/**",), True, False, id="a relative path that the glob has not"),
        pytest.param("/etc/src/a.py", ("/testbed/src/**",), True, False, id="an absolute path elsewhere"),
        pytest.param("src", ("src/api/**",), False, True, id="looking at a folder on the way"),
        pytest.param("/testbed/src", ("/testbed/src/api/**",), False, True, id="on the way to an absolute one"),
        pytest.param("src", ("src/api/**",), True, False, id="changing a folder on the way"),
        pytest.param("a[1].py", ("a[1].py",), True, True, id="brackets are ordinary letters"),
        pytest.param("x", (), True, False, id="no globs cover nothing"),
    ],
)
def test_in_scope(path: str, globs: tuple[str, ...], changes: bool, covered: bool) -> None:
    assert task_scope.in_scope(path, globs, changes=changes) is covered


@pytest.mark.parametrize(
    ("path", "changed", "read"),
    [
        (".env", "critical", "critical"),
        ("app/.env.production", "critical", "critical"),
        (".env.example", "", ""),
        ("src/.environment", "", ""),
        ("config/secret.exs", "critical", "critical"),
        ("config/secrets.yml", "critical", "critical"),
        ("deploy/secrets/db.txt", "critical", "critical"),
        ("src/secrets/handler.ts", "", ""),
        (".git/hooks/pre-commit", "critical", ""),
        (".git/index.lock", "", ""),
        (".gitignore", "", ""),
        ("/etc/hosts", "critical", ""),
        ("/etc/passwd", "grave", "critical"),
        ("/etc/shadow", "grave", "grave"),
        ("/etc/cron.d/job", "grave", "grave"),
        ("~/.ssh/authorized_keys", "grave", "grave"),
        ("/home/u/.ssh/id_ed25519", "grave", "grave"),
        ("/home/u/.ssh/id_ed25519.pub", "grave", "critical"),
        ("~/.aws/credentials", "grave", "grave"),
        ("~/.kube/config", "grave", "grave"),
        ("/etc/ssl/certs/ca.pem", "critical", ""),
        ("certs/private.pem", "critical", "critical"),
        ("src/main.py", "", ""),
    ],
)
def test_critical(path: str, changed: str, read: str) -> None:
    assert (task_scope.critical(path, changes=True), task_scope.critical(path, changes=False)) == (changed, read)
    if changed or read:
        assert task_scope.may_be_critical(path)


@pytest.mark.parametrize(
    ("path", "changed", "read"),
    [
        ("/tmp/x.py", True, True),
        (".", True, True),
        ("/usr/lib/python3/os.py", False, True),
        ("lib/site-packages/django/db.py", False, True),
        ("pyproject.toml", False, True),
        ("src/main.py", False, False),
    ],
)
def test_is_incidental(path: str, changed: bool, read: bool) -> None:
    assert (task_scope.is_incidental(path, changes=True), task_scope.is_incidental(path, changes=False)) == (
        changed,
        read,
    )
