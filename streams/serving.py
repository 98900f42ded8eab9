"""An aiohttp application on a port until SIGTERM or Ctrl-C."""

import asyncio
import signal

from aiohttp import web


def serve(app: web.Application, host: str, port: int, *, path: str = "", cancels: bool = False) -> None:
    """Prints the address once it can be asked. Raises OSError when the port cannot be had.

    `path` is printed behind it. `cancels`: who closes the connection does not want the answer any more.
    """
    asyncio.run(_serve(app, host, port, path, cancels=cancels))


async def _serve(app: web.Application, host: str, port: int, path: str, *, cancels: bool) -> None:
    runner = web.AppRunner(app, access_log=None, handler_cancellation=cancels)
    await runner.setup()
    try:
        site = web.TCPSite(runner, host, port)
        await site.start()
        address = runner.addresses[0]
        print(f"http://{f'[{address[0]}]' if ':' in address[0] else address[0]}:{address[1]}{path}", flush=True)
        ended = asyncio.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, ended.set)
        await ended.wait()
    finally:
        await runner.cleanup()
