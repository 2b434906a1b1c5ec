"""The local server of one program that has started it: ``python -m tf_operator.app.own_server``, for ``TFJobs.run``.

It writes the path of its kubeconfig to standard output once it serves. When standard input says something, or ends, the
programs of pods have their grace periods, and nothing is left; a signal then kills them.
"""

import asyncio
import sys

from tf_operator.app import local, logs, signals
from tf_operator.app.local import LocalOptions
from tf_operator.local import scratch
from tf_operator.local.node.processes import supervisor


def main() -> None:
    """Serve until standard input says something, or ends."""
    logs.configure("console", "error")
    with scratch.folder() as folder:
        spawner = supervisor.start_spawner(folder.path / scratch.PROCESSES)
        options = LocalOptions(folder, local.this_interpreter(), spawner_process=spawner, gpus=local.machine_gpus())
        asyncio.run(_serve(options))


async def _serve(options: LocalOptions) -> None:
    loop = asyncio.get_running_loop()

    def on_end() -> None:
        loop.remove_reader(sys.stdin)
        stop.set()

    def on_ready() -> None:
        sys.stdout.write(f"{options.folder.kubeconfig}\n")
        sys.stdout.flush()

    with signals.stopping() as stop:
        loop.add_reader(sys.stdin, on_end)
        await local.serve_until(stop, options, on_ready)


if __name__ == "__main__":
    main()
