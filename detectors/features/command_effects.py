"""The subject of a command line, whether it changes anything, waits, or does nothing: by its words, without parsing.

Accurate enough for the weight of a repetition (was there work in between?), and cheap enough for every command.
`haltline.detectors.commands` determines exactly what a command would destroy.
"""

from functools import lru_cache

from haltline.detectors.commands.model import holds_one
from haltline.detectors.commands.rows import expression_of, texts_of, words_of
from haltline.schemas import expressions as re

_READ_CHARS = 4096
_SHORT_CHARS = 240
_HEAD_CHARS, _TAIL_CHARS = 1024, 512
"""In a long command line, such as one with a heredoc, programs are searched at both ends."""
MAX_SUBJECT_CHARS = 120

_BETWEEN = re.compile(r"[;&|(){}`\n]+|-exec(?:dir)?\s")
_BEFORE_PROGRAM = frozenset(("do", "then", "else", "sudo", "xargs", "exec", "env", "nohup", "time", "!"))
_CHANGING = words_of("programs that change files")
_INSTALLERS = texts_of("programs that install")
_CHANGES_IF = {name: expression_of(f"files are changed by {name}") for name in ("sed", "perl", "tar", "curl", "git")}
_CHANGES_IF |= dict.fromkeys(_INSTALLERS, expression_of("files are changed by an installer"))
_MAKE_NEW = words_of("programs that look or make something new")
_LOOKING = _MAKE_NEW | words_of("programs that only look")
"""Programs that change no file that was there before."""
_GIT_TAKES_BACK = expression_of("git takes files back")
"""git as it leaves files that differ from the last commit."""
_GIT_WRITES = re.compile(r"\bgit\s+(?:apply|am|cherry-pick|merge|mv|pull|rebase|revert|rm|stash\s+(?:pop|apply))\b")
_STATUS = re.compile(r"\bgit\s+(?:-C\s+\S+\s+)?status\b")
_COMMITS = re.compile(r"\bgit\s+(?:-C\s+\S+\s+)?(?:commit\b|stash(?!\s+(?:list|show|drop|clear|pop|apply|branch)\b))")
_MODIFIED = expression_of("git lists a changed file", re.MULTILINE)
_NEW = re.compile(r"^\?\? (\S[^\n]{0,300})$", re.MULTILINE)
_NEW_LISTED = re.compile(r"^\t(\S[^\n]{0,300})$", re.MULTILINE)
_REDIRECTS = re.compile(r"(?<![-=<>&0-9])[0-9]?>>?\s*(?!&|/dev/null\b|[\s=])")
_CODE_HINTS = (".write", "open(", ".to_", "shutil.", "os.re", "os.make")
_CODE_CHANGES = expression_of("a program writes")
_SQL_CHANGES = expression_of("a statement changes data", re.IGNORECASE)

_CREATE_HINTS = texts_of("signs of a creation")
_HEREDOC = re.compile(r"cat +(?:<< *'?(\w+)'? *>[ |]*([\w./~+-]+)|>[ |]*([\w./~+-]+) *<< *'?(\w+)'?) *")

_UNCHANGED = expression_of("nothing was changed", re.IGNORECASE)
_UNCHANGED_CUES = ("no", "already", "changed", "modified", "0 ")
"""Every match contains one of these, in lower case."""
_ANSWER_CHARS = 240

PRODUCING = words_of("programs that leave files")
_ABSOLUTE = re.compile(r"(?<![\w.~/])/[\w.-]+(?:/[\w.-]+)+")
_MAX_PATHS = 32
_WAITS = expression_of("a command line waits")
_WAIT_CUES = ("sleep", "wait", "rollout", "gh ")
_FIXED = r"(?:echo|printf|date|true|:)(?:[^\S\n][^;&|<>$`\n]*+)?"
_SLEEP = (
    r"(?:sleep(?:\s+[\d.]+[smhd]?)+|Start-Sleep\s[^;&|<>$`\n]*"
    r"|python3?\s+-c\s+[\"']\s*import time\s*;\s*time\.sleep\([\d.*\s]+\)\s*+;?\s*+[\"'])"
)
_NEXT = r"[^\S\n]*+(?:;|&&|\n)\s*+"
_ONLY_SLEEPS = re.compile(
    rf"\A\s*+(?:{_FIXED}{_NEXT})*+{_SLEEP}(?:{_NEXT}(?:{_FIXED}|{_SLEEP}))*+\s*+(?:;\s*+)?", re.IGNORECASE
)
_SURELY_PRINTS = expression_of("a program surely prints")
_OFTEN_PRINTS = re.compile(r"(?:ls|tree|find|cat|head|tail|pip\s+list|git\s+branch)(?:\s.*)?")
_PRINTING_CODE = re.compile(r"'[^']*\bprint\([^']*'|\"[^\"]*\bprint\([^\"]*\"")
_NO_ERRORS = re.compile(r"(?<!\s)\s*2>(?:&1|\s*/dev/null)")
_NOT_PLAIN = re.compile(r"[<>`(){}\n\\]|\$\(|\|\||(?<!&)&(?!&)|\b(?:if|for|while|exec|exit|test)\b")
_PASS_ON = frozenset(("head", "tail", "cat", "sort", "nl", "tac"))
_LEAD = expression_of("what stands before a program")
_START_CHARS = 64
_HEREDOC_END = re.compile(r"<<-?\s*['\"]?(\w+)")
_QUOTES = re.compile(r"'[^']*'|\"[^\"]*\"")
_STREAMS = re.compile(r"\d?>&\d?")
_PARTS = re.compile(r"(^|&&|\|\|?|[;\n&])([^;\n|&]*)")
_REDIRECT_ALONE = re.compile(r"\A\s*(?:\d?>>?\s*\S+\s*)+")
_WORDS = re.compile(r"[^\s;&|<>()'\"`]+")


