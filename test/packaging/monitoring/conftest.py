"""A Prometheus that scrapes a live operator under load, shared by all tests of this folder.

Everything asynchronous happens in the event loop of the session; a test that only asks Prometheus needs none.
"""

import tempfile
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import pytest_asyncio
import trustme

from lab.control_plane.plane import ControlPlane
from lab.tools.get import programs
from support.jobs.workload import busy
from support.operators.operator_process import OperatorProcess, operator
from support.partners.prometheus import Prometheus, Target
from support.settle import eventually

# What a PodMonitor makes of the replicas of an installation.
LABELS = {"namespace": "jobs", "pod": "tf-operator-0", "container": "operator"}


@dataclass(frozen=True, slots=True)
class Monitored:
    """An operator that has been through a lot, still works, and is scraped as job="tf-operator"."""

    plane: ControlPlane
    process: OperatorProcess
    prometheus: Prometheus
    address: str
    """Where it serves its metrics, as ``http://host:port``."""
    namespace: str
    """The one that has jobs."""


@pytest.fixture(scope="session")
def plane(plane_programs: dict[str, str]) -> Iterator[ControlPlane]:
    """One of their own, because the operator's role allows it one Lease."""
    with (
        tempfile.TemporaryDirectory(prefix="tf-operator-monitoring-") as folder,
        ControlPlane.up(Path(folder) / "plane", frozenset({"controller-manager"})) as plane,
    ):
        yield plane


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def monitored(
    plane: ControlPlane, prometheus: Prometheus, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Monitored]:
    """It leads, serves two namespaces, and has had jobs of every fate in one of them; they go on as they are."""
    namespaces = [plane.make_namespace("busy"), plane.make_namespace("idle")]
    arguments = ("--restart-delay-base=200ms", *_progress(tmp_path_factory.mktemp("progress")))
    async with operator(plane, namespaces=namespaces, arguments=arguments) as process:
        address = await process.address()
        prometheus.scrape(Target("tf-operator", address, LABELS))
        # Zeros first, so that whatever happens is an increase.
        await eventually(lambda: prometheus.query('count_over_time(up{job="tf-operator"}[1m]) > 1'), within=30)
        async with busy(plane, namespaces[0]) as work:
            await work.wait_settled()
            ended = "sum(training_operator_jobs_successful_total) + sum(training_operator_jobs_failed_total) >= 12"
            await eventually(lambda: prometheus.query(ended), within=30)
            yield Monitored(plane, process, prometheus, address, namespaces[0])


def _progress(folder: Path) -> tuple[str, ...]:
    """The flags of an operator that takes reports of progress."""
    authority = trustme.CA()
    issued = authority.issue_cert("127.0.0.1")
    issued.private_key_pem.write_to_path(folder / "tls.key")
    issued.cert_chain_pems[0].write_to_path(folder / "tls.crt")
    authority.cert_pem.write_to_path(folder / "ca.crt")
    flags = {"bind-address": "127.0.0.1:0", "url": "https://127.0.0.1", "cert-path": folder}
    return tuple(f"--progress-{name}={value}" for name, value in flags.items())


@pytest.fixture(scope="session")
def promtool() -> str:
    """The path of the program."""
    return programs("promtool")["promtool"]
