"""Quiet, by the evidence of a real store."""

import asyncio
from contextlib import asynccontextmanager

import pytest

from support.api import Api
from support.resources import CONFIG_MAPS, EVENTS, LEASES
from support.settle import NotSettledError, settle


@asynccontextmanager
async def written_for_ever(write, every: float = 0.05):
    """Call ``write`` again and again while the body runs."""

    async def keep_writing():
        count = 0
        while True:
            await write(count)
            count += 1
            await asyncio.sleep(every)

    writer = asyncio.create_task(keep_writing())
    try:
        yield
    finally:
        assert not writer.done(), "the writer died"
        writer.cancel()


@pytest.fixture
async def touch(admin: Api, namespace: str):
    """Write a number into a ConfigMap of the namespace."""
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": {"same": "x"}}
    await admin.create(CONFIG_MAPS.path(namespace), body)

    async def touch(count: int) -> dict:
        return await admin.patch(CONFIG_MAPS.path(namespace, "c"), {"data": {"n": str(count)}})

    return touch


async def test_a_namespace_settles_while_others_are_written_to(control_plane, touch):
    async with written_for_ever(touch):
        revision = await settle(control_plane.etcd_url, quiet_for=0.5, within=10, namespace="nobody-is-here")

    assert revision > 1


async def test_settle_returns_only_after_the_last_write(control_plane, namespace, touch):
    task = asyncio.ensure_future(settle(control_plane.etcd_url, quiet_for=2, within=60, namespace=namespace))
    last = 0
    for count in range(25):  # longer than the silence that is waited for
        last = int((await touch(count))["metadata"]["resourceVersion"])
        await asyncio.sleep(0.1)

    assert not task.done()
    assert await task >= last


async def test_time_out_names_the_object_its_writer_and_the_field(control_plane, namespace, touch):
    async with written_for_ever(touch):
        with pytest.raises(NotSettledError) as failure:
            await settle(control_plane.etcd_url, quiet_for=1.5, within=2, namespace=namespace)

    assert f"x configmaps/{namespace}/c: updated by test-admin, last data.n" in str(failure.value)


async def test_leases_never_count_and_events_only_when_asked_to(control_plane, admin, namespace):
    lease = {"apiVersion": LEASES.api_version, "kind": "Lease", "metadata": {"name": "l"}, "spec": {}}
    await admin.create(LEASES.path(namespace), lease)

    async def renew(count):
        await admin.patch(LEASES.path(namespace, "l"), {"spec": {"leaseTransitions": count}})

    async def tell(count):
        about = {"kind": "Pod", "namespace": namespace, "name": "a"}
        event = {"apiVersion": "v1", "kind": "Event", "metadata": {"name": f"e{count}"}, "involvedObject": about}
        await admin.create(EVENTS.path(namespace), event)

    async def is_quiet(**options) -> bool:
        try:
            await settle(control_plane.etcd_url, quiet_for=1.5, within=2, namespace=namespace, **options)
        except NotSettledError:
            return False
        return True

    async with written_for_ever(renew):
        assert await is_quiet()
    async with written_for_ever(tell):
        assert await is_quiet(with_events=False)
        assert not await is_quiet()


@pytest.mark.parametrize("own_control_plane", [{"controller-manager"}], indirect=True)
async def test_a_whole_idle_cluster_settles(own_control_plane):
    await settle(own_control_plane.etcd_url, quiet_for=3, within=60)
