"""Which event loop asyncio takes for the running one. Each process has its own, and all share one real thread."""

from asyncio.events import AbstractEventLoop, _set_running_loop


def set_running_loop(loop: AbstractEventLoop | None) -> None:
    """Set before a thread of a process runs, and taken back after it."""
    _set_running_loop(loop)
