"""Work delegated to other agents or jobs, by its name or by a clause of its text: extensible sets of words.

Misses: languages that put the verb last; how the other agent interprets the order.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from haltline.detectors.commands.effects.languages import in_english
from haltline.detectors.commands.effects.tools import pairs
from haltline.detectors.commands.model import listed
from haltline.schemas import expressions as re
from haltline.schemas.tool_names import destroying_verb, words

_STARTS = frozenset((
    "run", "trigger", "start", "invoke", "execute", "dispatch", "enqueue", "schedule", "launch", "submit", "queue",
    "call", "fire", "publish", "kick", "create", "build", "rerun",
))  # fmt: skip
_JOBS = frozenset((
    "workflow", "dag", "pipeline", "job", "lambda", "function", "playbook", "task", "build", "automation", "flow",
    "runbook", "scenario", "script", "action", "zap", "operation", "macro", "procedure",
    "enqueue", "dispatch", "message", "event", "cron", "queue",
))  # fmt: skip
_OTHERS = frozenset(listed("""
    delegate handoff hand spawn subagent agent task assign escalate worker assistant crew transfer_to dispatch
    ask_agent coworker schedule scheduler cron automation routine background codex claude autopilot
"""))  # fmt: skip
HANDS = _STARTS | _OTHERS
"""Words of tools that delegate or start work."""
_ORDER_ARGS = (
    "job", "work", "command", "script", "assignment", "brief", "todo", "prompt", "task", "instructions", "instruction",
    "message", "goal", "request", "query", "input", "text", "objective", "content", "description_of_work",
)  # fmt: skip
_ASSIGNEES = ("assignee", "assigned_to", "agent", "agent_id")
_STRONG = frozenset(listed("""
    destroy delete drop wipe purge erase truncate teardown nuke terminate decommission deprovision obliterate rm
