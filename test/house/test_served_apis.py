"""Every served API has a name of its own in metrics, and is named in setup.cfg where it has to be."""

from configparser import ConfigParser
from pathlib import Path

from tf_operator.dialects import registry

ROOT = Path(__file__).resolve().parents[2]


def test_each_api_has_a_name_of_its_own_in_metrics():
    assert len({api.framework for api in registry.SERVED}) == len(registry.SERVED)


def test_the_crd_of_each_api_is_packaged_and_its_folder_is_known_to_the_registry_alone():
    config = ConfigParser()
    config.read(ROOT / "setup.cfg")
    folders = {api.crd.package for api in registry.SERVED}

    assert folders - set(config["options.package_data"]) == set()
    assert folders - set(config["importlinter:contract:served"]["forbidden_modules"].split()) == set()
