"""The session runs code that its text does not show: decoded, downloaded or assembled at run time.

Fires: `opaque_execution` (low; high with `asks`, which requests an approval from a person) on an attempt that decodes
    and runs (`base64 -d | sh`), downloads and runs (`curl | sh`), evaluates a program's output, or runs a file that the
    session wrote and whose content is not completely known; without `asks` once per kind. If the code can be resolved,
    its effects count instead, and this detector is quiet.
Quiet: code that is in the command itself; scripts of the project; the usual set-up of a shell (`ssh-agent`).
Misses: programs that load the code they run from elsewhere.
"""

from typing import Annotated, ClassVar

from msgspec import field
from pydantic import Field

from haltline.detectors.commands.rows import expression_of, texts_of
from haltline.detectors.features.observation import Observation
from haltline.detectors.framework.base import Attempts, OfAttempts, settings
from haltline.detectors.framework.strictness import Stricter
from haltline.schemas import expressions as re
from haltline.schemas.findings import Finding, Severity

_READ_CHARS = 64 * 1024
_SUDO = r"(?:\S{0,100}/)?(?:sudo\s+(?:-\S+\s+){0,8})?(?:env\s+\S+\s+){0,8}"
_RUNS = rf"{_SUDO}(?:ba|z|da|k|fi)?sh\b(?!\s+-n)|python3?\b(?!\s+-m\s+json)|perl\b|node\b|ruby\b"
_OPAQUE = expression_of("code is opaque")
_COMMANDS = re.compile(r"[;&]|(?<!\|)\n")
_PIPED = re.compile(rf"\|\s*(?:{_RUNS})")
_FROM = {
    "downloaded": re.compile(r"\b(?:curl|wget|fetch)\b"),
    "decoded": re.compile(r"\b(?:base64|xxd|openssl|gpg|gunzip|zcat|uudecode)\b"),
}
_EVALUATES = re.compile(r"(?:eval|sh\s+-c|exec)\b")
_DECODER = re.compile(r"(?:base64|xxd|openssl)\b")
_HINTS = texts_of("signs of opaque code")
"""Every text that shows opaque code contains one of these."""
_USUAL = expression_of("usual set-up of a shell")
_WHAT = {
    "downloaded": "downloaded code",
    "decoded": "decoded code",
    "evaluated": "the value of a variable or the output of a program",
    "unread": "a file that was only partly read",
}


class OpaqueExecutionState(Attempts):
    """The number of attempts, and their kinds."""

    told: list[str] = field(default_factory=list)


@settings
class OpaqueExecution(OfAttempts[OpaqueExecutionState]):
    """Any attempt to run unknown code."""

    id: ClassVar[str] = "opaque_execution"

    asks: Annotated[bool, Field(), Stricter.HIGHER] = False
    """If true, a person is asked before it runs; otherwise there is only a low finding."""

    def concerns(self, act: Observation) -> bool:
        """Attempts that run something."""
        return act.runs and act.text != ""

    def observe(self, state: OpaqueExecutionState, act: Observation) -> Finding | None:
        """Report the kind of unknown code that is run."""
        how = _how(act)
        if not how or act.destroys:
            return None
        state.attempts += 1
        if how in state.told and not self.asks:
            return None  # already reported for this session
        if how not in state.told:
            state.told.append(how)
        return self.finding(
            "opaque_execution",
            Severity.HIGH if self.asks else Severity.LOW,
            f"{act.action:.60} runs {_WHAT[how]}: its effects are unknown",
            (act.evidence,),
            values={"attempts": state.attempts},
            thresholds={"asks": float(self.asks)},
        )


def _how(act: Observation) -> str:
    text = act.text
    for path, losses in act.calls.written.items():
        if losses[-1][0] == "unread" and path.rpartition("/")[2] in text:
            return "unread"
    for hint in _HINTS:
        if hint in text:
            break
    else:
        return ""
    text = text[:_READ_CHARS]
    for command in _COMMANDS.split(text):
        for kind, begins in _FROM.items():
            if _follows(command, begins, _PIPED):
                return kind
    found = _OPAQUE.search(text)
    if (found is None or found.lastgroup == "evaluated") and any(
        _follows(command, _EVALUATES, _DECODER) for command in text.replace("\n", ";").split(";")
    ):
        return "decoded"
    if found is None or found.lastgroup is None:
        return ""
    if found.lastgroup == "evaluated" and _USUAL.search(text, found.start(), found.end() + 80) is not None:
        return ""
    return found.lastgroup


def _follows(command: str, first: re.Pattern[str], then: re.Pattern[str]) -> bool:
    """Return whether a command has one of these after the other; an expression for both would look ahead from each."""
    found = first.search(command)
    return found is not None and then.search(command, found.end()) is not None
