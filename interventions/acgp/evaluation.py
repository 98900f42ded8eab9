"""The evaluation of one step, in the published order. Pure."""

from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from functools import lru_cache
from hashlib import blake2b
from typing import Final

from haltline.interventions.acgp import scores as measured
from haltline.interventions.acgp.scores import TIERS, Intervention, TrustLevel, by_risk, ctq, scores_of
from haltline.interventions.author_rules.stated import LEVELS, SEVERITIES, TRIPWIRE, Stated
from haltline.interventions.levels.strategies import PLACES, Chosen, held_back
from haltline.interventions.state.context import Context
from haltline.interventions.state.intervention_history import History, Trust
from haltline.schemas.decisions import Decision, Level, Mode
from haltline.schemas.events import ActionEvent, Kind
from haltline.schemas.findings import Evidence, Finding, Severity
from haltline.schemas.intervening import Governed
from haltline.schemas.payloads import Governance, ReviewTicket
from haltline.schemas.policy import Policy, Rule

DETECTOR: Final = "acgp"
"""The detector of decisions that no detector caused."""

_CACHED: Final = 4096
_OURS: Final[Mapping[str, Level]] = {Intervention.OK.value: Level.ALLOW, **LEVELS}
"""Haltline's level for each."""


class Governor:
    """Evaluates the steps of agents that a policy governs by ACGP."""

    def __init__(self, policy: Policy) -> None:
        settings = policy.interventions
        self._governed = () if settings is None else settings.acgp
        self._entry_of = lru_cache(maxsize=_CACHED)(self._find)

    def __bool__(self) -> bool:
        return bool(self._governed)

    def concerns(self, event: ActionEvent, context: Context) -> bool:
        """Return whether the event is a step of a governed session."""
        if event.kind is not Kind.PROPOSED:
            return False
        return self._entry_of(context.agent_of(event), event.session_id) is not None

    def evaluate(
        self,
        history: History,
        event: ActionEvent,
        chosen: Chosen | None,
        *,
        findings: Sequence[Finding],
        rules: Mapping[str, Rule],
        context: Context,
    ) -> tuple[Chosen | None, Governance | None]:
        """Return the resulting choice and its record; unchanged if the session is not governed.

        Changes the session's trust debt.
        """
        entry = self._entry_of(context.agent_of(event), event.session_id)
        if entry is None:
            return chosen, None
        governed = self._governed[entry]
        counting = [f for f in findings if not isinstance(f, Stated) and rules[f.detector].mode is Mode.ENFORCE]

        # 1. and 2. Tripwires and deterministic checks: what the rules have chosen; only `halting_rules` halt.
        final = _checked(chosen, governed)
        steps = [f"rules: {final.value}"]
        scores: dict[str, float] = {}
        quality = 1.0
        if final is not Intervention.HALT:
            # 3. and 4. CTQ, and the thresholds of the tier.
            scores = scores_of(counting, (event.model_extra or {}).get("ctq"))
            quality = ctq(scores, governed.weights)
            by_quality = by_risk(round(1 - quality, PLACES), governed.thresholds or TIERS[governed.agent_acl_tier])
            final = max(final, by_quality)
            steps.append(f"ctq {quality:g}: {by_quality.value}")

        # 5. The flag, in addition to any intervention.
        flags = [f.severity for f in counting if f.severity >= governed.flag_from]
        flags += [f.flag for f in findings if isinstance(f, Stated) and f.flag is not None]
        flag = max(flags, default=None)

        # 6. The current trust debt: stricter, but never a halt.
        before = measured.debt_at(history.trust, event.time, governed.trust_debt)
        trust = measured.trust_level(before, governed.trust_debt)
        final = measured.hardened(final, trust)
        if trust is not TrustLevel.NORMAL and final > Intervention.OK:
            flag = flag or Severity.LOW
        steps.append(f"trust debt {before:g}: {final.value}")

        # 7. Review, and the amount added to the debt.
        amount = measured.added(final, flag, governed.trust_debt)
        after = before
        if amount:
            history.trust = history.trust or Trust(at_ms=event.time)
            after = measured.add(history.trust, amount, event.time, governed.trust_debt)
        governance = Governance(
            intervention=final.value,
            flagged=flag is not None,
            flag_severity=flag,
            agent_acl_tier=governed.agent_acl_tier,
            ctq=quality,
            risk=round(1 - quality, PLACES),
            scores={name: score for name, score in scores.items() if score < 1},
            tripwire=_tripwire(chosen, governed),
            steps=tuple(steps),
            trust_debt=after,
            standing=measured.trust_level(after, governed.trust_debt).value,
            ticket=_ticket(event, final, flag, debt=history.trust, after=after, governed=governed),
        )
        return _decided(chosen, final, flag, governance, event=event, context=context, governed=governed), governance

    def _find(self, agent_id: str, session_id: str) -> int | None:
        return next(
            (
                number
                for number, one in enumerate(self._governed)
                if fnmatchcase(agent_id, one.agent) and fnmatchcase(session_id, one.session)
            ),
            None,
        )


