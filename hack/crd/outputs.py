"""The files that follow from the source of the CRD, as texts: ``hack/generate crd`` writes them."""

import json
from pathlib import Path
from typing import Any, Final

import yaml

from crd import definition, reference

SOURCE: Final = Path("hack/crd/tfjob.yaml")
OLDER: Final = Path("hack/crd/older-versions.yaml")
CORE: Final = Path("hack/crd/core-v1.json")
MANIFEST: Final = Path("manifests/crd/tfjobs.yaml")
PACKAGED: Final = Path("tf_operator/dialects/kubeflow/crd.json")
PACKAGED_OLDER: Final = PACKAGED.with_name("older_versions.json")
OLDER_IN_CHART: Final = Path("charts/tf-operator/templates/_older-versions.tpl")
REFERENCE: Final = Path("docs/api.md")
# The APIs beside TFJob: the source, the manifest, and the package of the dialect.
FURTHER: Final = (
    (
        Path("hack/crd/mlkube.yaml"),
        Path("manifests/crd/mlkube/tfjobs.yaml"),
        Path("tf_operator/dialects/mlkube/crd.json"),
    ),
    (
        Path("hack/crd/t9k.yaml"),
        Path("manifests/crd/t9k/tensorflowtrainingjobs.yaml"),
        Path("tf_operator/dialects/t9k/crd.json"),
    ),
)
# `kubectl apply` keeps all of it in an annotation, which may have 262,144 bytes; room is left for what comes.
MOST_BYTES: Final = 200_000
HEADER: Final = """\
# The CustomResourceDefinition of {kind}. Generated: edit {source} and run hack/generate crd.
"""


class TooLargeError(Exception):
    """The CRD has grown past the size that `kubectl apply` can be sure to take."""


def render(root: Path) -> dict[Path, str]:
    """Every generated file, by its path in the repository; raises TooLargeError."""
    source = (root / SOURCE).read_text(encoding="utf-8")
    core = json.loads((root / CORE).read_text(encoding="utf-8"))
    older = yaml.load((root / OLDER).read_text(encoding="utf-8"), yaml.CSafeLoader)
    page = (root / REFERENCE).read_text(encoding="utf-8")
    texts: dict[Path, str] = {}
    for origin, manifest, packaged in ((SOURCE, MANIFEST, PACKAGED), *FURTHER):
        crd = definition.build((root / origin).read_text(encoding="utf-8"), core)
        texts[manifest] = HEADER.format(kind=crd["spec"]["names"]["kind"], source=origin) + as_yaml(crd)
        texts[packaged] = as_json(crd)
    return texts | {
        PACKAGED_OLDER: as_json(older),
        OLDER_IN_CHART: as_template(older),
        REFERENCE: reference.fill(page, definition.fields(source)),
    }


def as_template(versions: list[dict[str, Any]]) -> str:
    """Each version as an entry in the list of the CRD's versions, if the chart's values ask for it."""
    entries = (
        f"{{{{- if has {json.dumps(version['name'])} .Values.apis.kubeflow.oldVersions }}}}\n"
        f"{as_yaml([version])}{{{{- end }}}}\n"
        for version in versions
    )
    note = f"{{{{- /* Generated from {OLDER}: edit it and run hack/generate crd. */ -}}}}\n"
    return f'{note}{{{{- define "tf-operator.olderVersions" }}}}\n{"".join(entries)}{{{{- end }}}}\n'


def as_json(found: object) -> str:
    """The compact form that is installed with the package."""
    text = json.dumps(found, separators=(",", ":"), ensure_ascii=False) + "\n"
    if (size := len(text.encode())) > MOST_BYTES:
        raise TooLargeError(f"the CRD has {size:,} bytes of compact JSON; at most {MOST_BYTES:,} are allowed")
    return text


def as_yaml(found: object) -> str:
    """The form for people and for `kubectl apply`."""
    return yaml.dump(found, Dumper=_Dumper, sort_keys=False, width=120, allow_unicode=True)


# The one in C takes a fifth of the time; the one in Python may fold lines otherwise, so nobody may choose.
class _Dumper(yaml.CSafeDumper):
    """Writes rules as their source has them, and parts that occur twice in full: an anchor is hard to read."""

    def ignore_aliases(self, data: object) -> bool:
        """No anchors."""
        return data is not None


def _text(dumper: _Dumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


_Dumper.add_representer(str, _text)
