"""``tfjob ui`` as its user sees it: jobs of a local server in a browser, live, by day, by night and on a telephone."""

import re
import shlex
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import pytest_asyncio
import yaml

from support.local_machine import LocalMachine
from support.partners import nvml
from support.partners.browser import NARROW, ONE_BROWSER, WIDE, Visitor, audit, scrolls_sideways
from support.settle import eventually

if TYPE_CHECKING:
    from playwright.async_api import Locator, Page, ViewportSize

# Most of it is axe, which reads each page from end to end.
pytestmark = [ONE_BROWSER, pytest.mark.timeout(400)]

HOSTILE = "<img src=x onerror=alert(1)>"
REPORTS = """
import json, os, time, urllib.request
for step in range(1, 100):
    metrics = [{"name": "loss <b>", "value": str(100 / step)}, {"name": "note", "value": "<i>"}]
    status = {"progressPercentage": step, "estimatedRemainingSeconds": 7200, "step": step, "metrics": metrics}
    body = json.dumps({"trainerStatus": status | {"checkpoint": {"step": 1, "path": "/data/<u>"}}}).encode()
    headers = {"Authorization": "Bearer " + open(os.environ["KUBEFLOW_TRAINER_SERVER_TOKEN"]).read()}
    urllib.request.urlopen(urllib.request.Request(os.environ["KUBEFLOW_TRAINER_SERVER_URL"], body, headers))
    time.sleep(1)
"""
REPORT = f"[ -z $KUBEFLOW_TRAINER_SERVER_URL ] || {sys.executable} -c {shlex.quote(REPORTS)} &"
TRAINS = REPORT + "for step in $(seq 1000); do echo step $step; sleep 0.1; done"
OWN = "2026-01-01 10:00:00.1: I tensorflow/core/x.cc:1] all is well"
FAILS = (
    f"echo reading; echo '{OWN}'; echo '{OWN}'; echo '{HOSTILE}'; echo 'why {HOSTILE}' > /dev/termination-log; exit 3"
)
DAY = ("light", WIDE)
NIGHT = ("dark", NARROW)


def job(name: str, script: str, workers: int, policy: str, gpus: int = 0) -> str:
    limits = {"limits": {"nvidia.com/gpu": gpus}} if gpus else {}
    container = {"name": "tensorflow", "image": "none", "command": ["sh", "-c", script], "resources": limits}
    template = {"spec": {"containers": [container], "terminationGracePeriodSeconds": 1}}
    replicas = {"Worker": {"replicas": workers, "restartPolicy": policy, "template": template}}
    spec = {"tfReplicaSpecs": replicas, "runPolicy": {"cleanPodPolicy": "None"}}
    metadata = {"name": name, "annotations": {"note": f"written {HOSTILE}"}}
    return yaml.dump({"apiVersion": "kubeflow.org/v1", "kind": "TFJob", "metadata": metadata, "spec": spec})


@pytest_asyncio.fixture(loop_scope="module")
async def machine(tmp_path: Path) -> AsyncIterator[LocalMachine]:
    """A server that stays, where programs have GPUs."""
    local, driver = LocalMachine(tmp_path), nvml.install(tmp_path)
    assert (await local.run("local", "up", **driver.variables))[0] == 0
    yield local
    assert (await local.run("local", "down", "--purge"))[0] == 0


@pytest_asyncio.fixture(loop_scope="module")
async def link(machine: LocalMachine) -> AsyncIterator[str]:
    """What ``tfjob ui`` prints; at the end it is interrupted, and has said that its server was gone."""
    process = await machine.start("ui", "--no-browser")
    output = await process.stdout.readuntil(b"Ctrl-C ends.\n")
    yield re.search(r"http://\S+", output.decode())[0]
    process.send_signal(signal.SIGINT)
    output = (await process.stderr.read()).decode()
    assert await process.wait() == 0, output
    assert all(line.startswith("tfjob: the API server ") for line in output.splitlines()), output
    assert "cannot be reached" in output


async def is_fit(page: "Page", *looks: tuple[str, "ViewportSize"]) -> None:
    """Whether everybody can read a page."""
    for look, size in looks:
        await page.emulate_media(color_scheme=look)
        await page.set_viewport_size(size)
        assert (await audit(page), await scrolls_sideways(page)) == ([], False)


