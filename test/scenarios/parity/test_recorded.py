"""The recorded answers are what a real kube-apiserver gives today."""

import pytest

from lab.control_plane.plane import ControlPlane
from support.kubeconfigs import access_from
from support.parity.catalogue import CONVERSATIONS
from support.parity.normal import differences
from support.parity.recorded import answers_of, recording


@pytest.mark.real_server("what is compared with")
def test_a_real_server_answers_as_recorded(control_plane: ControlPlane) -> None:
    recorded = {file: recording(file) for file in CONVERSATIONS}

    answers = answers_of(access_from(control_plane.kubeconfig("admin")), CONVERSATIONS)

    assert list(differences(recorded, answers)) == []
