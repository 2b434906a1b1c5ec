"""Run by the Python of `hack/environment partners`: the models that partners publish in PyPI, as JSON schemas.

Argo Workflows: hera's models, which are made of Argo's own description of its API. Katib: the client of its release.
"""

import json
import re
import sys
from pathlib import Path

from hera.workflows.models import Workflow
from kubeflow.katib import models

SIMPLE = {
    "str": {"type": "string"},
    "int": {"type": "integer"},
    "float": {"type": "number"},
    "bool": {"type": "boolean"},
}


def closed(schema):
    """No field that is not listed, in each object of a schema."""
    if isinstance(schema, dict):
        own = {key: closed(value) for key, value in schema.items()}
        return own | {"additionalProperties": False} if isinstance(own.get("properties"), dict) else own
    return [closed(item) for item in schema] if isinstance(schema, list) else schema


def katib(name):
    """The schema of a type of the client, whose models know names and types of their fields."""
    if match := re.fullmatch(r"list\[(.+)\]", name):
        return {"type": "array", "items": katib(match[1])}
    if match := re.fullmatch(r"dict\(str, (.+)\)", name):
        return {"type": "object", "additionalProperties": katib(match[1])}
    if not hasattr(models, name):
        return SIMPLE.get(name, {})
    model = getattr(models, name)
    fields = {model.attribute_map[field]: katib(kind) for field, kind in model.openapi_types.items()}
    return {"type": "object", "properties": fields, "additionalProperties": False}


def main(folder):
    schemas = {
        "argoproj.io/workflow_v1alpha1.json": closed(Workflow.model_json_schema(by_alias=True)),
        "kubeflow.org/experiment_v1beta1.json": katib("V1beta1Experiment"),
    }
    for name, schema in schemas.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(json.dumps(schema))


main(Path(sys.argv[1]))
