"""The session runs what cannot be known from its text: decoded, downloaded or put together as it runs.

Fires: `opaque_execution` (low; high with `asks`, which leads to a question to a person) on an attempt that decodes
    and runs (`base64 -d | sh`), downloads and runs (`curl | sh`), evaluates what a program puts out, or runs a file
    that the session wrote and that was not seen whole; without `asks` once for each of these
    sorts. What can be followed is: then what it does counts, and this is quiet.
Quiet: texts that stand in the command itself; scripts of the project; the usual set-up of a shell (`ssh-agent`).
Misses: programs that read what they run from elsewhere by themselves.
"""

import re
from typing import Annotated, ClassVar

from msgspec import field
from pydantic import Field

from haltline.detectors.features.observation import Observation
from haltline.detectors.framework.base import Attempts, OfAttempts, settings
from haltline.detectors.framework.strictness import Stricter
from haltline.schemas.findings import Finding, Severity

_READ_CHARS = 64 * 1024
_SUDO = r"(?:\S*/)?(?:sudo\s+(?:-\S+\s+)*)?(?:env\s+\S+\s+)*"
_RUNS = rf"{_SUDO}(?:ba|z|da|k|fi)?sh\b(?!\s+-n)|python3?\b(?!\s+-m\s+json)|perl\b|node\b|ruby\b"
_OPAQUE = re.compile(
    rf"(?P<downloaded>\b(?:curl|wget|fetch)\b[^;&\n]{{0,2000}}\|\s*(?:{_RUNS})|(?:ba|z|da)?sh\s+(?:-c\s+[\"']?\$\(|<\()\s*(?:curl|wget)\b"
    rf"|(?:source|\.|eval)\s+[\"']?(?:<\(|\$\()\s*(?:curl|wget)\b)"
    rf"|(?P<decoded>\b(?:base64|xxd|openssl|gpg|gunzip|zcat|uudecode)\b[^;&\n]{{0,2000}}\|\s*(?:{_RUNS})"
    rf"|(?:eval|sh\s+-c|exec)\b[^;\n]{{0,2000}}(?:base64|xxd|openssl)\b|exec\(\s*(?:\w+\.)*(?:b64decode|decompress|fromhex|loads)\()"
    rf"|(?P<evaluated>\beval\s+[\"']?\$(?:\{{?\w|\())",
)
_HINTS = (
    "curl", "wget", "fetch", "base64", "eval", "openssl", "exec(", "gpg", "gunzip", "zcat", "xxd", "uudecode",
)  # fmt: skip
"""One of them is in every text that `_OPAQUE` finds."""
_USUAL = re.compile(
    r"ssh-agent|direnv|brew shellenv|pyenv|rbenv|nodenv|starship|conda|dircolors|opam|fnm|mise|zoxide|tset|resize"
)
_WHAT = {
    "downloaded": "what it downloads",
    "decoded": "what it decodes",
    "evaluated": "what a variable or a program holds",
    "unread": "a file that was not seen whole",
}


class State(Attempts):
    """How many there were, and of which sorts."""

    told: list[str] = field(default_factory=list)


@settings
class OpaqueExecution(OfAttempts[State]):
    """Any attempt to run what is not known."""

    id: ClassVar[str] = "opaque_execution"

    asks: Annotated[bool, Field(), Stricter.HIGHER] = False
    """A person is asked before it runs; otherwise it is a note."""

    def concerns(self, act: Observation) -> bool:
        """Attempts that run something."""
        return act.is_attempt and act.runs and not act.refused and act.text != ""

    def observe(self, state: State, act: Observation) -> Finding | None:
        """Says what is run and not known."""
        how = _how(act)
        if not how or act.destroys:
            return None
        state.attempts += 1
        if how in state.told and not self.asks:
            return None  # it is known already that this session does so
        if how not in state.told:
            state.told.append(how)
        return self.finding(
            "opaque_execution",
            Severity.HIGH if self.asks else Severity.LOW,
            f"{act.action:.60} runs {_WHAT[how]}: what it does is not known",
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
    found = _OPAQUE.search(text, 0, _READ_CHARS)
    if found is None or found.lastgroup is None:
        return ""
    if found.lastgroup == "evaluated" and _USUAL.search(text, found.start(), found.end() + 80) is not None:
        return ""
    return found.lastgroup
