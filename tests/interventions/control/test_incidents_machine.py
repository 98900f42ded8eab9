"""State machine test of incidents: any inputs in any order, over restarts of the worker and of the console.

What must hold:

1. Of one session at most one incident is open, with at most one open request.
2. None is lost: what a state has open is open for whoever reads the topic, and the other way round.
3. None is doubled: a worker that begins again at a checkpoint tells the same revisions again, and no others.
4. The count is that of the decisions that name the incident: exactly up to a hundred and when it closes; in between it
   may be older, but its first two digits are exact.
5. What is closed stays closed; a new trip opens another one, with another id.
6. A read model that reads the topic again, from anywhere, is the same as one that never stopped.
7. Nothing waits for a person in a session that ended, was killed or reset.
"""

from collections import Counter
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from sqlalchemy import Engine, create_engine, select

from haltline.console.read_model import tables
from haltline.console.read_model.sql import Sql
from haltline.detectors import PATTERNS
from haltline.detectors.combining.agreement import PARTS
from haltline.interventions.control import request_queue
from haltline.interventions.control.incidents import ACTS
from haltline.interventions.levels.default_levels import _CAUSES, cause_of_rule
from haltline.schemas.control import Command, CommandKind, Feedback, Stage
from haltline.schemas.decisions import ApprovalState, Decision, Level
from haltline.schemas.events import ActionEvent, Kind, Outcome
from haltline.schemas.findings import Severity
from haltline.schemas.incidents import IncidentChange, IncidentRecord, IncidentState
from haltline.schemas.policy import ApprovalRules, Operations, Policy, Rule
from haltline.streams.engine.core import Core, Position, SessionState
from haltline.streams.engine.core import Effects as Followed
from haltline.streams.history import queries
from haltline.streams.history.fold import take_in
from haltline.streams.history.kept import Memory
from haltline.streams.notify.kinds import Kind as NotificationKind
from haltline.streams.notify.kinds import kind_of
from haltline.streams.sessions import state_codec
from tests.builders import T0_MS, at, some
from tests.interventions.control.core_session import CoreSession

POLICY = Policy(
    rules={
        "destructive_repeat": Rule(
            levels=dict.fromkeys(Severity, Level.PAUSE) | {Severity.CRITICAL: Level.BLOCK}, settings={"window_s": 3600}
        ),
        "error_repetition": Rule(levels=dict.fromkeys(Severity, Level.NUDGE)),
        **{name: Rule(enabled=False) for name in ("destructive_volume", "evasion", "step_review")},
    },
    operations=Operations(approvals=ApprovalRules(expires_s=60, critical_quorum=1, critical_voters=1), kill_ack_s=5),
    cooldown_s=0,
)
CORE = Core(POLICY)
SELDOM = st.sampled_from([False, False, False, True])
PEOPLE = st.sampled_from(["ada", "bo"])
Input = tuple[str, Any, int]
"""An input of the core: the method, its argument, and the position or the time."""


def read_model() -> Engine:
    engine = create_engine("sqlite://")
    tables.metadata.create_all(engine)
    return engine


def rows_of(topic: list[IncidentRecord]) -> list[dict[str, Any]]:
    of_topic = {"topic": "incidents", "partition": 0, "key": "k", "kind": "opened", "summary": ""}
    return [of_topic | {"offset": number, "raw": one.to_json()} for number, one in enumerate(topic)]


def folded(topic: list[IncidentRecord]) -> dict[str, IncidentRecord]:
    """The latest revision of each incident."""
    history = Memory()
    take_in(history, rows_of(topic))
    return {record.incident_id: record for record in queries.incidents(history)}


