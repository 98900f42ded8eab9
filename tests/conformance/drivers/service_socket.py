"""A program that asks the local service on its socket."""

from tests.conformance.drivers._services import by_socket, ways

ADAPTER = "haltline"
LACKS = frozenset[str]()
SYNC = ASYNC = True
run, delegate = ways(by_socket)
