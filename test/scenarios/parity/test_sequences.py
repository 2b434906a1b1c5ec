"""Random sequences of requests have the same answers from the embedded server and from a real kube-apiserver.

PARITY_SEQUENCES says how many, PARITY_SEED which is the first.
"""

import json
import os
from itertools import count

import pytest

from lab.control_plane.plane import ControlPlane
from lab.control_plane.servers import KEEPS_PODS
from support.kubeconfigs import access_from
from support.parity.embedded import EmbeddedServer
from support.parity.normal import differences, normal
from support.parity.players import RealServer, play
from support.parity.recorded import CRDS
from support.parity.script import Conversation
from support.parity.sequences import sequence, shrunk

SEQUENCES = int(os.environ.get("PARITY_SEQUENCES", "100"))
FIRST = int(os.environ.get("PARITY_SEED", "0"))
AT_ONCE = 50


@pytest.mark.real_server("what is compared with")
@pytest.mark.parametrize("own_control_plane", [("controller-manager", KEEPS_PODS)], indirect=True)
def test_random_sequences_have_the_same_answers(own_control_plane: ControlPlane) -> None:
    names = (f"sequence-{os.getpid()}-{number}" for number in count())
    embedded = EmbeddedServer(CRDS)
    with RealServer(access_from(own_control_plane.kubeconfig("admin"))) as real:
        real.install(CRDS)

        def namespaces(number: int) -> list[str]:
            batch = [next(names) for _ in range(number)]
            real.make_namespaces(batch)
            embedded.make_namespaces(batch)
            return batch

        def disagreements(conversation: Conversation, namespace: str) -> list[str]:
            left = normal(conversation, play(conversation, real, namespace), namespace)
            right = normal(conversation, play(conversation, embedded, namespace), namespace)
            return list(differences(left, json.loads(json.dumps(right))))

        for first in range(FIRST, FIRST + SEQUENCES, AT_ONCE):
            conversations = [sequence(seed) for seed in range(first, min(first + AT_ONCE, FIRST + SEQUENCES))]
            for conversation, namespace in zip(conversations, namespaces(len(conversations)), strict=True):
                if wrong := disagreements(conversation, namespace):
                    fewer = shrunk(conversation, lambda one: disagreements(one, *namespaces(1)) != [])
                    steps = "\n".join(step.text for step in fewer.steps)
                    raise AssertionError(f"{conversation.name}\n{steps}\n{wrong[:5]}")
