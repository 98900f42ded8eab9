"""The policy in force as text, for its page."""

import orjson
import yaml
from fastapi import APIRouter
from pydantic import BaseModel

from haltline.console.context import ContextDep, Viewer
from haltline.console.http.routing import StrictRoute
from haltline.schemas.record import rfc3339
from haltline.streams.policy.source import DEFAULT_NAME, current

router = APIRouter(prefix="/api/v1/policy", tags=["policies"], route_class=StrictRoute)


class PolicyInForce(BaseModel):
    """A published policy, or the defaults."""

    name: str
    version: int
    document: str
    """YAML; without a published policy, the name only."""
    by: str | None
    reason: str | None
    time: str | None
    names: list[str]
    """The names of all published policies."""


@router.get("")
def standing(here: ContextDep, _: Viewer, name: str = DEFAULT_NAME) -> PolicyInForce:
    """The policy published under a name, or the defaults; workers with a policy file use another one."""
    documents = current(here.settings.bootstrap, here.settings.topics.policies, client=here.settings.client)
    names = sorted(documents)
    found = documents.get(name)
    if found is None:
        return PolicyInForce(
            name=name, version=1, document=f"name: {name}\n", by=None, reason=None, time=None, names=names
        )
    document = orjson.loads(found.value or b"{}")
    published = document.pop("published", {})
    version = document.pop("version", 1)  # the next version is assigned on publication
    return PolicyInForce(
        name=name,
        version=version,
        document=yaml.safe_dump(document, sort_keys=False, allow_unicode=True, width=100),
        by=published.get("by"),
        reason=published.get("reason"),
        time=rfc3339(found.timestamp),
        names=names,
    )
