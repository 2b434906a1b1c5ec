"""``tfjob ui`` for users of limited rights, on a real API server: what is missing is named, and waited for in peace.

The browser is the test: it takes the printed link, keeps the cookie, and reads the events of pages.
"""

import asyncio
import json
import re
import signal
import sys
from collections import Counter
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import pytest

from lab.control_plane.access import VIEWER
from support.audit import AuditLog
from support.disturbances.fault_proxy import faults
from support.disturbances.fault_proxy.proxy import FaultProxy
from support.disturbances.fault_proxy.trigger import anything, watch
from support.jobs.builders import tfjob
from support.operators.operator_fixture import ONE_OPERATOR
from support.pods.pod_status import Exit
from support.resources import Resource
from support.settle import eventually

pytestmark = [ONE_OPERATOR, pytest.mark.real_server("RBAC")]
TFJOB = Path(sys.executable).with_name("tfjob")
ROLES = Resource("rbac.authorization.k8s.io", "v1", "roles")
BINDINGS = Resource("rbac.authorization.k8s.io", "v1", "rolebindings")
READ = ["get", "list", "watch"]
JOBS = {"apiGroups": ["kubeflow.org"], "resources": ["tfjobs"], "verbs": READ}
PODS = {"apiGroups": [""], "resources": ["pods"], "verbs": READ}
LOGS = {"apiGroups": [""], "resources": ["pods/log"], "verbs": ["get"]}
EVENTS = {"apiGroups": [""], "resources": ["events"], "verbs": READ}
EVERYTHING = [JOBS, PODS, LOGS, EVENTS]
CANNOT = 'is forbidden: User "test-viewer" cannot {} resource "{}" in API group "{}" in the namespace "{}"'


class Rights:
    """What the viewer may do in one namespace."""

    def __init__(self, job_namespace):
        self._admin = job_namespace.admin
        self._namespace = job_namespace.namespace

    async def give(self, *rules):
        body = {"metadata": {"name": "viewer"}, "rules": list(rules)}
        if await self._admin.find(ROLES.path(self._namespace, "viewer")):
            await self._admin.patch(ROLES.path(self._namespace, "viewer"), body)
            return
        await self._admin.create(ROLES.path(self._namespace), body)
        subject = {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": VIEWER.login}
        role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "viewer"}
        binding = {"metadata": {"name": "viewer"}, "subjects": [subject], "roleRef": role}
        await self._admin.create(BINDINGS.path(self._namespace), binding)


class Page:
    """The last value of each event of a stream, and how many of it there were."""

    def __init__(self):
        self.last, self.times = {}, Counter()

    async def read(self, session, address):
        event = ""
        async with session.get(address) as response:
            async for line in response.content:
                name, _, value = line.decode().rstrip("\n").partition(": ")
                if name == "event":
                    event = value
                elif name == "data":
                    self.last[event] = json.loads(value)
                    self.times[event] += 1

    async def shows(self, event, *, text=None, within=60.0):
        """Wait until the last event of this kind has a text; without one, until it is empty."""

        def is_so():
            last = json.dumps(self.last.get(event)).replace('\\"', '"')
            assert (text in last) if text else not self.last.get(event), f"{event}: {last}"
            return True

        return await eventually(is_so, within=within)


class Visitor:
    """A browser that was given the link."""

    def __init__(self, session, root, tasks):
        self._session, self._root, self._tasks = session, root, tasks

    async def change(self, job, **order):
        """What the page of a job does when its user answers a question."""
        async with self._session.get(f"{self._root}jobs/{job}") as page:
            (token,) = re.findall(r'name="token" content="(\w+)"', await page.text())
        origin = self._root.rpartition("/")[0].rpartition("/")[0]
        headers = {"Origin": origin, "X-Tfjob-Page": token}
        async with self._session.post(f"{self._root}change/{job}", json=order, headers=headers) as answer:
            return await answer.json()

    def open(self, path):
        page = Page()
        self._tasks.append(asyncio.ensure_future(page.read(self._session, f"{self._root}{path}")))
        return page


