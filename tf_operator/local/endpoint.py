"""The API server of a state folder, as kubectl finds it: an address, and a kubeconfig that leads there.

with folder.owned():
    async with endpoint.published(folder, handle, logs=node, clock=clock) as address: ...
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from tf_operator.local import certificate, kubeconfig
from tf_operator.local.apiserver.http import https
from tf_operator.local.apiserver.http.guard import Guard
from tf_operator.local.log_source import LogSource
from tf_operator.local.state import StateFolder
from tf_operator.machinery.clock import Clock


@asynccontextmanager
async def published(folder: StateFolder, handle: https.Handle, *, logs: LogSource, clock: Clock) -> AsyncIterator[str]:
    """Serve until the block is left; this process owns the folder. Yields the address.

    Port, token and certificate are those of the time before, if they still can be: a kubeconfig that was copied, and a
    kubectl that watches, find the next server of the folder.
    """
    # In a thread: a new certificate takes a quarter of a second, in which trainings are started.
    credentials = await asyncio.to_thread(certificate.credentials, folder, clock.now())
    listener = https.listen(_earlier_port(folder))
    port = listener.getsockname()[1]
    address = f"https://127.0.0.1:{port}"
    guard = Guard(credentials.token, hosts=certificate.HOSTS, port=port)
    with listener:  # it listens already: whoever reads the files finds it
        folder.write("port", str(port).encode())
        content = kubeconfig.text(address, authority=credentials.authority, token=credentials.token)
        folder.write(folder.kubeconfig.name, content.encode())
        folder.record(address)
        async with https.serving(handle, listener, guard=guard, tls=credentials.tls, logs=logs, clock=clock):
            yield address


def _earlier_port(folder: StateFolder) -> int:
    text = folder.read("port").decode(errors="replace")
    return int(text) if text.isascii() and text.isdigit() and len(text) < 6 else 0
