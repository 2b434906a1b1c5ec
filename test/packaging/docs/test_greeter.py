"""The example controller of docs/architecture.md runs as it stands, against a real apiserver."""

import asyncio
import sys
from contextlib import asynccontextmanager
from pathlib import Path

from support.resources import CONFIG_MAPS
from support.settle import eventually

GREETER = Path(__file__).resolve().parents[3] / "docs" / "examples" / "greeter.py"


@asynccontextmanager
async def running(kubeconfig):
    process = await asyncio.create_subprocess_exec(sys.executable, str(GREETER), str(kubeconfig))
    try:
        yield process
        assert process.returncode is None, "the example ended by itself"
    finally:
        process.kill()
        await process.wait()


async def test_the_example_greets_what_was_there_before_and_what_comes_later(control_plane, admin, namespace):
    config_maps = CONFIG_MAPS.path(namespace)

    async def is_greeted(name):
        return (await admin.get(f"{config_maps}/{name}")).get("data") == {"greeting": f"Hello, {name}!"}

    await admin.create(config_maps, {"metadata": {"name": "before", "labels": {"greet": "yes"}}})
    async with running(control_plane.kubeconfig("admin")):
        await eventually(lambda: is_greeted("before"), within=60)

        await admin.create(config_maps, {"metadata": {"name": "after", "labels": {"greet": "yes"}}})
        await admin.create(config_maps, {"metadata": {"name": "unlabelled"}})
        await eventually(lambda: is_greeted("after"), within=60)

        await admin.patch(f"{config_maps}/before", {"data": {"greeting": "changed by hand"}})
        await eventually(lambda: is_greeted("before"), within=60)

    assert "data" not in await admin.get(f"{config_maps}/unlabelled")
