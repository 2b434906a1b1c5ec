"""The help of ``tf-operator run``: every flag in its group, with its default, on lines that fit."""

import pytest

from tf_operator.app.options import flags, usage


@pytest.mark.parametrize("flag", flags.FLAGS, ids=lambda flag: flag.name)
def test_every_flag_is_explained_below_its_group_with_its_default(flag):
    page = usage.text(100)
    (group,) = [part for part in page.split("\n\n") if part.startswith(f"{flag.group}:")]
    entry = " ".join(group.split(f"--{flag.name}", 1)[1].split("\n  --")[0].split())

    assert flag.help in entry
    assert flag.default in entry
    assert flag.variable in entry


@pytest.mark.parametrize(("width", "widest"), [(20, 60), (80, 80), (300, 110)])
def test_the_page_is_as_wide_as_the_reader_can_see(width, widest):
    assert max(map(len, usage.text(width).splitlines())) <= widest


def test_the_page_names_every_variable():
    variables = "KUBEFLOW_NAMESPACE USE_KUBE_CONFIG MY_POD_NAMESPACE MY_POD_NAME MY_POD_IP CUSTOM_CLUSTER_DOMAIN"
    assert all(variable in usage.text(100) for variable in variables.split())
