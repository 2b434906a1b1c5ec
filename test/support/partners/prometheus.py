"""A real Prometheus for tests: it scrapes what it is given, keeps it in a folder of the test, and answers questions.

    with Prometheus.up(tmp_path) as prometheus:
        prometheus.scrape(Target("tf-operator", await process.address()))
        prometheus.query('up{job="tf-operator"}')        # [Sample(labels, value)]

It scrapes and evaluates each second, so that a test sees in seconds what an installation sees in minutes. Everything
blocks for one request to this machine. The process ends with the block, or with the test session, however that ends.
"""

import functools
import json
import math
import os
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Self
from urllib.error import HTTPError, URLError
from urllib.parse import urlencode, urlsplit
from urllib.request import ProxyHandler, Request, build_opener

import yaml

from lab import Json
from lab.control_plane.process import die_with
from lab.control_plane.servers import free_port
from lab.tools.get import programs

PROGRAM: Final = "prometheus"
_START_SECONDS: Final = 60.0
_END_SECONDS: Final = 20.0
_ATTEMPTS: Final = 3
_ANSWER_SECONDS: Final = 30.0
_PORT_TAKEN: Final = "address already in use"
# A proxy that the environment names is not for this machine's own addresses.
_OPENER: Final = build_opener(ProxyHandler({}))


class RefusedError(Exception):
    """Prometheus did not do what it was asked to; the message is its own."""


@dataclass(frozen=True, slots=True)
class Target:
    """Something to scrape, and the labels that its series get besides ``job`` and ``instance``."""

    job: str
    address: str
    """``host:port``, or a URL whose path is that of the metrics."""
    labels: Mapping[str, str] = field(default_factory=dict)
    access: Json = field(default_factory=dict)
    """How to be let in: more of the scrape configuration, such as ``authorization``."""

    def config(self) -> Json:
        """The scrape configuration for it."""
        url = urlsplit(self.address if "://" in self.address else f"http://{self.address}")
        static = {"targets": [url.netloc], "labels": dict(self.labels)}
        path = url.path.rstrip("/") or "/metrics"
        return {"job_name": self.job, "metrics_path": path, "static_configs": [static], **self.access}


@dataclass(frozen=True, slots=True)
class Sample:
    """One series of an answer, and its value at that moment."""

    labels: Mapping[str, str]
    value: float


@dataclass(frozen=True, slots=True)
class Alert:
    """An alert that is ``pending`` or ``firing``."""

    name: str
    state: str
    labels: Mapping[str, str]
    annotations: Mapping[str, str]