async def test_jobs_are_seen_as_they_run_and_fail(machine: LocalMachine, link: str, visitor: Visitor) -> None:
    page = await visitor.open(link)
    await page.get_by_text("There is no job yet").wait_for()

    assert (await machine.run("submit", "-", manifest=job("trains", TRAINS, 2, "OnFailure")))[0] == 0
    await page.get_by_role("row", name=re.compile("trains .*Running .* %, 120m left loss <b>")).wait_for()
    assert (await machine.run("submit", "-", manifest=job("fails", FAILS, 1, "Never")))[0] == 0
    await page.get_by_role("row", name=re.compile("fails .*Failed")).wait_for()
    assert await page.get_by_role("row").nth(1).get_by_role("link").inner_text() == "fails"
    await page.get_by_role("button", name="Name", exact=True).press("Enter")
    assert await page.get_by_role("columnheader", name="Name", exact=True).get_attribute("aria-sort") == "ascending"
    await page.get_by_label("State").select_option("Running")
    assert await page.get_by_role("link").all_inner_texts() == ["trains"]
    await is_fit(page, DAY, NIGHT)

    await page.get_by_role("link", name="trains").click()
    log = page.get_by_role("region", name="Log lines")
    await log.get_by_text("worker-1 step 1").first.wait_for()
    line_count = await log.locator("div").count()
    await eventually(lambda: _has_more(log, line_count))
    await page.get_by_role("row", name=re.compile(r"worker-1 is running 0 \d+m \d+Mi local")).wait_for()
    await _curve_is_read(page)
    await page.get_by_role("button", name="Show").click()
    await page.get_by_text("cleanPodPolicy: None").wait_for()
    await is_fit(page, DAY)

    await page.get_by_role("link", name="All jobs").click()
    await page.get_by_role("link", name="fails").click()
    await page.get_by_role("heading", name="First failure").wait_for()
    await page.get_by_text("ended with exit code 3").first.wait_for()
    await page.get_by_role("button", name="Show the log of worker-0").click()
    await log.get_by_text(HOSTILE).wait_for()
    await _lines_are_folded(log)
    await page.locator("#picture title", has_text=re.compile("^exited with code 3$")).wait_for(state="attached")
    await _command_is_copied(page)
    await page.get_by_text(f"why {HOSTILE}").first.wait_for()
    await page.get_by_role("button", name="Show", exact=True).click()
    await page.get_by_text(f"written {HOSTILE}").wait_for()
    assert await page.locator("img").count() == 0

    assert (await machine.run("local", "down"))[0] == 0
    await page.get_by_role("button", name="Delete").click()
    await page.get_by_role("dialog", name="Delete fails?").get_by_role("button", name="Delete").click()
    await page.get_by_text("the API server cannot be reached").first.wait_for()
    await page.get_by_text("The data may be out of date").wait_for()
    await page.get_by_text("Your permissions cannot be checked").wait_for()
    assert await page.get_by_role("button", name="Delete").count() == 0
    await is_fit(page, NIGHT)


async def _curve_is_read(page: "Page") -> None:
    """What the program reports is a bar and a curve, whose points the keyboard reads."""
    await page.get_by_text(re.compile(r"\d+ %, about 120m left, step \d+")).wait_for()
    await page.get_by_text("step 1, in /data/<u>", exact=True).wait_for()
    await page.get_by_text("note <i>", exact=True).wait_for()
    curve = page.get_by_role("slider", name="loss <b>")
    await curve.press("Home")
    await page.wait_for_function("element => element.ariaValueMax > 2", arg=await curve.element_handle())
    first = await curve.get_attribute("aria-valuetext")
    await curve.press("ArrowRight")
    second = await curve.get_attribute("aria-valuetext")
    steps = [int(text.partition(" at step ")[2]) for text in (first, second)]
    assert steps[0] < steps[1], (first, second)

    # A page that was hidden for a moment has a stream that begins again, and keeps the points that it had.
    await page.evaluate("dispatchEvent(new Event('pagehide')); dispatchEvent(new Event('pageshow'))")
    more = "([element, most]) => element.ariaValueMax > most"
    await page.wait_for_function(more, arg=[await curve.element_handle(), await curve.get_attribute("aria-valuemax")])
    await curve.press("Home")
    assert await curve.get_attribute("aria-valuetext") == first


