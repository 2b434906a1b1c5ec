"""Tests on a GPU: ``make gpu`` runs them. Where there is none, they are not collected."""

import pytest

from support.local_machine import LocalMachine
from tf_operator.local.node.gpus import devices

collect_ignore_glob = [] if devices.find() else ["test_*.py"]


@pytest.fixture
def machine(tmp_path):
    return LocalMachine(tmp_path)
