"""Which objects of a cluster belong to this installation, and which are in its way. Pure.

An object is ours if it has our label and our field manager has applied it: copies that people make have the label, too.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from tf_operator.client.installation import objects
from tf_operator.client.installation.objects import OWNER, OWNER_LABEL, Values
from tf_operator.meta import Body, key_of, labels_of, list_of, mapping_of, metadata_of, objects_of, text_of

FIELD_MANAGER: Final = "tfjob-install"
_RELEASE: Final = "meta.helm.sh/release-name"
_RELEASE_NAMESPACE: Final = "meta.helm.sh/release-namespace"
_STAYS: Final = frozenset({"Namespace", "CustomResourceDefinition"})
"""They are never removed by an upgrade, and are shared with what others have installed."""
# As in the chart's _conflicts.tpl.
_RIVAL_IMAGE: Final = re.compile(r"(^|/)(training-operator|tf-operator|tf_operator)([:@]|$)")
_RIVAL_NAME: Final = re.compile(r"training-operator|tf-job-operator|tf-operator")
_SCHEME: Final = re.compile(r"enable-scheme[= ]tfjob")
_SERVED: Final = re.compile(r"--?namespace[= ]([a-z0-9,-]+)")


def is_ours(body: Body) -> bool:
    entries = objects_of(metadata_of(body).get("managedFields"))
    return labels_of(body).get(OWNER_LABEL) == OWNER and any(
        entry.get("manager") == FIELD_MANAGER and entry.get("operation") == "Apply" for entry in entries
    )


def surplus(present: Iterable[Body], parts: Sequence[Body]) -> list[Body]:
    """Our objects that are no part of the installation any more, last applied first."""
    identities = {objects.identity_of(body) for body in parts}
    return removable(body for body in present if objects.identity_of(body) not in identities)


def removable(present: Iterable[Body]) -> list[Body]:
    """Our objects without namespace and CRD, in the order in which they are removed: the Deployment first."""
    order = list(objects.RESOURCES)
    ours = [body for body in present if is_ours(body) and body["kind"] not in _STAYS]
    return sorted(ours, key=lambda body: order.index(body["kind"]), reverse=True)


def obstacles(
    values: Values, parts: Sequence[Body], present: Iterable[Body], deployments: Iterable[Body]
) -> Iterator[str]:
    """Why it cannot be installed, a sentence each.

    ``present``: the objects of the cluster that have the names of the parts. ``deployments``: all.
    """
    deployments = list(deployments)
    names = {objects.identity_of(body) for body in parts}
    yield from filter(None, (_obstacle_of_release(body, values) for body in deployments))
    yield from filter(None, (_obstacle(body) for body in present if objects.identity_of(body) in names))
    yield from (_obstacle_of_rival(body) for body in deployments if not is_ours(body) and _is_rival(body, values))


def _obstacle_of_release(deployment: Body, values: Values) -> str:
    """That the operator is installed in another way, or place."""
    namespace = key_of(deployment).namespace
    if release := helm_release(deployment):
        return (
            f"Helm installed the operator, as the release {release}: use helm upgrade, or remove it first with helm"
            " uninstall (jobs and the CRD stay)"
        )
    if is_ours(deployment) and namespace != values.namespace:
        return (
            f"the operator is installed in namespace {namespace}: name it (--namespace {namespace}), or remove that one"
            " first (tfjob uninstall)"
        )
    return ""


def _obstacle_of_rival(deployment: Body) -> str:
    key = key_of(deployment)
    return (
        f"the Deployment {key} runs TFJobs already, and two controllers destroy each other's jobs. Stop it first:"
        f" kubectl --namespace {key.namespace} scale deployment {key.name} --replicas=0. Jobs continue, and this"
        " operator takes them over"
    )


def _obstacle(body: Body) -> str:
    """What there is in an object that has the name of one of the installation's."""
    if body["kind"] == "CustomResourceDefinition" and _has_webhook(body):
        return (
            f"{objects.name_of(body)} serves older versions by a webhook, which only Helm and kubectl install:"
            " tf-operator crd --apply removes them first"
        )
    if body["kind"] in _STAYS or is_ours(body):
        return ""
    return (
        f"{objects.name_of(body)} exists and was not created by tfjob install: use the tool that created it, or delete"
        " it first"
    )


def helm_release(deployment: Body) -> str:
    """The Helm release whose Deployment of the operator this is, as ``NAME in namespace N``; else nothing."""
    notes = mapping_of(metadata_of(deployment).get("annotations"))
    release = notes.get(_RELEASE)
    is_operator = labels_of(deployment).get("app.kubernetes.io/name") == objects.NAME
    return f"{release} in namespace {notes.get(_RELEASE_NAMESPACE)}" if release and is_operator else ""


def _is_rival(deployment: Body, values: Values) -> bool:
    """Whether it runs TFJobs in a namespace that is to be served."""
    spec = mapping_of(deployment.get("spec"))
    if spec.get("replicas") == 0:
        return False
    pod = mapping_of(mapping_of(spec.get("template")).get("spec"))
    has_name = bool(_RIVAL_NAME.fullmatch(text_of(metadata_of(deployment), "name")))
    return any(
        (has_name or _RIVAL_IMAGE.search(text_of(container, "image"))) and _serves_same(container, values)
        for container in objects_of(pod.get("containers"))
    )


def _serves_same(container: Body, values: Values) -> bool:
    words: list[Any] = [*list_of(container.get("command")), *list_of(container.get("args"))]
    line = " ".join(map(str, words))
    if "enable-scheme" in line.lower() and not _SCHEME.search(line.lower()):
        return False
    theirs = {name for names in _SERVED.findall(line) for name in names.split(",")}
    return not theirs or not values.job_namespaces or bool(theirs & set(values.job_namespaces))


def _has_webhook(crd: Body) -> bool:
    conversion = mapping_of(mapping_of(crd.get("spec")).get("conversion"))
    return conversion.get("strategy") == "Webhook"
