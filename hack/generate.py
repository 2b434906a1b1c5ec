"""Writes everything that is generated: the command ``hack/generate``.

A generator is a pure function from the repository to texts by their paths; here they are written. So that what was
committed can be checked, generate and look whether git sees a difference: ``make verify``. Neighbours: ``crd``,
``chart``, ``rules``, ``golden``, ``dashboards``, one package for each generator, and ``lab.tools``.
"""

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1]
ALONE: Final = [
    *("checkov", "go", "docs", "browser", "clients"),
    *("notebooks", "partners", "pipelines", "tensorboard", "training"),
]
LOCKS: Final[Mapping[str, Sequence[str]]] = {
    "image": (
        *("setup.cfg", "--extra", "uvloop", "--extra", "tls"),
        *("--overrides", "hack/requirements/image-overrides.in"),
    ),
    "ci": (
        "setup.cfg",
        *(part for extra in ("uvloop", "tls", "cli", "local", "test", "dev") for part in ("--extra", extra)),
    ),
    **{name: (f"hack/requirements/{name}.in",) for name in ALONE},
    "demo": (
        *("setup.cfg", "--extra", "cli", "--extra", "local", "--extra", "tls"),
        *("hack/requirements/training.in", "hack/requirements/tensorboard.in"),
    ),
}
DESCRIPTION: Final = """\
Writes what is generated:

  crd         manifests/crd and schemas, the CRDs in the package and the tables of docs/api.md, from hack/crd/*.yaml
  rules       the alerts of the chart and of the overlay, from manifests/monitoring/alerts.yaml
  chart       the CRD, the roles and the README of charts/tf-operator
  installed   what tfjob install applies and pushes: objects.json in tf_operator/client/installation, from manifests/,
              and operator.txt in tf_operator/client/images, from the lock of the image
  commands    what docs/cli.md says of each command, and grammar.json in tf_operator/cli, from the parser of tfjob
  reference   docs/reference, from the program: flags, metrics, events, Python client; and the TF_CONFIG of an example
  pictures    nothing; fails when a picture of docs/images is older than what it shows
  dashboards  charts/tf-operator/dashboards, from hack/dashboards
  golden      the plan of each case in test/golden; read the difference, because it is a change of behaviour
  lock        hack/requirements/*.txt, from setup.cfg and the *.in files; a pin that still fits stays as it is
  tools       go.mod and go.sum of each set in hack/lab/tools/modules, by go mod tidy
  core        what kube-apiserver of the newest minor in hack/lab/tools/modules says of pod templates; crd is made of it
  kinds       the fields of built-in kinds for the embedded API server, from the kubernetes package
  lists       how server-side apply merges their lists, from the Go modules of the newest minor; kinds is made of it
  messages    their messages in protobuf, from the same modules

Without names: all but tools, core, lists and messages, which follow only from a change of versions."""


class NotGeneratedError(Exception):
    """A source is wrong, and nothing was written from it."""


@dataclass(frozen=True, slots=True)
class Files:
    """What a generator makes: texts by their paths, and a pattern of files that nothing else makes."""

    texts: Mapping[Path, str]
    owned: str = ""

    def write(self, root: Path) -> list[str]:
        """Write what differs, remove what nothing makes any more, and say what was done."""
        report: list[str] = []
        for path, text in self.texts.items():
            target = root / path
            if not target.is_file() or target.read_text(encoding="utf-8") != text:
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_text(text, encoding="utf-8")
                report.append(f"wrote {path}")
        for path in sorted(root.glob(self.owned)) if self.owned else ():
            if path.relative_to(root) not in self.texts:
                path.unlink()
                report.append(f"removed {path.relative_to(root)}, which nothing makes")
        return report


# Each imports what it needs: who writes plans does not wait for Grafana's library.
def crd(root: Path) -> Files:
    from crd import json_schema, outputs  # noqa: PLC0415

    return Files(outputs.render(root), owned=f"{json_schema.FOLDER}/*/*.json")


def rules(root: Path) -> Files:
    """The alerts, if promtool finds nothing wrong with their source."""
    from lab.tools.get import programs  # noqa: PLC0415
    from rules import outputs  # noqa: PLC0415

    command = [programs("promtool")["promtool"], "check", "rules", "--lint=all", "--lint-fatal", str(outputs.SOURCE)]
    process = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    if process.returncode != 0:
        raise NotGeneratedError(f"{outputs.SOURCE} is wrong: {process.stdout}{process.stderr}")
    return Files(outputs.render(root))


def chart(root: Path) -> Files:
    """What the chart has of the manifests, and its README."""
    from chart import outputs, readme  # noqa: PLC0415

    return Files({**outputs.render(root), readme.README: readme.render(root)})


def installed(root: Path) -> Files:
    """What ``tfjob install`` applies and pushes."""
    from installation import outputs  # noqa: PLC0415

    return Files(outputs.render(root))


def commands(root: Path) -> Files:
    from commands import reference  # noqa: PLC0415

    page = reference.fill((root / reference.PAGE).read_text(encoding="utf-8"))
    return Files({reference.PAGE: page, reference.GRAMMAR: reference.grammar()})


def pictures(root: Path) -> Files:
    """Nothing, if the pictures of docs/images show what there is."""
    from demonstration import freshness  # noqa: PLC0415

    if problems := [*freshness.stale(root)]:
        raise NotGeneratedError("; ".join(problems))
    return Files({})


def reference(root: Path) -> Files:
    """The pages of docs/reference, and the example of TF_CONFIG."""
    from pages import reference as described  # noqa: PLC0415

    return Files(described.render(root), owned=f"{described.FOLDER}/*.md")


