"""A live stream of records: server-sent events."""

from typing import Annotated

from fastapi import APIRouter, Header, Request
from fastapi.responses import StreamingResponse

from haltline.console.context import Viewer
from haltline.console.http.strict_json import StrictRoute
from haltline.console.live import Live

router = APIRouter(prefix="/api/v1", tags=["events"], route_class=StrictRoute)


@router.get(
    "/events",
    response_class=StreamingResponse,
    responses={
        200: {
            "description": "Events named decision, detection, control, feedback, command, policy, dead_letter, each "
            "with the columns of its record; activity, with how many actions there were, and of which sessions; "
            "missed: more happened than can be sent, read everything again.",
            "content": {
                "text/event-stream": {
                    "example": 'id: 1f3a-42\nevent: decision\ndata: {"session_id":"night-7","level":"KILL"}\n\n'
                }
            },
        }
    },
)
def events(request: Request, _: Viewer, last_event_id: Annotated[str | None, Header()] = None) -> StreamingResponse:
    """Streams decisions, findings, control and commands until the client disconnects.

    A client that reconnects with `Last-Event-ID` receives all missed events that are still buffered.
    """
    live: Live = request.app.state.live
    return StreamingResponse(
        live.follow(last_event_id), media_type="text/event-stream", headers={"X-Accel-Buffering": "no"}
    )