class Incidents(RuleBasedStateMachine):
    @initialize()
    def begin(self) -> None:
        self.state = SessionState("s1")
        self.now_ms = self.event_ms = T0_MS
        self.offset = 0
        self.checkpoint = (state_codec.encode(self.state), 0)
        self.inputs: list[Input] = []
        self.topic: list[IncidentRecord] = []
        self.decisions: dict[str, Decision] = {}
        self.revisions: dict[tuple[str, int], IncidentRecord] = {}
        self.replaying = False
        self.console = read_model()
        self.taken_in = 0

    # The worker.

    def _take(self, what: str, with_: Any) -> Followed:
        self.inputs.append((what, with_, self.offset))
        self.offset += 1
        return self._run(self.inputs[-1])

    def _run(self, one: Input) -> Followed:
        what, with_, offset = one
        was_open = {i.incident_id for i in self.state.control.incidents.values()}
        if what == "on_tick":
            followed: Followed = CORE.on_tick(self.state, with_)
        else:
            followed = getattr(CORE, what)(self.state, with_, Position(what, 0, offset))
        for decision in (followed.decision, *followed.also):
            if decision is not None:
                self.decisions.setdefault(decision.decision_id, decision)  # a kill that is sent again is the same
        for record in followed.incidents:
            self._tell(record, was_open)
        self.state = state_codec.decode(state_codec.encode(followed.state))
        return followed

    def _tell(self, record: IncidentRecord, was_open: set[str]) -> None:
        name = (record.incident_id, record.revision)
        assert self.revisions.setdefault(name, record) == record, "3: a revision says the same for ever"
        if not self.replaying:
            is_new = all(reported.incident_id != record.incident_id for reported in self.topic)
            assert is_new == (record.change is IncidentChange.OPENED), "5: only a new one is opened"
            still_open = was_open | {i.incident_id for i in self.state.control.incidents.values()}
            assert is_new or record.incident_id in still_open or record.state is IncidentState.RESOLVED
        else:
            assert record in self.topic, "3: nothing is told that was not told before"
        self.topic.append(record)

    @rule(asset=st.sampled_from("abc"), waits=st.booleans(), fails=st.booleans(), times=st.integers(1, 4))
    def deletes(self, asset: str, waits: bool, fails: bool, times: int) -> None:
        for _ in range(times):
            self._proposes(asset, waits)
            if fails:
                self._event(Kind.COMPLETED, call_id=f"c{self.offset - 1}", outcome=Outcome.ERROR, error="still there")

    def _proposes(self, asset: str, waits: bool) -> Followed:
        call = {"call_id": f"c{self.offset}", "action": "delete_asset", "args": {"asset_id": asset}}
        return self._event(Kind.PROPOSED, await_verdict=waits, **call)

    def _event(self, kind: Kind, **more: Any) -> Followed:
        self.now_ms += 500
        self._tick()
        event = ActionEvent(
            event_id=f"e{self.offset}", kind=kind, session_id="s1", agent_id="cleaner", time=self.now_ms, **more
        )
        followed = self._take("on_event", event)
        self.event_ms = self.now_ms
        if followed.decision is not None and followed.decision.level > Level.ALLOW:
            assert followed.decision.incident_id is not None or self._is_killed, "2: each belongs to an incident"
        return followed

    @rule(answer=st.sampled_from([CommandKind.APPROVE, CommandKind.REJECT, CommandKind.ASK]), by=PEOPLE)
    def answers(self, answer: CommandKind, by: str) -> None:
        waiting = [t for t in self.state.control.approvals.values() if t.is_open and not t.behind]
        for ticket in waiting[:1]:
            self._command(answer, by, request_id=ticket.request_id, nonce=ticket.nonce)

    @rule(
        kind=st.sampled_from(sorted(ACTS)),
        by=PEOPLE,
        which=st.integers(0, 9),
    )
    def acts(self, kind: CommandKind, by: str, which: int) -> None:
        """On any incident that there ever was."""
        known = list(folded(self.topic).values())
        if not known:
            return
        incident = known[which % len(known)]
        closed = incident.state is IncidentState.RESOLVED
        followed = self._command(kind, by, incident_id=incident.incident_id, assignee=by, until=self.now_ms + 60_000)
        assert not (closed and followed.incidents), "5: closed for every act"
        if kind is CommandKind.RESOLVE and not closed:
            assert followed.incidents[0].resolution == "resolved_by_operator"
            self._nothing_waits()

    @precondition(lambda self: self.offset > 5)
    @rule(kind=st.sampled_from([CommandKind.KILL, CommandKind.RESET, CommandKind.RESET]), by=PEOPLE, really=SELDOM)
    def stops_or_releases(self, kind: CommandKind, by: str, really: bool) -> None:
        if really or (kind is CommandKind.RESET and self._is_killed):
            self._command(kind, by)
            self._nothing_waits()

    @rule(really=SELDOM)
    def ends(self, really: bool) -> None:
        if really:
            self._event(Kind.SESSION_ENDED)
            self._nothing_waits()
            assert not self.state.control.incidents, "7"

    @precondition(lambda self: self._is_killed)
    @rule()
    def acknowledges(self) -> None:
        kill = some(self.state.control.killed)
        about = {"feedback_id": f"f{self.offset}", "decision_id": kill.decision_id, "session_id": "s1"}
        self._take("on_feedback", Feedback(stage=Stage.STOPPED, time=self.now_ms, **about))
        late = self.state.control.incidents.get("kill_unacknowledged")
        assert late is None or late.joined, "a person looks at what it did in between"

    @rule(seconds=st.sampled_from([1, 6, 61]))
    def time_passes(self, seconds: int) -> None:
        self._tick()
        self.now_ms += seconds * 1000
        self._tick()

    def _tick(self) -> None:
        """A tick, as in a worker every second: an expiry counts from the first tick that sees it."""
        for _ in range(100):
            if not 0 < self.state.due_ms <= self.now_ms:
                break
            self._take("on_tick", self.now_ms)

    def _command(self, kind: CommandKind, by: str, **more: Any) -> Followed:
        self.now_ms += 100
        about = {"command_id": f"k{self.offset}", "id": "s1", "by": by, "reason": "so", "time": self.now_ms}
        return self._take("on_command", Command(kind=kind, **(about | more)))

    @property
    def _is_killed(self) -> bool:
        return self.state.control.killed is not None

    def _nothing_waits(self) -> None:
        assert not request_queue.causes_waiting(self.state.control, self.now_ms), "7: nothing waits for a person"

    # Restarts.

    @rule()
    def worker_keeps_its_state(self) -> None:
        self.checkpoint = (state_codec.encode(self.state), len(self.inputs))

    @rule()
    def worker_dies_and_begins_again(self) -> None:
        """Records since its checkpoint stay on the topic, and are written again."""
        before = state_codec.encode(self.state)
        kept, first = self.checkpoint
        self.state, self.replaying = state_codec.decode(kept), True
        for one in self.inputs[first:]:
            self._run(one)
        self.replaying = False
        assert state_codec.encode(self.state) == before

    @rule(back=st.integers(0, 20))
    def console_begins_again(self, back: int) -> None:
        """Somewhat before where it was, or at the beginning."""
        self.taken_in = max(0, self.taken_in - back)

    # What must hold.

    @invariant()
    def everybody_sees_the_same(self) -> None:
        standing = self.state.control
        known = folded(self.topic)
        still = {i: record for i, record in known.items() if record.state is not IncidentState.RESOLVED}
        assert set(still) == {i.incident_id for i in standing.incidents.values()}, "2: none is lost"
        assert len(still) <= 1, "1: one of the session"
        # What expired since the last event is told with the next one, or at a tick.
        waiting = request_queue.causes_waiting(standing, self.event_ms)
        assert all(len(requests) == 1 for requests in waiting.values()), "1: one request of each cause"
        for record in still.values():
            assert [record.request_id] in (waiting.values() or [[None]]), "1: and it is the open one"
        with self.console.begin() as connection:
            take_in(Sql(connection), rows_of(self.topic)[self.taken_in :])
            self.taken_in = len(self.topic)
            rows = connection.execute(select(tables.incidents.c.incident_id, tables.incidents.c.body)).all()
        assert {name: IncidentRecord.model_validate_json(body) for name, body in rows} == known, "6"

    @invariant()
    def counts_are_exact(self) -> None:
        counted = Counter(
            decision.incident_id
            for decision in self.decisions.values()
            if decision.incident_id is not None and decision.event_id.startswith("e") and decision.level > Level.ALLOW
            and not decision.code.startswith("approval_cancelled") and self._was_counted(decision)
        )  # fmt: skip
        for record in folded(self.topic).values():
            if "kill_unacknowledged" not in (record.causes or [record.cause]):
                exact = counted[record.incident_id]
                published = exact - exact % 10 ** max(0, len(str(exact)) - 2)
                oldest = exact if record.state is IncidentState.RESOLVED else published
                assert oldest <= record.count <= exact, "4: the count is exact, or its first two digits are"

    def _was_counted(self, decision: Decision) -> bool:
        """Return whether it is the decision on an event, not an answer to a waiting call."""
        return any(
            what == "on_event" and with_.event_id == decision.event_id and with_.time == decision.time
            for what, with_, _ in self.inputs
        )


