"""The commands of every page work, in the order of the page, in an empty folder; its manifests are accepted.

``support.doc_pages`` has the convention. A page without ``kubectl`` runs on this machine; with it, on a server of
``tfjob local``; and with Helm, or where it says so, on a real control plane.
"""

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from demonstration import training
from lab.tools.get import programs
from lab.tools.progress import Progress
from support import doc_pages
from support.doc_pages import ROOT
from support.pods.plane_node import plane_node

PAGES = [*doc_pages.pages()]
SCRIPTS = Path(sys.executable).parent
# What readers put in the place of these words.
MEANT = {"REGISTRY": "registry.example", "RELEASE": "prometheus", "NAMESPACE": "default", "NAME": "mnist"}
BESIDE = ("charts", "hack", "manifests", "test")
"""What a page finds of the checkout from which its reader works."""
PROGRAMS = {"kubectl": "kubectl", "helm": "helm4"}
PAGE_SECONDS = 300.0
SERVERS = ("etcd", "kube-apiserver", "kube-controller-manager", "kubectl")


def those_that_run(where, *needed):
    """These pages, marked with the programs that they need."""
    for page in PAGES:
        if page.commands() and page.runs_on == where:
            used = {PROGRAMS[word] for block in page.commands() for word in block.text.split() if word in PROGRAMS}
            names = sorted(used | {*needed})
            yield pytest.param(page, marks=[pytest.mark.programs(*names)] if names else [], id=str(page))


class Reader:
    """Somebody who types what the pages say, with nothing in their home."""

    def __init__(self, folder, *, own):
        self.folder, self.tools, self.work = folder, folder / "tools", folder / "work"
        for name in ("tools", "home", "state", "tmp", "work"):
            (folder / name).mkdir()
        for name in BESIDE:
            (self.work / name).symlink_to(ROOT / name)
        for name, tool in PROGRAMS.items():
            if tool in own:
                (self.tools / name).symlink_to(programs(tool)[tool])
        usual = {name: value for name, value in os.environ.items() if name not in {"KUBECONFIG", "VIRTUAL_ENV"}}
        self.environment = usual | {
            "HOME": str(folder / "home"),
            "XDG_STATE_HOME": str(folder / "state"),
            "TMPDIR": str(folder / "tmp"),
            "PATH": os.pathsep.join([str(self.tools), str(SCRIPTS), os.environ["PATH"]]),
        }

    def read(self, *blocks, **variables):
        """Type the commands of blocks into one shell, up to the first that fails; what was printed."""
        script = "set -e -o pipefail\n"
        for block in blocks:
            text = re.sub(r"\b[A-Z]+\b", lambda word: MEANT.get(word[0], word[0]), block.text)
            script += f"echo '### {block}'\n{block.setup}\n{text}\n"
        log = self.folder / "log"
        with log.open("wb") as output:
            shell = subprocess.Popen(
                ["bash", "-c", script],
                cwd=self.work,
                env=self.environment | variables,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                process_group=0,
            )
        try:
            code = shell.wait(PAGE_SECONDS)
        except subprocess.TimeoutExpired:
            code = "too late"
        finally:
            with suppress(ProcessLookupError):
                os.killpg(shell.pid, signal.SIGKILL)
        assert code == 0, log.read_text()[-5000:]
        return log.read_text()


def shows_what_is_printed(page, printed):
    """The tables on a page are those of its commands."""
    made_up = [f"{block}: {row}" for block, row in doc_pages.tables(page) if row not in doc_pages.rows(printed)]
    assert made_up == [], printed


@pytest.fixture
def reader(request, tmp_path):
    return Reader(tmp_path, own={name for mark in request.node.iter_markers("programs") for name in mark.args})


@pytest.mark.parametrize("page", PAGES, ids=str)
def test_each_block_of_a_page_is_checked(page):
    fences = re.findall(r"^ *(?:```|~~~)", (ROOT / page.path).read_text(), re.MULTILINE)
    assert len(fences) == 2 * len(doc_pages.blocks(page)), "a fence that says more than a language is not read"
    for block in doc_pages.blocks(page):
        assert block.language in doc_pages.LANGUAGES, f"{block}: its language is {block.language!r}"
        assert not block.not_run or block.is_checked_elsewhere, f"{block}: what checks it? {block.not_run!r}"


