"""The process of the local service: `haltline agent`, and what a hook or another front end starts when none runs."""

import asyncio
import json
import logging
import os
import secrets
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final

import haltline
from haltline.cli.agent.reaching import settings_of_sessions
from haltline.interventions.agent.integrations.claude_code.hooks import Sessions as HookSessions
from haltline.interventions.agent.integrations.claude_code.hooks import agent_id_of
from haltline.interventions.agent.integrations.claude_code.stops import Earlier
from haltline.interventions.agent.integrations.hooks.dialects import DIALECTS
from haltline.interventions.agent.integrations.hooks.handler import IDLE_S, HookHandler, settings_of
from haltline.interventions.agent.integrations.hooks.installed import Installed
from haltline.interventions.agent.integrations.hooks.stored import Stored
from haltline.interventions.agent.service.server import LINGERS_S, Server, locked
from haltline.interventions.agent.service.sessions import Sessions
from haltline.interventions.agent.service.verbs import Verbs
from haltline.interventions.agent.settings import GuardSettings
from haltline.interventions.agent.stored_sessions import StoredSessions, state_folder
from haltline.interventions.agent.user_files import replace_file
from haltline.schemas.policy import Policy

MAX_SESSIONS: Final = 1000
_NOT_SET: Final = "No broker is set (--bootstrap), and it is not set to decide here (--local)"


def main() -> int:
    """Run the service of a socket until it is idle; the second argument: why no verdicts are available."""
    path, why = Path(sys.argv[1]), "".join(sys.argv[2:])
    run(path, idle_s=float(os.environ.get("HALTLINE_HOOK_IDLE_S", IDLE_S)), why=why)
    return 0


def run(
    path: Path,
    *,
    idle_s: float | None,
    why: str = "",
    http: int | None = None,
    say: Callable[[str], object] = lambda _: None,
) -> bool:
    """Serve until idle or SIGTERM. Returns False if another process serves this socket.

    `http`: the port of this machine where HTTP is served, too. `say` gets the addresses. Raises OSError if the port is
    not available.
    """
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    os.umask(0o077)
    return locked(path, lambda: asyncio.run(_serve(path, idle_s, why, http, say)))


async def _serve(path: Path, idle_s: float | None, why: str, http: int | None, say: Callable[[str], object]) -> None:
    ended = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, ended.set)
    if http is None:
        await server_of(path, idle_s=idle_s, why=why).serve(ended, say)
        return
    from haltline.streams.intake.app import Intake
    from haltline.streams.intake.connections import Connections
    from haltline.streams.intake.server import listening

    key, file = secrets.token_urlsafe(32), path.with_suffix(".http")
    intake = Intake(settings_of_sessions(os.environ), token=key, max_sessions=MAX_SESSIONS, is_local=True)
    async with listening(intake.app(), "127.0.0.1", http, Connections()) as address:
        replace_file(file, (json.dumps({"url": address, "key": key}).encode(),))
        try:
            say(f"{address} with the key in {file}")
            await server_of(path, idle_s=idle_s, why=why, verbs=intake.verbs).serve(ended, say)
        finally:
            file.unlink(missing_ok=True)


def server_of(path: Path, *, idle_s: float | None, why: str = "", verbs: Verbs | None = None) -> Server:
    """Return the server of a socket, with the settings of the environment."""
    hooks, why = _hooks(idle_s or IDLE_S, why)
    if why and idle_s is not None:
        idle_s = min(idle_s, LINGERS_S)  # so that not every hook tries to start again
    if verbs is None:
        settings = GuardSettings(mode="local") if why else settings_of_sessions(os.environ)
        sessions = Sessions(settings, MAX_SESSIONS, snapshots=True)
        verbs = Verbs(sessions, haltline.__version__, why=why, stored=StoredSessions(state_folder(os.environ)))
    return Server(path, verbs, hooks, idle_s=idle_s)


def _hooks(idle_s: float, why: str) -> tuple[HookHandler, str]:
    """Return the handler of hooks, and why there are no verdicts, if so."""
    settings, on_approval = settings_of({"HALTLINE_MODE": "local"})
    try:
        settings, on_approval = settings_of(os.environ)
    except (ValueError, OSError) as error:
        is_set = "HALTLINE_BOOTSTRAP" in os.environ or os.environ.get("HALTLINE_MODE") == "local"
        why = why or (" ".join(str(error).split())[:500] if is_set else _NOT_SET)
    is_local = settings.mode == "local" and settings.bootstrap is None

    def make(agent: str, earlier: Earlier) -> HookSessions:
        dialect = DIALECTS[agent]
        return HookSessions(
            settings,
            on_approval=on_approval if dialect.asks else "deny",
            agent_id=agent_id_of(agent),
            has_batches=dialect.has_batches,
            is_cut_off=dialect.is_cut_off,
            is_local=is_local,
            earlier=earlier,
        )

    stored = Stored.of_user(os.environ)
    policy = settings.policy if isinstance(settings.policy, Policy) else Policy()
    stored.prune(policy.session_ttl_h * 3600)
    return HookHandler(make, stored, Installed(os.environ), idle_s=idle_s, why=why), why


if __name__ == "__main__":
    sys.exit(main())
