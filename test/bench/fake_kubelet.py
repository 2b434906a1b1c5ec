"""A kubelet for benchmarks, as a process of its own: every pod runs at once. It says when PODS of them have run.

    python fake_kubelet.py KUBECONFIG NAMESPACE PODS ENDS

ENDS is how the pods end, parameter servers excepted: ``alone``, each half a second after it ran; ``together``, once all
have run, the chiefs last; or ``never``.
"""

import asyncio
import sys
import time
from pathlib import Path

from support.api import Api
from support.pods import pod_status
from support.pods.autopilot import autopilot
from support.pods.kubelet import Kubelet
from support.pods.pod_scripts import Script, running, succeeding

SECONDS = 0.5
AT_ONCE = 32


class CountingKubelet(Kubelet):
    """Knows which pods have run."""

    def __init__(self, api: Api, namespace: str, expected: int) -> None:
        super().__init__(api, namespace)
        self.expected = expected
        self.ran: dict[str, dict] = {}
        self.all_ran = asyncio.Event()

    async def write(self, pod, status):
        written = await super().write(pod, status)
        if written["status"]["phase"] == "Running":
            self.ran[written["metadata"]["name"]] = written
            if len(self.ran) == self.expected and not self.all_ran.is_set():
                say(f"all have run at {time.monotonic()}")  # the same clock for all processes of a machine
                self.all_ran.set()
        return written

    async def end_all(self) -> None:
        """Have all succeed, parameter servers excepted; the chiefs when all others have."""
        ending = [name for name in self.ran if "-ps-" not in name]
        for are_chiefs in (False, True):
            names = iter([name for name in ending if ("-chief-" in name) == are_chiefs])
            await asyncio.gather(*(self._end_each(names) for _ in range(AT_ONCE)))

    async def _end_each(self, names) -> None:
        for name in names:
            await self.write(self.ran[name], pod_status.finished)


async def main(kubeconfig: str, namespace: str, pods: str, ends: str) -> None:
    after = [succeeding(after=SECONDS)] if ends == "alone" else []
    script = Script().on("*-ps-*", [running()]).otherwise([running(), *after])
    async with Api(Path(kubeconfig)) as api:
        kubelet = CountingKubelet(api, namespace, int(pods))
        async with autopilot(kubelet, script):
            say("workers started")
            if ends == "together":
                await kubelet.all_ran.wait()
                await kubelet.end_all()
            await asyncio.Event().wait()


def say(text: str) -> None:
    print(text, flush=True)  # noqa: T201 (whoever started it waits for this)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
