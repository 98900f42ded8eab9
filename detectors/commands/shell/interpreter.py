"""Shell text into the programs that it would run, in order, with their arguments.

Both sides of `&&` and `||`, every branch and every function body count as executed, since conditions are unknown. A
`for` loop is executed once for each value, or, with very many values, once with all of them.

Misses: positional parameters of functions, here-documents that are built in pieces, `cd` inside a function;
the limits of the wrappers, listed there.
"""

import shlex
from collections.abc import Callable

from msgspec.structs import replace

from haltline.detectors.commands.model import MAX_COMMAND_CHARS, cached_by_text
from haltline.detectors.commands.paths import canonical
from haltline.detectors.commands.shell import choices, pipes, wrappers
from haltline.detectors.commands.shell.builtins import BUILTINS, ShellState
from haltline.detectors.commands.shell.expand import MAX_VALUE_CHARS, Expander
from haltline.detectors.commands.shell.invocation import Invocation
from haltline.detectors.commands.shell.lexer import MAX_NESTING, lex
from haltline.detectors.commands.shell.loops import FOR, RESERVED, Loop, for_loops, literal
from haltline.detectors.commands.shell.only_write import only_write
from haltline.detectors.commands.shell.options import OPTIONS
from haltline.detectors.commands.shell.runs import Run, runs
from haltline.detectors.commands.shell.syntax import Array, Item, Redirect, Simple, Substitution, Text, Word
from haltline.detectors.commands.step_budget import MAX_STEPS, StepBudget

_MAX_DEPTH = 8
_MAX_CHARS_IN_ALL = 4 * MAX_COMMAND_CHARS
_STEPS_OF_A_PROGRAM = 20
_MAX_ROUNDS = 256
_MAX_PIPED = 8
_FOLDER_OPTIONS = {"git": "-C", "terraform": "-chdir", "make": "-C", "gmake": "-C", "pulumi": "-C"}
"""Options, before the first operand, that name the folder in which a program works."""


def invocations(command: str, *, cwd: str | None = None, work: StepBudget | None = None) -> tuple[Invocation, ...]:
    """Return the programs that a shell command line would run. `cwd` is the session's working directory, if known.

    Never raises; a text in another language gives invocations of programs that do not exist.
    """
    if work is None:
        written = only_write(command, cwd)
        return _read_first(command, cwd)[0] if written is None else (written,)
    if work.left != MAX_STEPS:
        return _read(command, cwd, work)[0]
    found, _, work.left, cut = _read_first(command, cwd)
    work.cut = work.cut or cut
    return found


def exports(command: str, *, cwd: str | None = None) -> tuple[str, ...]:
    """Return `NAME=value` of what a command line exports, and chooses, for those that follow (see `choices`)."""
    found = _read_first(command, cwd)[1] if choices.may_choose(command) else ()
    return tuple(choices.unsure(found)) if found and choices.may_skip(command) else found


def _read(command: str, cwd: str | None, work: StepBudget) -> tuple[tuple[Invocation, ...], tuple[str, ...]]:
    shell = _Shell(canonical(cwd) if cwd else None, work)
    shell.line = command
    shell.run(command[:MAX_COMMAND_CHARS])
    if len(command) > MAX_COMMAND_CHARS:
        work.cut = True
    kept = (one if one in shell.stored else choices.for_later_calls(one) for one in shell.state.exported)
    return tuple(shell.found), tuple(kept)


@cached_by_text  # several readers need the programs of the same event
def _read_first(command: str, cwd: str | None) -> tuple[tuple[Invocation, ...], tuple[str, ...], int, bool]:
    """Parse a text with the whole budget. Returns its programs, exports, the steps left, and if anything is cut."""
    work = StepBudget()
    return *_read(command, cwd, work), work.left, work.cut


