"""The acts of operators on agents: the name, the fields and the help text of each.

The commands of the command line and the routes of the HTTP API are generated from them. Each requires the role operator
and the operator's name. Imports only what every command of the command line imports.
"""

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field
from datetime import timedelta
from typing import Final, Literal

ScopeName = Literal["session", "agent", "mission", "tool", "target", "fleet"]
"""The values of ScopeKind, which is slow to import. A test compares both."""
REQUIRED: Final = object()


@dataclass(frozen=True)
class Field:
    """A value that an operator gives."""

    help: str
    type: object = str
    default: object = REQUIRED
    _: KW_ONLY
    positional: bool = False
    """On the command line, an argument instead of an option."""
    option: str | None = None
    """The option's name if it differs from the field's."""
    shown_as: str | None = None
    limits: tuple[int, int] | None = None
    """The smallest and the largest number."""
    over_http: bool = True
    """False: available on the command line only."""


@dataclass(frozen=True, kw_only=True)
class Act:
    """One act."""

    name: str
    """The name of the command, of the route, and of its Command's kind."""
    help: str
    more: str = ""
    """Additional help, shown on the command line only."""
    examples: tuple[str, ...]
    """Command lines."""
    fields: Mapping[str, Field] = field(default_factory=dict)
    """The fields besides the operator, which every act has, and the reason, unless it has another name here."""


_SCOPE: Final = {
    "scope_id": Field(
        "The session's id, or the id within --scope; a unique beginning is enough.",
        default="",
        positional=True,
        shown_as="ID",
    ),
    "scope": Field(
        "What the ID identifies: session, agent, mission, tool, target or fleet.",
        ScopeName,
        "session",
        shown_as="SCOPE",
    ),
}
_UNKNOWN: Final = {
    "unknown": Field("Accept an ID of which no events were found: it is stopped if it starts.", bool, default=False)
}
_SESSION: Final = {"session": Field("The session's id, or its beginning.", positional=True, shown_as="SESSION")}
_REQUEST: Final = {"request_id": Field("The request's id, or its beginning.", positional=True, shown_as="ID")}
_IDENTICAL: Final = {
    "identical": Field("Also every other open request about the same call, of any session.", bool, default=False)
}
_INCIDENT: Final = {"incident_id": Field("The incident's id, or its beginning.", positional=True, shown_as="ID")}

ON_SCOPES: Final = (
    Act(
        name="kill",
        help="Stop a session, or every session of an agent, tool, target, mission or the fleet, now.\n\n"
        "The id of a session, an agent or a mission may be shortened; one without any events is refused, except with "
        "`unknown`: then it is stopped if it starts. The fleet takes two operators. Doing it twice does no harm.",
        more="--preview lists the sessions with events in the last --lookback, and changes nothing. With --unknown the "
        "command waits for no agent. Exit 1 when no events of it were found, when no worker answers in time (the "
        "command is kept for when one runs), or when not all have stopped in time.",
        examples=(
            "kill session-42 --by ada --reason 'deletes the wrong schema'",
            "kill --scope agent cleaner --preview --by ada --reason 'catalogue is being restored'",
        ),
        fields=_SCOPE
        | {
            "preview": Field("Only list the sessions that it would stop.", bool, default=False, over_http=False),
            "lookback": Field(
                "How far back to look for active sessions.", timedelta, timedelta(hours=1), over_http=False
            ),
            "until_stopped": Field(
                "Wait until the agents acknowledge the stop; list those that did.",
                bool,
                default=False,
                over_http=False,
            ),
        }
        | _UNKNOWN,
    ),
    Act(
        name="freeze",
        help="Refuse every call of a session, agent or mission, of one tool, or about one target, until it is lifted.",
        examples=("freeze --scope target asset_id=fact_sales --by ada --reason 'is being restored'",),
        fields=_SCOPE | _UNKNOWN,
    ),
    Act(
        name="contain",
        help="Allow only reads of a session, an agent or the fleet; every other call is refused until it is lifted.\n\n"
        "A read is a call whose tool name (get_*, list_*, read_* ...) or declared effect says so.",
        examples=("contain session-42 --by ada --reason 'under investigation'",),
        fields=_SCOPE | _UNKNOWN,
    ),
    Act(
        name="lift",
        help="End a freeze or a containment. A kill needs a reset.",
        examples=("lift --scope target asset_id=fact_sales --by ada --reason 'restored'",),
        fields=_SCOPE,
    ),
    Act(
        name="reset",
        help="Release what was killed; a session starts again, on probation. A reason is required.\n\n"
        "On probation, for some actions, limits are lower and a refusal is a kill; after such a kill a reset is "
        "refused until the lockout is over. Doing it twice does no harm.",
        more="Exit 1 when no worker answers in time: the command is kept.",
        examples=(
            "reset session-42 --by ada --reason 'task corrected: report instead of deleting'",
            "reset --scope agent cleaner --only session-42 --by ada --reason 'this one only reads'",
        ),
        fields=_SCOPE
        | {
            "probation_actions": Field(
                "Actions on probation. Default: the policy's.",
                int | None,
                None,
                option="--probation",
                limits=(0, 10_000),
            ),
            "session": Field(
                "Release only this session of the scope.", str | None, None, option="--only", shown_as="SESSION"
            ),
            "force": Field(
                "Release within the lockout, too; takes two different operators, one after the other.",
                bool,
                default=False,
            ),
        },
    ),
)
"""Acts on a session, an agent, a mission, a tool, a target or the fleet."""

