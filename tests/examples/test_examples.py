import os
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from haltline.cli.app import app
from haltline.cli.frameworks.rows import Framework
from haltline.cli.frameworks.table import FRAMEWORKS
from haltline.schemas.decisions import Level, ScopeKind
from haltline.schemas.events import Kind, Outcome
from haltline.streams.local.embedded_broker import EmbeddedBroker
from tests import browsers
from tests.conformance.environments import PACKAGES, case_of, drivers, python_of, require_environment
from tests.docs.frameworks import printed_of
from tests.examples.unguarded import unguarded
from tests.interventions.agent.stand_in import StandIn, standing, third_delete_kills
from tests.programs import ended, intake, printed
from tests.waiting import wait_until

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
ADAPTED = [row for row in FRAMEWORKS.values() if row.edits and row.name in drivers().values()]
"""Frameworks in Python with an adapter."""
EACH = """
import runpy, sys, traceback
for file in sys.argv[1:]:
    print("program", file, flush=True)
    try:
        runpy.run_path(file, run_name="__main__")
    except Exception:
        traceback.print_exc()
"""
"""One process for both programs of a framework, as to load its library takes longer than all else."""


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
def test_the_program_of_a_page_is_stopped_and_so_is_one_that_init_has_put_behind_a_guard(
    embedded: EmbeddedBroker, row: Framework, tmp_path: Path
) -> None:
    require_environment(row.name)
    offer_browser(tmp_path)
    example = EXAMPLES / row.program
    mine = tmp_path / "mine.py"
    mine.write_text(unguarded(example.read_text(encoding="utf-8")), encoding="utf-8")
    assert "haltline" not in mine.read_text(encoding="utf-8").partition('"""\n')[2]
    changed = CliRunner().invoke(app, ["init", "--framework", row.name, "--yes", str(mine)])
    assert changed.exit_code == 0, changed.output
    with StandIn(embedded.bootstrap, third_delete_kills()) as worker:
        done = ended(python_of(row.name), "-c", EACH, example, mine, env=environ(embedded, tmp_path))
        lines = [line for line in done.stdout.splitlines() if line.startswith(("program", "deleted", "stopped"))]
        ours = [f"program {example}", *printed_of(row), f"program {mine}", "deleted fact_sales", "deleted fact_sales"]
        assert lines[: len(ours)] == ours, done.stdout + done.stderr
        assert [line for line in lines[len(ours) :] if not line.startswith("stopped")] == []
        wait_until(lambda: len(worker.of(Kind.SESSION_ENDED)) == 2, "both sessions have ended")
        for session_id in {e.session_id for e in worker.events}:
            # Before that, a browser opens its page.
            assert worker.outcomes(session_id)[-3:] == [Outcome.OK, Outcome.OK, Outcome.REFUSED]
            assert [e.await_verdict for e in worker.of(Kind.PROPOSED, session_id)][-3:] == [True] * 3
        assert {e.agent_id for e in worker.events} == {"cleaner", "mine"}
        assert Level.KILL.value in {f.decision_id.split("-")[0] for f in worker.feedback}


@pytest.mark.parametrize("example", ["vercel_agent.mjs", "mastra_agent.mjs"])
def test_the_agent_in_javascript_is_stopped_at_its_third_delete_without_a_broker(example: str) -> None:
    require_environment("typescript")
    with intake("--mode", "local") as address:
        output = printed("node", f"examples/{example}", address, cwd=PACKAGES["typescript"])
    stopped = "stopped: session_killed_loop_guard"
    assert output.splitlines() == ["deleted fact_sales", "deleted fact_sales", stopped]


def test_an_agent_behind_the_mcp_proxy_is_stopped_at_the_third_delete(embedded: EmbeddedBroker, tmp_path: Path) -> None:
    with StandIn(embedded.bootstrap, third_delete_kills()) as worker:
        output = printed(sys.executable, EXAMPLES / "mcp_agent.py", env=environ(embedded, tmp_path))
        assert output.splitlines() == printed_of(FRAMEWORKS["mcp"])
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