def programs(command: str) -> frozenset[str]:
    """The names at the positions of programs in a command line; a superset, as other text may look alike."""
    if len(command) > _HEAD_CHARS + _TAIL_CHARS:
        command = f"{command[:_HEAD_CHARS]}\n{command[-_TAIL_CHARS:]}"
    names = []
    for part in _BETWEEN.split(command):
        for word in part.split(None, 6):
            if word not in _BEFORE_PROGRAM and word[0] != "-" and "=" not in word:
                names.append(word.rpartition("/")[2])
                break
    return frozenset(names)


def changes(command: str) -> bool:
    """Return whether the command line writes, moves, installs or commits something."""
    return _short_changes(command) if len(command) <= _SHORT_CHARS else _changes(command)


def _changes(command: str) -> bool:
    if ">" in command and _REDIRECTS.search(command, 0, _READ_CHARS) is not None:
        return True
    names = programs(command)
    if not names.isdisjoint(_CHANGING):
        return True
    for name in names & _CHANGES_IF.keys():
        if _CHANGES_IF[name].search(command, 0, _READ_CHARS) is not None:
            return True
    return changes_by_code(command)


_short_changes = lru_cache(maxsize=4096)(_changes)
"""Cached, because it is called for the proposal and the result, and agents repeat the same programs."""


def changes_existing(command: str) -> bool:
    """Return whether the command line may change a file that was there before: not if it only makes new ones."""
    if ">" in command or not programs(command) <= _MAKE_NEW:
        return True
    return _GIT_WRITES.search(command, 0, _READ_CHARS) is not None


def may_write(command: str) -> bool:
    """Return whether the command line may change a file that was there before, also by a program that may do anything.

    Like `changes_existing`, but sure that a program only looks if this returns False.
    """
    if not programs(command) <= _LOOKING or _REDIRECTS.search(command, 0, _READ_CHARS) is not None:
        return True
    if _CHANGES_IF["sed"].search(command, 0, _READ_CHARS) is not None:
        return True
    return any(git.search(command, 0, _READ_CHARS) is not None for git in (_GIT_WRITES, _GIT_TAKES_BACK))


def uncommitted(command: str, output: str) -> tuple[str, ...] | None:
    """Return the tracked files with uncommitted changes that git lists; empty if it says that there are none.

    None: the command line shows nothing about it.
    """
    if _COMMITS.search(command, 0, _READ_CHARS) is not None:
        return ()
    if _STATUS.search(command, 0, _READ_CHARS) is None:
        return None
    return tuple(short or long for short, long in _MODIFIED.findall(output[:_READ_CHARS]))


def untracked(output: str) -> tuple[str, ...]:
    """Return the files and directories outside of git that `git status` lists."""
    head = output[:_READ_CHARS]
    _, _, listed = head.partition("Untracked files:")
    return tuple(name.rstrip("/") for name in (*_NEW.findall(head), *_NEW_LISTED.findall(listed)))


def changes_by_code(text: str) -> bool:
    """Return whether a program, or one inside a command line, writes."""
    if not text:
        return False
    return holds_one(text, _CODE_HINTS) and _CODE_CHANGES.search(text, 0, _READ_CHARS) is not None


def changes_before_end(command: str) -> bool:
    """Return whether a part before the last one changes something, which may have happened if the line failed.

    In a truncated command line, the last part is unknown.
    """
    if len(command) >= _SHORT_CHARS:
        return changes(command)
    if written_file(command):
        return False
    last = max(command.rstrip().rfind(sign) for sign in (";", "|", "&&", "\n"))
    return last > 0 and changes(command[:last])