@asynccontextmanager
async def ui(kubeconfig, *words):
    """Run ``tfjob ui``; a visitor, and what the terminal says: sentences, no traceback and no record."""
    command = [TFJOB, "ui", "--no-browser", "--kubeconfig", kubeconfig, *words]
    process = await asyncio.create_subprocess_exec(
        *command, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    terminal, tasks = bytearray(), []

    async def listen():
        async for line in process.stderr:
            terminal.extend(line)

    try:
        listening = asyncio.ensure_future(listen())
        printed = (await process.stdout.readuntil(b"Ctrl-C ends.\n")).decode()
        (link,) = re.findall(r"http://\S+", printed)
        jar = aiohttp.CookieJar(unsafe=True)
        async with aiohttp.ClientSession(cookie_jar=jar, timeout=aiohttp.ClientTimeout(total=None)) as session:
            async with session.get(link) as entrance:
                (path,) = re.findall(r"url=(/\w+/)", await entrance.text())
            yield Visitor(session, link.partition("/?")[0] + path, tasks), terminal
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        process.send_signal(signal.SIGINT)
        assert await process.wait() == 0
        await listening
    finally:
        if process.returncode is None:
            process.kill()
    assert all(line.startswith("tfjob: ") for line in terminal.decode().splitlines()), terminal.decode()


def refusals(plane, mark):
    """The viewer's requests that were refused."""
    return Counter(
        f"{entry.verb} {entry.resource}"
        for entry in AuditLog(plane.audit_log).since(mark).by(user=VIEWER.login)
        if entry.decision == "forbid"
    )


@pytest.mark.nightly
async def test_one_namespace_is_shown_and_a_right_that_goes_and_comes_back_is_said_to(job_namespace, tmp_path):
    namespace, rights = job_namespace.namespace, Rights(job_namespace)
    await rights.give(*EVERYTHING)
    await job_namespace.begin_running(tfjob("j").workers(1, restart="ExitCode"))
    with FaultProxy(job_namespace.plane.kubeconfig("viewer")) as proxy:
        kubeconfig = proxy.kubeconfig(tmp_path / "kubeconfig")
        async with ui(kubeconfig, "-n", namespace) as (visitor, terminal):
            table, page = visitor.open("stream"), visitor.open(f"stream/tfjob.kubeflow.org/{namespace}/j")
            await table.shows("rows", text='"state": "Running"')
            await page.shows("job", text="1 of 1 replicas run")
            assert not terminal

            with proxy.refusing():
                await table.shows("problem", text="cannot be reached")
            await table.shows("problem")
            with proxy.on(anything(), do=faults.fail(401, message="Unauthorized")):
                proxy.now(watch(), do=faults.cut())
                await page.shows("problem", text="does not accept the credentials")
                await eventually(lambda: b"does not accept the credentials" in terminal)
            await page.shows("problem")
            await table.shows("problem")

            await rights.give()
            mark = job_namespace.mark()
            proxy.now(watch(), do=faults.cut())
            cannot = CANNOT.format("watch", "tfjobs", "kubeflow.org", namespace)
            await table.shows("problem", text=cannot)
            await page.shows("problem", text="The data may be out of date")
            await eventually(lambda: cannot.encode() in terminal)
            refused = refusals(job_namespace.plane, mark)
            await rights.give(*EVERYTHING)
            await table.shows("problem")
            await page.shows("problem")
            assert 0 < sum(refused.values()) < 20, refused

            await job_namespace.kubelet.fail("j-worker-0", Exit(130))
            await table.shows("rows", text='"restarts": 1')
            await page.shows("replicas", text='"restarts": 1')


async def test_without_any_right_page_and_terminal_name_it_and_wait_for_it(job_namespace):
    plane = job_namespace.plane
    mark = job_namespace.mark()
    async with ui(plane.kubeconfig("viewer")) as (visitor, terminal):
        page = visitor.open("stream")
        await page.shows("problem", text=CANNOT.format("watch", "tfjobs", "kubeflow.org", "default"))
        await page.shows("head", text="You may not list jobs of all namespaces")
        await asyncio.sleep(1)
    cannot = CANNOT.format("list", "tfjobs", "kubeflow.org", "default")
    assert terminal.startswith(f"tfjob: tfjobs.kubeflow.org {cannot}".encode()), terminal
    refused = refusals(plane, mark)
    assert 0 < sum(refused.values()) < 20, refused


@pytest.mark.parametrize(
    ("lacking", "texts"),
    [
        ([LOGS, EVENTS], {"logend": "pods/log", "job": "Events may not be read here", "replicas": "is running"}),
        ([PODS, EVENTS], {"job": "Pods may not be read here", "replicas": "may not be read", "logend": "pods"}),
    ],
    ids=["no logs", "no pods"],
)
async def test_a_job_page_shows_what_may_be_seen_and_names_the_rest(job_namespace, lacking, texts):
    rights, namespace = Rights(job_namespace), job_namespace.namespace
    await rights.give(*(rule for rule in EVERYTHING if rule not in lacking))
    await job_namespace.begin_running(tfjob("j").workers(1))
    mark = job_namespace.mark()
    async with ui(job_namespace.plane.kubeconfig("viewer"), "-n", namespace) as (visitor, terminal):
        page = visitor.open(f"stream/tfjob.kubeflow.org/{namespace}/j")
        for event, text in {**texts, "timeline": "is running"}.items():
            await page.shows(event, text=text)
        assert "1 of 1 replicas run" in page.last["job"]["explanation"]
        refused = refusals(job_namespace.plane, mark)
        assert 0 < sum(refused.values()) < 20, refused
        await rights.give(*EVERYTHING)
        await page.shows("job", text='"note": ""')
        await page.shows("replicas", text="is running")
        # The log begins again.
        await eventually(lambda: page.times["log"] == 2)
    assert not terminal


PATCH = {"apiGroups": ["kubeflow.org"], "resources": ["tfjobs"], "verbs": ["patch"]}
DELETE_PODS = {"apiGroups": [""], "resources": ["pods"], "verbs": ["delete"]}
DELETE_J = {"apiGroups": ["kubeflow.org"], "resources": ["tfjobs"], "resourceNames": ["j"], "verbs": ["delete"]}


async def test_a_page_changes_its_job_as_far_as_the_user_may(job_namespace):
    rights, namespace = Rights(job_namespace), job_namespace.namespace
    await rights.give(*EVERYTHING)
    await job_namespace.begin_running(tfjob("j").workers(1, restart="OnFailure"))
    job = f"tfjob.kubeflow.org/{namespace}/j"
    async with ui(job_namespace.plane.kubeconfig("viewer"), "-n", namespace) as (visitor, terminal):
        page = visitor.open(f"stream/{job}")
        await page.shows("rights", text="no permission to change")
        uid = page.last["job"]["uid"]
        refused = await visitor.change(job, verb="suspend", uid=uid)
        assert (refused["isDone"], 'cannot patch resource "tfjobs"' in refused["text"]) == (False, True), refused

        await rights.give(*EVERYTHING, PATCH, DELETE_PODS, DELETE_J)
        await page.shows("rights", text='["suspend", "resume", "restart", "scale", "delete"]')
        assert (await visitor.change(job, verb="suspend", uid=uid))["isDone"]
        await page.shows("job", text='"state": "Suspended"')

        await rights.give(*EVERYTHING, DELETE_J)
        await eventually(lambda: _refused(visitor, job, uid))
        await page.shows("rights", text='["delete"]')
        assert (await visitor.change(job, verb="delete", uid=uid))["isDone"]
        await page.shows("job", text='"state": "Deleted"')
    assert not terminal


async def _refused(visitor, job, uid):
    return not (await visitor.change(job, verb="resume", uid=uid))["isDone"]