"""))  # fmt: skip
_RELEASES, _PRODUCTION = frozenset(("deploy", "release", "rollout")), frozenset(("prod", "production", "live"))
_TAKES_AWAY = r"""delete|drop|destroy|wipe|erase|purge|truncate|terminate|remove|rm|nuke|shred|tear\s+down|decommission
    |uninstall|get\s+rid\s+of|clear(?:\s+out)?|empty|obliterate|force[- ]push|overwrite"""
_ORDER = re.compile(
    rf"""\A\s*+(?:(?:please|now|just|then|first|next|finally|lastly|also|afterwards|immediately|permanently|kindly|completely|force
    |go(?:\s+ahead)?(?:\s+and)?|you\s+(?:must|should|can|may)|i\s+(?:want|need)\s+you\s+to|your\s+(?:task|job)\s+is\s+to
    |after\s+that|make\s+sure\s+to|be\s+sure\s+to|can\s+you|could\s+you|connect\s+and)[\s,:]++)*
    (?P<verb>(?P<loses>{_TAKES_AWAY})
    |email|e-mail|broadcast|tweet|send\s+(?:an?\s+)?(?:e-?mails?|messages?|newsletters?|sms|payments?|money)
    |revoke|publish|pay|refund|transfer|buy|cancel|shut\s+down|reset|grant|make)
    \s+(?P<about>[^;\n]{{1,160}})""",
    re.IGNORECASE | re.VERBOSE,
)
_SENTENCES = re.compile(r"(?<=[.!?:])\s+|[;\n]+")
_CLAUSES = re.compile(r",\s+|(?<!\s)\s+(?=(?:and|then|und|et|y)\s)", re.IGNORECASE)
_AND = re.compile(r"(?:(?:and|then|und|et|y)\s+)+", re.IGNORECASE)
_TELLS_OF_CODE = re.compile(
    r"\A\s*(?:please\s+)?(?:add|implement|write|create|build|refactor|fix|explain|review|describe|document|check|design|test|investigate"
    r"|research|find|summari[sz]e|search|list|look|show|verify|confirm|analy[sz]e|rename|read\s+about|do\s+not|don't|never|avoid)\b",
    re.IGNORECASE,
)
"""Sentences about code or research: their further verbs describe the program to write, or the search."""
_SERIOUS = re.compile(
    r"\b(?:(?:table|database|bucket|project|repo|account|user|server|instance|cluster|namespace|backup|volume|disk|file|folder|record"
    r"|site|domain|queue|topic|collection|stack|environment|schema|dataset|invoice|payment|subscription|contract|order|key|secret"
    r"|mailbox|tenant|workspace|employee|member|session|container|vm|pod|node|partition|host|machine|object|document|ticket|mail|email"
    r"|volume|image|snapshot|row|filesystem)s?|db|repository|repositories|data|production|prod|director(?:y|ies)|everything|everybody"
    r"|all|customer\w*|branch(?:es)?|index|indices|payroll|money|funds|public|admin|main|master|trash|cache|\d+\s?(?:usd|eur|\$))\b"
    r"|(?:^|\s)/[\w/.-]+|-rf\b",
    re.IGNORECASE,
)
_HEAVY = re.compile(
    r"\b(?:production|prod|live|database|bucket|server|cluster|account|tenant|backups?|redis|postgres\w*|mysql|mongo\w*|s3|aws|gcp|azure"
    r"|kafka)\b|(?:^|\s)/(?:srv|var|data|home|etc|mnt|opt|backups?)\b",
    re.IGNORECASE,
)
_LIGHT = re.compile(
    r"\b(?:dead|unused|imports?|comments?|whitespace|draft|cart|temp\w*|lint|todos?|branch\sof|duplicates?|tests?|test\w+|filter|assertions?"
    r"|data\s?frame|deprecat\w*|warnings?|redundant|obsolete|stale|debug\w*|print|stub|newlines?|console|calls?|findings?|spaces?|blank)\b",
    re.IGNORECASE,
)
"""Objects of no value, in any context."""
_OF_CODE = re.compile(
    r"\b(?:code|cache\w*|build|dist|functions?|methods?|class(?:es)?|components?|fields?|buttons?|param\w*|arguments?|columns?|variables?"
    r"|annotations?|lines?|sections?|paragraphs?|handlers?|hooks?|props?|helpers?|modules?|dependenc\w+|packages?|endpoints?|routes?|form"
    r"|statements?|logging|logic|support|flags?|options?|attributes?|types?|styles?|css|links?|pages?|readme|docs?|migrations?|fixtures?"
    r"|mocks?|stubs?|annotations?|node_modules|artifacts?|examples?|constants?|decorators?|\w+\.(?:py|[jt]sx?|go|rs|rb|java|php|css|html|md|ipynb))\b",
    re.IGNORECASE,
)
"""Parts of programs, unless a word of `_HEAVY` is beside them."""
_MAX_TEXT_CHARS, _MAX_PARTS = 4096, 64


def delegated_in(text: str) -> str:
    """Return the destructive order in a text to another agent; empty if there is none.

    Every clause is checked. The first clause may also contain an order of another kind, such as a payment.
    """
    for at, sentence in enumerate(_SENTENCES.split(text[:_MAX_TEXT_CHARS])[:_MAX_PARTS]):
        for part, clause in enumerate(_CLAUSES.split(sentence)[:_MAX_PARTS]):
            joined = _AND.match(clause)
            plain = clause[joined.end() :] if joined is not None else clause
            if part and not (joined is not None and "then" in joined[0]) and _TELLS_OF_CODE.match(sentence):
                continue
            found = _ORDER.match(plain) or _ORDER.match(" ".join(in_english(plain)))
            if found is None or ((at or part) and not found["loses"]):
                continue
            about = found["about"]
            if _LIGHT.search(about) or (_OF_CODE.search(about) and not _HEAVY.search(about)):
                continue
            if _SERIOUS.search(about):
                return f"{found['verb'].lower()} {about}"[:160]
    return ""


def delegated(action: str, args: Mapping[str, Any]) -> str:
    """Return the destructive work that a call delegates; empty if there is none."""
    named = [word.removesuffix("s") for word in words(action)]
    if not _STARTS.isdisjoint(named) and not _JOBS.isdisjoint(named):
        for _, value in pairs(args):
            if isinstance(value, str) and len(value) <= 160 and " " not in value.strip():
                if not _STRONG.isdisjoint(words(value)) and destroying_verb(value.rpartition("/")[2]) != "":
                    return value
                named_ = words(value)
                if not _STRONG.isdisjoint(named_[:1] + named_[-2:]) or (
                    not _RELEASES.isdisjoint(named_) and not _PRODUCTION.isdisjoint(named_)
                ):
                    return value
    for order in texts(args) if delegates(action) else ():
        told = delegated_in(order)
        if told:
            return told
    return ""


def delegates(action: str) -> bool:
    """Return whether a tool with this name delegates work to another agent."""
    return not _OTHERS.isdisjoint(words(action)) or "_".join(words(action)[:2]) == "ask_agent"


def texts(args: Mapping[str, Any]) -> Iterator[str]:
    """Return the texts that instruct another agent."""
    for name in _ORDER_ARGS:
        if isinstance(text := args.get(name), str):
            yield text
    if isinstance(title := args.get("title"), str) and any(
        isinstance(who := args.get(name), str) and not {"bot", "agent"}.isdisjoint(words(who)) for name in _ASSIGNEES
    ):
        yield title