def dashboards(root: Path) -> Files:  # noqa: ARG001 (they follow from code alone)
    from dashboards import files  # noqa: PLC0415

    return Files(files.render(), owned=f"{files.FOLDER}/*.json")


def golden(root: Path) -> Files:
    from golden import case, job_queue_case, written  # noqa: PLC0415

    return Files(written.plans(root) | job_queue_case.plans(root), owned=f"{case.FOLDER}/**/*{case.PLAN}")


def lock(root: Path, *, arguments: Sequence[str] = ()) -> Files:
    """The locks, which uv writes by itself."""
    options = ("--universal", "--python-version", "3.11", "--generate-hashes", "--no-annotate", "--quiet")
    header_options = ("--no-emit-index-url", "--no-emit-find-links", "--custom-compile-command", "hack/generate lock")
    for name, sources in LOCKS.items():
        path = root / f"hack/requirements/{name}.txt"
        text, times = (path.read_bytes(), path.stat()) if path.exists() else (b"", None)
        uv = [str(Path(sys.executable).with_name("uv")), "pip", "compile", "--output-file", str(path)]
        subprocess.run([*uv, *options, *header_options, *arguments, *sources], cwd=root, check=True)
        if times and path.read_bytes() == text:  # as it was, or make would install everything again
            os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    return Files({})


def tools(root: Path) -> Files:  # noqa: ARG001 (they have one place)
    """The go.mod and go.sum files, which Go writes by itself."""
    from lab.tools import build  # noqa: PLC0415
    from lab.tools.get import Toolbox  # noqa: PLC0415

    toolbox = Toolbox(os.environ)
    build.tidy(go=toolbox.go(), progress=toolbox.progress)
    return Files({})


def core(root: Path) -> Files:  # noqa: ARG001 (it follows from a server)
    """The part of the core API that the CRD is made of."""
    from crd import core as described  # noqa: PLC0415
    from crd import outputs  # noqa: PLC0415

    return Files({outputs.CORE: described.write(described.keep(described.ask_apiserver()))})


def kinds(root: Path) -> Files:
    """The fields of the kinds that are built into the embedded API server."""
    from crd import kinds as described  # noqa: PLC0415
    from crd import lists as lists_of_kinds  # noqa: PLC0415
    from crd import outputs  # noqa: PLC0415

    core_definitions = json.loads((root / outputs.CORE).read_text(encoding="utf-8"))
    merging = json.loads((root / lists_of_kinds.FILE).read_text(encoding="utf-8"))
    return Files({described.FILE: described.text(core_definitions, merging)})


def lists(root: Path) -> Files:  # noqa: ARG001 (they follow from a Go module)
    """How server-side apply merges the lists of built-in kinds."""
    from crd import lists as described  # noqa: PLC0415

    return Files({described.FILE: described.text(_newest_modules([described.MODULE])[described.MODULE])})


def _newest_modules(names: Sequence[str]) -> dict[str, Path]:
    """Where the sources of Go modules of the newest minor of Kubernetes are."""
    from lab.tools import build, catalogue  # noqa: PLC0415
    from lab.tools.get import Toolbox  # noqa: PLC0415

    toolbox, minor = Toolbox(os.environ), catalogue.kubernetes_minors(catalogue.FOLDER)[-1]
    pins = catalogue.FOLDER / "modules" / f"kubernetes-{minor}"
    return build.modules(names, folder=pins, go=toolbox.go(), progress=toolbox.progress)


def messages(root: Path) -> Files:  # noqa: ARG001 (they follow from Go modules)
    """The messages in protobuf of the kinds that are built into the embedded API server."""
    from crd import messages as described  # noqa: PLC0415
    from lab.tools import catalogue  # noqa: PLC0415

    minor = catalogue.kubernetes_minors(catalogue.FOLDER)[-1]
    return Files({described.FILE: described.text(_newest_modules(described.MODULES), minor)})


# In this order: the chart is made of what the first two write, and what is installed of the lock.
GENERATORS: Final[Mapping[str, Callable[[Path], Files]]] = {
    generator.__name__: generator
    for generator in (
        *(core, lists, kinds, messages, tools),
        *(crd, rules, chart, lock, installed, commands, reference, pictures, dashboards, golden),
    )
}
ON_REQUEST: Final = ("core", "lists", "messages", "tools")


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="hack/generate", description=DESCRIPTION, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help="what to generate")
    parser.add_argument("--upgrade", action="store_true", help="lock: move all pins to the latest versions")
    parser.add_argument("--upgrade-package", action="append", default=[], metavar="NAME", help="lock: move one pin")
    options = parser.parse_args()
    if unknown := [name for name in options.names if name not in GENERATORS]:
        parser.error(f"there is no generator named {', '.join(unknown)}; there are: {', '.join(GENERATORS)}")
    upgrades = [part for name in options.upgrade_package for part in ("--upgrade-package", name)]
    upgrades += ["--upgrade"] * options.upgrade
    names = options.names or [name for name in GENERATORS if name not in ON_REQUEST]
    for name in (name for name in GENERATORS if name in names):
        try:
            files = lock(ROOT, arguments=upgrades) if name == "lock" else GENERATORS[name](ROOT)
        except (NotGeneratedError, subprocess.CalledProcessError) as error:
            sys.exit(f"hack/generate {name}: {error}")
        for line in files.write(ROOT):
            print(f"hack/generate {name}: {line}")


if __name__ == "__main__":
    main()
