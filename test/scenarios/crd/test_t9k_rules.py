"""What the API server says of a TensorFlowTrainingJob: the documented manifests, and each rule with its exact sentence."""

from pathlib import Path

import pytest
import yaml

from support import overlaid
from support.api import RefusedError
from support.crds import create_crd
from support.resources import Resource
from tf_operator.dialects.t9k.v1beta1 import API

JOBS = Resource("batch.tensorstack.dev", "v1beta1", "tensorflowtrainingjobs")
EXAMPLES = Path(__file__).resolve().parents[3] / "manifests/examples/t9k"
EXAMPLE = yaml.safe_load((EXAMPLES / "tensorflow-example.yaml").read_text())
FRAGMENTS = sorted((EXAMPLES / "fragments").glob("*.yaml"))
SPECS = "spec.replicaSpecs"
PAUSED = {"runMode": {"pause": {"enabled": True, "resumeSpecs": [{"type": "worker", "command": ["a"]}]}}}
