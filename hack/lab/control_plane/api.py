"""A blocking API client in a few lines, for setting a plane up and for the plain steps of tests.

Standard library only and deliberately not the product's own client: what a test is judged by must not
share the bugs of what it judges.
"""

import http.client
import json
import ssl
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

Body = Mapping[str, Any]
TRIES_WHEN_UNAVAILABLE = 10
"""As client-go: a 503 with Retry-After refuses a request before anything was done. kube-apiserver gives it to requests
that come while it replaces the storage of a CRD that has changed ("apiserver is shutting down")."""


class ApiRefusedError(Exception):
    """An answer other than 2xx, with the HTTP status and the server's own text."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(f"{status}: {text}")
        self.status = status


class BlockingApi:
    """One user's access to one API server; a connection for each request, so threads may share it."""

    def __init__(self, url: str, *, token: str, authority: Path, timeout: float = 30.0) -> None:
        self._address = urlsplit(url).netloc
        self._token = token
        self._tls = ssl.create_default_context(cafile=str(authority))
        self._timeout = timeout

    def get(self, path: str) -> dict[str, Any]:
        return self.request("GET", path)

    def create(self, path: str, body: Body) -> dict[str, Any]:
        return self.request("POST", path, body)

    def patch(self, path: str, body: Body, *, kind: str = "application/merge-patch+json") -> dict[str, Any]:
        return self.request("PATCH", path, body, kind=kind)

    def delete(self, path: str, body: Body | None = None) -> dict[str, Any]:
        return self.request("DELETE", path, body)

    def request(
        self, method: str, path: str, body: Body | None = None, *, kind: str = "application/json"
    ) -> dict[str, Any]:
        """Send one request and decode the answer; raise ApiRefusedError unless it is a 2xx."""
        text_sent = None if body is None else json.dumps(body)
        status, text, retry_after = self._send(method, path, text_sent, kind)
        for _ in range(TRIES_WHEN_UNAVAILABLE - 1):
            if status != 503 or not retry_after:
                break
            time.sleep(float(retry_after))
            status, text, retry_after = self._send(method, path, text_sent, kind)
        if not 200 <= status < 300:
            raise ApiRefusedError(status, _message(text))
        answer: dict[str, Any] = json.loads(text)
        return answer

    def wait_for(self, path: str, *, timeout: float = 20.0) -> dict[str, Any]:
        """Return the object at *path* as soon as somebody has made it."""
        deadline = time.monotonic() + timeout
        while True:
            try:
                return self.get(path)
            except ApiRefusedError as refusal:
                if refusal.status != 404 or time.monotonic() > deadline:
                    raise
            time.sleep(0.02)

    def is_allowed(self, **attributes: str) -> bool:
        """Ask the server whether this user may do what *attributes* of a SelfSubjectAccessReview describe."""
        review = self.create(
            "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
            {
                "apiVersion": "authorization.k8s.io/v1",
                "kind": "SelfSubjectAccessReview",
                "spec": {"resourceAttributes": attributes},
            },
        )
        return bool(review["status"]["allowed"])

    def apply(self, manifest: Body) -> dict[str, Any]:
        """Server-side apply of one object, whatever its kind."""
        api, kind, metadata = manifest["apiVersion"], manifest["kind"], manifest["metadata"]
        group = f"/apis/{api}" if "/" in api else f"/api/{api}"
        resource = next(
            resource
            for resource in self.get(group)["resources"]
            if resource["kind"] == kind and "/" not in resource["name"]
        )
        namespace = f"/namespaces/{metadata['namespace']}" if resource["namespaced"] else ""
        path = f"{group}{namespace}/{resource['name']}/{metadata['name']}?fieldManager=control-plane&force=true"
        return self.patch(path, manifest, kind="application/apply-patch+yaml")

    def _send(self, method: str, path: str, body: str | None, kind: str) -> tuple[int, str, str]:
        connection = http.client.HTTPSConnection(self._address, timeout=self._timeout, context=self._tls)
        headers = {"Authorization": f"Bearer {self._token}", "Content-Type": kind, "Accept": "application/json"}
        try:
            connection.request(method, path, body, headers)
            response = connection.getresponse()
            return response.status, response.read().decode(), response.getheader("Retry-After", "")
        finally:
            connection.close()


def _message(text: str) -> str:
    try:
        return str(json.loads(text)["message"])
    except (ValueError, KeyError, TypeError):
        return text[:500]
