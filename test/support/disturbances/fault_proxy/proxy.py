"""A reverse proxy between a Kubernetes client and its apiserver that injects the faults of a test.

    with FaultProxy(plane.admin_kubeconfig) as proxy:
        kubeconfig = proxy.kubeconfig(tmp_path / "kubeconfig")       # give this to the client under test
        with proxy.on(create("pods"), do=faults.lose_reply(), nth=3) as rule:
            ...
            await proxy.until(rule.has_fired)

It terminates TLS with an authority of its own. What it does not change it passes on as it comes: bodies piece by piece,
watches line by line, protobuf and compressed bodies untouched, tokens verbatim.

It runs in a thread with an event loop of its own, so a product that blocks its event loop does not stop it. All methods
may be called from any thread, and only ``until`` waits for traffic. A fault that never acted proves nothing: leaving
the proxy, or a rule used as a context manager, raises AssertionError then, and what functions of the test raised.
"""

import asyncio
import ssl
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from random import Random
from types import TracebackType
from typing import Self, TypeVar

import trustme

from lab import kubeconfig
from lab.kubeconfig import Access
from support.disturbances.fault_proxy.engine import Engine, Predicate
from support.disturbances.fault_proxy.listener import Listener
from support.disturbances.fault_proxy.request import Call
from support.disturbances.fault_proxy.rule import Fault, Rule
from support.disturbances.fault_proxy.trigger import Trigger
from support.disturbances.fault_proxy.upstream import Upstream
from support.kubeconfigs import access_from

T = TypeVar("T")

_END_SECONDS = 10.0
_CALLS_SHOWN = 20


