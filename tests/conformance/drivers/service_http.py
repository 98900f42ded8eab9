"""A program that asks the local service over HTTP."""

from tests.conformance.drivers._services import OverHttp, ways

ADAPTER = "haltline"
LACKS = frozenset[str]()
SYNC = ASYNC = True
run, delegate = ways(OverHttp)
