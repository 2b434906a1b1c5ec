"""Where things live in the Kubernetes API: groups, versions, plurals, paths.

Pure, and written out by hand instead of imported from ``tf_operator.job.constants``: a test that took its
paths from the product would follow the product into a mistake.
"""

from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

Json = dict[str, Any]
"""A JSON object, as a test writes it or a server sends it."""


@dataclass(frozen=True, slots=True)
class Resource:
    """One kind of object of one API version; ``group`` is empty for the core API."""

    group: str
    version: str
    plural: str

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def qualified(self) -> str:
        """Plural and group, the name used in audit records and history: ``pods``, ``tfjobs.kubeflow.org``."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    def path(self, namespace: str = "", name: str = "", subresource: str = "") -> str:
        """The URL path of a collection, of one object, or of one of its subresources.

        Without a namespace: all namespaces, or the place of a cluster-scoped kind.
        """
        parts = ["apis", self.group, self.version] if self.group else ["api", self.version]
        if namespace:
            parts += ["namespaces", namespace]
        parts += [self.plural, name, subresource]
        return "/" + "/".join(quote(part, safe="") for part in parts if part)


NODES = Resource("", "v1", "nodes")
PODS = Resource("", "v1", "pods")
SERVICES = Resource("", "v1", "services")
EVENTS = Resource("", "v1", "events")
CONFIG_MAPS = Resource("", "v1", "configmaps")
LEASES = Resource("coordination.k8s.io", "v1", "leases")
CRDS = Resource("apiextensions.k8s.io", "v1", "customresourcedefinitions")
SECRETS = Resource("", "v1", "secrets")
TFJOBS = Resource("kubeflow.org", "v1", "tfjobs")
TRAINING_JOBS = Resource("batch.tensorstack.dev", "v1beta1", "tensorflowtrainingjobs")
JOB_KINDS = (TFJOBS.qualified, TRAINING_JOBS.qualified)


def resource_of(crd: Json, version: str = "") -> Resource:
    """The resource that a CustomResourceDefinition serves; without ``version``, its storage version."""
    spec = crd["spec"]
    stored = next(entry["name"] for entry in spec["versions"] if entry["storage"])
    return Resource(spec["group"], version or stored, spec["names"]["plural"])
