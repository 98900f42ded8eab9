"""A program that asks the local service over HTTP."""

from haltline.interventions.agent import Guard
from tests.conformance.drivers._services import OverHttp, service
from tests.conformance.harness import Run, Script

ADAPTER = "haltline"
LACKS = frozenset[str]()
SYNC = ASYNC = True


def run(guard: Guard, script: Script, *, is_async: bool) -> Run:
    return service().play(OverHttp, guard, script, is_async=is_async)


def delegate(guard: Guard, script: Script) -> Run:
    return service().play(OverHttp, guard, script, is_async=False, below=True)
