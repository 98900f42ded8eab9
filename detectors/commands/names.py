"""What the name of a thing gives away: production, a test's own, the main branch.

Misses: names that only their owner can read (`db-7`), languages other than English.
"""

import re

_PRODUCTION = re.compile(
    r"(?<![a-z])(?<!non[-_.])(?<!pre[-_.])(?<!not[-_.])(?:prod|prd|production)(?:db|data)?(?![a-z])", re.ASCII
)
_THROWAWAY = re.compile(r"(?<![a-z])(?:te?mp|temporary|scratch|sandbox|dummy|throwaway|pg_temp)(?![a-z])", re.ASCII)
_SCRATCH = re.compile(r"(?<![a-z])scratch(?![a-z])", re.ASCII)
_TEST = re.compile(r"(?<![a-z])tests?(?:ing)?(?![a-z])", re.ASCII)
_BACKUP = re.compile(r"backup|(?:[a-z]+[-_.])?backups", re.ASCII)
_MAIN_BRANCH = re.compile(r"(?:main|master|trunk|develop|prod|production|releases?(?:[/-].*)?)", re.ASCII)

_WORK_BRANCH = re.compile(
    r"[\w.-]+/[\w./-]+|(?:wip|try|tmp|fix|feat|feature|draft|experiment|spike|poc)(?:[-_.].*)?", re.ASCII
)
_AGENTS_BRANCH = re.compile(
    r"(?:(?:ai-?|coding-?)?agents?|aider|amp|claude|cline|codex|copilot|cursor|devin|gemini|goose|jules|openhands|sweep)/"
)


def is_production(*names: str) -> bool:
    """Whether a name says production (`prod-db`, `sales_production`); `preprod` and `product` do not."""
    return any(_PRODUCTION.search(name.lower()) for name in names)


def is_throwaway(name: str) -> bool:
    """Whether a name says that nobody will miss it (`tmp_load`, `scratch.x`)."""
    return _THROWAWAY.search(name.lower()) is not None


def is_scratch(name: str) -> bool:
    """Whether a name says scratch, which is no word for anything else (`.bench_scratch`)."""
    return _SCRATCH.search(name.lower()) is not None


def is_test(name: str) -> bool:
    """Whether a name says that it serves tests (`test_app`, `app-testing`)."""
    return _TEST.search(name.lower()) is not None


def is_backup(name: str) -> bool:
    """Whether one component of a path is a place of backups (`backups`, `db-backups`), not a file `backup.py`."""
    return _BACKUP.fullmatch(name.lower()) is not None


def is_main_branch(name: str) -> bool:
    """Whether others build on this branch: main, master, trunk, develop, production, a release."""
    return _MAIN_BRANCH.fullmatch(name.removeprefix("refs/heads/").lower()) is not None


def is_agents_branch(name: str) -> bool:
    """Whether a branch has the prefix under which an agent works (`agent/try-2`, `claude/issue-7`)."""
    return _AGENTS_BRANCH.match(name.removeprefix("refs/heads/").lower()) is not None


def is_work_branch(name: str) -> bool:
    """Whether a branch is called as that of one task is (`fix/login`, `ada/wip`, `wip-2`)."""
    return not is_main_branch(name) and _WORK_BRANCH.fullmatch(name.removeprefix("refs/heads/").lower()) is not None
