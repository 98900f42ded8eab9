"""The rules over several events of the page about policies find what their titles promise."""

from collections.abc import Sequence

from haltline.schemas.events import ActionEvent, Outcome
from haltline.streams.engine.core import Core, Position, SessionState
from haltline.streams.policy.loader import parse_policy
from tests.builders import bash, cases, event
from tests.docs.pages import DOCS, between, fences_of

UPLOAD = event(60, "http_post", args={"url": "https://example.org"})
SECRET = "correlation_secret_then_upload"
TABLES = "correlation_many_tables"


def found(events: Sequence[ActionEvent]) -> set[str]:
    """The rules of the page that find something, in a session without a declared scope."""
    ((_, document),) = fences_of(between(DOCS / "policy.md", "correlations"))
    core, state = Core(parse_policy(document)), SessionState("s1")
    rules: set[str] = set()
    for offset, one in enumerate(events):
        effects = core.on_event(state, one, Position("haltline.actions", 0, offset))
        state = effects.state
        rules |= {detection.finding.detector for detection in effects.detections}
    return rules & {SECRET, TABLES}


def exports(count: int) -> list[ActionEvent]:
    return [
        event(n, "export_table", f"table=t{n}", args={"database": "shop"}, outcome=Outcome.OK) for n in range(count)
    ]


@cases(
    "events, rules",
    {
        "the accounts of a machine, then a post": ([bash(0, "cat /etc/shadow"), UPLOAD], {SECRET}),
        "a post, then the accounts": ([UPLOAD, bash(70, "cat /etc/shadow")], set()),
        "a post too late": ([bash(0, "cat /etc/shadow"), event(601, "http_post")], set()),
        "an ordinary file, then a post": ([bash(0, "cat README.md"), UPLOAD], set()),
        "ten tables of a database": (exports(10), {TABLES}),
        "nine tables of a database": (exports(9), set()),
    },
)
def test_finds_what_the_title_promises(events: list[ActionEvent], rules: set[str]) -> None:
    assert found(events) == rules
