"""The embedded API server answers as kube-apiserver does, but for the differences that the documentation lists.

No Kubernetes is needed: what kube-apiserver answers is recorded, and ``test_recorded.py`` checks the recording.
"""

import json
from pathlib import Path

import pytest

from support.parity import excuses
from support.parity.catalogue import CONVERSATIONS
from support.parity.embedded import EmbeddedServer
from support.parity.normal import normal
from support.parity.players import play
from support.parity.recorded import CRDS, recording
from support.parity.script import Conversation

ALL = [(file, conversation) for file, conversations in CONVERSATIONS.items() for conversation in conversations]
RECORDED = {file: recording(file) for file in CONVERSATIONS}
EXCUSES = excuses.excuses()
DOCUMENT = Path(__file__).parents[3] / "docs" / "local-apiserver.md"


@pytest.fixture(scope="module")
def server() -> EmbeddedServer:
    return EmbeddedServer(CRDS)


@pytest.mark.parametrize(
    ("number", "file", "conversation"),
    [pytest.param(number, *case, id=f"{case[0]}: {case[1].name}") for number, case in enumerate(ALL)],
)
def test_the_embedded_server_answers_as_a_real_one(
    server: EmbeddedServer, number: int, file: str, conversation: Conversation
) -> None:
    namespace = f"parity-{number}"
    server.make_namespaces([namespace])

    answers = normal(conversation, play(conversation, server, namespace), namespace)

    real, embedded = RECORDED[file][conversation.name], json.loads(json.dumps(answers))
    assert excuses.unexcused(conversation, real=real, embedded=embedded, known_excuses=EXCUSES) == []


def test_every_difference_is_of_a_step_and_documented() -> None:
    steps = {(conversation.name, step.text) for _, conversation in ALL for step in conversation.steps}

    assert [key for key in EXCUSES if key not in steps and key[1] != "the rest of a watch"] == []
    assert [excuse.reason for excuse in EXCUSES.values() if excuse.reason not in DOCUMENT.read_text()] == []