def says_unchanged(text: str) -> bool:
    """Return whether an answer says that nothing was changed."""
    head = text[:_ANSWER_CHARS]
    if head.isascii() and not holds_one(head.lower(), _UNCHANGED_CUES):
        return False
    return _UNCHANGED.search(text, 0, _ANSWER_CHARS) is not None


def changes_sql(statement: str) -> bool:
    """Return whether the statement changes data or schema."""
    return _SQL_CHANGES.search(statement, 0, _READ_CHARS) is not None


def produces(command: str) -> bool:
    """Return whether the command line runs a program, which may create files that the line does not name."""
    return "./" in command or not programs(command).isdisjoint(PRODUCING)


def folders(text: str) -> tuple[str, ...]:
    """The folders of the absolute paths in a text."""
    return tuple(dict.fromkeys(path.rpartition("/")[0] for path in _ABSOLUTE.findall(text)[:_MAX_PATHS]))


def written_file(command: str) -> str:
    """The file of a `cat <<'EOF' > file` that is the whole command line; empty otherwise."""
    if not command.startswith("cat "):
        return ""
    first, _, rest = command.partition("\n")
    found = _HEREDOC.fullmatch(first)
    if found is None or f"\n{found[1] or found[4]}\n" in f"\n{rest.rstrip()}":
        return ""
    return found[2] or found[3]


def may_create(command: str) -> bool:
    """Return whether a search for what the command line creates is worthwhile."""
    if ">" in command and _REDIRECTS.search(command, 0, _READ_CHARS) is not None:
        return True
    return holds_one(command, _CREATE_HINTS)


def waits(command: str) -> bool:
    """Return whether the command line waits for something, and is expected to be repeated."""
    return holds_one(command, _WAIT_CUES) and _WAITS.search(command, 0, _READ_CHARS) is not None


def only_sleeps(command: str) -> bool:
    """Return whether the command line only lets time pass, and looks at nothing: `sleep 60; echo done`."""
    return len(command) < _SHORT_CHARS and "leep" in command and _ONLY_SLEEPS.fullmatch(command) is not None


def must_print(command: str) -> float:
    """Return 1 if a command line that succeeds prints something in any case, 0.5 if in most cases, else 0."""
    if len(command) >= _SHORT_CHARS:
        return 0.0
    plain = _NO_ERRORS.sub("", _QUOTES.sub("q", _PRINTING_CODE.sub("prints", command)))
    if _NOT_PLAIN.search(plain) is not None:
        return 0.0
    sure = 0.0
    for part in re.split(r";|&&", plain):
        first, *filters = (stage.strip() for stage in part.split("|"))
        if filters and filters[-1].split()[:1] == ["wc"]:
            return 1.0
        if any(stage.split()[:1] == [] or stage.split()[0] not in _PASS_ON for stage in filters):
            continue
        if _SURELY_PRINTS.fullmatch(first) is not None:
            return 1.0
        if _OFTEN_PRINTS.fullmatch(first) is not None:
            sure = 0.5
    return sure


def does_nothing(command: str) -> bool:
    """Return whether every program of a command line is `:` or `true`, or it is a redirect alone, such as `> a`.

    What is piped from `:`, and what follows it only if it fails, does nothing either.
    """
    start = command[:_START_CHARS].lstrip()
    if start[:1] not in {":", ">"} and start[:4] != "true":
        return False
    lines, end = [], ""
    for line in command[:_READ_CHARS].split("\n"):
        if end:
            end = "" if line.strip() == end else end
            continue
        lines.append(line)
        found = _HEREDOC_END.search(line)
        end = found[1] if found is not None else ""
    plain = _STREAMS.sub("", _QUOTES.sub("q", "\n".join(lines)))
    idle = False
    for sign, part in _PARTS.findall(plain):
        words = part.split()
        if not words or words[0][0] == "#" or sign in {"|", "||"}:
            continue
        if words[0] not in {":", "true"} and _REDIRECT_ALONE.fullmatch(part) is None:
            return False
        idle = True
    return idle


def subject(command: str) -> str:
    """The program and its first argument that is not an option: `python reproduce.py`, `git push`."""
    lead = _LEAD.match(command, 0, _READ_CHARS)
    words = _WORDS.findall(command, lead.end() if lead else 0, _READ_CHARS)
    named = [word for word in words[:6] if word[0] != "-"]
    return " ".join(named[:2])[:MAX_SUBJECT_CHARS]
