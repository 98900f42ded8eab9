"""What every route works with, and who may use it."""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Final

from confluent_kafka import TopicPartition
from fastapi import Depends, Header, HTTPException, Request
from sqlalchemy import Engine

from haltline.console.auth import May, Who
from haltline.console.feeder import Feeder
from haltline.console.settings import ConsoleSettings
from haltline.schemas.control import Command
from haltline.streams.inbox import Inbox
from haltline.streams.produce import produce_confirmed

log: Final = logging.getLogger("haltline.console")

_TAKEN_IN_WITHIN_S: Final = 5.0


@dataclass(frozen=True)
class Context:
    """The parts of one console."""

    settings: ConsoleSettings
    engine: Engine
    feeder: Feeder
    inbox: Inbox

    def send(self, command: Command) -> bool:
        """Puts a command on its topic. Returns whether the read model has it, so that its writer reads it.

        Raises Unreachable when the broker does not confirm it.
        """
        place: TopicPartition = produce_confirmed(
            self.settings.bootstrap,
            self.settings.topics.commands,
            key=command.id.encode(),
            value=command.to_json(),
            client=self.settings.client,
        )
        return self.feeder.wait_for(place, _TAKEN_IN_WITHIN_S)


def context_of(request: Request) -> Context:
    """The console's parts."""
    found = request.app.state.context
    if not isinstance(found, Context):
        raise TypeError(f"the app's state: wanted a Context, came {type(found).__name__}")
    return found


Here = Annotated[Context, Depends(context_of)]


def _who(here: Here, authorization: Annotated[str | None, Header()] = None) -> Who:
    scheme, _, key = (authorization or "").partition(" ")
    who = here.settings.keys.who(key.strip()) if scheme.lower() == "bearer" else None
    if who is None:
        raise HTTPException(
            401,
            "Authorization: wanted 'Bearer' and a key of this console, came none that is known",
            headers={"WWW-Authenticate": "Bearer"},
        )
    return who


def _allowed(act: May) -> Callable[[Who], Who]:
    def check(who: Annotated[Who, Depends(_who)]) -> Who:
        if not who.may(act):
            raise HTTPException(403, f"{act}: wanted a role that may, came {who.role} of {who.name}")
        return who

    return check


Looker = Annotated[Who, Depends(_allowed(May.LOOK))]
Teller = Annotated[Who, Depends(_allowed(May.TELL))]
Actor = Annotated[Who, Depends(_allowed(May.ACT))]
Changer = Annotated[Who, Depends(_allowed(May.CHANGE))]
