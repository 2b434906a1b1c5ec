"""The layer of what a program requires, on a base that has one already."""

import pytest

from support.partners.wheels import WITHOUT_INDEX, write_wheel
from tf_operator.client.images import required_packages
from tf_operator.client.images.base_python import BasePython
from tf_operator.client.images.image_name import ImageName
from tf_operator.client.images.push import BaseImage
from tf_operator.client.images.repository import ImageManifest
from tf_operator.client.images.required_packages import RequiredPackages

PACKAGES = "lib/python3.9/site-packages"


class Source:
    name = ImageName("registry", "base", "1")


def test_packages_hide_those_of_an_earlier_push_and_are_not_mixed_with_them(tmp_path, monkeypatch):
    for name, value in {**WITHOUT_INDEX, "PIP_FIND_LINKS": str(tmp_path)}.items():
        monkeypatch.setenv(name, value)
    write_wheel(tmp_path, "arrays", "2.0")
    requirements = tmp_path / "requirements.txt"
    requirements.write_text("arrays>=2")
    variables = [f"PYTHONPATH=/own:/opt/requirements/{PACKAGES}", "PATH=/bin:/opt/requirements/bin"]
    base = BaseImage(
        ImageManifest("", "", {}), {"architecture": "amd64", "config": {"Env": variables}}, source=Source()
    )

    with RequiredPackages(requirements, None, report=[].append) as packages:
        top = packages._make(base, BasePython((3, 9), {"arrays-1.0.dist-info": "Name: arrays\nVersion: 1.0"}))

        paths = f"/opt/requirements-2/{PACKAGES}:/opt/requirements/{PACKAGES}"
        assert top.process["Env"] == [
            f"PYTHONPATH=/own:{paths}",
            "PATH=/bin:/opt/requirements-2/bin:/opt/requirements/bin",
        ]
        assert top.layers[0].files == 7


@pytest.mark.parametrize("variables", [[], ["PYTHONPATH="]], ids=["none", "empty"])
def test_packages_are_where_the_documentation_says(variables):
    base = BaseImage(ImageManifest("", "", {}), {"config": {"Env": variables}}, Source())

    assert str(required_packages._home(base)) == "/opt/requirements"
