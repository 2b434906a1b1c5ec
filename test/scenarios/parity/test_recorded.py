"""The recorded answers are what a real kube-apiserver gives today."""

from pathlib import Path

import pytest

from lab.control_plane.plane import ControlPlane
from lab.kubeconfig import access_from
from support.parity.normal import differences
from support.parity.players import RealServer
from support.parity.recorded import FILES, answers_of, recording


@pytest.mark.parametrize("file", [pytest.param(file, id=file.stem) for file in FILES])
def test_a_real_server_answers_as_recorded(control_plane: ControlPlane, file: Path) -> None:
    with RealServer(access_from(control_plane.kubeconfig("admin"))) as server:
        found = {conversation.name: answers for conversation, answers in answers_of(server, file)}

    assert list(differences(recording(file), found)) == []