TestIncidents = Incidents.TestCase


def deleting(session: CoreSession, seconds: list[float]) -> list[IncidentRecord]:
    """The same delete, which changes nothing, at each of these."""
    records: list[IncidentRecord] = []
    for second in seconds:
        records += session.does(second).incidents
        answer = {"call_id": f"c{session.calls}", "action": "delete_asset", "output_head": "still there"}
        records += session.event(Kind.COMPLETED, second + 0.1, outcome=Outcome.OK, **answer).incidents
    return records


def test_each_cause_and_the_kill_count_on_the_incident_that_is_open() -> None:
    records = deleting(CoreSession(), [0, 1, 2, 3])
    assert len({record.incident_id for record in records}) == 1
    assert [record.change for record in (records[0], *records[-2:])] == [
        IncidentChange.OPENED, IncidentChange.ESCALATED, IncidentChange.RESOLVED,
    ]  # fmt: skip
    last = records[-1]
    assert (last.level, last.resolution, last.cause) == ("KILL", "session_killed", "destruction")
    assert last.causes == ["destruction", "no_progress"]
    joined = next(record for record in records if record.before is not None)
    assert some(joined.before).causes == ["destruction"]


def test_a_snoozed_incident_is_silent_until_it_is_over_or_the_session_is_killed() -> None:
    session = CoreSession()
    opened = deleting(session, [0, 1])[0]
    snoozed = session.command(CommandKind.SNOOZE, 1.5, incident_id=opened.incident_id, until=at(60)).incidents[0]
    assert (snoozed.change, snoozed.snoozed_until, snoozed.by) == (IncidentChange.SNOOZED, at(60), "ada")
    asking = snoozed.model_copy(update={"request_id": "apr_1"})
    assert [kind_of(asking.model_copy(update={"changed_at": at(second)})) for second in (2, 60)] == [
        None, NotificationKind.APPROVAL_WANTED,
    ]  # fmt: skip
    commented = session.command(CommandKind.COMMENT, 1.6, incident_id=opened.incident_id).incidents[0]
    assert commented.snoozed_until == at(60)
    killed = deleting(session, [2])[-1]
    assert (killed.level, killed.snoozed_until) == (Level.KILL, None)


