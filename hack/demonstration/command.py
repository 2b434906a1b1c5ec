"""The command line of ``hack/demo``: the order of events, what is said in between, and an end that leaves nothing.

However it is interrupted (``interruption``), whatever was begun is ended in order. Exit codes: 0 after the play, also
when it is then interrupted; 1 when something failed; 128 and the signal's number when it was interrupted before.
"""

import argparse
import contextlib
import signal
import sys
import time
from collections.abc import Sequence
from typing import Final

from demonstration import interruption, stage
from demonstration import screen as screens
from demonstration.interruption import Interrupted
from demonstration.play import JOBS, Play
from demonstration.screen import Screen
from demonstration.stage import Stage
from lab.tools.progress import Progress, duration

DESCRIPTION: Final = """\
Shows the operator at work: gets what is needed, starts a real Kubernetes control plane on this machine, the operator,
and three jobs; shows them until they have ended; and removes everything again. Containers are processes that wait."""
OVERTURE: Final = """\
This shows the TFJob operator at work on this machine, in about a minute. The
first time, Kubernetes has to be fetched before, which takes minutes, or built,
which can take half an hour; you will see what is being done.

The control plane and the operator are real. Containers are processes of this
machine, which only wait: no TensorFlow runs here.
"""
STORY: Final = """
Three jobs: 'steady' does what it should; 'unlucky' has a worker that is killed
again and again; 'patient' is suspended until 'steady' has succeeded.
"""


def main(arguments: Sequence[str]) -> int:
    """Perform, and return the exit code."""
    parser = argparse.ArgumentParser(prog="hack/demo", description=DESCRIPTION)
    parser.add_argument("--keep", action="store_true", help="stay when the jobs have ended, until Ctrl-C or SIGTERM")
    options = parser.parse_args(arguments)
    began = time.monotonic()
    screen = screens.screen_for(sys.stdout)
    try:
        with interruption.interruptible():
            _perform(screen, keep=options.keep)
    except interruption.KNOWN as error:
        sys.stderr.write(f"demo: {error}\n")
        return 1
    except Interrupted as interrupted:
        screen.say("demo: interrupted; everything has been removed")
        return interrupted.exit_status
    screen.say(f"demo: everything has been removed; it took {duration(time.monotonic() - began)}")
    return 0


def _perform(screen: Screen, *, keep: bool) -> None:
    screen.say(OVERTURE)
    with stage.built(Progress(sys.stdout, prefix="demo")) as job_namespace:
        try:
            screen.say(STORY.rstrip())
            play = Play(job_namespace, screen)
            play.perform()
            play.conclude()
            _stay(job_namespace, screen, keep=keep)
        finally:
            interruption.stop_listening()
            screen.say("\ndemo: removing everything again")


def _stay(job_namespace: Stage, screen: Screen, *, keep: bool) -> None:
    """Let people look around: with --keep until a signal, on a terminal until Enter."""
    is_watched = sys.stdin.isatty() and sys.stdout.isatty()
    if keep:
        screen.say(
            "\nEverything stays until you press Ctrl-C here (or send SIGTERM). Meanwhile, in another terminal:\n"
        )
    elif is_watched:
        screen.say("\nEverything stays until you press Enter here. Meanwhile, in another terminal:\n")
    else:
        screen.say("\nWith --keep it would stay now, and you could go on in another terminal:\n")
    screen.say(_next_commands(job_namespace))
    with contextlib.suppress(Interrupted, EOFError):
        if keep:
            signal.pause()
        elif is_watched:
            input()


def _next_commands(job_namespace: Stage) -> str:
    """What to type, with the kubectl that fits."""
    commands = (
        f"export KUBECONFIG={job_namespace.kubeconfig}",
        f"alias kubectl={job_namespace.kubectl}",
        "kubectl get tfjobs -o wide",
        "kubectl describe tfjob unlucky",
        f"kubectl replace --force -f {JOBS}/steady.yaml",
        f"tail -f {job_namespace.operator.log}",
    )
    return "\n".join(f"  {command}" for command in commands)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