ON_REQUESTS: Final = (
    Act(
        name="approve",
        help="Allow one call, once: the one that waits, or the next one with exactly the same arguments.\n\n"
        "A critical request takes two different operators; approving it twice as the same one changes nothing.",
        more="Exit 1 when the request is no longer open, or no worker answers.",
        examples=("approve 3f2a --by ada --reason 'the table is a copy'",),
        fields=_REQUEST | _IDENTICAL,
    ),
    Act(
        name="reject",
        help="Refuse a call that waits, and the same call until the request would have expired.",
        examples=("reject 3f2a --by ada --reason 'not on a Friday'",),
        fields=_REQUEST | _IDENTICAL,
    ),
    Act(
        name="ask",
        help="Ask the agent a question before you approve: its call is refused with the question, and may be repeated.",
        examples=("ask 3f2a 'Which report needs this table gone?' --by ada",),
        fields=_REQUEST | {"reason": Field("The question to the agent.", positional=True, shown_as="QUESTION")},
    ),
)
"""Acts on a call that waits for an approval."""

ON_INCIDENTS: Final = (
    Act(
        name="acknowledge",
        help="Acknowledge an incident: you work on it.",
        more="Exit 1 when no worker answers.",
        examples=("incidents acknowledge 4f1c09ab --by ada --reason 'looking at it'",),
        fields=_INCIDENT,
    ),
    Act(
        name="assign",
        help="Assign an incident to a person.",
        examples=("incidents assign 4f1c09ab bo --by ada --reason 'owns the table'",),
        fields=_INCIDENT | {"assignee": Field("The assignee.", positional=True, shown_as="NAME")},
    ),
    Act(
        name="comment",
        help="Add a comment to an incident.",
        examples=("incidents comment 4f1c09ab 'restored from the backup of noon' --by ada",),
        fields=_INCIDENT | {"reason": Field("The comment.", positional=True, shown_as="TEXT")},
    ),
    Act(
        name="resolve",
        help="Close an incident and refuse its open approval request. A later finding opens another incident.",
        examples=("incidents resolve 4f1c09ab --by ada --reason 'the tool is fixed'",),
        fields=_INCIDENT,
    ),
    Act(
        name="snooze",
        help="Keep an incident silent for a time: it notifies nobody, and is not among what needs attention.\n\n"
        "A kill within the time ends the silence; so does a snooze for 0s.",
        examples=("incidents snooze 4f1c09ab --for 1h --by ada --reason 'the owner is asked in the morning'",),
        fields=_INCIDENT | {"lasts": Field("How long, at most 7d.", timedelta, timedelta(hours=1), option="--for")},
    ),
)

BATCH: Final = Act(
    name="batch",
    help="Declare a bulk clean-up in advance, so that its volume does not stop the session.\n\n"
    "The session need not have started. The same target twice still counts as a loop.",
    more="Exit 1 when no worker answers in time.",
    examples=("batch night-7 --max-deletes 100 --targets 'asset_id=stg_*' --by ada --reason 'staging clean-up'",),
    fields=_SESSION
    | {
        "max_deletes": Field("How many destructive actions are expected.", int, limits=(1, 1_000_000)),
        "actions": Field("Tools it covers, a glob.", default="*", shown_as="GLOB"),
        "targets": Field(
            "Targets it covers, a glob such as 'asset_id=stg_*'; may be repeated.",
            list[str] | None,
            None,
            shown_as="GLOB",
        ),
        "lasts": Field("How long the batch is valid, at most 8h.", timedelta, timedelta(hours=1), option="--for"),
    },
)
LABEL: Final = Act(
    name="label",
    help="Record whether a rule's decision was right, for the audit and the tuning of thresholds.\n\n"
    "An operator's own kill cannot be labelled: no rule decided it.",
    more="Exit 1 when there is no such decision. The ids are in `haltline tail --topic interventions`.",
    examples=("label 9f3c0a77 false_alarm --by ada --reason 'was the nightly clean-up'",),
    fields={
        "decision": Field("The decision's id, or its beginning.", positional=True, shown_as="DECISION"),
        "verdict": Field("Either confirmed or false_alarm.", positional=True, shown_as="LABEL"),
    },
)
MISSED: Final = Act(
    name="missed",
    help="Record that a rule missed a runaway session, for the audit and the tuning of thresholds.",
    more="Exit 1 when no worker answers in time: the label is kept.",
    examples=("missed night-7 --rule error_repetition --by ada --reason 'failed 40 times, nobody was notified'",),
    fields=_SESSION | {"rule": Field("The rule that should have found something.", shown_as="RULE")},
)
