"""What `helm test` does: create a TFJob, wait for its end, tell how it went, delete it. Exit code 0 when it succeeded.

It runs in a pod, as a ServiceAccount that has the role edit and nothing else, and needs only Python's standard library.
The job is in job.json beside it; its name gets a random end, so that no earlier run is in the way.
"""

import json
import os
import secrets
import ssl
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

ACCOUNT = Path(os.environ.get("SERVICE_ACCOUNT", "/var/run/secrets/kubernetes.io/serviceaccount"))
POLL_SECONDS = 1.0

Json = dict[str, Any]


class ApiServer:
    """The API server, as the pod's account."""

    def __init__(self) -> None:
        """Read the account that Kubernetes has put into the pod."""
        host = os.environ["KUBERNETES_SERVICE_HOST"]
        self.url = f"https://{f'[{host}]' if ':' in host else host}:{os.environ['KUBERNETES_SERVICE_PORT']}"
        self.tls = ssl.create_default_context(cafile=str(ACCOUNT / "ca.crt"))

    def ask(self, method: str, path: str, body: Json | None = None) -> str:
        """One request; the reply as text."""
        token = (ACCOUNT / "token").read_text().strip()
        headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data, headers, method=method)  # noqa: S310 (always https)
        with urllib.request.urlopen(request, timeout=30, context=self.tls) as reply:  # noqa: S310 (as above)
            text: str = reply.read().decode()
        return text


def main() -> int:
    """Run the job; the exit code."""
    job = json.loads(Path(__file__).with_name("job.json").read_text())
    namespace = job["metadata"]["namespace"]
    job["metadata"]["name"] += f"-{secrets.token_hex(3)}"
    name = job["metadata"]["name"]
    server = ApiServer()
    jobs = f"/apis/kubeflow.org/v1/namespaces/{namespace}/tfjobs"
    try:
        server.ask("POST", jobs, job)
        tell(f"created TFJob {namespace}/{name}")
        try:
            return follow(server, f"{jobs}/{name}", pods=f"/api/v1/namespaces/{namespace}/pods", name=name)
        finally:
            server.ask("DELETE", f"{jobs}/{name}")
    except urllib.error.HTTPError as refusal:
        tell(f"refused: {message(refusal)}")
        return 1


def follow(server: ApiServer, path: str, *, pods: str, name: str) -> int:
    """Tell every change of the job until it has ended; 0 when it has succeeded."""
    deadline = time.monotonic() + float(os.environ.get("TIMEOUT_SECONDS", "240"))
    shown = None
    while time.monotonic() < deadline:
        conditions = json.loads(server.ask("GET", path)).get("status", {}).get("conditions") or [{}]
        now = {key: conditions[-1].get(key, "") for key in ("type", "reason", "message")}
        if now != shown and now["type"]:
            tell("{type}: {message} ({reason})".format(**now))
            shown = now
        if now["type"] in {"Succeeded", "Failed"}:
            if now["type"] == "Failed":
                tell_pods(server, pods, name)
            return int(now["type"] == "Failed")
        time.sleep(POLL_SECONDS)
    tell("The job has not ended in time." if shown else "Nobody has taken the job up: is the operator ready?")
    tell_pods(server, pods, name)
    return 1


def tell_pods(server: ApiServer, pods: str, name: str) -> None:
    """What there is to know of each pod of a job that did not succeed."""
    for pod in json.loads(server.ask("GET", f"{pods}?labelSelector=training.kubeflow.org/job-name={name}"))["items"]:
        pod_name = pod["metadata"]["name"]
        states = [item["state"] for item in pod["status"].get("containerStatuses", [])]
        tell(f"pod {pod_name}: {pod['status'].get('phase')} {json.dumps(states)}")
        try:
            tell(server.ask("GET", f"{pods}/{pod_name}/log?tailLines=20"))
        except urllib.error.HTTPError as refusal:
            tell(f"no log: {message(refusal)}")


def message(refusal: urllib.error.HTTPError) -> str:
    """Why the API server has refused."""
    text = refusal.read().decode(errors="replace")
    try:
        return str(json.loads(text)["message"])
    except (ValueError, KeyError, TypeError):
        return f"{refusal.code} {text}"


def tell(text: str) -> None:
    """A line for whoever reads the log, now."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
