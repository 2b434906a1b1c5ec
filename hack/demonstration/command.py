"""The command line of ``hack/demo --real``: the training of ``hack/demo``, with the operator on a real control plane.

However it is interrupted (``interruption``), whatever was begun is ended in order. Exit codes: that of the job, also
when the demo is interrupted after it; 1 when something failed; 128 and the signal's number when it was interrupted
before.
"""

import argparse
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from demonstration import interruption, stage, training
from demonstration.interruption import Interrupted
from demonstration.real_training import RealTraining
from demonstration.stage import Stage, StageFailedError
from lab.control_plane.cli import KNOWN_ERRORS
from lab.tools.progress import Progress, duration

DESCRIPTION: Final = """\
Trains as hack/demo does, on a real Kubernetes control plane of this machine: etcd, kube-apiserver, the controllers of
Kubernetes and the operator are programs of their own, and pods are processes. Removes everything again."""
OVERTURE: Final = """\
The training of 'make demo' on a real control plane: etcd, kube-apiserver and the
operator with the rights of manifests/rbac. Only its node is not real: pods are
processes of this machine. The first time, Kubernetes has to be fetched before,
which takes minutes, or built, which can take half an hour; and TensorFlow (minutes).
"""


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="hack/demo --real", description=DESCRIPTION)
    parser.add_argument("--keep", action="store_true", help="stay when the job has ended, until Ctrl-C or SIGTERM")
    parser.add_argument("job", nargs="?", metavar="FILE", help="another job, which runs with the Python of .venv")
    options = parser.parse_args(arguments)
    began = time.monotonic()
    progress = Progress(sys.stdout, prefix="demo")
    try:
        with interruption.interruptible():
            code = _perform(progress, options)
    except (*KNOWN_ERRORS, StageFailedError) as error:
        sys.stderr.write(f"demo: {error}\n")
        return 1
    except Interrupted as interrupted:
        progress.say("interrupted; everything has been removed")
        return interrupted.exit_code
    progress.say(f"everything has been removed; it took {duration(time.monotonic() - began)}")
    return code


def _perform(progress: Progress, options: argparse.Namespace) -> int:
    print(OVERTURE, flush=True)
    command = [str(Path(options.job).absolute())] if options.job else _training(progress)
    with stage.built(progress) as built:
        try:
            keeps = options.keep or (sys.stdin.isatty() and sys.stdout.isatty())
            job = RealTraining(
                built.kubeconfig, built.folder / "pods", on_end=lambda: _say_next(built, keeps=keeps), keeps=keeps
            )
            progress.say(f"tfjob run {' '.join(command)}\n")
            return job.run(command)
        finally:
            interruption.stop_listening()
            progress.say("removing everything again")


def _training(progress: Progress) -> list[str]:
    os.chdir(training.ROOT)
    return [*training.ARGUMENTS, "--python", str(training.prepare(progress))]


def _say_next(built: Stage, *, keeps: bool) -> None:
    if keeps:
        print("\nEverything stays until you press Ctrl-C here (or send SIGTERM). Meanwhile, in another terminal:\n")
    else:
        print("\nWith --keep it would stay now, and you could go on in another terminal:\n")
    commands = (
        f"export KUBECONFIG={built.kubeconfig}",
        f"alias kubectl={built.kubectl}",
        "kubectl get tfjobs,pods -o wide",
        "kubectl describe tfjobs",
        f"tail -f {built.operator.log}",
    )
    print("".join(f"  {command}\n" for command in commands), flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
