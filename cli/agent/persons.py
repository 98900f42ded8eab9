"""Whether a person asks: for a release, an uninstall and other options of an installed hook.

A process below a coding agent is refused, whatever its command line and its terminal are. What an agent started outside
of its tree (`setsid`, cron, a service) has no terminal, or one that nobody reads: so a code is shown on the terminal
itself, and typed there. Neither standard output nor the answer of a hook has it, so no model reads it by accident; a
person at a terminal needs nothing else, of whichever agent the session is.
"""

import os
import secrets
import select

from haltline.interventions.agent.integrations.hooks.ancestors import agent_above
from haltline.interventions.agent.integrations.hooks.stored import Stored

_TYPED_WITHIN_S = 120.0
_MAX_TYPED = 64


def refusal(act: str) -> str | None:
    """Return why this process must not do it; None: a person asks for it."""
    above = agent_above(os.getpid(), Stored.of_user(os.environ).agents())
    if above is not None:
        found = f"a process below {above.name} (process {above.started[0]})"
        return f"{act}: expected a person, got {found}; use a terminal of your own"
    code = f"{secrets.randbelow(10_000):04}"
    try:
        with open("/dev/tty", "r+b", buffering=0) as terminal:
            terminal.write(f"haltline: to {act}, type {code}: ".encode())
            is_typed = select.select([terminal], [], [], _TYPED_WITHIN_S)[0]
            typed = terminal.readline(_MAX_TYPED).decode(errors="replace").strip() if is_typed else ""
    except OSError:
        return f"{act}: expected a terminal to show a code on, got none"
    return None if typed == code else f"{act}: expected the code that was shown, got {typed or 'none'!r}"
