"""Kill, acknowledge, reset, probation, approve, reject, ask, hold, declare, expire: in any order, over restarts.

What must hold whatever happens:

1. A killed session is refused everything until a reset that was accepted; nothing else releases it.
2. No answer of the agent's side releases, and none says of a kill that it stopped which was not it.
3. A tick allows nothing.
4. A call passes by an approval only when enough different people approved a call with its parameters, and once each.
5. Before the lockout is over no operator alone releases.
6. A restart in between changes nothing: the same decisions, none lost, none doubled. What is read again has no effect.
7. The state says when it is due, and what is due by now does not stay due.
"""

from dataclasses import replace
from typing import Any

import hypothesis.strategies as st
import orjson
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from haltline.interventions.control.approvals import due_ms
from haltline.interventions.state.call_digest import parameters
from haltline.schemas.control import Batch, Command, CommandKind, Feedback, Stage
from haltline.schemas.decisions import Decision, Level
from haltline.schemas.events import ActionEvent, Kind, Outcome
from haltline.schemas.findings import Severity
from haltline.schemas.policy import ApprovalRules, Operations, Policy, ProbationRules, Rule
from haltline.streams.engine.core import Core, Position, SessionState
from haltline.streams.engine.core import Effects as Followed
from haltline.streams.sessions import state_codec
from haltline.streams.sessions.state_codec import due_of
from tests.builders import T0_MS, event

PAUSES = dict.fromkeys(Severity, Level.PAUSE)
POLICY = Policy(
    rules={
        "destructive_repeat": Rule(levels=PAUSES, settings={"window_s": 3600}),
        **{name: Rule(enabled=False) for name in ("destructive_volume", "evasion", "step_review")},
    },
    operations=Operations(
        approvals=ApprovalRules(expires_s=60),
        probation=ProbationRules(actions=3, lockout_s=100, rules={}),
        kill_ack_s=5,
        second_person_s=50,
    ),
)
CORE = Core(POLICY)
PEOPLE = st.sampled_from(["ada", "bo", "cy"])
TARGETS = st.sampled_from(["a", "b"])
SELDOM = st.sampled_from([False, False, False, True])
"""Whether to run a step that ends much of the earlier state."""


