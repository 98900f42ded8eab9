"""How the call of an observation failed."""

from haltline.detectors.features.error_normalization import (
    Normalization,
    error_key,
    error_text,
    is_cancelled,
    is_timeout,
    is_unread,
)
from haltline.detectors.features.fingerprint import clean_result, digest
from haltline.detectors.features.infrastructure_outage import is_infrastructure
from haltline.detectors.features.lazy import lazy
from haltline.detectors.features.observed.given import Given
from haltline.schemas.events import Outcome

_TIMEOUT = Outcome.TIMEOUT
_SIZE_BYTES = 4
"""Tolerance for the sizes of two answers with the same beginning, since addresses and timings vary."""
_SHORT_NAME = 3
"""Names of tools up to this length may also be ordinary words in a message."""


class FailedCall(Given):
    """The failure of an observation's call; its features are computed on first access."""

    @lazy
    def unread(self) -> bool:
        """Return whether the harness could not parse the model's output, so that no tool was called."""
        if not self.failed:
            return False
        text = self.event.error or self.event.output_head or ""
        return is_unread(self.action, text, known=self.tool.effect is not None)

    @lazy
    def cancelled(self) -> bool:
        """Return whether the harness skipped or stopped the call because another call of its turn failed."""
        if not self.failed:
            return False
        return is_cancelled(self.event.error or self.event.output_head or "")

    @lazy
    def infrastructure(self) -> bool:
        """Return whether it failed because of the requested service, such as by a rate limit."""
        if not self.failed:
            return False
        return is_infrastructure(self.event.error or self.event.output_head or "")

    @property
    def backs_off(self) -> bool:
        """Return whether it failed in that way after the session had backed off sufficiently."""
        return self.infrastructure and self.calls.outage.is_waited_for(self.began_ms)

    @lazy
    def timed_out(self) -> str:
        """A digest of the output of a call stopped by a timeout; empty for other calls."""
        event = self.event
        if not self.failed or event.output_bytes == 0:
            return ""
        head, size = event.output_head, event.output_bytes
        if event.outcome is not _TIMEOUT and not is_timeout(event.error or head or ""):
            return ""
        if head:
            return f"{digest(clean_result(head).encode())}:{len(head.encode()) if size is None else size}"
        return event.output_digest or ""

    @property
    def got_on(self) -> bool:
        """Return whether it timed out with other output than the last call that did."""
        if not self.timed_out or not self.calls.timed_out:
            return False
        (head, _, size), (last_head, _, last_size) = self.timed_out.partition(":"), self.calls.timed_out.partition(":")
        return head != last_head or abs(int(size or 0) - int(last_size or 0)) > _SIZE_BYTES

    @lazy
    def error_detail(self) -> str:
        """A digest of all that a failed call reported, without what varies by itself and places in a text."""
        event = self.event
        return digest(error_text(f"{event.error or ''}\n{event.output_head or ''}").encode())

    def error_key(self, level: Normalization) -> str:
        """The normalized error; empty if the call did not fail, or gave no reason."""
        event = self.event
        if not self.failed or self.cancelled or self.got_on:
            return ""
        text = event.error or event.output_head or ""
        if len(self.action) > _SHORT_NAME and self.action in text:
            text = text.replace(self.action, "<tool>")  # `unknown tool: x`: one guessed name after another
        key = error_key(text, level)
        if key or self.runs:
            return key  # a program that fails without output, such as a search without matches, gives an answer
        return "timeout" if event.outcome is _TIMEOUT else f"{self.action} failed"
