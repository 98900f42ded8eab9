"""A fleet for the pages: stopped runaways, a healthy session, hostile texts, and pending approvals."""

import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from haltline.console.access.keys import Keys
from haltline.console.settings import ConsoleSettings
from haltline.schemas.events import ActionEvent, Kind, Outcome, Task, Usage
from haltline.schemas.keys import make_keys
from haltline.schemas.policy import Policy
from haltline.schemas.topics import Topics
from haltline.streams.audit.reading import KafkaRecord, Reader
from haltline.streams.audit.signing import load_signer
from haltline.streams.audit.table import DeltaAuditTable
from haltline.streams.audit.writer import AuditWriter, Place
from haltline.streams.policy.loader import parse_policy
from tests.console.browser.conftest import served
from tests.console.topics import messages_of, produce
from tests.streams.running import ASKING

HOSTILE = "<script>window.hurt=1</script><img src=x onerror=window.hurt=1>"
LOOP, HEALTHY, WAITS, STUCK = "night-7", "day-1", "clean-3", "build-9"

ASKS: Policy = parse_policy(ASKING)


def now_ms() -> int:
    return time.time_ns() // 1_000_000


class Script:
    """The events of one session, some seconds apart, the last of them now."""

    def __init__(self, session: str, agent: str, begun_s_ago: float, **fields: str) -> None:
        self.events: list[ActionEvent] = []
        self._session, self._agent, self._fields = session, agent, fields
        self._time_ms = now_ms() - round(begun_s_ago * 1000)

    def _add(self, kind: Kind, **fields: object) -> None:
        number = len(self.events)
        self._time_ms += 1700
        named = {"event_id": f"{self._session}@{number}", "session_id": self._session, "agent_id": self._agent}
        placed = {"kind": kind, "seq": number, "time": self._time_ms}
        self.events.append(ActionEvent.model_validate({**named, **placed, **self._fields, **fields}))

    def starts(self, goal: str) -> "Script":
        self._add(Kind.SESSION_STARTED, task=Task(goal=goal))
        return self

    def calls(
        self, action: str, target: str = "", error: str | None = None, cost_usd: float = 0.002, **args: object
    ) -> "Script":
        call = f"{self._session}-c{len(self.events)}"
        targets = [target] if target else []
        self._add(Kind.PROPOSED, call_id=call, action=action, targets=targets, args=args or None)
        outcome = Outcome.OK if error is None else Outcome.ERROR
        self._add(
            Kind.COMPLETED, call_id=call, action=action, targets=targets, outcome=outcome, error=error,
            duration_ms=420.0, usage=Usage(input_tokens=900, output_tokens=120, cost_usd=cost_usd),
        )  # fmt: skip
        return self


def runaway(session: str = LOOP) -> Script:
    script = Script(session, "catalogue-cleaner", 300, mission_id="q3-clean-up")
    script.starts("Remove the stale asset fact_sales")
    name, target = "fact_sales", "asset_id=fact_sales"
    script.calls("get_asset", target, asset_id=name)
    for attempt in range(3):
        script.calls("delete_asset", target, error="asset still exists", asset_id=name, attempt=attempt)
    return script


def healthy() -> Script:
    script = Script(HEALTHY, "reporter", 120).starts("Write the weekly report on sales")
    for number in range(6):
        script.calls("read_table", f"table=sales_{number}", table=f"sales_{number}", limit=500)
    return script.calls("write_file", "path=report.md", path="report.md")


def stuck() -> Script:
    script = Script(STUCK, "builder", 900).starts("Make the build pass")
    for _ in range(7):
        script.calls("run_tests", error="ModuleNotFoundError: No module named 'yaml'", command="pytest -x")
    return script


def hostile() -> Script:
    script = Script(f"evil-{HOSTILE}", f"agent {HOSTILE}", 200).starts(f"Goal {HOSTILE}")
    for name in (*["asset"] * 3, HOSTILE):
        script.calls(f"delete_{name}", f"asset_id={HOSTILE}", error=f"error {HOSTILE}", text=HOSTILE)
    return script


def waits(number: int) -> Script:
    session = f"{WAITS}-{number}"
    script = Script(session, "catalogue-cleaner", 60 + number).starts("Remove what staging left behind")
    for _ in range(2):
        script.calls("drop_table", f"table=stg_{number}", table=f"stg_{number}", cascade=number % 2 == 0)
    return script


def fill_topics(bootstrap: str, topics: Topics | None = None, asks: Iterable[int] = range(4)) -> None:
    scripts = (runaway(), healthy(), stuck(), hostile())
    produce(bootstrap, messages_of([event for script in scripts for event in script.events]), topics)
    produce(bootstrap, messages_of([event for number in asks for event in waits(number).events], ASKS), topics)


@contextmanager
def console_with_audit(bootstrap: str, folder: Path) -> Iterator[tuple[str, Path]]:
    """A console over a broker and the table of `write_audit`; its address, and the table."""
    table, public = write_audit(folder)
    settings = ConsoleSettings(
        bootstrap=bootstrap,
        keys=Keys({}),
        database=f"sqlite:///{folder}/model.db",
        answer_within_s=1,
        audit_table=str(table),
        audit_public_key=str(public),
    )
    with served(settings) as address:
        yield address, table


def write_audit(folder: Path) -> tuple[Path, Path]:
    """The same fleet as a sink has written and signed it; the table and the public key."""
    table, key = folder / "audit", folder / "key.pem"
    public = make_keys(key)
    records = messages_of([event for script in (runaway(), healthy(), stuck()) for event in script.events])
    topics = Topics()
    writer = AuditWriter(
        DeltaAuditTable(table), Reader(topics, "audit"), "audit", signer=load_signer(key), sign_every=10
    )
    writer.assign([Place(topics.prefix + topic, 0) for topic in dict.fromkeys(topic for topic, _, _ in records)])
    offsets: dict[str, int] = {}
    for topic, name, one in records:
        offset = offsets[topic] = offsets.get(topic, -1) + 1
        time_ms: int = one.time if isinstance(one, ActionEvent) else now_ms()
        writer.add(KafkaRecord(topics.prefix + topic, 0, offset, time_ms, name.encode(), one.to_json()))
    writer.flush(now_ms(), closing=True)
    return table, public
