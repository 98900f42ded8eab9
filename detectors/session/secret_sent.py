"""The session is about to send a secret that it has read, or a file of credentials, to a host where it does not belong.

Fires: `secret_sent` on an attempt whose event lists secrets (`secrets_sent`): critical if the hosts of a secret's
    provider are known and the call goes to none of them; otherwise high.
Quiet: calls to the provider's own hosts, to hosts that appeared next to the secret where it was read, and to this
    machine; refused attempts; kinds and digests in `allowed`.
Misses: secrets that the agent's side does not recognize: those that did not appear in a result of this session, and
    those that were compressed, encrypted, split or written to a file first; producers that do not search for secrets.
"""

from typing import Annotated, ClassVar

from pydantic import Field

from haltline.detectors.features.observation import Observation
from haltline.detectors.framework.base import Attempts, OfAttempts, settings
from haltline.detectors.framework.strictness import Stricter
from haltline.schemas.findings import Finding, Severity

_FILE = "credential_file"
"""The kind of a file that is uploaded, whether or not the session has read it."""


@settings
class SecretSent(OfAttempts[Attempts]):
    """Any attempt to send a secret to another host."""

    id: ClassVar[str] = "secret_sent"
    allowed: Annotated[
        tuple[Annotated[str, Field(min_length=1, max_length=512)], ...], Field(max_length=256), Stricter.NEITHER
    ] = ()
    """Kinds and digests of secrets that may be sent anywhere."""

    def concerns(self, act: Observation) -> bool:
        """Attempts that send a secret."""
        return bool(act.event.secrets_sent)

    def observe(self, state: Attempts, act: Observation) -> Finding | None:
        """Report the kinds of secrets."""
        sent = [one for one in act.event.secrets_sent or () if not {one.kind, one.digest} & set(self.allowed)]
        if not sent:
            return None
        state.attempts += 1
        elsewhere = [one for one in sent if one.elsewhere]
        kinds = {one.kind for one in elsewhere or sent}
        read = ", ".join(sorted(kinds - {_FILE}))
        files = ["a file of credentials"] if _FILE in kinds else []
        secrets = [f"a secret that the session has read: {read:.200}"] if read else []
        return self.finding(
            "secret_sent",
            Severity.CRITICAL if elsewhere else Severity.HIGH,
            f"{act.action:.60} sends {' and '.join((*files, *secrets))}",
            (act.evidence,),
            values={"secrets": len(sent), "elsewhere": len(elsewhere), "digest": (elsewhere or sent)[0].digest[:64]},
        )
