"""What the account of manifests/rbac may do, as a real kube-apiserver adds it up: this much and no more."""

import pytest

from tf_operator.planning.bodies import gang_schedulers


def rules_of(api, namespace):
    """Everything a user may do with resources in one namespace, as the server itself adds it up."""
    review = api.create("/apis/authorization.k8s.io/v1/selfsubjectrulesreviews", {"spec": {"namespace": namespace}})
    assert review["status"]["incomplete"] is False
    return {
        (group, resource, verb, name)
        for rule in review["status"]["resourceRules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
        for name in rule.get("resourceNames", ["*"])
    }


def grants(group, resources, verbs, names="*"):
    return {(group, r, v, n) for r in resources.split() for v in verbs.split() for n in names.split()}


# system:basic-user, which every authenticated user has.
ABOUT_ONESELF = grants("authorization.k8s.io", "selfsubjectaccessreviews selfsubjectrulesreviews", "create") | grants(
    "authentication.k8s.io", "selfsubjectreviews", "create"
)
OPERATOR_EVERYWHERE = (
    grants("kubeflow.org", "tfjobs", "get list watch delete")
    | grants("kubeflow.org", "tfjobs/status", "patch")
    | grants("kubeflow.org", "tfjobs/finalizers", "update")
    | grants("", "pods services", "get list watch create delete")
    | grants("", "services", "deletecollection")
    | grants("", "events", "list create patch")
).union(
    *(
        grants(scheduler.resource.group, scheduler.resource.plural, "get list watch create patch delete")
        for scheduler in (gang_schedulers.VOLCANO, gang_schedulers.SCHEDULER_PLUGINS)
    )
)
OPERATOR_AT_HOME = grants("coordination.k8s.io", "leases", "create") | grants(
    "coordination.k8s.io", "leases", "get update", "tf-operator"
)


@pytest.mark.real_server("RBAC")
def test_the_operator_has_exactly_these_rights(own_control_plane):
    """On a plane of its own: other tests give the account what an overlay has."""
    api = own_control_plane.api("operator")

    for where, granted in (
        ("default", OPERATOR_EVERYWHERE),
        ("tf-operator", OPERATOR_EVERYWHERE | OPERATOR_AT_HOME),
        ("kube-system", OPERATOR_EVERYWHERE),
    ):
        assert rules_of(api, where) == granted | ABOUT_ONESELF, where
