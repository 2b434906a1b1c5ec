"""setup.cfg names every served API where it has to."""

from configparser import ConfigParser
from pathlib import Path

from tf_operator.dialects import registry

ROOT = Path(__file__).resolve().parents[3]


def test_the_crd_of_each_api_is_packaged_and_its_folder_is_known_to_the_registry_alone():
    config = ConfigParser()
    config.read(ROOT / "setup.cfg")
    folders = {api.crd.package for api in registry.SERVED}

    assert folders - set(config["options.package_data"]) == set()
    assert folders - set(config["importlinter:contract:served"]["forbidden_modules"].split()) == set()
