"""How a record that ends every worker that decides it is found, and passed over.

A worker that ends by a record (a hang, a signal, no memory left) cannot report it, and the next one reads it again. But
each claim says at which offset of each source its owner begins. Two owners in a row that begin at the same offset mean
two ends there: the second one's, and that of the owner whose last commit it was. So the third reads carefully:
what waits in that source is decided in a child process first (`haltline.streams.runtime.trial`), and a record that
ends two of those becomes a dead letter. The records behind it are processed as usual.

The offsets decide only how to read. Careful reading where no record is bad takes more time, and nothing else. They do
not tell which record it was, nor would a note before each record: a worker that is killed, or loses its broker, ends at
some record, too, and perhaps twice at the same one. Only the children tell: nothing else ends them.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final

from haltline.streams.runtime.changelog import RawRecord
from haltline.streams.runtime.health import Partition
from haltline.streams.runtime.source_reader import Fetched
from haltline.streams.runtime.trial import Trial

AT_MOST: Final = 10_000
"""The most records read carefully: more than a worker usually decides before its first checkpoint."""


class CarefulReading:
    """Reads the first records of some partitions carefully.

    `process` applies records, of which the following offset is given; `pass_over` makes one a dead letter.
    """

    def __init__(
        self,
        *,
        trial: Callable[[Sequence[RawRecord]], Awaitable[Trial]],
        process: Callable[[Partition, Sequence[RawRecord], int], object],
        pass_over: Callable[[Partition, RawRecord, str, int], object],
    ) -> None:
        self._try = trial
        self._process = process
        self._pass_over = pass_over
        self._until: Mapping[Partition, int] = {}

    def begin(self, until: Mapping[Partition, int]) -> None:
        """Read these partitions carefully, up to these offsets, and all others as usual."""
        self._until = until

    def concerns(self, fetched: Fetched) -> bool:
        """Return whether a batch is to be read carefully."""
        return bool(fetched.records) and fetched.first < self._until.get(fetched.place, 0)

    async def read(self, fetched: Fetched) -> None:
        """Process a batch; records that end the process that decides them are passed over. Raises as `process`."""
        rest = fetched.records
        while rest:
            tried = await self._try(rest)
            rest = self._decided(fetched, rest, tried.decided)
            if tried.why and rest:
                alone = await self._try(rest[:1])
                if alone.decided:
                    rest = self._decided(fetched, rest, 1)
                else:
                    bad, rest = rest[0], rest[1:]
                    self._pass_over(fetched.place, bad, alone.why, _following(fetched, rest))

    def _decided(self, fetched: Fetched, records: Sequence[RawRecord], count: int) -> Sequence[RawRecord]:
        """Process the first so many records, and return the others."""
        rest = records[count:]
        if count:
            self._process(fetched.place, records[:count], _following(fetched, rest))
        return rest


def _following(fetched: Fetched, rest: Sequence[RawRecord]) -> int:
    return rest[0].offset if rest else fetched.following
