"""A kubelet for benchmarks, as a process of its own: every pod runs at once; all but parameter servers succeed.

python fake_kubelet.py KUBECONFIG NAMESPACE SECONDS
"""

import asyncio
import sys
from pathlib import Path

from support.api import Api
from support.autopilot import autopilot
from support.courses import Script, running, succeeding
from support.kubelet import Kubelet


async def main(kubeconfig: str, namespace: str, seconds: str) -> None:
    script = Script().on("*-ps-*", [running()]).otherwise([running(), succeeding(after=float(seconds))])
    async with Api(Path(kubeconfig)) as api, autopilot(Kubelet(api, namespace), script):
        print("working", flush=True)  # noqa: T201 (whoever started it waits for this)
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