@pytest.mark.programs("kubectl")
def test_every_manifest_on_a_page_is_accepted(kubectl):
    refusals = []
    pages = (*PAGES, doc_pages.Page("README.md"))
    for block in (block for page in pages for block in doc_pages.blocks(page) if not block.not_run):
        try:
            for manifest in block.manifests():
                kubectl("apply", "--dry-run=server", "--filename=-", stdin=json.dumps(manifest))
        except subprocess.CalledProcessError as failure:
            refusals.append(f"{block}: {failure.stderr}")

    assert refusals == []


@pytest.mark.timeout(2 * PAGE_SECONDS)
@pytest.mark.parametrize("page", [*those_that_run("this machine")])
def test_the_commands_of_a_page_work_on_this_machine(page, reader):
    shows_what_is_printed(page, reader.read(*page.commands()))


@pytest.fixture(scope="module")
def local_server(tmp_path_factory):
    """The kubeconfig of a server of ``tfjob local``, on which each page has a namespace of its own."""
    folder = tmp_path_factory.mktemp("server")
    tfjob, environment = str(SCRIPTS / "tfjob"), os.environ | {"XDG_STATE_HOME": str(folder)}
    subprocess.run([tfjob, "local", "up"], env=environment, check=True)
    yield folder / "tf-operator/local/kubeconfig"
    subprocess.run([tfjob, "local", "down", "--purge"], env=environment, check=True)


@pytest.mark.timeout(2 * PAGE_SECONDS)
@pytest.mark.parametrize("page", [*those_that_run("a local server", "kubectl")])
def test_the_commands_of_a_page_work_on_a_local_server(page, reader, local_server):
    namespace = re.sub(r"[^a-z0-9]+", "-", str(page).lower()).removesuffix("-md")
    config = json.loads(local_server.read_text())
    for context in config["contexts"]:
        context["context"]["namespace"] = namespace
    own = reader.folder / "kubeconfig"
    own.write_text(json.dumps(config))
    subprocess.run([reader.tools / "kubectl", f"--kubeconfig={own}", "create", "namespace", namespace], check=True)

    environment = {"KUBECONFIG": str(own), "XDG_STATE_HOME": str(local_server.parents[2])}
    shows_what_is_printed(page, reader.read(*page.commands(), **environment))


@pytest.mark.nightly
@pytest.mark.timeout(2 * PAGE_SECONDS)
@pytest.mark.parametrize("own_control_plane", [("controller-manager",)], ids=[""], indirect=True)
@pytest.mark.parametrize("page", [*those_that_run("a control plane", *SERVERS)])
async def test_the_commands_of_a_page_work_on_a_control_plane(page, reader, own_control_plane):
    # The page begins with a cluster that has nothing of the operator.
    kubeconfig = f"--kubeconfig={own_control_plane.kubeconfig('admin')}"
    manifests = (f"--filename={ROOT}/manifests/{name}" for name in ("crd", "rbac"))
    delete = [reader.tools / "kubectl", kubeconfig, "delete", "--wait", *manifests]
    await asyncio.to_thread(subprocess.run, delete, check=True)

    async with plane_node(own_control_plane, reader.folder):
        environment = {"KUBECONFIG": str(own_control_plane.kubeconfig("admin"))}
        printed = await asyncio.to_thread(reader.read, *page.commands(), **environment)
    shows_what_is_printed(page, printed)


@pytest.mark.nightly
@pytest.mark.timeout(900)
def test_the_training_of_the_laptop_page_learns(request, reader):
    (reader.work / "venv").symlink_to(training.prepare(Progress(sys.stderr, prefix="tests")))
    name, page = request.node.name, doc_pages.Page("docs/start/laptop.md")

    printed = reader.read(*(block for block in doc_pages.blocks(page) if block.not_run.endswith(name)))

    assert float(re.search(r"Accuracy on 360 held-out digits: ([0-9.]+)%", printed)[1]) > 90
    assert printed.endswith("output/model.keras\n")