class Operations_(RuleBasedStateMachine):  # noqa: N801 - Hypothesis shows its name with what it found
    @initialize()
    def begin(self) -> None:
        self.now_ms = T0_MS
        self.offset = 0
        self.calls: list[ActionEvent] = []
        self.approvers: dict[str, set[str]] = {}
        self.passed: dict[str, int] = {}
        self.taken_back: dict[str, int] = {}
        self.stops: set[str] = set()
        self.kept: SessionState = SessionState("s1")
        self.running: SessionState = SessionState("s1")
        """The twin that is never written and read."""

    # How inputs reach both.

    def _both(self, input_: ActionEvent | Command | Feedback) -> Followed:
        topic, what = {
            ActionEvent: ("haltline.actions", "on_event"),
            Command: ("haltline.commands", "on_command"),
            Feedback: ("haltline.feedback", "on_feedback"),
        }[type(input_)]
        at = Position(topic, 0, self.offset)
        self.offset += 1
        followed: Followed = getattr(CORE, what)(self.kept, input_, at)
        twin: Followed = getattr(CORE, what)(self.running, input_, at)
        self.running = twin.state
        self._same(followed, twin)
        restarted = state_codec.decode(state_codec.encode(followed.state))
        before = state_codec.encode(restarted)
        again: Followed = getattr(CORE, what)(restarted, input_, at)
        assert not again.applied
        assert not again.follows, "6: what is read again has no effect"
        assert state_codec.encode(again.state) == before
        self.kept = again.state
        self._look(followed)
        return followed

    @staticmethod
    def _same(one: Followed, other: Followed) -> None:
        nothing = SessionState("")
        assert replace(one, state=nothing) == replace(other, state=nothing), "6: a restart changes nothing"

    def _look(self, followed: Followed) -> None:
        control = followed.control
        if control is not None and control.stopped_at is not None:
            assert control.decision_id in self.stops, "2: it stopped because it said so"
        for decision in (followed.decision, *followed.also):
            if decision is None or decision.approval is None or decision.code != "approved":
                continue
            request = decision.approval
            assert len(self.approvers.get(request.request_id, ())) >= request.quorum, "4: enough people"
            if decision.event_id != request.request_id:  # it lets a call pass, and does not only say that one may
                used = self.passed[request.request_id] = self.passed.get(request.request_id, 0) + 1
                assert used <= 1 + self.taken_back.get(request.request_id, 0), "4: once"

    @property
    def _is_killed(self) -> bool:
        return self.kept.control.killed is not None

    def _command(self, kind: CommandKind, by: str, **result: Any) -> Followed:
        about = {"command_id": f"k{self.offset}", "kind": kind, "id": "s1", "by": by, "reason": "so"}
        return self._both(Command.model_validate(about | {"time": self.now_ms} | result))

    # What happens.

    @rule(asset=TARGETS, waits=st.booleans(), times=st.integers(1, 3))
    def repeats(self, asset: str, waits: bool, times: int) -> None:
        for _ in range(times):
            self.proposes(asset, waits, read=False)

    @rule(asset=TARGETS, waits=st.booleans(), read=st.booleans())
    def proposes(self, asset: str, waits: bool, read: bool) -> None:
        was_killed = self._is_killed
        fields: dict[str, Any] = {"kind": Kind.PROPOSED, "outcome": None, "args": {"asset_id": asset}}
        fields |= {"event_id": f"e{self.offset}", "call_id": f"c{self.offset}", "time": self.now_ms}
        proposed = event(0, "read_asset" if read else "delete_asset", await_verdict=waits, **fields)
        decision = self._both(proposed).decision
        self.calls.append(proposed)
        if was_killed:
            assert decision is not None
            assert decision.level is Level.KILL, "1: refused until a reset"
        if decision is not None and decision.code == "approved":
            assert decision.approval is not None
            assert decision.approval.parameters == parameters(proposed), "4: this very call"

    @precondition(lambda self: self.calls)
    @rule(outcome=st.sampled_from([Outcome.OK, Outcome.ERROR, Outcome.REFUSED]), last=st.booleans())
    def completes(self, outcome: Outcome, last: bool) -> None:
        call = self.calls.pop(-1 if last else 0)
        if outcome is Outcome.REFUSED:
            for ticket in self.kept.control.approvals.values():
                if ticket.state == "used" and any(w.call_id == call.call_id for w in ticket.waiting):
                    self.taken_back[ticket.request_id] = self.taken_back.get(ticket.request_id, 0) + 1
        was_killed = self._is_killed
        end = {"event_id": f"r{self.offset}", "kind": Kind.COMPLETED, "time": self.now_ms, "outcome": outcome}
        self._both(call.model_copy(update=end | {"await_verdict": False}))
        assert self._is_killed or not was_killed, "1: nothing but a reset releases"

    @rule(by=PEOPLE, really=SELDOM)
    def kills(self, by: str, really: bool) -> None:
        if not really:
            return
        self._command(CommandKind.KILL, by)
        assert self._is_killed

    @rule(by=PEOPLE, force=st.booleans(), probation=st.sampled_from([None, None, 0, 2]))
    def resets(self, by: str, force: bool, probation: int | None) -> None:
        if not self._is_killed:  # what is counted would be forgotten
            return
        kill = self.kept.control.killed
        first = self.kept.control.release_asked
        self._command(CommandKind.RESET, by, force=force, probation_actions=probation)
        if kill is None or self._is_killed or kill.locked_until_ms is None or self.now_ms >= kill.locked_until_ms:
            return
        assert force, "5: within the lockout only with the second's will"
        assert first is not None
        assert first.by != by, "5: two different people"

    @rule(stage=st.sampled_from(list(Stage)), own=st.booleans())
    def answers(self, stage: Stage, own: bool) -> None:
        kill = self.kept.control.killed
        decision_id = kill.decision_id if own and kill is not None else "another"
        if stage is Stage.STOPPED:
            self.stops.add(decision_id)
        about = {"feedback_id": f"f{self.offset}", "decision_id": decision_id, "session_id": "s1", "stage": stage}
        self._both(Feedback.model_validate(about | dict.fromkeys(("time", "decided_at"), self.now_ms)))
        assert self._is_killed == (kill is not None), "2: no answer releases, or kills"

    @precondition(lambda self: self.kept.control.approvals)
    @rule(
        kind=st.sampled_from([CommandKind.APPROVE, CommandKind.APPROVE, CommandKind.REJECT, CommandKind.ASK]),
        by=PEOPLE,
        which=st.integers(0, 40),
        seen=st.sampled_from([True, True, True, False]),
    )
    def answers_a_request(self, kind: CommandKind, by: str, which: int, seen: bool) -> None:
        tickets = list(self.kept.control.approvals.values())
        ticket = tickets[which % len(tickets)]
        if ticket.is_open and seen and not self._is_killed:
            approvers = self.approvers.setdefault(ticket.request_id, set())
            if kind is CommandKind.APPROVE:
                approvers.add(by)
            elif kind is CommandKind.REJECT:
                approvers.discard(by)
        nonce = ticket.nonce if seen else "of another"
        followed = self._command(kind, by, request_id=ticket.request_id, nonce=nonce)
        if not seen:
            assert followed.decision is None, "4: what is answered is what was seen"

    @precondition(lambda self: self.kept.control.approvals)
    @rule(people=st.lists(PEOPLE, min_size=1, max_size=3), which=st.integers(0, 40), times=st.integers(1, 3))
    def some_approve_and_it_is_called_again(self, people: list[str], which: int, times: int) -> None:
        tickets = list(self.kept.control.approvals.values())
        number = which % len(tickets)
        asset = orjson.loads(tickets[number].arguments)["asset_id"]
        for by in people:
            if len(self.kept.control.approvals) > number:
                self.answers_a_request(CommandKind.APPROVE, by, number, seen=True)
        for _ in range(times):
            self.proposes(asset, waits=True, read=False)

    @rule(kind=st.sampled_from([CommandKind.FREEZE, CommandKind.CONTAIN, CommandKind.LIFT]), by=PEOPLE, really=SELDOM)
    def holds(self, kind: CommandKind, by: str, really: bool) -> None:
        if not really:
            return
        was_killed = self._is_killed
        followed = self._command(kind, by)
        assert self._is_killed is was_killed
        if was_killed:
            assert followed.control is None, "1: a kill is not softened"
            assert not followed.released, "1: nor lifted"

    @rule(by=PEOPLE, most=st.integers(1, 4), really=SELDOM)
    def declares(self, by: str, most: int, really: bool) -> None:
        if not really:
            return
        batch = Batch(actions="delete_*", max_deletes=most, expires=self.now_ms + 60_000)
        self._command(CommandKind.BATCH, by, batch=batch)

    @rule(seconds=st.sampled_from([0.01, 1, 6, 30, 70, 200]))
    def time_passes(self, seconds: float) -> None:
        self.now_ms += round(seconds * 1000)
        was_killed = self._is_killed
        for _ in range(100):
            if not 0 < self.kept.due_ms <= self.now_ms:
                break
            followed = CORE.on_tick(self.kept, self.now_ms)
            self._same(followed, CORE.on_tick(self.running, self.now_ms))
            for decision in (followed.decision, *followed.also):
                assert decision is None or self._refuses(decision), "3: a tick allows nothing"
            self.kept = state_codec.decode(state_codec.encode(followed.state))
            self._look(followed)
        assert not 0 < self.kept.due_ms <= self.now_ms, "7: what is due is done"
        assert self._is_killed is was_killed

    @staticmethod
    def _refuses(decision: Decision) -> bool:
        return decision.level >= Level.BLOCK

    @invariant()
    def it_is_known_when_it_is_due(self) -> None:
        if hasattr(self, "kept"):
            assert self.kept.due_ms == due_ms(self.kept.control), "7"
            assert due_of(state_codec.encode(self.kept)) == self.kept.due_ms


TestOperations = Operations_.TestCase
