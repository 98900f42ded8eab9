"""`haltline tail`: follows topics, one line per record."""

from typing import TYPE_CHECKING, Annotated, Literal

import typer

from haltline.cli.cluster import Cluster, with_cluster
from haltline.cli.common import AsJson, Exit, fail, say_error
from haltline.schemas.topics import Topics

if TYPE_CHECKING:
    from haltline.streams.operator.client import Operator

_POLL_S = 0.5

_NAMES = [name.removeprefix(Topics().prefix) for name in Topics().all]
VocabularyName = Literal["pipeline", "acgp", "agent_sentinel", "tappass"]
"""The values of Vocabulary, which is not imported here; a test compares both."""


@with_cluster()
def tail(
    *,
    topic: Annotated[
        list[str],
        typer.Option(help=f"Topic without the prefix, may be repeated: {', '.join(_NAMES)}.", metavar="NAME"),
    ] = ["actions", "interventions"],  # noqa: B006  # typer copies it
    session: Annotated[
        str | None, typer.Option(help="Only records of this session: its id, or its beginning.", metavar="ID")
    ] = None,
    from_beginning: Annotated[bool, typer.Option("--from-beginning", help="Begin with the oldest record.")] = False,
    count: Annotated[int | None, typer.Option(help="End after this many records.", min=1)] = None,
    at: Cluster,
    vocabulary: Annotated[
        VocabularyName | None,
        typer.Option(help="Print decisions in another system's vocabulary; fields that it does not have are left out."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Follow topics until Ctrl-C, one line per record. With --json one object per record.

    Example: haltline tail --topic interventions --from-beginning --count 10

    Example: haltline tail --topic interventions --vocabulary acgp
    """
    if unknown := set(topic) - set(_NAMES):
        fail(f"--topic: expected one of {', '.join(_NAMES)}, got {', '.join(sorted(unknown))}", Exit.USAGE)
    from haltline.cli.answers import operator_of
    from haltline.cli.operator.record_lines import as_json_line, as_line
    from haltline.schemas.intervening import Vocabulary
    from haltline.streams.kafka.log_reader import LogReader

    names = [at.topics.prefix + name for name in topic]
    left = count
    line_of = as_json_line if as_json else as_line
    words = None if vocabulary is None else Vocabulary(vocabulary)
    if session is not None:
        session = _whole(operator_of(at), session)
    try:
        with LogReader(at.bootstrap, names, from_beginning=from_beginning, client=at.client_config) as reader:
            while left is None or left > 0:
                message = reader.poll(_POLL_S)
                if message is None or (session is not None and message.key() != session.encode()):
                    continue
                typer.echo(line_of(message, at.topics.prefix, words))
                left = None if left is None else left - 1
    except KeyboardInterrupt:
        return  # the normal end


def _whole(operator: "Operator", session: str) -> str:
    """The session's whole id, or the given one if no events of it exist yet, since it may still start."""
    from haltline.cli.answers import whole_id
    from haltline.schemas.decisions import ScopeKind
    from haltline.streams.operator.ids import NotFound

    try:
        return whole_id(operator, ScopeKind.SESSION, session)
    except NotFound:
        say_error(f"no events of session {session} were found yet")
        return session
