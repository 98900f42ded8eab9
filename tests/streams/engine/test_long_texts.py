"""An event of 100 KB does not take long, whatever it repeats: to decide on it, to send it, and to import it."""

import json
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from hypothesis import example, given, settings
from hypothesis import strategies as st

from haltline.interventions.agent.destinations import destination_of
from haltline.interventions.agent.held_secrets import HeldSecrets
from haltline.interventions.agent.redaction.payload_encoding import plain, plain_output, whole_of
from haltline.interventions.agent.redaction.secrets import redact_text
from haltline.schemas.events import ActionEvent, Kind, Task
from haltline.streams.engine.core import Core, Position, SessionState
from haltline.streams.importing.formats import Imported
from tests.builders import call, event
from tests.detectors.commands.test_properties import PIECES, REPEATED
from tests.streams.importing.test_samples import FORM_OF, SAMPLES

CHARS: Final = 100_000
LIMIT: Final = 60
"""In loops of a million steps, as a busy machine slows both down; the slowest text takes about 15, less than 0.2 s."""
UNITS: Final = [
    *PIECES, *REPEATED, *("@", "[a", "/*!", "$(kill ", "haltline|xargs ", "haltlinepolicy", "sudo -a ", '"\\', '\\"'),
    *("%s", "f\"{", "a.b", "0", "1.", "\0", "http://", "a@b.c ", "key=", "sk-", "--password ", "Bearer ", "<a>"),
    *("```", "a_b", "A1", "%%sql\n", "def f():\n", "let a = ", "=> {", "case when ", "union ", " and ", "Traceback "),
    *("error: ", "/tmp/a", "3.14"),
]  # fmt: skip
CORE: Final = Core()


def proposed(action: str, **args: Any) -> tuple[ActionEvent, ...]:
    return (event(0, action, None, args=args, kind=Kind.PROPOSED, outcome=None),)


EVENTS: Final[dict[str, Callable[[str], tuple[ActionEvent, ...]]]] = {
    "a command line": lambda text: proposed("bash", command=text),
    "a command line that removes": lambda text: proposed("bash", command=f"rm a; {text}"),
    "a statement in a command line": lambda text: proposed("bash", command=f'psql -c "delete from a {text}'),
    "a program in a command line": lambda text: proposed("bash", command=f"python -c 'import os; os.remove({text}"),
    "a command line about its supervision": lambda text: proposed("bash", command=f"haltline kill {text}"),
    "a statement": lambda text: proposed("execute_sql", query=text),
    "a statement that deletes": lambda text: proposed("execute_sql", query=f"delete from a where {text}"),
    "a file of statements": lambda text: proposed("Write", file_path="/w/a.sql", content=text),
    "a program": lambda text: proposed("Write", file_path="/w/a.py", content=f"import os\n{text}"),
    "another program": lambda text: proposed("Write", file_path="/w/a.js", content=text),
    "a script": lambda text: proposed("Write", file_path="/w/a.sh", content=f"rm {text}"),
    "an edit": lambda text: proposed("Edit", file_path="/w/a.py", old_string=text[::2], new_string=f"{text[::2]}x"),
    "a request": lambda text: proposed("http_request", method="POST", url="https://a.example/b", body=text),
    "a mutation": lambda text: proposed("graphql", query=f"mutation {{ {text}"),
    "an unknown tool": lambda text: proposed("frobnicate", text=text),
    "a result": lambda text: call(0, "bash", args={"command": "make test"}, output=text),
    "an error": lambda text: call(0, "bash", error=text, args={"command": "make test"}),
    "a prompt": lambda text: (event(0, "", kind=Kind.SESSION_STARTED, outcome=None, task=Task(goal=text[:16_384])),),
}
HELD: Final[HeldSecrets] = HeldSecrets()
HELD.take({"command": "cat .env"}, "\n".join(f"TOKEN_{number}=aB3{number:05}dE7fG9hJ1k" for number in range(2_000)))
SENT: Final[dict[str, Callable[[str], object]]] = {
    "arguments": lambda text: plain({"command": text}, max_bytes=64 * 1024),
    "a result": lambda text: plain_output(whole_of(text), max_chars=2_000),
    "a text": redact_text,
    "a destination": lambda text: destination_of("bash", {"command": text}, text),
    "held secrets": lambda text: HELD.sent(
        "http_request", {"method": "POST", "url": "https://a.example", "body": text}
    ),
    "a result with secrets": lambda text: HeldSecrets().take({"command": "cat .env"}, text),
}
AIDER: Final = "# aider chat started at 2026-01-02 03:04:05\n#### {0}\n> {0}\n{0}\n> Running {0}\n"
TEXTS: Final = st.lists(st.sampled_from(UNITS), min_size=1, max_size=3).map("".join)


def repeated(unit: str) -> str:
    return (unit * (CHARS // len(unit) + 1))[:CHARS]


def million() -> None:
    for _ in range(1_000_000):
        pass


def seconds(work: Callable[[], object]) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start


def loops(work: Callable[[], object]) -> float:
    """Return the processor time, as a multiple of a loop's: the least of three, if it is not short."""
    taken: list[float] = []
    while len(taken) < 3 and (not taken or taken[-1] > LIMIT / 2):
        taken.append(seconds(work) / seconds(million))
    return min(taken)


def decide(events: tuple[ActionEvent, ...]) -> None:
    state: SessionState | None = None
    for offset, one in enumerate(events):
        state = CORE.on_event(state, one, Position("haltline.actions", 0, offset)).state


@given(TEXTS, st.sampled_from(sorted(EVENTS)))
@example("@", "a statement in a command line")
@example("=", "a statement")
@example("`", "a command line about its supervision")
def test_an_event_is_decided_on_in_time(unit: str, kind: str) -> None:
    events = EVENTS[kind](repeated(unit))

    assert loops(lambda: decide(events)) < LIMIT * len(events)


@given(TEXTS)
def test_what_is_sent_is_redacted_in_time(unit: str) -> None:
    text = repeated(unit)

    assert {kind for kind, work in SENT.items() if loops(lambda work=work: work(text)) > LIMIT} == set()  # type: ignore[misc]


def with_text(value: Any, text: str) -> Any:
    """Return a recording's value with this text in place of each long one."""
    if isinstance(value, dict):
        return {name: with_text(item, text) for name, item in value.items()}
    if isinstance(value, list):
        return [with_text(item, text) for item in value]
    return text if isinstance(value, str) and " " in value else value


@settings(max_examples=20)
@given(TEXTS, st.sampled_from(["aider", *sorted(FORM_OF)]))
def test_a_recording_is_imported_in_time(unit: str, sample: str) -> None:
    text = repeated(unit)
    if sample == "aider":
        whole = AIDER.format(text)
    elif sample.endswith("l"):
        lines = (SAMPLES / sample).read_text(encoding="utf-8").splitlines()
        whole = "\n".join(json.dumps(with_text(json.loads(line), text)) for line in lines)
    else:
        whole = json.dumps(with_text(json.loads((SAMPLES / sample).read_text(encoding="utf-8")), text))

    with TemporaryDirectory() as folder:
        file = Path(folder) / sample
        file.write_text(whole, encoding="utf-8")
        assert loops(lambda: list(Imported(file).events())) < LIMIT * (1 + len(whole) // CHARS)
