"""Runs every case with one driver, and its own: `python -m tests.conformance DRIVER [PART OF A NAME ...]`.

One line of JSON for each case.
"""

import importlib.util
import json
import signal
import sys
import traceback
from collections.abc import Sequence
from typing import Any, cast

from haltline.interventions.agent import Guard
from haltline.interventions.agent.transport.local_decider import forget_kills
from tests.conformance import harness
from tests.conformance.cases import CASES, Case, Seen
from tests.conformance.harness import CAPABILITIES, Call, Driver, Run, Script, numbered
from tests.conformance.own import OWN

CASE_S = 60


def result_of(driver: Driver, case: Case) -> dict[str, Any]:
    """Once as the framework runs without an event loop, once on one, as far as it does both."""
    can = frozenset(CAPABILITIES) - driver.LACKS
    missing = sorted(case.needs - can)
    if missing:
        return {"case": case.name, "result": "lacks", "message": ", ".join(missing)}
    for is_async in [mode for mode, has in ((False, driver.SYNC), (True, driver.ASYNC)) if has]:
        harness.ran.clear()
        harness.during.clear()
        forget_kills()

        def run(guard: Guard, *turns: Sequence[Call], is_async: bool = is_async) -> Run:
            return driver.run(guard, numbered(turns), is_async=is_async)

        def delegate(guard: Guard, script: Script) -> Run:
            return cast("Run", cast("Any", driver).delegate(guard, numbered(script)))

        signal.alarm(CASE_S)
        try:
            case.check(Seen(run, can, delegate))
        except BaseException:
            return {
                "case": case.name,
                "result": "failed",
                "message": f"{'async' if is_async else 'sync'}: {traceback.format_exc()}",
            }
        finally:
            signal.alarm(0)
    return {"case": case.name, "result": "passed", "message": ""}


def main() -> None:
    def too_long(*_: object) -> None:
        raise TimeoutError(f"the case took more than {CASE_S} s")

    signal.signal(signal.SIGALRM, too_long)
    driver = cast("Driver", importlib.import_module(f"tests.conformance.drivers.{sys.argv[1]}"))
    out = sys.stdout
    sys.stdout = sys.stderr  # what a framework prints is no result
    own = f"tests.conformance.own.{sys.argv[1]}"
    if importlib.util.find_spec(own) is not None:
        importlib.import_module(own)  # it adds its cases
    for case in [*CASES.values(), *OWN.values()]:
        if len(sys.argv) == 2 or any(part in case.name for part in sys.argv[2:]):
            print(json.dumps(result_of(driver, case)), file=out, flush=True)


if __name__ == "__main__":
    main()
