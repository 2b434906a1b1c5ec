"""What the operator's image is on a light node: ``tf-operator``, listening at its pod's address only: a program.

A container has addresses and files of its own; here the node says where they are.
"""

import os
import socket
import sys
from functools import partial
from pathlib import Path
from typing import Any, Final

from support.pods.light_node.pod import ADDRESS, ROOT, SERVICE_ACCOUNT
from tf_operator.app import clients, command, crd_apply
from tf_operator.machinery.transport.in_cluster import InCluster

_REPOSITORY: Final = Path(__file__).resolve().parents[3]
IMAGE: Final = "localhost/tf-operator"
COMMAND: Final = (
    "/usr/bin/env",
    f"PYTHONPATH={_REPOSITORY}:{_REPOSITORY / 'hack'}:{_REPOSITORY / 'test'}",
    *(sys.executable, "-m", "support.operators.operator_image"),
)
_create_server = socket.create_server


def _at_own_address(address: tuple[str, int], **options: Any) -> socket.socket:  # noqa: ANN401 (as the original)
    host, port = address
    return _create_server((host or os.environ[ADDRESS], port), **options)


if __name__ == "__main__":
    socket.create_server = _at_own_address  # type: ignore[assignment]
    socket.has_dualstack_ipv6 = lambda: False
    for module in (clients, crd_apply):
        vars(module)["InCluster"] = partial(InCluster, directory=Path(os.environ[ROOT]) / SERVICE_ACCOUNT)
    sys.exit(command.main())
