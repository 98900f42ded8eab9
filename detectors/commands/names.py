"""What a name indicates: production, tests, backups, the main branch.

Misses: names known only to their owner (`db-7`), languages other than English.
"""

from haltline.detectors.commands.rows import expression_of
from haltline.schemas import expressions as re

_PRODUCTION = expression_of("a name indicates production", re.ASCII)
_THROWAWAY = re.compile(r"(?<![a-z])(?:te?mp|temporary|scratch|sandbox|dummy|throwaway|pg_temp)(?![a-z])", re.ASCII)
_SCRATCH = re.compile(r"(?<![a-z])scratch(?![a-z])", re.ASCII)
_FOR_TESTS = expression_of("a name indicates tests", re.ASCII)
_BACKUP = re.compile(r"\A(?:backup|(?:[a-z]+[-_.])?backups)", re.ASCII)
_MAIN_BRANCH = re.compile(r"(?:main|master|trunk|develop|prod|production|releases?(?:[/-].*)?)", re.ASCII)

_WORK_BRANCH = expression_of("a branch of one task", re.ASCII)
_AGENTS_BRANCH = expression_of("a branch of an agent")


def is_production(*names: str) -> bool:
    """Return whether a name indicates production (`prod-db`, `sales_production`); `preprod` and `product` do not."""
    return any(_PRODUCTION.search(name.lower()) for name in names)


def is_throwaway(name: str) -> bool:
    """Return whether a name indicates something temporary (`tmp_load`, `scratch.x`)."""
    return _THROWAWAY.search(name.lower()) is not None


def is_scratch(name: str) -> bool:
    """Return whether a name contains `scratch`, which has no other meaning (`.bench_scratch`)."""
    return _SCRATCH.search(name.lower()) is not None


def is_for_tests(name: str) -> bool:
    """Return whether a name indicates tests, a run of a pipeline, or something temporary (`e2e-0`, `ci-12`, `pr-7`)."""
    return _FOR_TESTS.search(name.lower()) is not None or is_throwaway(name)


def is_backup(name: str) -> bool:
    """Return whether a component of a path denotes backups (`backups`, `db-backups`), not a file `backup.py`."""
    return _BACKUP.fullmatch(name.lower()) is not None


def is_main_branch(name: str) -> bool:
    """Return whether a branch is a common base: main, master, trunk, develop, production, a release."""
    return _MAIN_BRANCH.fullmatch(name.removeprefix("refs/heads/").lower()) is not None


def is_agents_branch(name: str) -> bool:
    """Return whether a branch has the prefix of a coding agent (`agent/try-2`, `claude/issue-7`)."""
    return _AGENTS_BRANCH.match(name.removeprefix("refs/heads/").lower()) is not None


def is_work_branch(name: str) -> bool:
    """Return whether a branch has the usual name for one task (`fix/login`, `ada/wip`, `wip-2`)."""
    return not is_main_branch(name) and _WORK_BRANCH.fullmatch(name.removeprefix("refs/heads/").lower()) is not None