async def _lines_are_folded(log: "Locator") -> None:
    """What TensorFlow writes of itself is one line, until somebody wants to see it."""
    fold = log.get_by_text("2 lines of TensorFlow")
    own = log.get_by_text("all is well").first
    assert not await own.is_visible()
    await fold.press("Enter")
    await own.wait_for()
    await fold.press("Enter")
    await log.page.get_by_label("Only lines with").fill("all is well")
    await own.wait_for()
    assert await log.get_by_text("reading").is_hidden()
    await log.page.get_by_label("Only lines with").fill("")
    assert not await own.is_visible()


async def _command_is_copied(page: "Page") -> None:
    await page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    await page.get_by_role("button", name="Copy: Run it again").press("Enter")
    await page.get_by_text("Copied: tfjob retry fails -n default").wait_for()
    assert await page.evaluate("navigator.clipboard.readText()") == "tfjob retry fails -n default"


async def test_a_job_is_changed_after_a_question(machine: LocalMachine, link: str, visitor: Visitor) -> None:
    assert (await machine.run("submit", "-", manifest=job("trains", TRAINS, 1, "OnFailure", gpus=2)))[0] == 0
    page = await visitor.open(link)
    await page.get_by_role("link", name="trains").click()
    state = page.locator("#state")
    await state.filter(has_text="Running").wait_for()
    each = "141% GPU 0 71% GPU 1 70% 12288Mi GPU 0 6144Mi GPU 1 6144Mi"
    replica = page.get_by_role("row", name=re.compile(rf"worker-0 is running 0 \d+m \d+Mi {each} local"))
    await replica.wait_for()
    widths = [await bar.get_attribute("width") for bar in await replica.locator("rect.done").all()]
    assert widths == ["71", "70", "25", "25"]

    await page.get_by_role("button", name="Suspend").press("Enter")
    question = page.get_by_role("dialog", name="Suspend trains?")
    await question.wait_for()
    await is_fit(page, DAY, NIGHT)
    await page.keyboard.press("Escape")
    assert await question.is_hidden()
    await page.get_by_role("button", name="Suspend").click()
    await question.get_by_role("button", name="Suspend").click()
    await page.get_by_text("trains is suspended.").wait_for()
    await state.filter(has_text="Suspended").wait_for()

    await page.get_by_role("button", name="Scale").click()
    await page.get_by_role("spinbutton", name="Number").fill("2")
    await page.get_by_role("spinbutton", name="Number").press("Enter")
    await page.get_by_text("trains has 2 replicas of type Worker now.").wait_for()
    await page.get_by_role("button", name="Resume").click()
    await page.get_by_role("dialog", name="Resume trains?").get_by_role("button", name="Resume").click()
    await page.get_by_role("row", name=re.compile("worker-1 is running")).wait_for()
    await page.get_by_role("button", name="Restart").click()
    await page.get_by_role("dialog", name="Restart trains?").get_by_role("button", name="Restart").click()
    await page.get_by_text("Pods deleted, which the operator replaces: worker-0, worker-1.").wait_for()

    await page.get_by_role("button", name="Delete").click()
    await page.get_by_role("dialog", name="Delete trains?").get_by_role("button", name="Cancel").click()
    await page.get_by_role("button", name="Delete").click()
    await page.get_by_role("dialog", name="Delete trains?").get_by_role("button", name="Delete").click()
    await page.get_by_text("trains is deleted.").wait_for()
    await state.filter(has_text="Deleted").wait_for()
    assert await page.get_by_role("group", name="Change this job").is_hidden()
    assert (await machine.run("local", "down"))[0] == 0
    await page.get_by_role("link", name="All jobs").click()
    await page.get_by_text("cannot be reached").wait_for()


async def _has_more(log: "Locator", line_count: int) -> bool:
    return await log.locator("div").count() > line_count + 10
