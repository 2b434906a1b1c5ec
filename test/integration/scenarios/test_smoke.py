"""A simple job's life, from kubectl apply to Succeeded."""

import pytest

from support import builders
from support.autopilot import autopilot
from support.courses import Script, running, succeeding
from support.operator_process import operator
from support.resources import PODS, SERVICES, TFJOBS
from support.settle import eventually


async def test_a_simple_job_succeeds(control_plane, admin, kubelet, namespace):
    script = Script().on("*-ps-*", [running()]).otherwise([running(), succeeding(after=0.5)])
    job = builders.tfjob("j").chief().workers(2).parameter_servers(1).clean_pods("Running").body()
    async with operator(control_plane, namespaces=[namespace]) as process, autopilot(kubelet, script):
        await admin.create(TFJOBS.path(namespace), job)

        async def ended():
            found = await admin.get(TFJOBS.path(namespace, "j"))
            conditions = found.get("status", {}).get("conditions", [])
            print(found.get("status"))
            return conditions and conditions[-1]["type"] == "Succeeded"

        await eventually(ended, within=20)
        await eventually(lambda: _none(admin, SERVICES.path(namespace)))
        import asyncio; await asyncio.sleep(2)
        print([p["metadata"]["name"] for p in await admin.list(PODS.path(namespace))])
        for e in await admin.list(f"/api/v1/namespaces/{namespace}/events"): print(e["reason"], e["message"])
        for record in process.records: print(record)
        from support.audit import AuditLog
        print(AuditLog(control_plane.audit_log).since().by(namespace=namespace).writes().tally())


async def _none(admin, path):
    return not await admin.list(path)