class Prometheus:
    """One server; made by ``Prometheus.up``."""

    def __init__(self, folder: Path, interval: str) -> None:
        self.folder = folder
        self.url = ""
        self._interval = interval
        self._targets: list[Target] = []
        self._rules: list[Path] = []
        self._process: subprocess.Popen[bytes] | None = None

    @classmethod
    @contextmanager
    def up(cls, folder: Path, *, interval: str = "1s") -> Iterator[Self]:
        """Run one while the body runs, with its data in a folder that nobody else uses."""
        folder.mkdir(parents=True, exist_ok=True)
        server = cls(folder, interval)
        try:
            server._start()
            yield server
        finally:
            server._stop()

    def scrape(self, *targets: Target) -> None:
        """Scrape these from now on, beside what is scraped already; a target of a known job takes its place."""
        jobs = {target.job for target in targets}
        self._targets = [*(target for target in self._targets if target.job not in jobs), *targets]
        self._reload()

    def load_rules(self, *texts: str) -> None:
        """Evaluate exactly these rule files from now on."""
        self._rules = [self.folder / f"rules-{number}.yaml" for number in range(len(texts))]
        for path, text in zip(self._rules, texts, strict=True):
            path.write_text(text, encoding="utf-8")
        self._reload()

    def query(self, expression: str) -> list[Sample]:
        """The value of every series at this moment; a scalar is a series without labels."""
        answer = self._ask("query", query=expression)
        results = [{"metric": {}, "value": answer["result"]}] if answer["resultType"] == "scalar" else answer["result"]
        return [Sample(item["metric"], float(item["value"][1])) for item in results]

    def value(self, expression: str) -> float:
        """The value of the only series; not a number when there is none."""
        samples = self.query(expression)
        assert len(samples) <= 1, f"{expression} has {len(samples)} series"
        return samples[0].value if samples else math.nan

    def alerts(self) -> list[Alert]:
        """Every alert that is pending or firing."""
        return [
            Alert(item["labels"]["alertname"], item["state"], item["labels"], item["annotations"])
            for item in self._ask("alerts")["alerts"]
        ]

    def rules(self) -> list[Json]:
        """Every rule as it was last evaluated: its ``health``, its ``lastError``, its ``state``."""
        return [rule for group in self._ask("rules")["groups"] for rule in group["rules"]]

    def targets(self) -> list[Json]:
        """Everything that is scraped: its ``health``, its ``lastError``, its ``labels``."""
        active: list[Json] = self._ask("targets", state="active")["activeTargets"]
        return active

    def _ask(self, path: str, **parameters: str) -> Json:
        query = f"?{urlencode(parameters)}" if parameters else ""
        answer = json.loads(self._send("GET", f"/api/v1/{path}{query}"))
        data: Json = answer["data"]
        return data

    def _start(self) -> None:
        """Somebody may take the port between our look at it and the bind: choose again."""
        self._write_config()
        for attempt in range(_ATTEMPTS):
            log = self._launch(port := free_port())
            self.url = f"http://127.0.0.1:{port}"
            if self._wait_ready():
                return
            output = log.read_text(errors="replace")
            if _PORT_TAKEN not in output or attempt == _ATTEMPTS - 1:
                raise RefusedError(f"Prometheus did not start; the end of its log:\n{output[-2000:]}")

    def _launch(self, port: int) -> Path:
        program = programs(PROGRAM)[PROGRAM]
        command = [
            program,
            *(f"--config.file={self._config}", f"--storage.tsdb.path={self.folder / 'data'}"),
            *(f"--web.listen-address=127.0.0.1:{port}", "--web.enable-lifecycle", "--log.level=warn"),
            # Else a new target would be looked at only seconds after it was named.
            "--scrape.discovery-reload-interval=100ms",
        ]
        path = self.folder / "prometheus.log"
        with path.open("wb") as log:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=self.folder,
                start_new_session=True,
                preexec_fn=functools.partial(die_with, os.getpid()),  # noqa: PLW1509 - it takes no lock
            )
        return path

    def _wait_ready(self) -> bool:
        """Whether it answers; false when it has ended."""
        assert self._process is not None
        deadline = time.monotonic() + _START_SECONDS
        while self._process.poll() is None and time.monotonic() < deadline:
            try:
                self._send("GET", "/-/ready")
            except (RefusedError, OSError):
                time.sleep(0.05)
            else:
                return True
        return False

    def _stop(self) -> None:
        if self._process is None:
            return
        self._process.terminate()
        try:
            self._process.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    @property
    def _config(self) -> Path:
        return self.folder / "prometheus.yaml"

    def _write_config(self) -> None:
        jobs: dict[str, Json] = {}
        for config in (target.config() for target in self._targets):
            job = jobs.setdefault(config["job_name"], config)
            if job is not config:
                job["static_configs"] += config["static_configs"]
        body = {
            "global": {"scrape_interval": self._interval, "evaluation_interval": self._interval},
            "rule_files": [str(path) for path in self._rules],
            "scrape_configs": list(jobs.values()),
        }
        self._config.write_text(yaml.safe_dump(body, sort_keys=False), encoding="utf-8")

    def _reload(self) -> None:
        self._write_config()
        self._send("POST", "/-/reload")

    def _send(self, method: str, path: str) -> str:
        request = Request(f"{self.url}{path}", method=method)
        try:
            with _OPENER.open(request, timeout=_ANSWER_SECONDS) as answer:
                text: str = answer.read().decode()
        except HTTPError as error:
            with error:
                raise RefusedError(f"{method} {path}: {error.code}: {error.read().decode(errors='replace')}") from error
        except URLError as error:
            raise RefusedError(f"{method} {path}: {error.reason}") from error
        return text
