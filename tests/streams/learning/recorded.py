"""Sessions of a fleet whose work looks like a loop to the shipped model, and an audit table of them with labels."""

from collections.abc import Sequence

from haltline.schemas.decisions import Decision
from haltline.schemas.events import ActionEvent, Novelty
from haltline.schemas.policy import Policy
from haltline.streams.learning.labelled import LOOPS
from tests.builders import call
from tests.streams.replay.recorded import LiveLog, label_of

_WORDS = "amber basalt cedar delta ember fjord garnet harbour indigo jasper kelp lagoon"
WORDS = _WORDS.split()
HINTS_ONLY = Policy.model_validate({"rules": {name: {"mode": "warn"} for name in LOOPS - {"stagnation_candidate"}}})
"""Nothing is stopped: the sessions are recorded whole."""


def digs(session: str, count: int, begin: float = 0.0, salt: int = 0) -> list[ActionEvent]:
    """A session that finds something new with each step."""
    events: list[ActionEvent] = []
    for n in range(count):
        words = " ".join(f"{word}{'xyzuvw'[(n + salt) % 6] * (n // 6 + 1)}" for word in WORDS)
        sql = f"SELECT * FROM {WORDS[n % 12]}_{'abcdefghij'[n // 12 % 10]}"
        events += call(
            begin + n, "query", f"table={WORDS[n % 12]}{n}", session=session, args={"sql": sql}, output_head=words,
            output_bytes=len(words) + 17 * n,
        )  # fmt: skip
    return events


def loops(session: str, number: int, begin: float = 0.0) -> list[ActionEvent]:
    """Some steps that find something, then the same query with the same result to the end."""
    lead = 6 + number % 4
    events = digs(session, lead, begin, salt=number)
    for n in range(24):
        events += call(
            begin + lead + n, "query", "table=orders", session=session, args={"sql": "SELECT status FROM orders"},
            output_head="0 rows", output_bytes=6,
        )  # fmt: skip
    return events


def checks(session: str, number: int, begin: float = 0.0) -> list[ActionEvent]:
    """Each step checks another item of a patrol, and each time all is well: sound, although the results are alike.

    No result names the items: the agent counts them up, which is no progress to the shipped model.
    """
    events: list[ActionEvent] = []
    for n in range(28):
        item = f"{WORDS[(n + number) % 12]}-{WORDS[(n + n // 12 + 1) % 12]}-{n + 1}"
        events += call(
            begin + n, "get_item", f"item={item}", session=session, args={"item": item},
            output_head="status: all is well", output_bytes=19,
            output_novelty=Novelty(new_words=0, words=4, results=n, operands=1, given=0, counted=1),
        )  # fmt: skip
    return events


class LabelledLog:
    """A log of sessions, and what an operator says of them."""

    def __init__(self, policy: Policy = HINTS_ONLY) -> None:
        self.log = LiveLog(policy)
        self._labels = 0

    def run(self, events: Sequence[ActionEvent]) -> str:
        """A session to its end; its id."""
        self.log.events(events)
        return events[0].session_id

    def decisions(self, session: str) -> list[Decision]:
        """Those of rules about loops, in order."""
        return [one for one in self.log.decisions() if one.session_id == session and one.detector in LOOPS]

    def label(self, session: str, word: str, decision: Decision | None = None, rule: str | None = None) -> None:
        self._labels += 1
        decision_id = None if decision is None else decision.decision_id
        self.log.command(label_of(session, word, decision_id, rule=rule, second=10_000 + self._labels))


def labelled_log(runaways: int = 8, sound: int = 8, missed: int = 2, quiet: int = 6) -> LabelledLog:
    """Loops that were confirmed, checks that were false alarms, a loop that was missed, and sessions of no label."""
    log = LabelledLog()
    for n in range(runaways):
        session = log.run(loops(f"loop-{n}", n, begin=100.0 * n))
        log.label(session, "confirmed", log.decisions(session)[0])
    for n in range(sound):
        session = log.run(checks(f"check-{n}", n, begin=100.0 * n + 30))
        log.label(session, "false_alarm", log.decisions(session)[0])
    for n in range(missed):
        session = log.run(loops(f"missed-{n}", n, begin=100.0 * n + 60))
        log.label(session, "missed", rule="stagnation")
    for n in range(quiet):
        log.run(digs(f"quiet-{n}", 20, begin=100.0 * n + 80, salt=n))
    return log
