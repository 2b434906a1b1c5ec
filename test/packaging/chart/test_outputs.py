"""No chart is generated of manifests that are not as expected."""

import pytest

from chart import outputs

ROLE = "kind: Role\nrules:\n  # why\n  - apiGroups: [x]\n    resourceNames: [tf-operator]\n"


@pytest.mark.parametrize("manifest", ["kind: Role\n", ROLE.replace("[tf-operator]", "[other]"), ROLE + ROLE[10:]])
def test_a_role_that_is_not_as_expected_is_refused(manifest):
    with pytest.raises(outputs.UnlikeExpectedError):
        outputs.rules_template({"leaseRules": manifest})


def test_a_crd_that_helm_would_take_for_a_template_is_refused():
    with pytest.raises(outputs.UnlikeExpectedError, match="which Helm would take for its own"):
        outputs.crd_template("# head\nmetadata:\n  name: tfjobs.kubeflow.org\nspec: '{{ x }}'\n")
