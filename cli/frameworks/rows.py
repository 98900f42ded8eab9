"""The parts of a framework's row: how a framework is recognised, and the changes that guard its agents."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

ADAPTERS: Final = "haltline.interventions.agent.integrations"


@dataclass(frozen=True, kw_only=True)
class AddItem:
    """Adds an item to a list: `Agent(..., hooks=[HaltlineHooks(guard)])`."""

    calls: tuple[str, ...]
    """Names below the framework's packages: `Agent`, `Runner.run`."""
    keyword: str
    item: str


@dataclass(frozen=True, kw_only=True)
class SetKeyword:
    """Adds a keyword argument that is not set yet."""

    calls: tuple[str, ...]
    keyword: str
    value: str


@dataclass(frozen=True, kw_only=True)
class WrapKeyword:
    """Wraps the value of a keyword argument, if it is set: `tools=adapter.guarded([...])`."""

    calls: tuple[str, ...]
    keyword: str
    before: str
    after: str
    unguarded: tuple[str, ...] = ()
    """Keywords with tools that cannot be guarded in this way."""
    copies: tuple[str, ...] = ()
    """Methods that copy an agent, with the same keywords."""


@dataclass(frozen=True, kw_only=True)
class WrapCall:
    """Wraps a call: `guarded(ReActAgent(...), guard)`."""

    calls: tuple[str, ...]
    before: str
    after: str
    outermost: str = ""
    """The keyword of a call that also guards its arguments: if a call has it, only such calls count."""
    is_function: bool = False
    """The function is wrapped, not its call: `guarded(create_react_agent, guard)(model, tools)`."""


@dataclass(frozen=True, kw_only=True)
class WithBlock:
    """Puts the statement that calls one of these methods into a block: `with guarded(guard):`."""

    methods: tuple[str, ...]
    header: str


@dataclass(frozen=True, kw_only=True)
class AddStatement:
    """Adds a statement after the module's assignment of `target`, such as ADK's `root_agent`.

    `{target}` and `{app}` stand for that name and for the program's, or its folder's, as an identifier.
    """

    target: str
    statement: str
    imports: tuple[str, ...]
    """Further import lines, besides the adapter's."""
    names: tuple[str, ...]
    """The names that these imports and the statement bind."""
    calls: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class WrapArgument:
    """For JavaScript: wraps the argument of a call in `guarded(..., session)`."""

    modules: tuple[str, ...]
    """The modules from which it is imported."""
    calls: tuple[str, ...]
    unguarded: Mapping[str, str] = field(default_factory=dict)
    """Names of these modules that create agents which cannot be guarded in this way, with the reason."""


Change = AddItem | SetKeyword | WrapKeyword | WrapCall | WithBlock | AddStatement


@dataclass(frozen=True, kw_only=True)
class Framework:
    """One framework. In code, `{guard}` stands for the name of the guard."""

    name: str
    """Its extra in haltline, and its page: docs/frameworks/NAME.md."""
    title: str
    program: str
    """Its program in `examples`, or the path in the repository if the package does not contain it."""
    packages: tuple[str, ...]
    """Distributions that a project requires for it, the framework's own first."""
    how: str
    """Human-readable code that guards an agent."""
    ends: str
    """What ends the run of a stopped session, in Markdown."""
    imports: tuple[str, ...] = ()
    """Modules that its programs import."""
    adapter: str = ""
    """The module of `ADAPTERS`; empty: no adapter is needed."""
    names: tuple[str, ...] = ()
    """The names to import from the adapter."""
    setup: tuple[str, ...] = ()
    """Statements after the guard's construction. Without an adapter: the statements before `how`, with `{agent_id}`."""
    edits: tuple[tuple[Change, ...], ...] = ()
    """Alternative changes of a program. The first alternative whose every change applies is used."""
    in_javascript: WrapArgument | None = None
    """The change of a JavaScript or TypeScript program."""
    language: str = "python"
    drivers: tuple[str, ...] = ()
    """Drivers of the conformance tests, if their names differ from the row's."""
    extra: str = ""
    """Extra of haltline, if it differs from the name; `-` for none."""

    @property
    def path(self) -> str:
        """The path of the program in the repository."""
        return self.program if "/" in self.program else f"examples/{self.program}"

    @property
    def extras(self) -> tuple[str, ...]:
        """Extras of haltline that its agents need."""
        return () if self.extra == "-" else (self.extra or self.name,)

    def import_lines(self, code: str) -> list[str]:
        """The imports that this code needs."""
        first = "from haltline import Guard, GuardSettings"
        names = ", ".join(self.names_in(code))
        return [first, f"from {ADAPTERS}.{self.adapter} import {names}"] if self.adapter else []

    def names_in(self, code: str) -> list[str]:
        """The adapter's names that the code uses."""
        return [name for name in self.names if re.search(rf"\b{name}\b", code)]
