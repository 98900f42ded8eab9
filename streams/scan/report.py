"""What a scan says: sums and lines for people, and JSON lines for scripts."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from typing import Final

import orjson

from haltline.streams.importing.formats import clean_name
from haltline.streams.scan.prices import Spent
from haltline.streams.scan.results import MAX_TOKENS, Scanned, ScannedFile

WORDS: Final = {
    "stagnation": "nothing new came back",
    "repetition": "the same call again and again",
    "error_repetition": "the same error again and again",
    "cycle": "a round of calls repeated",
    "agreement": "several signs at once",
    "destructive_repeat": "the same thing destroyed again",
    "destructive_volume": "many things destroyed",
    "severe_destruction": "something severe destroyed",
    "duplicate_acts": "the same mail, order or server once more",
    "environment_gone": "the environment was gone",
    "fruitless_search": "searches without a result",
    "fruitless_waits": "waits without a result",
    "invented_data": "work on data that it made up",
    "monologue": "talk without action",
    "silent_shell": "a shell that no longer answered",
    "polling": "waiting without end",
    "budget": "more spent than allowed",
    "spend_velocity": "spent too fast",
    "resource_growth": "more and more resources",
    "scope_creep": "outside of its task",
    "secret_sent": "a secret sent elsewhere",
    "evasion": "a refusal evaded",
}
"""What rules find, in words for people who do not know them."""
_MAX_SKIPPED_CHARS: Final = 1000


@dataclass
class KindOfWaste:
    """What one rule found."""

    detector: str
    times: int = 0
    sessions: set[str] = field(default_factory=set)
    tokens: int = 0
    cost_usd: float = 0.0
    ms: int = 0

    def row(self) -> tuple[str, ...]:
        """The cells of a table."""
        words = WORDS.get(self.detector, self.detector.replace("_", " "))
        times, sessions = f"{self.times}", f"{len(self.sessions)}"
        return words, times, sessions, amount(self.tokens), dollars(self.cost_usd), span(self.ms)


BY: Final = ("day", "project", "agent", "model")
"""By what the report sums."""


@dataclass
class Group:
    """What was used on one day, or for one project, agent or model."""

    name: str
    sessions: set[str] = field(default_factory=set)
    input: int = 0
    output: int = 0
    cached: int = 0
    written: int = 0
    cost_usd: float = 0.0
    cached_usd: float = 0.0
    written_usd: float = 0.0

    @property
    def tokens(self) -> int:
        """All tokens."""
        return self.input + self.output + self.cached + self.written

    def add(self, session: str, spent: Spent) -> None:
        """Add what a session used."""
        self.sessions.add(session)
        for name in ("input", "output", "cached", "written", "cost_usd", "cached_usd", "written_usd"):
            setattr(self, name, getattr(self, name) + getattr(spent, name))

    def row(self) -> tuple[str, ...]:
        """The cells of a table."""
        counts = (amount(n) for n in (self.input, self.output, self.cached, self.written))
        return self.name, f"{len(self.sessions):,}", *counts, dollars(self.cost_usd)

    def as_json(self, by: str) -> dict[str, object]:
        """The sums, rounded."""
        counts = {name: min(getattr(self, name), MAX_TOKENS) for name in ("input", "output", "cached", "written")}
        costs = {name: round(getattr(self, name), 4) for name in ("cost_usd", "cached_usd", "written_usd")}
        return {by: self.name, "sessions": len(self.sessions), **counts, **costs}


class Report:
    """The sums over sessions."""

    def __init__(self, sessions: Sequence[Scanned], files: Sequence[ScannedFile]) -> None:
        """`files` are those that were read, with what could not be."""
        self.sessions = sessions
        self._files = files
        self.skipped = sorted(clean_name(why, _MAX_SKIPPED_CHARS) for file in files for why in file.skipped)
        self.unpriced = sorted({model for one in sessions for model in one.unpriced})
        self.agents = [name for name, _ in Counter(one.agent for one in sessions).most_common()]
        self.wasteful = [one for one in sessions if one.waste]
        self.asks = sum(len(one.asks) for one in sessions)
        self.sessions_with_asks = sum(bool(one.asks) for one in sessions)
        self.refused = sum(len(one.refused) for one in sessions)
        self.sessions_with_refused = sum(bool(one.refused) for one in sessions)

    def groups(self, by: str) -> list[Group]:
        """What was used by day, in order, or by project, agent or model, the one that cost most first."""
        found: dict[str, Group] = {}
        for one in self.sessions:
            for spent in one.spent or [Spent(day(one.began_ms) if one.has_times else "", "")]:
                of = {"day": spent.day or "no date", "project": one.project, "agent": one.agent, "model": spent.model}
                found.setdefault(of[by], Group(of[by])).add(f"{one.agent} {one.session_id}", spent)
        if by == "day":
            return sorted(found.values(), key=lambda group: (group.name != "no date", group.name))
        return sorted(found.values(), key=lambda group: (-group.cost_usd, -group.tokens, -len(group.sessions)))

    @cached_property
    def whole(self) -> Group:
        """What was used in all."""
        whole = Group("")
        for one in self.sessions:
            for spent in one.spent:
                whole.add(one.session_id, spent)
        return whole

    @cached_property
    def kinds(self) -> list[KindOfWaste]:
        """By rule, the one that cost most first."""
        kinds: dict[str, KindOfWaste] = {}
        for one in self.wasteful:
            for waste in one.waste:
                kind = kinds.setdefault(waste.detector, KindOfWaste(waste.detector))
                kind.times += 1
                kind.sessions.add(one.session_id)
                kind.tokens += waste.tokens
                kind.cost_usd += waste.cost_usd
                kind.ms += waste.ms
        return sorted(kinds.values(), key=lambda kind: (-kind.cost_usd, -kind.tokens, -kind.times))

    def worst(self, count: int) -> Iterator[tuple[str, ...]]:
        """Rows of the findings that cost most."""
        every = [(one, waste) for one in self.wasteful for waste in one.waste]
        every.sort(key=lambda found: (-found[1].cost_usd, -found[1].tokens, -found[1].ms))
        for one, waste in every[:count]:
            when = day(waste.time_ms) if one.has_times else "-"
            yield when, one.session_id, amount(waste.tokens), dollars(waste.cost_usd), waste.reason

    @property
    def totals(self) -> dict[str, object]:
        """The sums, as JSON."""
        return {
            "sessions": len(self.sessions),
            "files": len(self._files),
            "not_read": len(self.skipped),
            "agents": self.agents,
            "events": sum(one.events for one in self.sessions),
            "tokens": min(sum(one.tokens for one in self.sessions), MAX_TOKENS),
            "cost_usd": round(sum(one.cost_usd for one in self.sessions), 4),
            "cached": min(self.whole.cached, MAX_TOKENS),
            "cached_usd": round(self.whole.cached_usd, 4),
            "written": min(self.whole.written, MAX_TOKENS),
            "written_usd": round(self.whole.written_usd, 4),
            "ms": sum(one.ms for one in self.sessions),
            "wasteful_sessions": len(self.wasteful),
            "wasted_tokens": min(sum(one.wasted_tokens for one in self.wasteful), MAX_TOKENS),
            "wasted_usd": round(sum(one.wasted_usd for one in self.wasteful), 4),
            "wasted_ms": sum(one.wasted_ms for one in self.wasteful),
            "asks": self.asks,
            "refused": self.refused,
            "unpriced": self.unpriced,
        }

    def lines(self, by: str = "") -> Iterator[bytes]:
        """JSON: one object for each session, or each group, then `{"totals": ...}`."""
        if by:
            yield from (orjson.dumps(group.as_json(by)) for group in self.groups(by))
        else:
            yield from (orjson.dumps(asdict(one) | {"models": one.models}) for one in self.sessions)
        yield orjson.dumps({"totals": self.totals})

    def totals_line(self) -> str:
        """How many sessions there are, and what they used."""
        cost = sum(one.cost_usd for one in self.sessions)
        used = [f"{amount(sum(one.tokens for one in self.sessions))} tokens", *([dollars(cost)] if cost else [])]
        return f"{self._sessions_line()}: {', '.join(used)}"

    def cache_line(self) -> str:
        """What caches were used for; empty: for nothing."""
        told = [
            f"{amount(count)} tokens {what}{f' for {dollars(cost)}' if cost else ''}"
            for count, what, cost in (
                (self.whole.cached, "read from a cache", self.whole.cached_usd),
                (self.whole.written, "written to one", self.whole.written_usd),
            )
            if count
        ]
        return ", ".join(told)

    def read_line(self) -> str:
        """What was read."""
        size = sum(file.size for file in self._files if file.is_recording)
        read = f"{size / 2**20:,.1f} MB" if size > 2**20 else f"{size / 2**10:,.0f} kB"
        return f"{self._sessions_line()}: {sum(one.events for one in self.sessions):,} events, {read}"

    def _sessions_line(self) -> str:
        timed = [one for one in self.sessions if one.has_times]
        days = list(dict.fromkeys((day(timed[0].began_ms), day(max(one.ended_ms for one in timed))) if timed else ()))
        when = f", {' to '.join(days)}" if days else ""
        count = f"{len(self.sessions)} session{'s' if len(self.sessions) != 1 else ''}"
        return f"{count} of {listed(self.agents)}{when}"

    def wasted_line(self) -> str:
        """What was wasted."""
        if not self.wasteful:
            return "Nothing went wrong: none of them would have been held."
        totals = self.totals
        tokens, of = sum(one.wasted_tokens for one in self.wasteful), sum(one.tokens for one in self.sessions)
        share = f" ({tokens / of:.1%})" if of else ""
        parts = [f"{amount(tokens)} tokens{share}"]
        if totals["wasted_usd"]:
            parts.append(dollars(float(str(totals["wasted_usd"]))))
        parts.append(span(sum(one.wasted_ms for one in self.wasteful)))
        count = len(self.wasteful)
        return f"{count} went wrong: a hold would have saved {', '.join(parts[:-1])} and {parts[-1]}."


def amount(count: int) -> str:
    """A number of tokens: 950, 12.3k, 4.5M."""
    if count < 1000:
        return str(count)
    return f"{count / 1000:.1f}k" if count < 1_000_000 else f"{count / 1_000_000:,.1f}M"


def dollars(cost: float) -> str:
    """US dollars; "-" for none."""
    if not cost:
        return "-"
    return f"${cost:,.2f}" if cost >= 0.005 else "<$0.01"


def span(ms: int) -> str:
    """Hours, minutes or seconds."""
    if ms < 60_000:
        return f"{ms / 1000:.0f} s"
    return f"{ms / 60_000:.0f} min" if ms < 3_600_000 else f"{ms / 3_600_000:.1f} h"


def day(time_ms: int) -> str:
    """The date, in UTC."""
    return datetime.fromtimestamp(time_ms / 1000, UTC).strftime("%Y-%m-%d")


def listed(names: Iterable[str], most: int = 6) -> str:
    """The first names, and how many more there are."""
    every = list(names)
    more = f" and {len(every) - most} more" if len(every) > most else ""
    return ", ".join(every[:most]) + more
