"""The command line of ``hack/pictures ui``: jobs on a local server of its own, and what ``tfjob ui`` shows of them.

Nothing is made up: a picture is taken when the page says what it is to show, and everything is removed afterwards.
"""

import argparse
import asyncio
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from lab.tools.chromium import chromium

if TYPE_CHECKING:
    from playwright.async_api import Page

ROOT: Final = Path(__file__).resolve().parents[2]
JOBS: Final = Path(__file__).with_name("jobs") / "for-pictures.yaml"
RESTARTED: Final = "ended with exit code 137"
_SIZE: Final = {"width": 1180, "height": 760}
_POINTS: Final = 20
_PATIENCE_MILLISECONDS: Final = 120_000
_LINK: Final = re.compile(r"http://\S+\?token=\S+(?=\s)")


class Machine:
    """``tfjob`` with a home of its own."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        home = {"HOME": str(folder), "XDG_STATE_HOME": str(folder), "TMPDIR": str(folder)}
        self._environment = {name: value for name, value in os.environ.items() if name != "KUBECONFIG"} | home

    async def start(self, *arguments: str) -> asyncio.subprocess.Process:
        command = (sys.executable, "-m", "tf_operator.cli", *arguments)
        # Programs of pods run where the server was started.
        return await asyncio.create_subprocess_exec(
            *command, stdout=asyncio.subprocess.PIPE, env=self._environment, cwd=self._folder
        )

    async def run(self, *arguments: str) -> None:
        process = await self.start(*arguments)
        await process.communicate()
        if process.returncode:
            raise subprocess.CalledProcessError(process.returncode, ["tfjob", *arguments])


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="hack/pictures ui", description="Makes the pictures of tfjob ui.")
    parser.add_argument("--output", type=Path, default=ROOT / "docs/images", help="the folder (default: docs/images)")
    options = parser.parse_args(arguments)
    try:
        asyncio.run(_perform(options.output.absolute()))
    except subprocess.CalledProcessError as error:
        sys.stderr.write(f"hack/pictures ui: {error}\n")
        return 1
    return 0


async def _perform(output: Path) -> None:
    with tempfile.TemporaryDirectory(prefix="tf-operator-pictures-") as folder:
        machine = Machine(Path(folder))
        await machine.run("local", "up")
        try:
            await machine.run("submit", str(JOBS))
            async with _first_page(machine) as page:
                await _take(page, output)
        finally:
            await machine.run("local", "down", "--purge")


@asynccontextmanager
async def _first_page(machine: Machine) -> AsyncIterator["Page"]:
    serving = await machine.start("ui", "--no-browser")
    try:
        link = await _link(serving)
        async with chromium() as browser:
            page = await browser.new_page(viewport=_SIZE)
            page.set_default_timeout(_PATIENCE_MILLISECONDS)
            await page.goto(link)
            yield page
    finally:
        serving.terminate()
        await serving.wait()


async def _link(serving: asyncio.subprocess.Process) -> str:
    output = b""
    while serving.stdout is not None and (line := await serving.stdout.readline()):
        output += line
        if link := _LINK.search(output.decode()):
            return link[0]
    raise subprocess.CalledProcessError(await serving.wait(), ["tfjob", "ui"], output)


async def _take(page: "Page", output: Path) -> None:
    await page.get_by_role("row", name=re.compile("reviews .*Failed")).wait_for()
    await page.get_by_role("row", name=re.compile("digits .*Running")).wait_for()
    await page.get_by_role("link", name="digits").click()
    await page.get_by_text(RESTARTED).first.wait_for()
    await page.get_by_role("region", name="Log lines").get_by_text(re.compile("worker-1 step")).first.wait_for()
    curve = await page.get_by_role("slider").first.element_handle()
    await page.wait_for_function(f"curve => curve.ariaValueMax >= {_POINTS}", arg=curve)
    # What is below, says where the programs of this machine are.
    end = await page.get_by_role("heading", name="Timeline").bounding_box()
    clip = {"x": 0, "y": 0, "width": _SIZE["width"], "height": end["y"] - 8 if end else _SIZE["height"]}
    await page.screenshot(path=output / "ui-job.png", full_page=True, clip=clip)
    await page.get_by_role("link", name="All jobs").click()
    await page.get_by_role("row", name=re.compile("digits .*Running .* left loss")).wait_for()
    await page.set_viewport_size({"width": _SIZE["width"], "height": 340})
    await page.screenshot(path=output / "ui-jobs.png")
    await page.set_viewport_size(_SIZE)
    await page.get_by_role("link", name="reviews").click()
    await page.get_by_role("heading", name="First failure").wait_for()
    await page.screenshot(path=output / "ui-failure.png")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
