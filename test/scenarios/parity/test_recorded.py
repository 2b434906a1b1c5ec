"""The recorded answers are what a real kube-apiserver gives today."""

from lab.control_plane.plane import ControlPlane
from lab.kubeconfig import access_from
from support.parity.normal import differences
from support.parity.recorded import FILES, answers_of, recording


def test_a_real_server_answers_as_recorded(control_plane: ControlPlane) -> None:
    recorded = {file.stem: recording(file) for file in FILES}

    found = answers_of(access_from(control_plane.kubeconfig("admin")), FILES)

    assert list(differences(recorded, found)) == []
