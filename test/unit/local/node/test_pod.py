"""A pod is read once from its JSON."""

import pytest

from tf_operator.local.node.pod import LIVENESS, Role, pod_of


@pytest.mark.parametrize(
    ("of_deletion", "of_spec", "seconds"), [(None, None, 30), (None, 5, 5), (2, 5, 2), (0, 5, 1), (None, 0, 1)]
)
def test_the_grace_period_is_that_of_the_deletion_or_else_that_of_the_spec(of_deletion, of_spec, seconds):
    metadata = {"deletionGracePeriodSeconds": of_deletion}
    assert pod_of({"metadata": metadata, "spec": {"terminationGracePeriodSeconds": of_spec}}).grace_seconds == seconds


def test_containers_are_in_the_order_in_which_they_start_with_their_roles_and_probes():
    inits = [{"name": "init"}, {"name": "side", "restartPolicy": "Always"}]
    main = {"name": "main", "livenessProbe": {"periodSeconds": 3}, "newer": "than this node"}
    containers = pod_of({"spec": {"initContainers": inits, "containers": [main]}}).containers

    assert [(container.name, container.role) for container in containers] == [
        ("init", Role.INIT),
        ("side", Role.SIDECAR),
        ("main", Role.MAIN),
    ]
    assert {kind: probe.period_seconds for kind, probe in containers[2].probes.items()} == {LIVENESS: 3}


def test_a_volume_of_a_kind_that_no_node_knows_is_read_all_the_same():
    (volume,) = pod_of({"spec": {"volumes": [{"name": "v", "csi": {"type": 1}}]}}).volumes
    assert (volume.name, volume.kind) == ("v", "csi")
