"""What a framework's row is made of: how it is recognised, and what puts an agent of it behind a guard."""

import re
from dataclasses import dataclass
from typing import Final

ADAPTERS: Final = "haltline.interventions.agent.integrations"


@dataclass(frozen=True, kw_only=True)
class AddItem:
    """One more item of a list: `Agent(..., hooks=[HaltlineHooks(guard)])`."""

    calls: tuple[str, ...]
    """Names below the framework's packages: `Agent`, `Runner.run`."""
    keyword: str
    item: str


@dataclass(frozen=True, kw_only=True)
class SetKeyword:
    """A keyword argument that is not there yet."""

    calls: tuple[str, ...]
    keyword: str
    value: str


@dataclass(frozen=True, kw_only=True)
class WrapKeyword:
    """The value of a keyword argument, where there is one, within something: `tools=adapter.guarded([...])`."""

    calls: tuple[str, ...]
    keyword: str
    before: str
    after: str
    unguarded: tuple[str, ...] = ()
    """Keywords that give the agent tools which cannot be guarded so."""
    copies: tuple[str, ...] = ()
    """Methods that make another agent of one, with the same keywords."""


@dataclass(frozen=True, kw_only=True)
class WrapCall:
    """The call within something: `guarded(ReActAgent(...), guard)`."""

    calls: tuple[str, ...]
    before: str
    after: str
    outermost: str = ""
    """The keyword that a call has which also guards those that are given to it: where one has it, only those count."""
    is_function: bool = False
    """What is called stands within it, not the call: `guarded(create_react_agent, guard)(model, tools)`."""


@dataclass(frozen=True, kw_only=True)
class WithBlock:
    """The statement of a call of one of these methods within a block: `with guarded(guard):`."""

    methods: tuple[str, ...]
    header: str


@dataclass(frozen=True, kw_only=True)
class AddStatement:
    """A statement after the one of the module that makes `target`, such as ADK's `root_agent`.

    `{target}` and `{app}` stand for that name and for the program's, or its folder's, as an identifier.
    """

    target: str
    statement: str
    imports: tuple[str, ...]
    """Lines that it needs beside the adapter's."""
    names: tuple[str, ...]
    """What they and the statement bind."""
    calls: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class WrapArgument:
    """Of a program in JavaScript: the argument of a call within `guarded(..., session)`."""

    modules: tuple[str, ...]
    """From which it is imported."""
    calls: tuple[str, ...]
    unguarded: tuple[str, ...] = ()
    """What of these modules makes agents that cannot be guarded so."""


Change = AddItem | SetKeyword | WrapKeyword | WrapCall | WithBlock | AddStatement


@dataclass(frozen=True, kw_only=True)
class Framework:
    """One framework. `{guard}` stands for the name of the guard, wherever code is given."""

    name: str
    """Its extra of haltline, and its page: docs/frameworks/NAME.md."""
    title: str
    program: str
    """Its program in `examples`; or its path in the repository, where the package does not have it."""
    packages: tuple[str, ...]
    """Distributions that a project which uses it requires; the first one is the framework's own."""
    how: str
    """The code that guards an agent, for people."""
    ends: str
    """What ends the run of a stopped session, in Markdown."""
    imports: tuple[str, ...] = ()
    """Modules that a program of it imports."""
    adapter: str = ""
    """The module of `ADAPTERS`; empty: it is guarded without one."""
    names: tuple[str, ...] = ()
    """What is imported of the adapter."""
    setup: tuple[str, ...] = ()
    """Statements after the guard's construction. Without an adapter: what comes before `how`, with `{agent_id}`."""
    edits: tuple[tuple[Change, ...], ...] = ()
    """Ways to change a program: of the first one whose every change finds a place, all are made."""
    in_javascript: WrapArgument | None = None
    """The change of a program in JavaScript or TypeScript."""
    language: str = "python"
    drivers: tuple[str, ...] = ()
    """Of the conformance tests, where their adapter has another name than the row."""
    extra: str = ""
    """Of haltline, where it is not the name; `-` for none."""

    @property
    def path(self) -> str:
        """Of the program, in the repository."""
        return self.program if "/" in self.program else f"examples/{self.program}"

    @property
    def extras(self) -> tuple[str, ...]:
        """Extras of haltline that an agent of it needs."""
        return () if self.extra == "-" else (self.extra or self.name,)

    def import_lines(self, code: str) -> list[str]:
        """What a program imports to be guarded by this code."""
        first = "from haltline import Guard, GuardSettings"
        names = ", ".join(self.names_in(code))
        return [first, f"from {ADAPTERS}.{self.adapter} import {names}"] if self.adapter else []

    def names_in(self, code: str) -> list[str]:
        """Those of the adapter's names that the code uses."""
        return [name for name in self.names if re.search(rf"\b{name}\b", code)]
