"""The browser of the tests: Chromium, as a distribution or Google packages it. Imports the standard library only."""

import shutil
from typing import Final

PROGRAMS: Final = (
    "chromium-headless-shell",  # a window that nobody sees is not drawn: half the work
    "chromium",
    "chromium-browser",
    "google-chrome",
    "google-chrome-stable",
)
NO_BROWSER: Final = (
    f"expected a browser, one of {', '.join(PROGRAMS)} on PATH; got none (Debian: apt install {PROGRAMS[0]})"
)


def program() -> str | None:
    """The first of PROGRAMS on PATH."""
    return next(filter(None, map(shutil.which, PROGRAMS)), None)
