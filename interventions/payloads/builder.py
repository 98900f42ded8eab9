"""The payload of a decision, by its level. Pure."""

from collections.abc import Callable, Mapping, Sequence
from fnmatch import fnmatchcase
from hashlib import blake2b
from typing import Any, Final

from haltline.interventions.author_rules.stated import Stated
from haltline.interventions.levels.plugins import NO_EXTENSIONS, Extensions
from haltline.interventions.levels.strategies import Chosen
from haltline.interventions.payloads import incident_report, modify, reinforce, rollback, throttle
from haltline.interventions.payloads.recovery_plan import recovery
from haltline.interventions.payloads.remediation import about_refusal, remediation
from haltline.interventions.state import texts
from haltline.interventions.state.context import Context
from haltline.interventions.state.intervention_history import History
from haltline.schemas.decisions import Decision, Level
from haltline.schemas.events import ActionEvent, Kind
from haltline.schemas.findings import Finding
from haltline.schemas.intervening import DEFAULT
from haltline.schemas.payloads import Rollback
from haltline.schemas.policy import Policy

_WOULD: Final[Mapping[Level, str]] = {
    Level.ALLOW: "nothing",
    Level.NUDGE: "a hint to the model",
    Level.REINFORCE: "the task repeated to the model",
    Level.THROTTLE: "lower limits",
    Level.PAUSE: "the call refused until a person approves",
    Level.BLOCK: "the call refused",
    Level.ROLLBACK: "the call refused, and the work taken back",
    Level.KILL: "the session stopped",
}


class Payloads:
    """Builds the payloads of decisions under one policy."""

    def __init__(self, policy: Policy, extensions: Extensions = NO_EXTENSIONS) -> None:
        """Load the policy's interventions. Raises ValueError for an unknown or invalid one."""
        self._settings = settings = policy.interventions or DEFAULT
        self._handlers = {
            rule: extensions.handler(name, f"interventions.handlers.{rule}") for rule, name in settings.handlers.items()
        }

    def fields(
        self,
        history: History,
        event: ActionEvent,
        chosen: Chosen,
        *,
        found: Sequence[Finding],
        context: Context,
        near: Mapping[str, float],
        decision_id: str,
    ) -> dict[str, Any]:
        """Return the level's fields of the decision. Stores changed limits and refused calls in `history`."""
        level, finding, settings = chosen.level, chosen.finding, self._settings
        message = chosen.says or self._hint(level, finding)
        fields: dict[str, Any] = {
            "message": message,
            "vocabulary": self._vocabulary(event, context),
            "action": event.action or None,
            "target": finding.target,
            "choice": chosen.choice,
            "would_do": None if chosen.meant is level else _WOULD[chosen.meant],
        }
        if level is Level.REINFORCE:
            task = context.session.task if context.session is not None else None
            again = reinforce.reinforcement(task, finding, settings.reinforcement)
            fields["reinforcement"] = again
            fields["message"] = reinforce.text_of(message, again)
        elif level is Level.THROTTLE:
            fields["limits"], fields["throttling"] = throttle.throttle(history, finding, settings.throttle)
        changes = self.changes(event, chosen)
        if changes is not None:
            fields["arguments"] = changes.put
            fields["without_arguments"] = changes.remove or None
        if level >= Level.PAUSE:
            fields |= about_refusal(history, event, context, settings.prices)
        if level >= Level.REINFORCE:
            fields["recovery"] = recovery(level, finding, event.error)
        if isinstance(finding, Stated) and finding.remediation is not None:
            fields["remediation"] = finding.remediation
        elif level >= Level.THROTTLE:
            fields["remediation"] = remediation(
                level,
                finding.detector,
                retry_after_s=fields["recovery"].wait_s if level < Level.PAUSE else None,
            )
        if level is Level.ROLLBACK:
            fields["rollback"] = back = self._rollback(event, finding, context)
            fields["checkpoint"] = back.checkpoint
        elif level is Level.KILL:
            incident_id = f"inc_{blake2b(decision_id.encode(), digest_size=6).hexdigest()}"
            back = self._rollback(event, finding, context)
            fields["incident"] = incident_report.incident(
                incident_id,
                event,
                finding,
                history=history,
                context=context,
                near=near,
                found=found,
                rollback=back,
                throttle=settings.throttle,
            )
        return fields

    def of_refusal(self, history: History, event: ActionEvent, context: Context) -> dict[str, Any]:
        """Return the fields of a refusal in a session that was killed before."""
        spoken = {"vocabulary": self._vocabulary(event, context)}
        if event.kind is not Kind.PROPOSED:
            return spoken
        about = about_refusal(history, event, context, self._settings.prices)
        return {**spoken, "action": event.action or None, **about}

    def changes(self, event: ActionEvent, chosen: Chosen) -> modify.Changes | None:
        """Return the changes of the call's arguments: below a refusal, and not in shadow mode."""
        modifications = self._settings.modifications
        if not modifications or not Level.NUDGE <= chosen.level <= Level.THROTTLE:
            return None
        return modify.modified(event, chosen.finding.detector, modifications)

    def handled(self, decision: Decision, finding: Finding, failed: Callable[[str, BaseException], None]) -> Decision:
        """Return the decision with the additions of another package's intervention."""
        handler = self._handlers.get(finding.detector)
        if handler is None or decision.level is Level.ALLOW:
            return decision
        try:
            return decision.model_copy(update=handler.added(decision, finding))
        except Exception as error:  # without additions then
            failed(handler.name, error)
            return decision

    def _hint(self, level: Level, finding: Finding) -> str:
        """Return the hint to the model, in the policy's own words if it has some; empty for a refusal."""
        if not Level.ALLOW < level < Level.PAUSE:
            return ""
        about = level, finding.code, finding.detector, finding.target
        return texts.hint(*about, self._settings.messages) or texts.hint(*about)

    def _vocabulary(self, event: ActionEvent, context: Context) -> str | None:
        """Return the vocabulary that the policy sets."""
        vocabularies = self._settings.vocabularies
        return next(
            (
                spoken.vocabulary.value
                for spoken in vocabularies
                if fnmatchcase(context.agent_of(event), spoken.agent) and fnmatchcase(event.session_id, spoken.session)
            ),
            None,
        )

    def _rollback(self, event: ActionEvent, finding: Finding, context: Context) -> Rollback:
        kept = context.session.checkpoints if context.session is not None else None
        return rollback.choose(kept, event, finding, self._settings.rollback)
