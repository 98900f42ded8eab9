import pytest

from haltline.detectors.features import task_scope
from tests.builders import cases


@cases(
    "path, globs, changes, covered",
    {
        "two stars go through folders": ("src/a/b/c.py", ("src/**/c.py",), True, True),
        "one star stays within its folder": ("src/a/c.py", ("src/*.py",), True, False),
        "a folder covers what is below it": ("src/a/c.py", ("src",), True, True),
        "a folder whose name begins alike": ("srcs/a.py", ("src",), True, False),
        "a relative glob at any depth": ("/testbed/src/a.py", ("src/**",), True, True),
        "a relative path in the folder of the glob": ("src/a.py", ("/testbed/src/**",), True, True),
        "a relative path that the glob has not": ("lib/a.py", ("/testbed/src/**",), True, False),
        "looking at a folder on the way": ("src", ("src/api/**",), False, True),
        "changing a folder on the way": ("src", ("src/api/**",), True, False),
        "brackets are ordinary letters": ("a[1].py", ("a[1].py",), True, True),
    },
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
        ("config/secrets.yml", "critical", "critical"),
        ("deploy/secrets/db.txt", "critical", "critical"),
        ("src/secrets/handler.ts", "", ""),
        (".git/hooks/pre-commit", "critical", ""),
        (".git/index.lock", "", ""),
        ("/etc/hosts", "critical", ""),
        ("/etc/passwd", "grave", "critical"),
        ("/etc/shadow", "grave", "grave"),
        ("~/.ssh/authorized_keys", "grave", "grave"),
        ("/home/u/.ssh/id_ed25519", "grave", "grave"),
        ("/home/u/.ssh/id_ed25519.pub", "grave", "critical"),
        ("~/.aws/credentials", "grave", "grave"),
        ("/etc/ssl/certs/ca.pem", "critical", ""),
        ("certs/private.pem", "critical", "critical"),
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
    assert task_scope.is_incidental(path, changes=True) is changed
    assert task_scope.is_incidental(path, changes=False) is read