def with_governance(decision: Decision, governance: Governance | None) -> Decision:
    """Return the decision with the record of the evaluation, and its flag."""
    if governance is None:
        return decision
    flags = (decision.flag_severity, governance.flag_severity)
    return decision.model_copy(
        update={
            "governance": governance,
            "flag": decision.flag or governance.flagged,
            "flag_severity": max((flag for flag in flags if flag is not None), default=None),
        }
    )


def _checked(chosen: Chosen | None, governed: Governed) -> Intervention:
    if chosen is None:
        return Intervention.OK
    level = chosen.level
    if level is Level.KILL:
        return Intervention.HALT if _halts(chosen.finding.detector, governed) else Intervention.BLOCK
    if level >= Level.BLOCK:
        return Intervention.BLOCK
    if level is Level.PAUSE:
        return Intervention.ESCALATE
    return Intervention.NUDGE if level > Level.ALLOW else Intervention.OK


def _halts(rule: str, governed: Governed) -> bool:
    own = any(rule == f"{TRIPWIRE}{wire.id}" for wire in governed.tripwires)
    return own or any(fnmatchcase(rule, glob) for glob in governed.halting_rules)


def _tripwire(chosen: Chosen | None, governed: Governed) -> str | None:
    """Return the tripwire that decided, or the rule that halted; None: neither."""
    rule = "" if chosen is None else chosen.finding.detector
    decided = rule.startswith(TRIPWIRE) or _checked(chosen, governed) is Intervention.HALT
    return rule.removeprefix(TRIPWIRE) if decided else None


def _ticket(
    event: ActionEvent,
    final: Intervention,
    flag: Severity | None,
    *,
    debt: Trust | None,
    after: float,
    governed: Governed,
) -> ReviewTicket | None:
    due = debt is not None and after >= governed.trust_debt.review
    kind, severity, about = "", flag or Severity.LOW, f"{final.value} of {event.action or event.kind.value}"
    if due and debt is not None and not debt.reviewed:
        kind, severity = "re_tiering", Severity.HIGH
        about = f"trust debt {after:g}: is tier {governed.agent_acl_tier} still right for {event.agent_id}?"
    elif final is Intervention.HALT:
        kind, severity = "halt", Severity.CRITICAL
    elif flag is not None:
        kind = "flag"
    if debt is not None:
        debt.reviewed = due
    if not kind:
        return None
    ticket = blake2b(f"{event.session_id}\x1f{event.event_id}\x1f{kind}".encode(), digest_size=6).hexdigest()
    return ReviewTicket(ticket_id=f"rev_{ticket}", kind=kind, severity=severity, about=about[:2000])


def _decided(
    chosen: Chosen | None,
    final: Intervention,
    flag: Severity | None,
    governance: Governance,
    *,
    event: ActionEvent,
    context: Context,
    governed: Governed,
) -> Chosen | None:
    """Return the detectors' choice if it is strict enough, else one by ACGP itself."""
    meant = _OURS[final.value]
    if governed.mode is Mode.ENFORCE and chosen is not None and chosen.level is Level.KILL > meant:
        chosen.meant = Level.BLOCK
        chosen.why.append("acgp: only a halting rule halts: BLOCK")
    level = held_back(meant, governed.mode)
    stands = chosen is not None and (chosen.level, chosen.meant) >= (level, meant)
    same = chosen is not None and governed.mode is Mode.ENFORCE and _checked(chosen, governed) is final
    if stands or same:
        return chosen
    if final is Intervention.OK and flag is None:
        return chosen
    evidence = (Evidence(event_id=event.event_id),) if context.deed is None else (context.deed.evidence,)
    reason = f"risk {governance.risk:g} in tier {governed.agent_acl_tier}: {'; '.join(governance.steps)}"
    finding = Finding(
        detector=DETECTOR,
        code=f"acgp_{final.value}",
        severity=SEVERITIES[meant],
        confidence=governance.risk,
        reason=reason[:16_000],
        evidence=evidence,
        values={"risk": governance.risk, "ctq": governance.ctq, "trust_debt": governance.trust_debt},
        thresholds=dict((governed.thresholds or TIERS[governed.agent_acl_tier]).model_dump()),
    )
    return Chosen(finding, governed.mode, meant, strategy=DETECTOR)
