"""The templates that follow from manifests/, as texts: ``hack/generate chart`` writes them.

The manifests are copied as text, with their comments, because those say why each right is there. What Helm has to fill
in replaces lines that must be found, or nothing is written.
"""

import re
import textwrap
from pathlib import Path
from typing import Final

from chart import address

CHART: Final = Path("charts/tf-operator")
DESCRIPTION: Final = CHART / "Chart.yaml"
README: Final = Path("README.md")
CRD: Final = Path("manifests/crd/tfjobs.yaml")
RBAC: Final = Path("manifests/rbac")
METRICS: Final = Path("manifests/overlays/protected-metrics")
HEADER: Final = "{{{{- /* Generated from {source}: edit it and run hack/generate chart. */ -}}}}\n"
# The name of a template, and the manifest whose rules it is.
RULES: Final = {
    "rules": RBAC / "cluster-role.yaml",
    "leaseRules": RBAC / "role-leader-election.yaml",
    "viewRules": RBAC / "user-role-view.yaml",
    "editRules": RBAC / "user-role-edit.yaml",
    "mlkubeRules": RBAC / "mlkube/cluster-role.yaml",
    "mlkubeViewRules": RBAC / "mlkube/user-role-view.yaml",
    "mlkubeEditRules": RBAC / "mlkube/user-role-edit.yaml",
    "t9kRules": RBAC / "t9k/cluster-role.yaml",
    "t9kViewRules": RBAC / "t9k/user-role-view.yaml",
    "t9kEditRules": RBAC / "t9k/user-role-edit.yaml",
    "metricsAuthRules": METRICS / "cluster-role-metrics-auth.yaml",
    "metricsReaderRules": METRICS / "cluster-role-metrics-reader.yaml",
}
LEASE: Final = "resourceNames: [tf-operator]"
# The APIs beside TFJob, by their names in the values.
FURTHER: Final = {
    "mlkube": Path("manifests/crd/mlkube/tfjobs.yaml"),
    "t9k": Path("manifests/crd/t9k/tensorflowtrainingjobs.yaml"),
}
CRD_METADATA: Final = """\
  labels:
    app.kubernetes.io/name: {{ include "tf-operator.name" . | quote }}
    app.kubernetes.io/instance: {{ .Release.Name | quote }}
    {{- include "tf-operator.releaseLabels" . | nindent 4 }}
  {{- if or .Values.crds.keep .Values.crds.annotations }}
  annotations:
    {{- if .Values.crds.keep }}
    # With the CRD all its jobs would go; Helm leaves it when the release is uninstalled.
    helm.sh/resource-policy: keep
    {{- end }}
    {{- with .Values.crds.annotations }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  {{- end }}
"""
CRD_END: Final = """\
  {{- if .Values.apis.kubeflow.oldVersions }}
  {{- include "tf-operator.olderVersions" . | trim | nindent 2 }}
  conversion:
    strategy: Webhook
    webhook:
      conversionReviewVersions: [v1]
      # The operator adds the authority of its certificate, or cert-manager does.
      clientConfig:
        service:
          namespace: {{ .Release.Namespace | quote }}
          name: {{ include "tf-operator.webhookService" . | quote }}
          path: /convert/tfjobs.kubeflow.org
          port: 443
  {{- end }}
"""

HELP_BEGIN: Final = "<!-- from metadata.url in setup.cfg -->"
HELP_END: Final = "<!-- end -->"


class UnlikeExpectedError(Exception):
    """A manifest no longer has the line that a template replaces."""


def render(root: Path) -> dict[Path, str]:
    """Every generated template, by its path in the repository; raises UnlikeExpectedError."""
    further = {
        CHART / f"templates/crd-{name}.yaml": crd_template(
            (root / source).read_text(encoding="utf-8"),
            source,
            condition=f"and .Values.crds.enabled .Values.apis.{name}.enabled",
        )
        for name, source in FURTHER.items()
    }
    return further | {
        CHART / "templates/crd.yaml": crd_template((root / CRD).read_text(encoding="utf-8"), end=CRD_END),
        CHART / "templates/_rules.tpl": rules_template(
            {name: (root / file).read_text(encoding="utf-8") for name, file in RULES.items()}
        ),
        DESCRIPTION: described((root / DESCRIPTION).read_text(encoding="utf-8"), address.read(root)),
        README: helped((root / README).read_text(encoding="utf-8"), address.read(root)),
    }


def described(chart: str, home: str) -> str:
    """Chart.yaml with the project's address, or without one."""
    bare = re.sub(r"^(home|sources): .*\n", "", chart, flags=re.MULTILINE)
    links = f"home: {home}\nsources: [{home}]\n" if home else ""
    return replace_once(bare, "type: application\n", f"type: application\n{links}", where=DESCRIPTION)


def helped(page: str, home: str) -> str:
    """The README with where to report what is wrong."""
    before, begin, rest = page.partition(HELP_BEGIN)
    _, end, after = rest.partition(HELP_END)
    if not (begin and end):
        raise UnlikeExpectedError(f"{README} has no place between {HELP_BEGIN!r} and {HELP_END!r}")
    nowhere = "The project has no public issue tracker yet: tell whoever gave you this copy."
    where = f"Open an [issue]({home}/issues)." if home else nowhere
    return f"{before}{begin}\n{where}\n{end}{after}"


def crd_template(manifest: str, source: Path = CRD, *, condition: str = ".Values.crds.enabled", end: str = "") -> str:
    """A CRD, installed only if wanted, with the labels of the release."""
    _, _, body = manifest.partition("\n")  # its first line names another generator
    if "{{" in body:
        raise UnlikeExpectedError(f"{source} has '{{{{' in it, which Helm would take for its own")
    (name,) = re.findall(r"^  name: \S+\n", body, flags=re.MULTILINE)
    filled = replace_once(body, name, name + CRD_METADATA, where=source)
    return f"{HEADER.format(source=source)}{{{{- if {condition} }}}}\n{filled}{end}{{{{- end }}}}\n"


def rules_template(manifests: dict[str, str]) -> str:
    """The rules of each role, as templates that the roles include."""
    parts = [HEADER.format(source=f"{RBAC} and {METRICS}")]
    for name, manifest in manifests.items():
        rules = rules_of(manifest, where=RULES[name])
        if name == "leaseRules":
            filled = 'resourceNames: [{{ include "tf-operator.leaseName" . | quote }}]'
            rules = replace_once(rules, LEASE, filled, where=RULES[name])
        parts.append(f'{{{{- define "tf-operator.{name}" -}}}}\n{rules}{{{{- end -}}}}\n')
    return "\n".join(parts)


def rules_of(manifest: str, *, where: Path) -> str:
    """What stands below ``rules:``, with its comments, moved to the left."""
    _, found, rules = manifest.partition("\nrules:\n")
    if not found:
        raise UnlikeExpectedError(f"{where} has no rules")
    return textwrap.dedent(rules)


def replace_once(text: str, old: str, new: str, *, where: Path) -> str:
    """Replace what must be there exactly once."""
    if text.count(old) != 1:
        raise UnlikeExpectedError(f"{where} has {old.strip()!r} {text.count(old)} times; once was expected")
    return text.replace(old, new)