class FaultProxy:
    """One proxy in front of one or several apiservers; a context manager."""

    def __init__(self, *kubeconfigs: Path, seed: int = 0) -> None:
        """Each kubeconfig is one apiserver; *seed* decides all chance in this proxy."""
        accesses = [access_from(path) for path in kubeconfigs]
        self._access = accesses[0]
        self._random = Random(seed)
        self._authority = trustme.CA()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run_loop, name="fault-proxy", daemon=True)
        self._engine = Engine([Upstream(access) for access in accesses])

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
        if error is None:
            self._assert_fired()

    def close(self) -> None:
        """End all connections and the thread, once."""
        if not self._thread.is_alive():
            return
        asyncio.run_coroutine_threadsafe(self._engine.close(), self._loop).result(_END_SECONDS)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    # Clients

    def kubeconfig(self, path: Path, *, client: str = "client", token: str = "") -> Path:
        """Write a kubeconfig that leads here, of the first apiserver's user or of the one with this *token*.

        Each *client* has a port of its own, and is known by this name to triggers and logs.
        """
        access = Access(self.url(client), token or self._access.token, self.authority.decode())
        kubeconfig.write(path, access, user=client)
        return path

    def url(self, client: str = "client") -> str:
        if client not in self._engine.listeners:
            self._do(lambda: self._engine.open_listener(client, self._context()))
        return f"https://127.0.0.1:{self._engine.listeners[client].port}"

    @property
    def authority(self) -> bytes:
        """The certificate that clients have to trust, as PEM."""
        return self._authority.cert_pem.bytes()

    def rotate_authority(self) -> None:
        """Change to a new authority, and hang up, as an apiserver does that is restarted for it."""
        self._authority = trustme.CA()
        self._each(lambda listener: listener.present(self._context()))

    # Faults

    def on(
        self,
        trigger: Trigger,
        *,
        do: Fault,
        nth: int | None = None,
        at_most: int | None = None,
        chance: float = 1.0,
        at_least: int = 1,
    ) -> Rule:
        """Let a fault act whenever the trigger fits, until the proxy ends or the rule is taken off.

        *nth* counts the requests or lines that fit, from 1: the fault acts on that one only, or with *at_most* on that
        many from there on. *chance* is the probability for each. *at_least* is how often it has to act for the test
        to have meant anything; 0 for a guard that should never. Rules see a request or line in the order in which
        they were added; one that answers, or cuts, is the last to see it.
        """
        rule = Rule(
            trigger,
            do,
            nth=nth,
            at_most=at_most,
            at_least=at_least,
            chance=chance,
            random=Random(self._random.random()),
            on_change=self._engine.changed,
            loop=self._loop,
        )
        self._engine.rules = (*self._engine.rules, rule)
        return rule

    def now(self, trigger: Trigger, *, do: Fault) -> int:
        """Let a fault act on the open watches that the trigger fits, at once; AssertionError if there is none."""
        watches = self._do(lambda: self._engine.strike(trigger, do))
        if not watches:
            raise AssertionError(f"{do}: no open watch fits {trigger}{self._story()}")
        return watches

    @contextmanager
    def refusing(self) -> Iterator[None]:
        """Reset the open connections and refuse new ones."""
        self._each(Listener.refuse)
        try:
            yield
        finally:
            self._each(Listener.listen)

    def route(self, *, reads: int = 0, writes: int = 0) -> None:
        """Send reads (get, list, watch) and everything else to these apiservers, counted from 0."""
        self._engine.route = lambda call: reads if call.verb in {"get", "list", "watch"} else writes

    def alternate(self) -> None:
        """Send each request to the other of two apiservers, as a load balancer without affinity does."""
        turns = iter(range(1 << 62))
        self._engine.route = lambda _call: next(turns) % 2

    def end(self) -> None:
        """Take all rules off; AssertionError when one did not strike as often as it has to."""
        for rule in self._engine.rules:
            rule.off()
        self._assert_fired()

    def begin(self) -> None:
        """Forget rules and calls: one proxy may serve one test after the other."""
        self._engine.rules, self._engine.calls = (), []

    # Evidence

    def calls(self, trigger: Trigger | None = None) -> tuple[Call, ...]:
        """Return the requests so far that the trigger fits, in the order in which they were read."""
        return tuple(call for call in tuple(self._engine.calls) if trigger is None or trigger.fits(call))

    def count(self, trigger: Trigger | None = None) -> int:
        return len(self.calls(trigger))

    def open_watches(self, trigger: Trigger) -> int:
        """Return how many watches are open; those that are half-open do not count."""
        return self._do(lambda: self._engine.open_watches(trigger))

    async def until(self, predicate: Predicate, within: float = 10) -> None:
        """Return as soon as the predicate is true; it is asked, in the proxy's thread, whenever something happens."""
        done: Future[None] = Future()
        self._loop.call_soon_threadsafe(self._engine.wait_for, predicate, done)
        try:
            await asyncio.wait_for(asyncio.wrap_future(done), within)
        except TimeoutError:
            raise AssertionError(f"not within {within} s{self._story()}") from None

    # Inside

    def _assert_fired(self) -> None:
        if self._engine.tasks.errors:
            raise ExceptionGroup("in the fault proxy", self._engine.tasks.errors)
        for rule in self._engine.rules:
            rule.assert_fired()

    def _each(self, act: Callable[[Listener], None]) -> None:
        for listener in self._engine.listeners.values():
            self._do(partial(act, listener))

    def _context(self) -> ssl.SSLContext:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.set_alpn_protocols(["http/1.1"])
        self._authority.issue_cert("127.0.0.1", "localhost").configure_cert(context)
        return context

    def _story(self) -> str:
        """The end of the log, for messages."""
        return "".join(f"\n  {call}" for call in self.calls()[-_CALLS_SHOWN:]) or " (no request at all)"

    def _do(self, function: Callable[[], T]) -> T:
        """Call a function in the proxy's thread, where a predicate of ``until`` already is."""
        if threading.current_thread() is self._thread or not self._thread.is_alive():
            return function()

        async def run() -> T:
            return function()

        return asyncio.run_coroutine_threadsafe(run(), self._loop).result(_END_SECONDS)

    def _run_loop(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_forever()
            self._loop.run_until_complete(self._loop.shutdown_asyncgens())
            self._loop.run_until_complete(self._loop.shutdown_default_executor())
        finally:
            self._loop.close()
