"""Words that code and documentation no longer use, with their replacements."""

from typing import Final

RETIRED: Final = {
    r"\bwanted\b[^.|]*\bcame\b": "expected X, got Y", r"\bheard of\b": "published, or known",
    r"\bnothing was heard\b": "no record of it was published", r"\bwhom nothing\b": "without any record",
    r"\bwithout a word\b": "without a record", r"\bin vain\b": "without effect",
    r"\bmade anew\b": "made again, rebuilt, or recreated", r"\bheed(?:ed|s)?\b": "enforce, or apply",
    r"\bwhat came of (?:it|them|that)\b": "the result", r"\bwhat it says\b": "meaning",
    r"\bnobody to ask\b": "no verdict", r"\bunless .{1,20} is said\b": "by default", r"\bwho asks\b": "the client",
    r"\bto who asks\b": "for a request", r"\bnobody is to be asked\b": "no verdict can be obtained",
    r"\bwhat is said\b": "the answer, or the output",
    r"\bunless (?:it|its name|the environment) says otherwise\b": "by default", r"\bunless said\b": "by default",
    r"\bis told of\b": "is notified of, or receives", r"\btells of\b": "reports", r"\btells whom\b": "lists",
    r"\bare told apart\b(?! by)": "are distinguished", r"\bat a desk\b": "on a developer's machine",
    r"\bat last\b": "finally", r"\bfor ever\b": "permanently", r"\bhas to answer for\b": "is responsible for",
    r"\bwho comes second\b": "the second one", r"\bwho looks\b": "a reader", r"\bwhoever looks\b": "a reader",
    r"\bbrought about\b": "caused", r"\bnobody's loss\b": "does not count", r"\bnobody's answer\b": "no answer",
    r"\bthe harder holds\b": "the harder one applies", r"\bin whose words\b": "in which vocabulary",
    r"\bwhat stands against\b(?! the session)": "what is in force", r"\bis given again\b": "is returned again",
    r"\bas ever\b": "as before", r"\bmended\b": "fixed",
    r"\bthe way to the worker and back\b": "the round trip to the worker", r"\bgoes on being\b": "stays",
    r"\bsay so\b": "report it", r"\btold (?:nothing|something)\b": "returned nothing new, or received advice",
    r"\bfares? differently\b": "differs", r"\ba single act\b": "a single call",
    r"\bheard of within\b": "active in the last", r"\blast heard\b": "last event", r"\btouch nothing\b": "only read",
    r"\bstands since\b": "was killed, or is in force since", r"\bwhat can be said\b": "what is known",
    r"\bto be decided\b": "pending", r"\bnone match\b": "no sessions match",
}  # fmt: skip
"""By pattern: what to write instead."""
