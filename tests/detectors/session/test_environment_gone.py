from haltline.detectors.session.environment_gone import EnvironmentGone, gone
from haltline.schemas.events import ActionEvent
from tests.builders import bash, call, cases, each, event, severities

DETECTOR = EnvironmentGone()
GONE = (
    "Error response from daemon: No such container: 4f1d09aa",
    "OSError: [Errno 30] Read-only file system: '/srv/x'",
    "BrokenPipeError: [Errno 32] Broken pipe",
    "write /tmp/a: no space left on device",
    "Error: session abc-123 not found",
    "sandbox has been terminated",
    "Cannot connect to the Docker daemon at unix:///var/run/docker.sock",
    "selenium: invalid session id",
    "playwright: Target closed",
    "The kernel died, restart it",
)
REFUSED = "connect ECONNREFUSED 127.0.0.1:8080"
TOOLS = ("bash_tool", "read_file", "edit_file", "search_code")


def failures(count: int, start: float = 0) -> list[ActionEvent]:
    """Different calls, each with another error of an environment that is gone."""
    return [event(start + s * 5, TOOLS[s % 4], f"path=/srv/{start:g}/{s}", GONE[s % len(GONE)]) for s in range(count)]


def refused(count: int, *tools: str, same: bool = False) -> list[ActionEvent]:
    hosts = [0 if same else s for s in range(count)]
    return [event(s * 5, tools[s % len(tools)], f"url=http://h{h}.example.org", REFUSED) for s, h in enumerate(hosts)]


def gone_in(*errors: str) -> list[ActionEvent]:
    return [event(n * 5, TOOLS[n % 4], f"path=/srv/{n}", error) for n, error in enumerate(errors)]


@cases(
    "events, found",
    {
        "no container: three attempts are a hint, the fourth is one too many": (
            gone_in(*["Error: No such container: 4f1d"] * 4),
            "mc",
        ),
        "what can be started again": (gone_in(*["session 1 is not running, please start it first"] * 5), "mmh"),
        "three of any sort are medium, four that are sure critical": (failures(9), "mmccccc"),
        "a success in between": ([*failures(2), event(12, "read_file"), *failures(2, 20)], ""),
        "most failures have other reasons": (
            [*failures(2), *(event(20 + s, "read_file", None, "KeyError: 'a'") for s in range(3)), *failures(1, 30)],
            "",
        ),
        "results that tell of it": (each(9, bash, "ls", None, output_head="docker: no such container"), ""),
        "no connection, whatever the tool": (refused(9, *TOOLS), "mmhhhcc"),
        "one tool alone is high at most": (refused(9, "fetch_page"), "mmhhhhh"),
        "waiting for a service": ([bash(s * 20, f"sleep 15; curl h{s}", REFUSED) for s in range(9)], ""),
    },
)
def test_what_counts(events: list[ActionEvent], found: str) -> None:
    assert severities(DETECTOR, events) == found


def test_parallel_calls_are_one_step_and_those_far_apart_or_cancelled_do_not_count() -> None:
    calls = [call(0, "read_file", f"path=/srv/{n}", GONE[0], took_s=n + 1) for n in range(4)]
    together = [proposed for proposed, _ in calls] + [completed for _, completed in calls]
    assert severities(DETECTOR, together) == ""
    assert severities(DETECTOR, calls) == "", "recordings have each result behind its proposal"
    assert severities(EnvironmentGone(last_actions=2), [*failures(2), *failures(1, 1000)]) == "", "neither window"
    one_by_one = [call(n, "read_file", f"path=/srv/{n}", GONE[0]) for n in range(4)]
    assert severities(DETECTOR, one_by_one) == "mc"
    cancelled = "Cancelled: parallel tool call read_file(/srv/0) errored: container is not running"
    failing = [call(n * 10, "read_file", f"path=/srv/{n}", cancelled if n % 3 else GONE[0]) for n in range(6)]
    assert severities(DETECTOR, failing) == ""


FAILED_CONNECTIONS = (
    REFUSED,
    "curl: (6) Could not resolve host: pypi.example.org",
    "ssh: connect to host sandbox port 22: Connection refused",
    "urllib3: Failed to establish a new connection: Name or service not known",
    "connect: Network is unreachable",
)
OTHERS = (
    "cat: /srv/a: No such file or directory",
    "ModuleNotFoundError: No module named 'x'",
    "AssertionError: the process was expected to stop",
    "permission denied",
    "Error: basic economy flights cannot be modified",
    "HTTP 404 page not found: /container",
    "environment variable HOME not found",
    "session token expired",
    "",
)


def test_an_environment_that_is_gone_is_told_from_a_connection_that_fails_and_from_other_errors() -> None:
    assert [text for text in GONE if not gone(text)[0] or gone(text)[1]] == []
    assert [text for text in FAILED_CONNECTIONS if not gone(text)[1]] == []
    assert [text for text in OTHERS if gone(text) != ("", False)] == []