class _Shell:
    def __init__(self, start: str | None, work: StepBudget) -> None:
        self.work = work
        self.found: list[Invocation] = []
        self.state = ShellState(start, start)
        self.depth = 0
        self.rounds_left = _MAX_ROUNDS
        self.chars_left = _MAX_CHARS_IN_ALL
        self.expander = Expander()
        self.last: Invocation | None = None
        self.fed: Invocation | None = None
        """The program that runs the text and shares its input with the programs in it."""
        self.stored: set[str] = set()
        """What programs chose, as `NAME=value`: they store it, so that it holds for later calls."""
        self.line = ""
        """The whole command line."""

    # Texts and their commands

    def run(self, text: str) -> None:
        """Process a text as this shell would."""
        if self.depth >= _MAX_DEPTH or len(text) > self.chars_left:
            self.work.cut = True
            return
        self.chars_left -= len(text)
        self.depth += 1
        self._items(lex(text, nesting=max(0, self.depth - _MAX_DEPTH + MAX_NESTING), work=self.work))
        self.depth -= 1

    def _items(self, items: tuple[Item, ...]) -> None:
        saved: list[ShellState] = []
        loops = for_loops(items)
        done = -1
        for at, item in enumerate(items):
            if at <= done:
                continue
            if at in loops and self._unrolled(loops[at], items[at + 1 : loops[at].end]):
                done = loops[at].end - 1
            elif item == "(" and self.work.take(1 + len(self.state.environment) // 4):
                saved.append(self.state)
                self.state = self.state.child()
            elif item == ")":
                if saved:
                    self.state = saved.pop()
            elif isinstance(item, Simple) and self.work.take(5 + len(item.words)):
                self._simple(item)

    def _unrolled(self, loop: Loop, body: tuple[Item, ...]) -> bool:
        """Execute a loop once for each value. Return False if there are too many: then it runs once with all values."""
        for word in loop.words:
            self._substitutions(word)
        values = [argument for word in loop.words for argument in self._arguments(word)]
        if len(values) > self.rounds_left or self.depth >= _MAX_DEPTH:
            return False
        self.rounds_left -= len(values)
        self.depth += 1
        for value in values:
            self.state.environment[loop.name] = (value,)
            self._items(body)
        self.depth -= 1
        return True

    def _in_child(
        self, act: Callable[[], None], *, remote: bool = False, on: str = "", fed: Invocation | None = None
    ) -> None:
        """Call `act` as in a child process: changes of the environment are discarded afterwards.

        `on`: the name of a remote one's machine. `fed`: programs there read the input of this one.
        """
        self.work.take(5 + len(self.state.environment) // 4)
        saved, fed_before = self.state, self.fed
        self.state, self.fed = saved.child(remote=remote, on=on), fed or self.fed
        act()
        self.state, self.fed = saved, fed_before

    def _simple(self, simple: Simple) -> None:
        upstream = self.last if simple.piped else None
        words = self._without_reserved(simple.words)
        for word in words:
            self._substitutions(word)
        assigned = self._assignments(words)
        argv = tuple(argument for word in words[len(assigned) :] for argument in self._arguments(word))
        stdin, writes = self._redirects(simple.redirects)
        script = self._script_file(words[len(assigned) :], argv)
        if script is not None:
            argv, stdin = argv[:1] if argv[0] in wrappers.SHELLS else ("bash",), script
        if stdin is None and upstream is not None:
            stdin = pipes.output(upstream)
        reads = self._file_read(simple.redirects) if not stdin and simple.redirects else ""
        if self.fed is not None and stdin is None and not reads and upstream is None:
            stdin, reads, upstream = self.fed.stdin, self.fed.reads, self.fed.upstream
        self.last = None
        if argv or (writes and not assigned and not _is_head_of_loop(simple.words)):
            self._invoke(
                Invocation(
                    argv=argv,
                    stdin=stdin,
                    reads=reads,
                    writes=writes,
                    cwd=self.state.cwd,
                    start=self.state.start,
                    assigned=(*self.state.exported, *assigned),
                    upstream=upstream,
                    on=self.state.on,
                )
            )

    def _without_reserved(self, words: list[Word]) -> list[Word]:
        """Remove leading reserved words; record the values of a loop's variable."""
        at = 0
        while at < len(words):
            keyword = literal(words[at])
            if keyword in FOR and at + 2 < len(words) and literal(words[at + 2]) == "in":
                for word in words[at + 3 :]:
                    self._substitutions(word)
                values = [argument for word in words[at + 3 :] for argument in self._arguments(word)]
                self.state.environment[literal(words[at + 1])] = tuple(values)
                return []
            if keyword in ("case", *FOR):
                for word in words[at + 1 :]:
                    self._substitutions(word)
                return []
            if keyword == "function":
                at += 2
            elif keyword in RESERVED:
                at += 1
            else:
                break
        return words[at:]

    def _assignments(self, words: list[Word]) -> list[str]:
        """Set the variables of leading `NAME=value` words, also before a command, which is harmless."""
        assigned: list[str] = []
        for word in words:
            first = word[0]
            if not isinstance(first, Text) or first.quoted:
                break
            found = wrappers.ASSIGNMENT.match(first.value)
            if found is None:
                break
            name = found[0].rstrip("+=")
            rest = first.value[found.end() :]
            value: Word = (Text(rest, quoted=False), *word[1:]) if rest else word[1:]
            values = self.expander.value(value, self.state.environment, self._resolve)
            before = self.state.environment.get(name, ("",)) if found[0].endswith("+=") else ("",)
            if len(word) > 1 and isinstance(word[-1], Array):
                self.state.environment[name] = (*(v for v in before if v), *values)
            else:
                self.state.environment[name] = ((before or ("",))[0] + (values or ("",))[0],)[:1]
            self.state.environment[name] = tuple(v[:MAX_VALUE_CHARS] for v in self.state.environment[name])
            assigned.append(f"{name}={values[0] if values else ''}")
        return assigned

    def _arguments(self, word: Word) -> list[str]:
        return self.expander.arguments(word, self.state.environment, self._resolve)

    def _redirects(self, redirects: list[Redirect]) -> tuple[str | None, tuple[tuple[str, str], ...]]:
        stdin: str | None = None
        writes: list[tuple[str, str]] = []
        for redirect in redirects:
            self._substitutions(redirect.target)
            text = self.expander.text(redirect.target, self.state.environment, self._resolve)
            if redirect.operator in ("<<", "<<<"):
                stdin = text
            elif redirect.operator == "<":
                stdin = self._read_from(redirect.target, text, stdin)
            elif redirect.operator in (">", ">>", ">|", "&>", "&>>", ">&") and redirect.descriptor in ("", "1"):
                writes.append((redirect.operator, text))
        return stdin, tuple(writes)

    def _read_from(self, target: Word, text: str, before: str | None) -> str | None:
        """Return the contents of an input file: of a substitution or `/dev/null`; otherwise the input so far."""
        if len(target) == 1 and isinstance(target[0], Substitution):
            return self._resolve(target[0])
        return "" if text == "/dev/null" else before

    def _file_read(self, redirects: list[Redirect]) -> str:
        files = [
            r.target for r in redirects if r.operator == "<" and not any(isinstance(p, Substitution) for p in r.target)
        ]
        return self.expander.text(files[-1], self.state.environment, self._resolve) if files else ""

    def _script_file(self, words: list[Word], argv: tuple[str, ...]) -> str | None:
        """Return the script that a shell reads from a substitution: `bash <(echo text)`."""
        if not argv or wrappers.program(argv[0]) not in (*wrappers.SHELLS, "source", "."):
            return None
        for word in words[1:]:
            if len(word) == 1 and isinstance(word[0], Substitution) and word[0].is_file:
                return self._resolve(word[0])
        return None

    def _substitutions(self, word: Word) -> None:
        for part in word:
            if isinstance(part, Substitution):
                if self.depth < _MAX_DEPTH:
                    self.depth += 1
                    self._in_child(lambda items=part.items: self._items(items))  # type: ignore[misc] # bound now
                    self.depth -= 1
            elif isinstance(part, Array):
                for element in part.words:
                    self._substitutions(element)

    def _resolve(self, substitution: Substitution) -> str | None:
        """Return the output of `$(...)`, if it is a simple command with known output."""
        source: str | None = None
        before = ""
        for at, simple in enumerate(item for item in substitution.items if not isinstance(item, str)):
            if not isinstance(simple, Simple) or at > _MAX_PIPED:
                return None
            if at and not simple.piped:
                if source is None:
                    return None
                before, source = before + source, None
            if any(isinstance(part, Substitution) for word in simple.words for part in word):
                return None
            argv = tuple(argument for word in simple.words for argument in self._arguments(word))
            stdin, writes = self._redirects_quietly(simple.redirects)
            if simple.piped and stdin is None:
                stdin = source
            name = wrappers.program(argv[0]) if argv else ""
            source = pipes.output(Invocation(argv=(name, *argv[1:]), stdin=stdin, writes=writes, cwd=self.state.cwd))
        return source if source is None else before + source

    def _redirects_quietly(self, redirects: list[Redirect]) -> tuple[str | None, tuple[tuple[str, str], ...]]:
        plain = [r for r in redirects if not any(isinstance(part, Substitution) for part in r.target)]
        return self._redirects(plain)

    # Programs

    def _invoke(self, invocation: Invocation) -> None:
        """Remove all wrappers of a program, and record the program."""
        if self.depth >= _MAX_DEPTH:
            self.work.cut = True
        if self.depth >= _MAX_DEPTH or not self.work.take(_STEPS_OF_A_PROGRAM + len(invocation.stdin or "") // 64):
            return
        self.depth += 1
        self._unwrap(invocation)
        self.depth -= 1

    def _unwrap(self, invocation: Invocation) -> None:
        argv = invocation.argv
        name = wrappers.program(argv[0]) if argv else ""
        synonym = wrappers.SYNONYMS.get(name)
        if argv and argv[0] in self.state.aliases:
            text = self.state.aliases.pop(argv[0])
            self.run(shlex.join(("\0", *argv[1:])).replace("'\0'", text, 1))
            self.state.aliases[argv[0]] = text
            return
        if argv:
            called = argv[0]
            argv = (*(synonym or (name,)), *argv[1:])
            name = argv[0]
            invocation = replace(invocation, argv=argv, called=called)
        inner, remote = self._behind_prefix(argv)
        if inner and name in ("env", "sudo", "doas"):
            kept = wrappers.environment(argv[: len(argv) - len(inner)], invocation.assigned)
            invocation = replace(invocation, assigned=kept)
        if inner is not None:
            if remote:
                self._note(invocation)
                named = self.last if name == "kubectl" else None  # with the context that was chosen before
                before = argv[: len(argv) - len(inner)] if named is None else (name, *named.before_dashes())
                on = wrappers.machine(before)
                within = replace(invocation, argv=inner, writes=(), cwd=None, start=None, on=on)
                one = len(inner) == 1 and " " in inner[0]
                self._in_child(lambda: self.run(inner[0]) if one else self._invoke(within), remote=True, on=on)
            elif (len(inner) == 1 and " " in inner[0]) or (len(inner) == 2 and inner[0] == "-c"):
                self._in_child(lambda: self.run(inner[-1]))
            elif inner:
                self._invoke(replace(invocation, argv=inner))
            else:
                self._note(replace(invocation, argv=(name,)))
        elif name in BUILTINS:
            BUILTINS[name](self.state, invocation)
        elif name in wrappers.SHELLS:
            self._note(replace(invocation, argv=(name,)))
            self._shell_program(invocation)
            self._note_script(invocation)
        else:
            self._note(invocation)
            for run in runs(invocation, self.work):
                self._run(invocation, run)

    def _run(self, invocation: Invocation, run: Run) -> None:
        if run.argv:
            self._invoke(replace(invocation, argv=run.argv, writes=(), stdin=None, upstream=None))
        elif run.is_here:
            self.run(run.text)
        else:
            fed = invocation if run.is_fed else None
            self._in_child(lambda: self.run(run.text), remote=run.is_remote, on=run.on, fed=fed)

    def _behind_prefix(self, argv: tuple[str, ...]) -> tuple[tuple[str, ...] | None, bool]:
        if not argv or (argv[0] == "command" and argv[1:2] in (("-v",), ("-V",))):
            return None, False
        if argv[0] == "runuser" and not {"-c", "--command"}.isdisjoint(argv):
            return None, False
        prefix = wrappers.PREFIXES.get(argv[0])
        if prefix is not None:
            return wrappers.strip(argv[1:], prefix), prefix.remote
        found = wrappers.subcommand(argv)
        return (wrappers.strip(found[1], found[0]), found[0].remote) if found else (None, False)

    def _note(self, invocation: Invocation) -> None:
        if invocation.argv:
            if invocation.name in _FOLDER_OPTIONS:
                invocation = _in_its_folder(invocation)
            if invocation.assigned:
                invocation = choices.named(invocation)
            chosen = tuple(choices.chosen_by(invocation))
            if chosen:
                chosen = tuple(choices.unsure(chosen)) if choices.may_skip(self.line) else chosen
                self.stored.update(chosen)
                self.state.export(*chosen)
            self.last = invocation
        if invocation.argv or invocation.writes:
            self.found.append(invocation)

    def _shell_program(self, invocation: Invocation) -> None:
        text, arguments, reads_input = wrappers.shell_script(invocation.argv)
        if reads_input and invocation.stdin is not None:
            text, arguments = invocation.stdin, ()
        if text is not None:
            script = text

            def run() -> None:
                self.state.environment |= {str(at): (value,) for at, value in enumerate(arguments[:10])}
                self.state.environment |= {"@": arguments[1:], "*": arguments[1:]} if len(arguments) > 1 else {}
                self.run(script)

            self._in_child(run, fed=None if reads_input else invocation)

    def _note_script(self, invocation: Invocation) -> None:
        """Record the file that a shell runs."""
        if wrappers.shell_script(invocation.argv)[0] is None:
            file = next((word for word in invocation.argv[1:] if not word.startswith(("-", "+"))), "")
            if file:
                called = file if "/" in file else f"./{file}"
                self.found.append(replace(invocation, argv=(file.rpartition("/")[2],), called=called, writes=()))


def _in_its_folder(invocation: Invocation) -> Invocation:
    """Return a program with the folder that its first options name: `git -C x`, `terraform -chdir=x`."""
    argv, valued = invocation.argv, OPTIONS.get(invocation.name, frozenset())
    at, cwd = 1, invocation.cwd
    while at < len(argv) and argv[at].startswith("-"):
        option, equals, value = argv[at].partition("=")
        if option == _FOLDER_OPTIONS[invocation.name]:
            cwd = canonical(value if equals else "".join(argv[at + 1 : at + 2]), cwd)
        at += 2 if option in valued and not equals else 1
    return invocation if cwd == invocation.cwd else replace(invocation, cwd=cwd)


def _is_head_of_loop(words: list[Word]) -> bool:
    """Return whether the words are `for`, `case` or similar: a redirection there does not empty a file."""
    return any(literal(word) in ("case", *FOR) for word in words)
