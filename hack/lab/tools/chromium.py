"""A headless Chromium that Playwright drives: for tests, and for pictures of what the project serves."""

import functools
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from lab.tools.environment import python_of

if TYPE_CHECKING:
    from playwright.async_api import Browser

_FINDER: Final = Path(__file__).resolve().parents[2] / "browser"
_NO_OTHER_HOST: Final = "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE localhost, EXCLUDE 127.0.0.1"


@asynccontextmanager
async def chromium() -> AsyncIterator["Browser"]:
    """Start a Chromium that knows this machine only, and ends with the block; raises CalledProcessError."""
    # After all others, so that it adds packages and replaces none.
    if str(packages()) not in sys.path:
        sys.path.append(str(packages()))
    from playwright.async_api import async_playwright  # noqa: PLC0415 (it is in a venv of its own)

    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=_program(), args=[_NO_OTHER_HOST])
        yield browser
        await browser.close()


@functools.cache
def packages() -> Path:
    """Where the packages of hack/requirements/browser.txt are, whose Python is that of this process."""
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    return python_of("browser").parents[1] / "lib" / version / "site-packages"


def _program() -> str:
    return subprocess.run([_FINDER], stdout=subprocess.PIPE, text=True, check=True).stdout.strip()
