"""What how-to pages show of manifests and programs is what the examples have, and does what the page says."""

import itertools
import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[3]
PAGES = sorted((ROOT / "docs/how-to").glob("*.md"))
EXAMPLES = ROOT / "manifests/examples"
PART = re.compile(r"^```yaml\n# part of (?:a|an|the) (\w+)(?:: (\S+))?\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(\.\./\.\./(manifests/examples/\S+?\.yaml)\)")


def parts():
    """Each block that shows a part of an object, and the example that the page names first."""
    for page in PAGES:
        text = page.read_text()
        for kind, path, text_of_part in PART.findall(text):
            yield pytest.param(
                ROOT / LINK.search(text)[1], kind, path, yaml.safe_load(text_of_part), id=f"{page.stem} {path}"
            )


def covers(actual, part_of_page):
    """Whether all that is shown is found; "..." stands for what is left out."""
    if isinstance(part_of_page, str) and part_of_page.rstrip().endswith("..."):
        return str(actual).startswith(part_of_page.rstrip().removesuffix("...")) or part_of_page == "..."
    if isinstance(part_of_page, dict):
        return isinstance(actual, dict) and all(covers(actual.get(key), value) for key, value in part_of_page.items())
    if isinstance(part_of_page, list):
        return isinstance(actual, list) and all(any(covers(one, part) for one in actual) for part in part_of_page)
    return actual == part_of_page


def anywhere(body):
    """An object, and all that is in it."""
    yield body
    for child in body.values() if isinstance(body, dict) else body if isinstance(body, list) else ():
        yield from anywhere(child)


@pytest.mark.parametrize(("example", "kind", "path", "part_of_page"), [*parts()])
def test_a_part_that_a_page_shows_is_in_its_example(example, kind, path, part_of_page):
    bodies = [body for body in yaml.load_all(example.read_text(), yaml.CSafeLoader) if body["kind"] == kind]
    for key in filter(None, path.split(".")):
        bodies = [body[key] for body in bodies]

    assert any(covers(part, part_of_page) for body in bodies for part in anywhere(body))


def test_pages_do_show_parts():
    assert len([*parts()]) >= 9


@pytest.fixture
def hanging():
    """The worker of the example, as a process."""
    (body,) = yaml.load_all((EXAMPLES / "how-to/hanging-job.yaml").read_text(), yaml.CSafeLoader)
    (container,) = body["spec"]["tfReplicaSpecs"]["Worker"]["template"]["spec"]["containers"]
    variables = os.environ | {"TF_CONFIG": json.dumps({"task": {"type": "worker", "index": 0}})}
    command = [sys.executable, *container["command"][1:], *container["args"]]
    process = subprocess.Popen(command, env=variables, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    yield process
    process.kill()
    process.communicate(timeout=30)


def test_a_program_that_hangs_says_where_when_it_is_asked_and_goes_on(hanging):
    assert hanging.stdout.readline() == "waiting for /data/part-0.tfrecord\n"
    hanging.send_signal(signal.SIGUSR1)
    lines = list(itertools.takewhile(lambda line: "in <module>" not in line, hanging.stderr))

    assert "most recent call first" in lines[0]
    # Perhaps in the middle of a look at the file.
    assert "in wait_for_data" in lines[-1]
    assert "in wait_for_data" in (ROOT / "docs/troubleshooting.md").read_text()
    assert hanging.poll() is None
