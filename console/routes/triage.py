"""One answer to several approval requests."""

from typing import Annotated, Literal

from fastapi import APIRouter
from pydantic import BaseModel, Field

from haltline.console.context import ContextDep, OperatorClient
from haltline.console.http.strict_json import StrictRoute
from haltline.schemas.control import CommandKind

router = APIRouter(prefix="/api/v1/approvals", tags=["approvals"], route_class=StrictRoute)

_WORDS = {"approve": CommandKind.APPROVE, "reject": CommandKind.REJECT, "ask": CommandKind.ASK}


class Batch(BaseModel):
    """The same answer to several requests, with one reason."""

    ids: Annotated[list[Annotated[str, Field(min_length=1, max_length=256)]], Field(min_length=1, max_length=500)]
    word: Literal["approve", "reject", "ask"]
    reason: Annotated[str, Field(min_length=1, max_length=4096)]


class BatchAnswered(BaseModel):
    """The outcome, by request."""

    answered: list[str]
    """A worker has taken it in."""
    late: list[str]
    """No worker has answered in time: it stays on the topic for when one runs."""
    refused: dict[str, str]
    """Not sent, and why."""


@router.post("/batch")
def answer(here: ContextDep, who: OperatorClient, batch: Batch) -> BatchAnswered:
    """Approves or rejects several requests, or asks a question. Each is answered separately; closed ones are not."""
    answered, refused = here.inbox.answer_all(_WORDS[batch.word], batch.ids, by=who.name, reason=batch.reason)
    return BatchAnswered(
        answered=[one.before.approval.request_id for one in answered if one.after is not None],
        late=[one.before.approval.request_id for one in answered if one.after is None],
        refused=refused,
    )
