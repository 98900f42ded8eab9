"""Which event loop asyncio takes for the running one. Each process has its own, and all share one real thread."""

from asyncio.events import _set_running_loop as set_running_loop

__all__ = ["set_running_loop"]
