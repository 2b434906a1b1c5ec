"""Programs of others, in Go, that pass on a real kube-apiserver pass on the embedded server.

Both servers are bare: no controllers, no node. ``go_programs.yaml`` has the tests that do not pass here, with reasons.
"""

import sys
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest
import yaml

from lab.control_plane.api import ApiRefusedError
from lab.control_plane.plane import ControlPlane
from support.embedded.embedded_plane import EmbeddedPlane
from support.partners import go_programs
from support.settle import eventually

KNOWN = Path(__file__).with_name("go_programs.yaml")
FOOS = "/apis/samplecontroller.k8s.io/v1alpha1/namespaces/default/foos"
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"

pytestmark = [pytest.mark.nightly, pytest.mark.real_server("what is compared with")]


def expected_failures(suite: str) -> set[str]:
    """The tests of a suite that are known to fail here."""
    return {test for entry in yaml.safe_load(KNOWN.read_text()) for test in entry["tests"].get(suite, ())}


@pytest.mark.timeout(4000)  # a thousand tests with all that they wait for, and before that a build
@pytest.mark.parametrize("name", go_programs.SUITES)
def test_a_suite_of_controller_runtime_passes(
    name: str,
    fresh_plane: Callable[..., ControlPlane],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    suite = go_programs.suite(name, tmp_path)
    with fresh_plane() as real:
        there = suite.run(real.kubeconfig("admin"), tmp_path / "real.json")
    with EmbeddedPlane.start(tmp_path / "plane", collects=False) as embedded:
        here = suite.run(embedded.kubeconfig("admin"), tmp_path / "embedded.json")

    passing = {test for test, failure in there.items() if not failure}
    failing = {test: here.get(test, "it did not run") for test in passing if here.get(test, "it did not run")}
    with capsys.disabled():
        sys.stdout.write(f"\n{name}: {len(passing)} of {len(there)} pass on a real server, ")
        sys.stdout.write(f"{sum(not failure for failure in here.values())} of {len(here)} here\n")
    excused = expected_failures(name)
    unexcused = [f"{test}\n  {failure}" for test, failure in sorted(failing.items()) if test not in excused]
    stale = [f"{test}\n  passes; remove it from {KNOWN.name}" for test in sorted(excused - failing.keys())]
    assert passing, "no test passes on a real server"
    assert unexcused + stale == [], "\n".join(unexcused + stale)


@pytest.mark.programs("sample-controller")
@pytest.mark.parametrize("server", ["real", "embedded"])
async def test_a_controller_of_its_own_kind_makes_deployments(
    server: str, fresh_plane: Callable[..., ControlPlane], tmp_path: Path
) -> None:
    with ExitStack() as stack:
        made_by = {"real": fresh_plane, "embedded": lambda: EmbeddedPlane.start(tmp_path / "plane", collects=False)}
        plane = stack.enter_context(made_by[server]())
        api = plane.admin

        def is_served() -> bool:
            try:
                return bool(api.get(FOOS))
            except ApiRefusedError:
                return False

        api.apply(yaml.safe_load(go_programs.sample_definition().read_text()))
        await eventually(is_served)
        stack.enter_context(go_programs.sample_controller(plane.kubeconfig("admin"), tmp_path / "log"))

        foo = {"apiVersion": "samplecontroller.k8s.io/v1alpha1", "kind": "Foo", "metadata": {"name": "a"}}
        api.create(FOOS, {**foo, "spec": {"deploymentName": "made", "replicas": 2}})
        deployment = api.wait_for(f"{DEPLOYMENTS}/made")
        assert deployment["spec"]["replicas"] == 2
        assert [owner["kind"] for owner in deployment["metadata"]["ownerReferences"]] == ["Foo"]

        api.patch(f"{FOOS}/a", {"spec": {"replicas": 3}})
        await eventually(lambda: api.get(f"{DEPLOYMENTS}/made")["spec"]["replicas"] == 3)
        status = {"replicas": 3, "readyReplicas": 3, "availableReplicas": 3}
        api.patch(f"{DEPLOYMENTS}/made/status", {"status": status})
        await eventually(lambda: api.get(f"{FOOS}/a").get("status", {}).get("availableReplicas") == 3)
        events = "/api/v1/namespaces/default/events"
        await eventually(lambda: "Synced" in {event["reason"] for event in api.get(events)["items"]})
