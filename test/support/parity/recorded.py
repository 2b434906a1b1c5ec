"""What a real kube-apiserver answered to the conversations: files beside them, which this program writes.

PYTHONPATH=test:hack .venv/bin/python -m support.parity.recorded
"""

import json
import secrets
import sys
import tempfile
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

from lab.control_plane.plane import ControlPlane
from lab.kubeconfig import Access
from support.kubeconfigs import access_from
from support.parity.catalogue import CONVERSATIONS, FOLDER
from support.parity.normal import normal
from support.parity.players import RealServer, play
from support.parity.script import Conversation
from tf_operator import dialects

CRDS: Final = tuple(json.loads(file.read_text()) for file in sorted(Path(dialects.__file__).parent.glob("*/crd.json")))

_AT_ONCE: Final = 8


def answers_of(access: Access, files: Iterable[str]) -> dict[str, dict[str, list[Any]]]:
    """What a real server answers now, by file and conversation: each in a namespace of its own, several at once."""
    cases = [(file, conversation) for file in files for conversation in CONVERSATIONS[file]]
    token = secrets.token_hex(3)
    namespaces = [f"parity-{token}-{number}" for number in range(len(cases))]
    with RealServer(access) as server:
        server.install(CRDS)
        server.make_namespaces(namespaces)

    def answers(case: tuple[str, Conversation], namespace: str) -> list[Any]:
        with RealServer(access) as server:
            return normal(case[1], play(case[1], server, namespace), namespace)

    by_file: dict[str, dict[str, list[Any]]] = {}
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        for (file, conversation), result in zip(cases, pool.map(answers, cases, namespaces), strict=True):
            by_file.setdefault(file, {})[conversation.name] = result
    return by_file


def recording(file: str) -> dict[str, list[Any]]:
    """The recorded answers to the conversations of a file, by name."""
    by_conversation: dict[str, list[Any]] = {}
    for line in _path(file).read_text().splitlines():
        if line.startswith("== "):
            by_conversation[line[3:]] = []
        elif not line.startswith("> "):
            by_conversation[next(reversed(by_conversation))].append(json.loads(line))
    return by_conversation


def lines(conversation: Conversation, answers: list[Any]) -> Iterator[str]:
    """A conversation of a recording: each step and its answer."""
    yield f"== {conversation.name}"
    for number, answer in enumerate(answers):
        yield f"> {conversation.steps[number].text if number < len(conversation.steps) else 'the rest of a watch'}"
        yield json.dumps(answer, ensure_ascii=False)


def record(access: Access, files: Iterable[str]) -> None:
    """Write what the server answers."""
    for file, answers in answers_of(access, files).items():
        text = [
            line for conversation in CONVERSATIONS[file] for line in lines(conversation, answers[conversation.name])
        ]
        _path(file).write_text("\n".join(text) + "\n")


def _path(file: str) -> Path:
    return FOLDER / "recorded" / f"{file}.txt"


def main(names: list[str]) -> None:
    """Record the named files, or all, from a control plane that is made for it."""
    with (
        tempfile.TemporaryDirectory() as folder,
        ControlPlane.up(Path(folder) / "plane", {"controller-manager"}) as plane,
    ):
        record(access_from(plane.kubeconfig("admin")), names or CONVERSATIONS)


if __name__ == "__main__":
    main(sys.argv[1:])
