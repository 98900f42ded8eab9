"""The session continues to try after its calls were refused.

Fires: `goes_on_after_refusal` when `medium`, `high` or `critical` calls in a row were refused, whatever they were; or
    when the same call was refused that often within `window_s`, whatever was executed in between. A call is refused if
    it was not executed: because of haltline, for any reason, of the agent's harness, or of a person.
Quiet: a few refusals, which every policy causes; refusals with other calls in between; the refused calls of one step,
    which were sent together and count once; calls interrupted before they started.
Misses: refusals that the agent's side does not publish, when there are more than a few per second; refused calls that
    differ each time, with executed calls in between.
"""

from typing import Annotated, ClassVar, Final

from msgspec import field
from pydantic import Field

from haltline.detectors.features.observation import Observation, Trait
from haltline.detectors.framework.base import Graded, settings
from haltline.detectors.framework.strictness import Stricter
from haltline.detectors.framework.window import INDEX, Entry, entry, evidence, seconds, within
from haltline.schemas.events import Kind
from haltline.schemas.findings import Finding
from haltline.schemas.stored import Stored

_KEY: Final = 4
"""Position of the refused call in an entry."""
_MAX_KEY_CHARS = 120
_MAX_ENTRIES = 64
_INTERRUPTED = "interrupted"
"""Start of the error that the agent's side reports for a call cancelled before it started, which is not a refusal."""
_Count = Annotated[int, Field(ge=2, le=1000), Stricter.LOWER]


class State(Stored):
    """The last refusals."""

    refused: list[Entry] = field(default_factory=list)
    in_a_row: int = 0
    """Refusals since the last executed call."""


@settings
class AfterRefusal(Graded[State]):
    """Refusals in a row, or of one call, up to a threshold."""

    id: ClassVar[str] = "after_refusal"
    reads: ClassVar[frozenset[Kind]] = frozenset({Kind.COMPLETED})
    sees: ClassVar[Trait] = Trait.REFUSED | Trait.DONE
    wakes_at: ClassVar[Trait] = Trait.REFUSED

    medium: _Count = 4
    high: _Count = 7
    critical: _Count = 10
    window_s: Annotated[float, Field(gt=0, le=86_400), Stricter.HIGHER] = 600.0
    """Seconds in which refusals of the same call count together."""

    def observe(self, state: State, act: Observation) -> Finding | None:
        """Count a refusal, or reset the row at an executed call."""
        if not act.refused:
            state.in_a_row = 0
            return None
        if (act.event.error or "").startswith(_INTERRUPTED):
            return None
        key = act.subject[:_MAX_KEY_CHARS]
        if state.refused and act.step <= int(state.refused[-1][INDEX]):
            return None
        state.refused.append(entry(act, key))
        state.in_a_row += 1
        del state.refused[: -max(_MAX_ENTRIES, self.critical)]
        same = within([e for e in state.refused if e[_KEY] == key], self.window_s * 1000)
        count = max(state.in_a_row, len(same))
        return self._found(act, state, same, count) if count >= self.medium else None

    def near(self, state: State) -> float:
        """Refusals in a row, relative to the first count that is a finding."""
        return min(1.0, state.in_a_row / self.medium)

    def _found(self, act: Observation, state: State, same: list[Entry], count: int) -> Finding | None:
        by_call = len(same) >= state.in_a_row
        rows = same if by_call else state.refused[-count:]
        what = f"{len(same)} times the same call" if by_call else f"{count} calls in a row"
        code = (act.event.error or "").partition(":")[0][:_MAX_KEY_CHARS]
        return self.counted(
            "goes_on_after_refusal",
            count,
            self.counts,
            f"{what} in {seconds(rows)}s, each of them refused, the last {rows[-1][_KEY]} ({code})",
            evidence(act, rows),
            also=self.thresholds("window_s"),
            refused=count,
            in_a_row=state.in_a_row,
            same_call=len(same),
            refused_with=code,
        )
