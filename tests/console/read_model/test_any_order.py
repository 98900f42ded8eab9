"""The read model depends on the records only, not on the order of partitions or the bounds of batches."""

from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import Engine

from haltline.console.read_model.store import open_store
from haltline.schemas.control import Command, CommandKind, ControlRecord, ControlState
from haltline.schemas.decisions import Approval, ApprovalState, Decision, Level, ScopeKind
from haltline.schemas.events import ActionEvent, Kind, Task, Usage
from haltline.schemas.incidents import IncidentChange, IncidentRecord, IncidentState
from haltline.schemas.intervention_records import InterventionRecord, RecordOutcome, RecordType, RiskLevel
from haltline.schemas.payloads import Incident
from haltline.schemas.record import Record
from haltline.schemas.topics import Topics
from haltline.streams.audit.columns import Row
from haltline.streams.audit.reading import KafkaRecord, Reader
from haltline.streams.history import session_rows
from haltline.streams.history.fold import take_in
from haltline.streams.history.kept import KEYS, Memory
from tests.builders import at
from tests.console.databases import database
from tests.console.read_model.contents import of_batches

PARTITIONS = 3
Sent = tuple[str, int, str, Record | None]
"""Topic without prefix, partition, key, record; None: a tombstone."""

sessions, ids, names = st.sampled_from("abc"), st.sampled_from("123"), st.sampled_from(["x", "y", "z"])
times = st.integers(0, 9).map(at)
partitions = st.integers(0, PARTITIONS - 1)
usd = st.sampled_from([0.1, 0.2, 0.3, 1e-7, 1234.56])


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    engine = open_store(database(tmp_path_factory.mktemp("console")))
    yield engine
    engine.dispose()


def keyed(key: str) -> int:
    """The partition of a key: all records of a session's decisions, of an incident, of a control entry are in one."""
    return sum(key.encode()) % PARTITIONS


def by_partition(sent: Sequence[Sent]) -> dict[tuple[str, int], list[Row]]:
    """The records as the console's reader passes them."""
    reader, found = Reader(Topics(), "console"), dict[tuple[str, int], list[Row]]()
    for topic, partition, key, record in sent:
        kept = found.setdefault((topic, partition), [])
        value = b"" if record is None else record.to_json()
        place = KafkaRecord(f"haltline.{topic}", partition, len(kept), at(0), key.encode(), value)
        kept.append(reader.row(place, at(0)))
    return found


@st.composite
def readings(draw: st.DrawFn, log: dict[tuple[str, int], list[Row]]) -> list[list[Row]]:
    """The partitions mixed in some way, each in its order, in batches, of which some come again."""
    places = draw(st.permutations([place for place, kept in log.items() for _ in kept]))
    left = {place: iter(kept) for place, kept in log.items()}
    mixed = [next(left[place]) for place in places]
    size = draw(st.integers(1, len(mixed) or 1))
    batches = [mixed[first : first + size] for first in range(0, len(mixed), size)]
    again = draw(st.lists(st.sampled_from(range(len(batches))), max_size=2)) if batches else []
    for number in again:
        batches.insert(draw(st.integers(number + 1, len(batches))), batches[number])
    return batches


def is_the_same_in_any_order(engine: Engine, sent: Sequence[Sent], data: st.DataObject) -> None:
    log = by_partition(sent)
    expected = of_batches(engine, [[row for kept in log.values() for row in kept]])
    for name, found in of_batches(engine, data.draw(readings(log))).items():
        assert found == expected[name], name
    memory = Memory()
    for batch in data.draw(readings(log)):
        take_in(memory, list(batch), "haltline.")
    for name, key in KEYS.items():
        kept, stored = (
            {tuple(row[of] for of in key): row for row in some} for some in (memory.rows(name), expected[name])
        )
        assert kept == stored, name


