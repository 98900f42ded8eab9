"""`make screenshots`: each page of the console as a picture, wide and on a phone, dark and light.

`python -m tests.console.browser.screenshots [FOLDER]` writes PAGE-WIDTH-SCHEME.png; those that the documentation shows
go to docs/images too. It prints how long each page takes until it is usable, on a processor slowed down four times.
"""

import sys
import tempfile
from pathlib import Path
from shutil import copyfile
from typing import Final

from playwright.sync_api import Page, sync_playwright

from tests.browsers import NO_BROWSER, program
from tests.console.browser.conftest import launched, signed_in
from tests.console.browser.every_page import PAGES, furnished, open_page, wait_until_usable

_SIZES: Final = {1280: 860, 390: 844}
_SCHEMES: Final = ("light", "dark")
_ROOT: Final = Path(__file__).parents[3]
_SHOWN: Final = {
    "fleet-1280-light": "fleet",
    "session-1280-light": "session",
    "incident-1280-light": "incident",
    "kill-390-light": "kill-phone",
}
"""The pictures in the documentation, by file name."""


def main(folder: Path) -> None:
    """Takes all of them. Without a browser it ends with a line that says how to get one."""
    if program() is None:
        sys.exit(NO_BROWSER)
    folder.mkdir(parents=True, exist_ok=True)
    with (
        tempfile.TemporaryDirectory() as scratch,
        furnished(Path(scratch)) as scene,
        sync_playwright() as playwright,
        launched(playwright) as browser,
    ):
        for width, height in _SIZES.items():
            for scheme in _SCHEMES:
                with signed_in(
                    browser, scene.address, viewport={"width": width, "height": height}, color_scheme=scheme
                ) as page:
                    for name in PAGES:
                        open_page(page, name)
                        page.screenshot(path=folder / f"{name}-{width}-{scheme}.png")
        with signed_in(browser, scene.address) as page:
            for name in PAGES:
                print(f"{name:14} {_seconds_until_usable(page, name):.2f} s")
    for source, name in _SHOWN.items():
        copyfile(folder / f"{source}.png", _ROOT / "docs" / "images" / f"{name}.png")
    print(f"{len(_SIZES) * len(_SCHEMES) * len(PAGES)} pictures in {folder}, {len(_SHOWN)} of them in docs/images")


def _seconds_until_usable(page: Page, name: str) -> float:
    open_page(page, name)
    devtools = page.context.new_cdp_session(page)
    devtools.send("Emulation.setCPUThrottlingRate", {"rate": 4})
    page.reload()
    wait_until_usable(page)
    took = float(page.evaluate("performance.getEntriesByName('usable')[0].startTime")) / 1000
    devtools.detach()
    return took


if __name__ == "__main__":
    main(Path(sys.argv[1]) if sys.argv[1:] else _ROOT / "build" / "screenshots")
