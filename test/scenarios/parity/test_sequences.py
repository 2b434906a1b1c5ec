"""Random sequences of requests have the same answers from the embedded server and from a real kube-apiserver.

PARITY_SEQUENCES says how many, PARITY_SEED which is the first.
"""

import json
import os
from itertools import count

from lab.control_plane.plane import ControlPlane
from lab.kubeconfig import access_from
from support.parity.embedded import EmbeddedServer
from support.parity.normal import differences, normal
from support.parity.players import RealServer, play
from support.parity.recorded import CRDS
from support.parity.script import Conversation
from support.parity.sequences import sequence, shrunk

SEQUENCES = int(os.environ.get("PARITY_SEQUENCES", "100"))
FIRST = int(os.environ.get("PARITY_SEED", "0"))
AT_ONCE = 50


def found_differences(conversation: Conversation, real: RealServer, namespace: str) -> list[str]:
    left = normal(conversation, play(conversation, real, namespace), namespace)
    right = normal(conversation, play(conversation, EmbeddedServer(CRDS, namespace), namespace), namespace)
    return list(differences(left, json.loads(json.dumps(right))))


def test_random_sequences_have_the_same_answers(control_plane: ControlPlane) -> None:
    names = (f"sequence-{os.getpid()}-{number}" for number in count())
    with RealServer(access_from(control_plane.kubeconfig("admin"))) as real:
        real.install(CRDS)

        def differs(conversation: Conversation) -> bool:
            namespace = next(names)
            real.make_namespaces([namespace])
            return found_differences(conversation, real, namespace) != []

        for first in range(FIRST, FIRST + SEQUENCES, AT_ONCE):
            conversations = [sequence(seed) for seed in range(first, min(first + AT_ONCE, FIRST + SEQUENCES))]
            namespaces = [next(names) for _ in conversations]
            real.make_namespaces(namespaces)
            for conversation, namespace in zip(conversations, namespaces, strict=True):
                if found := found_differences(conversation, real, namespace):
                    steps = "\n".join(step.text for step in shrunk(conversation, differs).steps)
                    raise AssertionError(f"{conversation.name}\n{steps}\n{found[:5]}")
