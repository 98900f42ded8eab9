import os
import subprocess
import sys
from pathlib import Path

import pytest

from haltline.cli.frameworks import FRAMEWORKS, Framework
from haltline.schemas.decisions import Level, ScopeKind
from haltline.schemas.events import Kind, Outcome
from haltline.streams.local.embedded_broker import EmbeddedBroker
from tests import browsers
from tests.conformance.environments import PACKAGES, case_of, drivers, python_of, require_environment
from tests.docs.frameworks import printed_of
from tests.interventions.agent.stand_in import StandIn, standing, third_delete_kills
from tests.programs import ended, intake, printed
from tests.waiting import wait_until

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples"
ADAPTED = [row for row in FRAMEWORKS.values() if row.adapter and row.name in drivers().values()]
"""Frameworks in Python with an adapter."""


def environ(broker: EmbeddedBroker, home: Path) -> dict[str, str]:
    waits = dict.fromkeys(("HALTLINE_BUDGET_S", "HALTLINE_FIRST_BUDGET_S", "HALTLINE_START_BUDGET_S"), "20")
    waits["CREWAI_DISABLE_TELEMETRY"] = "true"  # it waits for a server that is not there
    known = {"HOME": str(home), "HALTLINE_BOOTSTRAP": broker.bootstrap, "PLAYWRIGHT_BROWSERS_PATH": str(home)}
    return {**os.environ, **waits, **known}


def offer_browser(home: Path) -> None:
    """browser-use looks for a browser where Playwright puts one, and not for a headless shell elsewhere."""
    place = home / "chromium-1" / "chrome-linux" / "chrome"
    place.parent.mkdir(parents=True)
    if (found := browsers.program()) is not None:
        place.symlink_to(found)


@pytest.mark.parametrize("row", [case_of(row.name, row, id=row.name) for row in ADAPTED])
def test_the_program_of_a_page_is_stopped(embedded: EmbeddedBroker, row: Framework, tmp_path: Path) -> None:
    require_environment(row.name)
    offer_browser(tmp_path)
    with StandIn(embedded.bootstrap, third_delete_kills()) as worker:
        done = ended(python_of(row.name), ROOT / row.program, env=environ(embedded, tmp_path))
        lines = [line for line in done.stdout.splitlines() if line.startswith(("deleted", "stopped"))]
        assert lines == printed_of(row), done.stdout + done.stderr
        wait_until(lambda: worker.of(Kind.SESSION_ENDED), "the session has ended")
        # Before that, a browser opens its page.
        assert worker.outcomes()[-3:] == [Outcome.OK, Outcome.OK, Outcome.REFUSED]
        assert [e.await_verdict for e in worker.of(Kind.PROPOSED)][-3:] == [True] * 3
        assert Level.KILL.value in {f.decision_id.split("-")[0] for f in worker.feedback}


@pytest.mark.parametrize("program", [row.program for row in FRAMEWORKS.values() if row.language == "javascript"])
def test_the_agent_in_javascript_is_stopped_at_its_third_delete_without_a_broker(program: str) -> None:
    require_environment("typescript")
    with intake("--mode", "local") as address:
        output = printed("node", ROOT / program, address, cwd=PACKAGES["typescript"])
    stopped = "stopped: session_killed_loop_guard"
    assert output.splitlines() == ["deleted fact_sales", "deleted fact_sales", stopped]


def test_an_agent_behind_the_mcp_proxy_is_stopped_at_the_third_delete(embedded: EmbeddedBroker, tmp_path: Path) -> None:
    with StandIn(embedded.bootstrap, third_delete_kills()) as worker:
        output = printed(sys.executable, EXAMPLES / "mcp_agent.py", env=environ(embedded, tmp_path))
        assert output.splitlines() == [*printed_of(FRAMEWORKS["mcp"])[:2], "stopped: KILL: for the model"]
        wait_until(lambda: worker.of(Kind.SESSION_ENDED), "the session has ended")
        assert worker.outcomes() == [Outcome.OK, Outcome.OK, Outcome.REFUSED]


def test_an_agent_that_writes_spans_is_stopped_between_two_steps(embedded: EmbeddedBroker, tmp_path: Path) -> None:
    with StandIn(embedded.bootstrap) as worker:
        command = [sys.executable, str(EXAMPLES / "opentelemetry_agent.py")]
        with subprocess.Popen(command, env=environ(embedded, tmp_path), stdout=subprocess.PIPE, text=True) as agent:
            wait_until(lambda: len(worker.of(Kind.COMPLETED)) >= 3, "it has deleted three times")
            (session_id,) = {e.session_id for e in worker.events}
            worker.control(standing(ScopeKind.SESSION, session_id))
            result, _ = agent.communicate(timeout=60)
        assert result.splitlines()[-1] == "stopped: session_killed_loop_guard"
        assert len(result.splitlines()) < 1000
        assert {(e.action, e.outcome) for e in worker.of(Kind.COMPLETED)} == {("delete_asset", Outcome.OK)}