@pytest.mark.parametrize(("hours", "resolutions"), [(1.9, []), (2.1, ["quiet"])])
def test_an_incident_is_over_when_the_session_goes_on_without_another_decision(
    hours: float, resolutions: list[str]
) -> None:
    session = CoreSession(Policy(operations=Operations(incident_quiet_h=2)))
    opened = deleting(session, [0, 1])
    assert opened[0].change is IncidentChange.OPENED
    records = session.event(Kind.HEARTBEAT, hours * 3600).incidents
    assert [record.resolution for record in records] == resolutions
    assert bool(session.known.control.incidents) is not bool(resolutions)


def test_a_rules_decisions_are_counted_under_its_cause() -> None:
    causes = {"repetition": "no_progress", "destructive_volume": "destruction", "spend_velocity": "spending"}
    assert {rule: cause_of_rule(rule) for rule in causes} == causes
    assert {cause_of_rule(rule) for rule in (*PARTS, "agreement")} == {"no_progress"}, "what agrees has one cause"
    assert [cause_of_rule(rule) for rule in ("scope_creep", "somebodys_rule")] == ["scope_creep", "somebodys_rule"]
    assert _CAUSES.keys() <= PATTERNS.keys(), "every rule that is named exists"


@pytest.mark.parametrize("kind", [Kind.PROPOSED, Kind.HEARTBEAT])
def test_a_request_that_expires_before_a_tick_gives_way_to_the_one_that_waits_at_the_next_event(kind: Kind) -> None:
    session = CoreSession(POLICY)
    for second in (0, 1, 2, 3):
        session.does(second)
        answer = {"call_id": f"c{session.calls}", "outcome": Outcome.ERROR, "error": "still there"}
        session.event(Kind.COMPLETED, second + 0.5, **answer)
    destruction, no_progress = (ticket.request_id for ticket in session.known.control.approvals.values())
    (incident,) = session.known.control.incidents.values()
    assert incident.request_id == destruction, "it was the first"
    records = session.event(kind, 61.5, call_id="late", action="delete_asset", targets=["asset_id=a"]).incidents
    expired, *counted = records
    assert (expired.change, expired.approval, expired.request_id) == (
        IncidentChange.APPROVAL, ApprovalState.EXPIRED, no_progress,
    )  # fmt: skip
    assert [(one.change, one.request_id) for one in counted] == [(IncidentChange.COUNTED, no_progress)] * len(counted)
    assert len(counted) == (kind is Kind.PROPOSED)
    assert [record.request_id for record in session.event(Kind.HEARTBEAT, 63.6).incidents] == [None]
    assert session.event(Kind.HEARTBEAT, 64).incidents == []
