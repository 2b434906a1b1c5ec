"""The ``kubernetes`` package: its SharedInformer as it is, or its typed models page by page, the best it can do.

Both block, so they get a thread; the ticker shows what is left for everything else in the process.
"""

import asyncio
import sys

from kubernetes import client, informer
from measure import Measure


def connect(url, authority):
    configuration = client.Configuration(host=url)
    configuration.ssl_ca_cert = authority
    return client.CoreV1Api(client.ApiClient(configuration))


async def by_informer(api):
    added = []
    synced = asyncio.Event()
    loop = asyncio.get_running_loop()
    shared = informer.SharedInformer(api.list_pod_for_all_namespaces)
    shared.add_event_handler(informer.ADDED, lambda pod: added.append(pod.metadata.name))
    fill = shared._initial_list

    def then_tell():
        """It has no way to say that it has synced."""
        fill()
        loop.call_soon_threadsafe(synced.set)

    shared._initial_list = then_tell
    shared.start()
    await synced.wait()
    return shared.cache.list()


def by_pages(api):
    by_name, token = {}, None
    while True:
        page = api.list_pod_for_all_namespaces(limit=500, _continue=token)
        by_name |= {(pod.metadata.namespace, pod.metadata.name): pod for pod in page.items}
        token = page.metadata._continue
        if not token:
            return by_name


async def main(how, url, authority):
    api = connect(url, authority)
    measure = Measure()
    async with measure:
        pods = await (by_informer(api) if how == "informer" else asyncio.to_thread(by_pages, api))
    measure.tell(len(pods))


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
