"""Programs that need more memory than their limit: in the end each has enough, and not much more than it needs."""

import re
from itertools import cycle

import pytest

from support.jobs.real_namespace import Program, small_job
from tf_operator import quantity

LIMIT = 64
"""MiB, at first."""
MOST_NEEDED, LEAST_NEEDED = 3, 1.2
"""Times the limit."""
ACCURACY = 0.02
"""What pods of an image share, such as the pages of Python, is counted for the first one that reads it."""
UNREPORTED = 2
"""Kills of a job that its container runtime notices too late, and calls an error with code 137, on a busy machine."""
# Needed is the working set, as the kubelet counts it: without files that the kernel takes back when memory runs out.
GREEDY = """
from pathlib import Path
groups = Path("/sys/fs/cgroup")
group = next(path for path in (groups / "memory", groups) if (path / "memory.stat").exists())
usage = next(path for name in ("usage_in_bytes", "current") if (path := group / f"memory.{name}").exists())

def needed():
    stat = dict(line.split() for line in (group / "memory.stat").read_text().splitlines())
    return (int(usage.read_text()) - int(stat["inactive_file"])) / 2**20

filled = []
while needed() < NEEDED:
    filled.append(b"x" * 2**19)
print("needed", needed(), flush=True)
"""


def needs(jobs):
    """From the least to the most, evenly."""
    step = (MOST_NEEDED - LEAST_NEEDED) / (jobs - 1)
    return [LIMIT * (LEAST_NEEDED + step * place) for place in range(jobs)]


def greedy(name, image, restart, needed):
    job = small_job(name, Program(image, GREEDY.replace("NEEDED", f"{needed:.1f}")), backoffLimit=UNREPORTED)
    worker = job["spec"]["tfReplicaSpecs"]["Worker"]
    worker |= {"restartPolicy": restart, "oomPolicy": {"maxMemory": "1Gi"}}
    (container,) = worker["template"]["spec"]["containers"]
    container["resources"] = {"limits": {"memory": f"{LIMIT}Mi"}}
    return job


@pytest.mark.parametrize("jobs", [6, pytest.param(20, marks=pytest.mark.nightly)])
async def test_jobs_that_need_more_than_their_limit_end_well_with_no_more_than_half_too_much(
    here, images, capsys, jobs
):
    names = [f"j{number}" for number in range(jobs)]
    policies = cycle(("ExitCode", "OnFailure"))
    for name, restart, needed in zip(names, policies, needs(jobs), strict=False):
        here.kubectl.create(greedy(name, images.operator, restart, needed))

    excess = {}
    for name in names:
        await here.wait_state(name, "Succeeded")
        worker = here.job(name)["status"]["replicaStatuses"]["Worker"]
        (needed,) = map(float, re.findall(r"^needed (.*)$", here.log(name, "worker-0"), re.MULTILINE))
        limit = quantity.parse(here.pods(name)["worker-0"]["spec"]["containers"][0]["resources"]["limits"]["memory"])
        assert limit == quantity.parse(worker["memory"])
        assert 1 <= worker["oomRestarts"] <= worker["restarts"], worker
        excess[name] = float(limit) / 2**20 / needed

    with capsys.disabled():
        print(f"\nmemory of {jobs} jobs, by what they need: {sorted(excess.values())}")  # noqa: T201 (that is the result)
    assert all(1 <= times <= 1.5 * (1 + ACCURACY) for times in excess.values()), excess
