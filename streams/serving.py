"""An aiohttp application on a port until SIGTERM or Ctrl-C."""

import asyncio
import signal

from aiohttp import web


def serve(app: web.Application, host: str, port: int) -> None:
    """Prints the address once it can be asked. Raises OSError when the port cannot be had."""
    asyncio.run(_serve(app, host, port))


async def _serve(app: web.Application, host: str, port: int) -> None:
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    try:
        site = web.TCPSite(runner, host, port)
        await site.start()
        address = runner.addresses[0]
        print(f"http://{address[0]}:{address[1]}", flush=True)
        ended = asyncio.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, ended.set)
        await ended.wait()
    finally:
        await runner.cleanup()
