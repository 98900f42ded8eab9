"""The same work in Faust as its documentation shows it: an agent over events, and a table.

`count` decodes JSON by Faust's own serializer and adds one to a table entry of the session.
`detect` checks each record as an ActionEvent and runs haltline's own core; the session's state
is written to the table after every event, encoded as the worker encodes it, and decisions are
sent to a topic. Settings are Faust's defaults, except that the web server and the leader topic
are off. Events are acknowledged automatically and committed every 2.8 s, the default.
"""

import sys
import tempfile
from collections.abc import Sequence

import faust
from faust.types import StreamT

from benchmarks.cluster import PARTITIONS
from benchmarks.engines import clients
from benchmarks.rules import only
from haltline.schemas.topics import Topics
from haltline.schemas.wire import decode_event
from haltline.streams.engine.core import Core, SessionState
from haltline.streams.sessions import state_codec


def counting(app: faust.App, topics: Topics) -> None:
    """Events by session."""
    actions = app.topic(topics.actions, key_type=bytes, key_serializer="raw", value_serializer="json")
    counts = app.Table("counts", default=int, partitions=PARTITIONS)

    @app.agent(actions)
    async def count(events: StreamT[dict[str, object]]) -> None:
        async for event in events:
            counts[event["session_id"]] += 1


def detecting(app: faust.App, topics: Topics, rules: Sequence[str]) -> None:
    """haltline's core on a table of states."""
    actions = app.topic(topics.actions, key_type=bytes, value_type=bytes, key_serializer="raw", value_serializer="raw")
    interventions = app.topic(topics.interventions, key_serializer="raw", value_serializer="raw")
    states = app.Table("states", key_type=str, value_type=bytes, partitions=PARTITIONS)
    core = Core(only(rules))
    live: dict[str, SessionState] = {}

    @app.agent(actions)
    async def detect(values: StreamT[bytes]) -> None:
        async for value in values:
            event = decode_event(value)
            outcome = core.on_event(live.get(event.session_id), event)
            live[event.session_id] = outcome.state
            states[event.session_id] = state_codec.encode(outcome.state)
            if outcome.decision is not None:
                await interventions.send(key=event.session_id.encode(), value=outcome.decision.to_json())


def main(arguments: Sequence[str] | None = None) -> int:
    args = clients.work_options(__doc__).parse_args(arguments)
    app = faust.App(
        args.group,
        broker=f"kafka://{args.bootstrap}",
        store="memory://",
        datadir=tempfile.mkdtemp(prefix="stock-faust-"),
        web_enabled=False,
        topic_disable_leader=True,
        topic_partitions=PARTITIONS,
    )
    topics = Topics(args.prefix)
    if args.variant == "count":
        counting(app, topics)
    else:
        detecting(app, topics, [name for name in args.rules.split(",") if name])
    faust.Worker(app, loglevel="WARNING").execute_from_commandline()
    return 0


if __name__ == "__main__":
    sys.exit(main())
