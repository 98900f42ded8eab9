"""An OpenID provider, read from its file, and the mapping of its claims to names and roles here.

A person without a role is not admitted. A person who also has a key should use the same name for both: two operators
are two names.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Final
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from haltline.console.access.keys import Role, Who
from haltline.schemas.problems import problem_of
from haltline.streams.policy.yaml_text import BadYaml, value_of

_HIGHEST_FIRST: Final = (Role.ADMIN, Role.OPERATOR, Role.VIEWER)
_LOOPBACK: Final = ("localhost", "127.0.0.1", "::1")

Text = Annotated[str, Field(min_length=1, max_length=1024)]


class BadProvider(ValueError):
    """A file that does not describe a provider: where, what was expected and what was received."""


class Provider(BaseModel):
    """A provider, and the mapping of its claims."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    issuer: Text
    """As in the provider's tokens; `/.well-known/openid-configuration` below it describes the rest."""
    client_id: Text
    client_secret_file: Path | None = None
    """None: a public client, protected by PKCE alone."""
    scope: Text = "openid email profile"
    name_claim: Text = "email"
    """The claim with the name for the audit. People must not be able to choose it themselves."""
    role_claim: Text = "groups"
    """The claim with the groups: a text or a list of texts."""
    roles: Annotated[dict[Role, tuple[Text, ...]], Field(min_length=1)]
    """By role: the claim's values that grant it. The highest of several applies."""

    @field_validator("issuer")
    @classmethod
    def _encrypted(cls, issuer: str) -> str:
        url = urlsplit(issuer)
        if url.scheme != "https" and not (url.scheme == "http" and url.hostname in _LOOPBACK):
            raise ValueError(f"expected an https:// address, got {issuer!r:.100}")
        return issuer.rstrip("/")

    @field_validator("roles")
    @classmethod
    def _of_people(cls, roles: dict[Role, tuple[str, ...]]) -> dict[Role, tuple[str, ...]]:
        if Role.AGENT in roles:
            raise ValueError("agent: expected roles of people, got that of programs, which have keys")
        return roles

    @classmethod
    def read(cls, path: Path) -> "Provider":
        """Read a YAML file with these fields. Raises BadProvider, and OSError."""
        try:
            return cls.model_validate(value_of(path.read_text(encoding="utf-8")))
        except BadYaml as error:
            raise BadProvider(f"{path}: expected YAML, got {error}") from None
        except ValidationError as error:
            raise BadProvider(f"{path}: {problem_of(error)}") from None

    def who(self, claims: Mapping[str, Any]) -> Who | None:
        """The user in the claims of a validated token; None: no role here."""
        name, groups = claims.get(self.name_claim), claims.get(self.role_claim)
        if not isinstance(name, str) or not name.strip() or (self.name_claim == "email" and not _is_theirs(claims)):
            return None
        held = {groups} if isinstance(groups, str) else {one for one in _list(groups) if isinstance(one, str)}
        role = next((role for role in _HIGHEST_FIRST if held & set(self.roles.get(role, ()))), None)
        return None if role is None else Who(name.strip()[:256], role)


def _is_theirs(claims: Mapping[str, Any]) -> bool:
    """Return whether the provider has verified the address; true if it does not report that."""
    return claims.get("email_verified", True) in (True, "true")


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
