"""What a command line is about, whether it changes anything, and whether it only waits: by its words, not by parsing.

Good enough to weigh a repetition (was there work in between?), and cheap enough for every command. What a
command would destroy is worked out properly in `haltline.detectors.commands`.
"""

import re

_READ_CHARS = 4096
MAX_SUBJECT_CHARS = 120

_REDIRECTS = re.compile(r"(?<![-=<>&0-9])[0-9]?>>?\s*(?!&|/dev/null\b|[\s=])")
_WRITERS: tuple[tuple[tuple[str, ...], re.Pattern[str]], ...] = (
    # A plain `in` is ten times as fast as a search, and nearly every command holds none of these.
    ((">",), _REDIRECTS),
    (("sed ", "perl "), re.compile(r"\b(?:sed|perl)\s+(?:-\w+\s+)*-\w*i")),
    (
        ("tee ", "mv ", "cp ", "rm ", "mkdir ", "touch ", "chmod ", "chown ", "ln ", "patch ", "install ", "zip ",
         "rsync ", "truncate ", "apply_patch", "wget "),
        re.compile(
            r"\b(?:tee|mv|cp|rm|mkdir|touch|chmod|chown|ln|patch|install|truncate|apply_patch|unzip|rsync|wget)\s"
        ),
    ),
    (("tar ",), re.compile(r"\btar\s+-?\w*x")),
    (("curl ",), re.compile(r"\bcurl\s[^|;&]*\s-(?:o|O|X|d)\b")),
    (
        ("git ",),
        re.compile(
            r"\bgit\s+(?:-C\s+\S+\s+|-\S+\s+)*(?:add|am|apply|checkout|cherry-pick|clean|clone|commit|merge|mv|pull|push|rebase"
            r"|reset|restore|revert|rm|stash|switch)\b"
        ),
    ),
    (
        ("pip", "conda ", "npm ", "yarn ", "apt", "brew ", "cargo ", "gem ", "poetry ", "uv ", "mix "),
        re.compile(
            r"\b(?:pip3?|conda|p?npm|yarn|apt|apt-get|brew|cargo|gem|poetry|uv|mix)\s+(?:\w+\s+)?"
            r"(?:install|add|update|upgrade|remove|uninstall|sync|deps\.get)\b"
        ),
    ),
    (
        (".write", "open(", ".to_", "shutil.", "os.re", "os.make"),
        re.compile(
            r"\.write\w*\(|\bopen\([^,)]*,\s*(?:mode\s*=\s*)?['\"][wax]|\.to_(?:csv|json|excel|parquet|sql)\(|\bshutil\."
            r"|\bos\.(?:remove|rename|replace|makedirs)\("
        ),
    ),
)  # fmt: skip
_CREATE_HINTS = (
    "tee ", "touch ", "mkdir ", "cp ", "mv ", "install -", "ln ", "clone ", "checkout -", "switch -", "git branch",
    "git tag", "worktree", "wget ", "curl ", "CREATE ", "create ", "startproject", "startapp", "createdb", "venv",
    "docker", "scp ", "of=", " mb ",
)  # fmt: skip
_HEREDOC = re.compile(r"cat +(?:<< *'?(\w+)'? *>[ |]*([\w./~+-]+)|>[ |]*([\w./~+-]+) *<< *'?(\w+)'?) *")
_SQL_CHANGES = re.compile(
    r"\b(?:insert|update|delete|create|alter|drop|truncate|replace|merge|grant|revoke|copy)\b", re.IGNORECASE
)
_PROGRAM = re.compile(
    r"(?:^|[\s;&|(])(?:\./\S|(?:python|pypy|node|deno|ruby|perl|php|bash|sh|zsh|java|make|cmake|ninja|npm|npx|yarn|pnpm|bun"
    r"|cargo|go|mvn|gradle|dotnet|docker|pytest|tox|nox|sphinx-build|jupyter|uv|poetry|rake|bundle|Rscript|julia)[\d.]*\s)"
)
_WAITS = re.compile(r"(?:^|[;&|(\n]\s*|\b(?:do|then)\s+)sleep\s+\d|\bwait-for|\btime\.sleep\(")
_LEAD = re.compile(
    r"^\s*(?:(?:cd|pushd|source|\.|export|set)\s[^;&|\n]*(?:&&|;|\n)\s*|\w+=\S*\s+|(?:sudo|time|timeout\s+\S+|env|nohup)\s+)*"
)
_WORDS = re.compile(r"[^\s;&|<>()'\"`]+")


def changes(command: str) -> bool:
    """Whether the command line or program writes, moves, installs or commits something."""
    head = command[:_READ_CHARS]
    for hints, pattern in _WRITERS:
        for hint in hints:
            if hint in head:
                if pattern.search(head):
                    return True
                break
    return False


def changes_sql(statement: str) -> bool:
    """Whether the statement changes data or schema."""
    return _SQL_CHANGES.search(statement, 0, _READ_CHARS) is not None


def produces(command: str) -> bool:
    """Whether the command line runs a program, which may leave files that the line does not name."""
    return _PROGRAM.search(command, 0, _READ_CHARS) is not None


def written_file(command: str) -> str:
    """The file of a `cat <<'EOF' > file` that is all of the command line; empty for anything else."""
    first, _, rest = command.partition("\n")
    found = _HEREDOC.fullmatch(first) if first.startswith("cat ") else None
    if found is None:
        return ""
    end = f"\n{found[1] or found[4]}"
    after = f"\n{rest}".rstrip()
    closed = after.find(f"{end}\n")
    return (found[2] or found[3]) if closed < 0 else ""


def may_create(command: str) -> bool:
    """Whether it is worth while to work out what the command line creates."""
    if any(hint in command for hint in _CREATE_HINTS):
        return True
    return ">" in command and _REDIRECTS.search(command, 0, _READ_CHARS) is not None


def waits(command: str) -> bool:
    """Whether the command line waits for something: it is expected to be tried again."""
    head = command[:_READ_CHARS]
    return ("sleep" in head or "wait-for" in head) and _WAITS.search(head) is not None


def subject(command: str) -> str:
    """The program and its first argument that is not an option: `python reproduce.py`, `git push`."""
    lead = _LEAD.match(command, 0, _READ_CHARS)
    words = _WORDS.findall(command, lead.end() if lead else 0, _READ_CHARS)
    named = [word for word in words[:6] if word[0] != "-"]
    return " ".join(named[:2])[:MAX_SUBJECT_CHARS]