events = st.builds(
    ActionEvent,
    event_id=ids,
    kind=st.sampled_from([Kind.SESSION_STARTED, Kind.PROPOSED, Kind.SESSION_ENDED]),
    session_id=sessions,
    agent_id=st.sampled_from(["unknown", "x", "y"]),
    mission_id=st.none() | names,
    parent_session_id=st.none() | names,
    time=times,
    action=names,
    targets=st.lists(st.sampled_from([f"path={'q' * n}{n}" for n in range(0, 12, 2)]), max_size=4),
    usage=st.none() | st.builds(Usage, cost_usd=usd),
    task=st.none() | st.builds(Task, goal=st.sampled_from(["", "tidy up\n\nall", "Rest"])),
)
approvals = st.builds(
    Approval,
    request_id=st.just("1"),
    nonce=ids,
    parameters=ids,
    state=st.sampled_from(ApprovalState),
    behind=st.none() | st.just(True),
    since=times,
    expires=times,
)
LEVELS = (Level.ALLOW, Level.NUDGE, Level.PAUSE, Level.KILL)
decisions = st.builds(
    Decision,
    decision_id=ids,
    session_id=sessions,
    event_id=ids,
    time=times,
    level=st.just(Level.ALLOW),
    code=names,
    reason=names,
    detector=st.sampled_from(["", "approval", "repetition"]),
    action=names,
    approval=st.none() | approvals,
    cost_prevented_usd=usd,
    incident=st.none() | st.builds(Incident, incident_id=st.just("report"), summary=names, root_cause=names),
).map(
    lambda decision: decision.model_copy(
        update={
            "level": LEVELS[ord(decision.decision_id[-1]) % len(LEVELS)],
            "approval": decision.approval
            and decision.approval.model_copy(update={"request_id": f"of {decision.session_id}"}),
        }
    )
)
"""A decision that is sent again has its level, and a request is of one session: ids are made of what they are about."""
foreign = st.builds(
    InterventionRecord,
    id=st.sampled_from(["int_1", "r1", "r2"]),
    type=st.sampled_from(RecordType),
    outcome=st.sampled_from(RecordOutcome),
    action_name=names,
    description=names,
    agent_id=names,
    run_id=sessions,
    policy_id=names,
    policy_name=names,
    risk_level=st.sampled_from(RiskLevel),
    cost_prevented_usd=usd,
    reason=names,
    timestamp=times,
)


def command(kind: CommandKind, **fields: st.SearchStrategy[Any]) -> st.SearchStrategy[Command]:
    given = {"by": names, "reason": names, "command_id": ids, "id": sessions, "time": times}
    return st.builds(Command, kind=st.just(kind), **given, **fields)


commands = st.one_of(
    command(CommandKind.RECORD, record=foreign),
    command(CommandKind.HIDE, record_id=st.sampled_from(["int_1", "int_2", "r1", "1"])),
    command(CommandKind.USE, request_id=ids),
)


@st.composite
def incidents(draw: st.DrawFn) -> IncidentRecord:
    state = draw(st.sampled_from(IncidentState))
    return IncidentRecord(
        incident_id=draw(ids), revision=draw(st.integers(1, 4)), state=state, change=IncidentChange.COUNTED,
        scope=ScopeKind.SESSION, scope_id="a", cause=draw(names), level=Level.PAUSE, count=1, first_at=at(0),
        last_at=draw(times), changed_at=at(0), summary="", decision_id=draw(ids),
    )  # fmt: skip


@st.composite
def entries(draw: st.DrawFn) -> Sent:
    key = draw(sessions)
    entry = ControlRecord(
        scope=ScopeKind.SESSION, id=key, state=draw(st.sampled_from(ControlState)), code="c", reason="r",
        decision_id="d", since=draw(times),
    )  # fmt: skip
    return "control", keyed(key), entry.key, draw(st.sampled_from([entry, None]))


def sent_to(topic: str, records: st.SearchStrategy[Any], where: st.SearchStrategy[int]) -> st.SearchStrategy[Sent]:
    return st.tuples(st.just(topic), where, st.just("k"), records)


@settings(max_examples=25)
@given(
    sent=st.lists(
        st.one_of(
            sent_to("actions", events, partitions),
            decisions.map(
                lambda decision: ("interventions", keyed(decision.session_id), decision.session_id, decision)
            ),
            sent_to("commands", commands, partitions),
            sent_to("incidents", incidents(), st.just(0)),
            entries(),
        ),
        max_size=14,
    ),
    data=st.data(),
)
def test_records_of_all_topics_make_the_same_tables_in_any_order(
    engine: Engine, sent: list[Sent], data: st.DataObject
) -> None:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(session_rows, "MAX_TARGET_CHARS", 25)
        is_the_same_in_any_order(engine, sent, data)
