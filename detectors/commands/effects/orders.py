"""Work that is handed to others, by what it is called or by the first words of what is asked for: words to extend.

Misses: orders in languages that put the verb last; what the others make of them.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from haltline.detectors.commands.effects.languages import in_english
from haltline.detectors.commands.effects.tools import pairs
from haltline.detectors.commands.model import listed
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
"""Words of tools that hand something over, or start it."""
_ORDER_ARGS = (
    "job", "work", "command", "script", "assignment", "brief", "todo", "prompt", "task", "instructions", "instruction",
    "message", "goal", "request", "query", "input", "text", "objective", "content", "description_of_work",
)  # fmt: skip
_ASSIGNEES = ("assignee", "assigned_to", "agent", "agent_id")
_STRONG = frozenset(listed("""
    destroy delete drop wipe purge erase truncate teardown nuke terminate decommission deprovision obliterate rm
"""))  # fmt: skip
_RELEASES, _PRODUCTION = frozenset(("deploy", "release", "rollout")), frozenset(("prod", "production", "live"))
_ORDER = re.compile(
    r"""\s*(?:(?:please|now|just|then|first|next|immediately|permanently|kindly|go(?:\s+ahead)?(?:\s+and)?|you\s+(?:must|should)|
    i\s+(?:want|need)\s+you\s+to|your\s+task\s+is\s+to|can\s+you|could\s+you|completely|force)[\s,:]+)*
    (?P<verb>delete|drop|destroy|wipe|erase|purge|truncate|terminate|remove|rm|nuke|shred|tear\s+down|decommission|uninstall
    |email|e-mail|broadcast|tweet|send\s+(?:an?\s+)?(?:e-?mails?|messages?|newsletters?|sms|payments?|money)
    |revoke|force[- ]push|publish|pay|refund|transfer|buy|cancel|shut\s+down|overwrite|reset|grant|make)
    \s+(?P<about>[^.;\n]{1,160})""",
    re.IGNORECASE | re.VERBOSE,
)
_SERIOUS = re.compile(
    r"\b(?:table|database|db|bucket|project|repo(?:sitory)?|account|user|users|data|production|prod|server|instance|cluster|namespace|"
    r"backups?|volume|disk|files?|folder|directory|everything|all|customer\w*|record\w*|branch|site|domain|queue|topic|index|collection|"
    r"stack|environment|schema|dataset|invoices?|payments?|payroll|subscriptions?|contracts?|orders?|money|funds|public|admin|keys?|secrets?|main|master|\d+\s?(?:usd|eur|\$))\b|(?:^|\s)/[\w/.-]+|-rf\b",
    re.IGNORECASE,
)
_LIGHT = re.compile(
    r"\b(?:dead|unused|code|imports?|comments?|whitespace|draft|cart|temp\w*|cache\w*|build|lint|todo|branch of|"
    r"duplicates?|test\w*|filter)\b",
    re.IGNORECASE,
)


def handed_over(action: str, args: Mapping[str, Any]) -> str:
    """What is handed to others that takes something away; empty where nothing is."""
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
    for order in texts(args) if hands_over(action) else ():
        text = " ".join(in_english(order[:512])) or order
        found = _ORDER.match(text)
        if found is not None and _LIGHT.search(found["about"]) is None and _SERIOUS.search(found["about"]):
            return f"{found['verb'].lower()} {found['about']}"[:160]
    return ""


def hands_over(action: str) -> bool:
    """Whether a tool of this name gives work to another agent."""
    return not _OTHERS.isdisjoint(words(action)) or "_".join(words(action)[:2]) == "ask_agent"


def texts(args: Mapping[str, Any]) -> Iterator[str]:
    """The texts that say what another agent is to do."""
    for name in _ORDER_ARGS:
        if isinstance(text := args.get(name), str):
            yield text
    if isinstance(title := args.get("title"), str) and any(
        isinstance(who := args.get(name), str) and not {"bot", "agent"}.isdisjoint(words(who)) for name in _ASSIGNEES
    ):
        yield title
