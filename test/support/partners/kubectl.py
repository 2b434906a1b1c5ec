"""The real kubectl against any cluster: what a person would type, with answers as objects.

Nothing of the product is used here. A command that fails raises KubectlError with what kubectl said.
"""

import json
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from lab.tools.get import programs

Json = dict[str, Any]
_PATIENCE_SECONDS = 240.0


class KubectlError(Exception):
    """What kubectl could not do; the message is its own."""


@dataclass(frozen=True, slots=True)
class Kubectl:
    """One person's kubectl: on which cluster, in which namespace, and as whom."""

    kubeconfig: Path
    cache: Path
    namespace: str = ""
    user: str = ""

    def within(self, namespace: str) -> "Kubectl":
        return replace(self, namespace=namespace)

    def as_user(self, user: str) -> "Kubectl":
        return replace(self, user=user)

    def command(self, *arguments: str) -> list[str]:
        program = programs("kubectl")["kubectl"]
        scope = [f"--namespace={self.namespace}"] if self.namespace else []
        person = [f"--as={self.user}"] if self.user else []
        return [program, f"--kubeconfig={self.kubeconfig}", f"--cache-dir={self.cache}", *scope, *person, *arguments]

    def attempt(self, *arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        command = self.command(*arguments)
        return subprocess.run(
            command, input=stdin, capture_output=True, text=True, check=False, timeout=_PATIENCE_SECONDS
        )

    def run(self, *arguments: str, stdin: str = "") -> str:
        """What a command prints that has to succeed."""
        process = self.attempt(*arguments, stdin=stdin)
        if process.returncode != 0:
            raise KubectlError(
                f"kubectl {' '.join(arguments)}: {process.stderr.strip() or f'exit code {process.returncode}'}"
            )
        return process.stdout

    def create(self, body: Mapping[str, Any]) -> None:
        self.run("create", "--validate=strict", "--filename=-", stdin=json.dumps(body))

    def get(self, kind: str, name: str) -> Json | None:
        text = self.run("get", kind, name, "--output=json", "--ignore-not-found")
        body: Json | None = json.loads(text) if text.strip() else None
        return body

    def list(self, kind: str, *, selector: str = "") -> list[Json]:
        bodies: list[Json] = json.loads(self.run("get", kind, "--output=json", f"--selector={selector}"))["items"]
        return bodies

    def logs(self, pod: str, *, container: str = "tensorflow") -> str:
        """What a container has said so far; nothing when it has not been started."""
        return self.attempt("logs", pod, f"--container={container}").stdout

    def patch(self, kind: str, name: str, change: Mapping[str, Any]) -> None:
        self.run("patch", kind, name, "--type=merge", f"--patch={json.dumps(change)}")
