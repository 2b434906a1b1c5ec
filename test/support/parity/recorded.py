"""What a real kube-apiserver answered to the conversations: files beside them, which this program writes.

PYTHONPATH=test:hack .venv/bin/python -m support.parity.recorded
"""

import json
import secrets
import sys
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final

from lab.control_plane.plane import ControlPlane
from lab.kubeconfig import access_from
from support.parity.normal import normal
from support.parity.players import RealServer, play
from support.parity.script import Conversation, conversations
from tf_operator import dialects

FOLDER: Final = Path(__file__).parents[2] / "scenarios" / "parity"
FILES: Final = tuple(sorted((FOLDER / "conversations").glob("*.txt")))

CRDS: Final = tuple(json.loads(file.read_text()) for file in sorted(Path(dialects.__file__).parent.glob("*/crd.json")))


def answers_of(server: RealServer, file: Path) -> Iterator[tuple[Conversation, list[Any]]]:
    """What a real server answers now to the conversations of a file, each in a namespace of its own."""
    server.install(CRDS)
    all_of_it = list(conversations(file))
    token = secrets.token_hex(3)
    namespaces = [f"parity-{token}-{number}" for number in range(len(all_of_it))]
    server.make_namespaces(namespaces)
    for conversation, namespace in zip(all_of_it, namespaces, strict=True):
        yield conversation, normal(conversation, play(conversation, server, namespace), namespace)


def recording(file: Path) -> dict[str, list[Any]]:
    """The recorded answers to the conversations of a file, by name."""
    found: dict[str, list[Any]] = {}
    for line in (FOLDER / "recorded" / file.name).read_text().splitlines():
        if line.startswith("== "):
            found[line[3:]] = []
        elif not line.startswith("> "):
            found[next(reversed(found))].append(json.loads(line))
    return found


def lines(conversation: Conversation, answers: list[Any]) -> Iterator[str]:
    """A conversation of a recording: each step and its answer."""
    yield f"== {conversation.name}"
    for number, answer in enumerate(answers):
        yield f"> {conversation.steps[number].text if number < len(conversation.steps) else 'the rest of a watch'}"
        yield json.dumps(answer, ensure_ascii=False)


def record(server: RealServer, files: Iterable[Path]) -> None:
    """Write what the server answers."""
    for file in files:
        text = [line for conversation, answers in answers_of(server, file) for line in lines(conversation, answers)]
        (FOLDER / "recorded" / file.name).write_text("\n".join(text) + "\n")


def main(names: list[str]) -> None:
    """Record the named files, or all, from a control plane that is made for it."""
    files = [file for file in FILES if not names or file.stem in names]
    with (
        tempfile.TemporaryDirectory() as folder,
        ControlPlane.up(Path(folder) / "plane", {"controller-manager"}) as plane,
        RealServer(access_from(plane.kubeconfig("admin"))) as server,
    ):
        record(server, files)


if __name__ == "__main__":
    main(sys.argv[1:])
