"""The browser of the tests: Chromium, as a distribution or Google packages it. Imports the standard library only."""

import shutil
from typing import Final

PROGRAMS: Final = (
    "/usr/lib/chromium/chromium-headless-shell",  # Debian's; that on PATH is a script, whose end leaves it running
    "chrome-headless-shell",
    "chromium",
    "chromium-browser",
    "google-chrome",
    "google-chrome-stable",
)
"""The headless shell first, which draws no window that nobody sees: it takes half of the processor."""
NO_BROWSER: Final = (
    f"expected a browser, one of {', '.join(PROGRAMS)} on PATH; got none (Debian: apt install chromium-headless-shell)"
)


def program() -> str | None:
    """The first of PROGRAMS on PATH."""
    return next(filter(None, map(shutil.which, PROGRAMS)), None)
