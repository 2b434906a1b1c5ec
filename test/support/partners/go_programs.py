"""Programs of others, in Go, on an API server: the suites of controller-runtime, and sample-controller."""

import json
import os
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from lab.tools import build
from lab.tools.catalogue import FOLDER
from lab.tools.get import Toolbox, programs

MODULE: Final = "sigs.k8s.io/controller-runtime"
SUITES: Final = (
    *("builder", "cache", "client", "cluster", "controller", "controller/controllerutil", "handler"),
    *("internal/recorder", "manager", "source"),
)
"""The packages in whose tests an API server answers, but those about its users and its webhooks. In internal/controller
one test waits for ever now and then, whatever the server."""
# These say where a Go program runs, or how; all else of the environment is not for them.
_INHERITED: Final = ("PATH", "HOME", "TMPDIR", "GOMAXPROCS")
_LONGEST: Final = "15m"
"""A suite that takes longer ends, and its report says where it was."""
_SUITE_SECONDS: Final = 1000.0
_PATIENCE: Final = "10s"
"""How long a test waits for what it expects, for machines that do other things too; the default is a second."""


@dataclass(frozen=True)
class Suite:
    """The tests of one package, compiled."""

    name: str
    program: Path
    folder: Path
    """Of its source: tests read files beside it."""

    def run(self, kubeconfig: Path, report: Path) -> dict[str, str]:
        """What became of each test on a server: nothing, or why it failed. Tests of one name count as one."""
        flags = [
            f"--ginkgo.json-report={report}",
            "--ginkgo.no-color",
            f"--ginkgo.timeout={_LONGEST}",
            "--test.timeout=0",
        ]
        environ = {name: os.environ[name] for name in _INHERITED if name in os.environ}
        environ |= {"USE_EXISTING_CLUSTER": "true", "KUBECONFIG": str(kubeconfig)}
        environ |= {"GOMEGA_DEFAULT_EVENTUALLY_TIMEOUT": _PATIENCE}
        with report.with_suffix(".log").open("wb") as log:
            # A test that fails is told in the report; without a report, the log says why.
            subprocess.run(
                [self.program, *flags],
                cwd=self.folder,
                env=environ,
                stdout=log,
                stderr=subprocess.STDOUT,
                timeout=_SUITE_SECONDS,
                check=False,
            )
        assert report.is_file(), report.with_suffix(".log").read_text()[-4000:]
        return outcomes(json.loads(report.read_text()))


def outcomes(reports: list[dict[str, Any]]) -> dict[str, str]:
    """What Ginkgo's report says of each test: nothing, or why it failed."""
    by_name: dict[str, str] = {}
    for spec in (spec for report in reports for spec in report["SpecReports"] or ()):
        if spec["LeafNodeType"] == "It" and spec["State"] not in ("skipped", "pending"):
            name = " / ".join((*(spec["ContainerHierarchyTexts"] or ()), spec["LeafNodeText"]))
            by_name[name] = by_name.get(name, "") or _failure(spec)
    return by_name


def _failure(spec: Mapping[str, Any]) -> str:
    if spec["State"] == "passed":
        return ""
    return " ".join(spec.get("Failure", {}).get("Message", "").split())[:400] or str(spec["State"])


def suite(name: str, into: Path) -> Suite:
    """Compile the tests of a package of controller-runtime, which takes minutes the first time on a machine."""
    toolbox = Toolbox(os.environ)
    go, package, program = toolbox.go(), f"{MODULE}/pkg/{name}", into / "suite.test"
    module = FOLDER / "modules" / "go-programs"
    with toolbox.progress.step(f"building the tests of {package}") as step:
        go.run(["test", "-c", "-trimpath", "-o", str(program), package], folder=module, step=step)
    source = build.modules([MODULE], folder=module, go=go, progress=toolbox.progress)[MODULE]
    return Suite(name, program, source / "pkg" / name)


@contextmanager
def sample_controller(kubeconfig: Path, log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Run sample-controller while the body runs: it makes a Deployment for each Foo."""
    program = programs("sample-controller")["sample-controller"]
    with log.open("wb") as output:
        process = subprocess.Popen([program, f"--kubeconfig={kubeconfig}"], stdout=output, stderr=subprocess.STDOUT)
        try:
            yield process
        finally:
            process.terminate()
            process.wait(timeout=30)


def sample_definition() -> Path:
    """The file with the definition of Foos, from the module."""
    toolbox = Toolbox(os.environ)
    name = "k8s.io/sample-controller"
    module = FOLDER / "modules" / "go-programs"
    folder = build.modules([name], folder=module, go=toolbox.go(), progress=toolbox.progress)[name]
    return folder / "artifacts" / "examples" / "crd-status-subresource.yaml"
