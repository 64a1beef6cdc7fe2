"""One node under test: ``python -m chaos.node ID FOLDER`` runs it with the home in the environment until SIGTERM."""

import asyncio
import logging
import os
import signal
import sys
import threading
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from pathlib import Path
from random import Random
from typing import Any

from chaos.switches import History, Switches
from ringrift.environment import read_settings
from ringrift.events.base import Envelope, Event
from ringrift.events.custom import Published
from ringrift.events.pipeline import Opened
from ringrift.harness import Member, settings_of
from ringrift.kernel.clock import SystemClock
from ringrift.kernel.errors import Backpressure, Busy, NoRoom, Overdue, RingriftError
from ringrift.kernel.settings import Settings
from ringrift.node import Node, release_node_roles
from ringrift.store.open import only_coordinator, open_store
from ringrift.store.ports import Put, Store, Tx
from ringrift.store.sqlite.engine import SqliteStore
from ringrift.store.sqlite.reads import SqliteReads
from ringrift.supervision.spec import COORDINATES, Daemon

MEMBERS = (
    Member(id="n1"),
    Member(id="n2", profile="training_node"),
    Member(id="n3", profile="selfplay"),
)
EFFECT = "chaos_effect"
PUBLISH_SECONDS = 0.25
EXIT_BROKEN = 3


class _SteppedClock(SystemClock):
    """The clocks of the machine, the wall clock as far off as the control process says."""

    def __init__(self, switches: Switches) -> None:
        self.switches = switches

    def now(self) -> float:
        return super().now() + self.switches.get("clock_offset")


class _Body:
    """A body that may fail to begin, or be stopped as soon as it has begun: the write lock is held then."""

    def __init__(self, store: "_FaultyStore", body: AbstractAsyncContextManager[Tx]) -> None:
        self._store, self._body = store, body

    async def __aenter__(self) -> Tx:
        self._store.draw_error()
        tx = await self._body.__aenter__()
        if self._store.switches.get("stop_in_transaction"):
            self._store.switches.set("stop_in_transaction", 0)
            os.kill(os.getpid(), signal.SIGSTOP)
        return tx

    async def __aexit__(self, *error: Any) -> bool | None:
        return await self._body.__aexit__(*error)


class _FaultyStore(SqliteStore):
    """The engine; a share of its verbs fails with a transient error while the switch is on."""

    rng = Random(os.getpid())

    @property
    def switches(self) -> Switches:
        clock = self._clock
        assert isinstance(clock, _SteppedClock)
        return clock.switches

    def draw_error(self) -> None:
        """Raise one of the transient errors, as often as the switch says."""
        if self.rng.random() < self.switches.get("store_errors"):
            errors = (
                Busy("the store", "drawn"),
                Backpressure("store", 1),
                Overdue(1.0),
                NoRoom("the store"),
            )
            raise self.rng.choice(errors)

    def begin(self) -> AbstractAsyncContextManager[Tx]:
        return _Body(self, super().begin())

    @asynccontextmanager
    async def read(self) -> AsyncIterator[SqliteReads]:
        if self.rng.random() < self.switches.get("store_errors") / 4:
            raise Busy("the store", "drawn")
        async with super().read() as view:
            yield view


async def _react(event: Event, envelope: Envelope, tx: Tx) -> None:
    """The reader whose effects are counted: one more for the event, in the transaction that moves its position."""
    before = int((await tx.get(EFFECT, [envelope.id])).get(envelope.id, b"0"))
    await tx.put([Put(kind=EFFECT, id=envelope.id, body=str(before + 1).encode())])


PROBE = Daemon(name="chaos_probe", run=_react, on=(Published,), role="pipeline")


def _handle_events(node: Node, history: History, switches: Switches) -> None:
    """The durable handlers of the harness: one that counts on n2, and two on n3 that do not return for a while."""
    ended = threading.Event()

    async def count(event: Event, envelope: Envelope, key: str) -> None:
        history.add("effect", envelope.id, key)

    async def stuck(event: Event, envelope: Envelope, key: str) -> None:
        if switches.get("stuck"):
            await asyncio.get_running_loop().create_future()

    def stuck_thread(event: Event, envelope: Envelope, key: str) -> None:
        while switches.get("stuck"):
            ended.wait(PUBLISH_SECONDS)

    if node.node_id == "n2":
        node.router.handle(Published, count, name="chaos_count", from_start=True)
    if node.node_id == "n3":
        node.router.handle(Published, stuck, name="stuck", timeout_seconds=4.0)
        node.router.handle(Published, stuck_thread, name="stuck_thread", timeout_seconds=4.0)


async def _publish_forever(node: Node, history: History, switches: Switches) -> None:
    """Publish all the time; every publish is noted before, and again when it is acknowledged."""
    number = 0
    while True:
        await asyncio.sleep(PUBLISH_SECONDS)
        if switches.get("quiet"):
            continue
        number += 1
        id = f"{node.node_id}-{os.getpid()}-{number}"
        history.add("try", id)
        try:
            await node.router.publish(Published(event="CHAOS", payload={"number": number}), id=id)
        except RingriftError as error:
            history.add("refused", id, type(error).__name__)
        else:
            history.add("ack", id)


async def _open_lines(node: Node, settings: Settings) -> None:
    for variant in settings.policy.variants:
        async with asyncio.timeout(None):
            while True:
                try:
                    event = Opened(variant=variant, workload="fake")
                    await node.router.publish(event, id=f"opened-{variant}")
                    break
                except RingriftError:
                    await asyncio.sleep(PUBLISH_SECONDS)


async def _open_store(stack: AsyncExitStack, settings: Settings, clock: _SteppedClock) -> Store:
    coordinates = settings.node.profile in COORDINATES
    if coordinates:
        stack.enter_context(only_coordinator(settings.store, settings.node.id))
    store = await stack.enter_async_context(open_store(settings.store, clock, engine=_FaultyStore))
    if coordinates:
        await release_node_roles(store)
    return store


async def _run(name: str, folder: Path) -> int:
    stop = asyncio.get_running_loop().create_future()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, lambda: stop.done() or stop.set_result(None))
    member = next(member for member in MEMBERS if member.id == name)
    settings = settings_of(read_settings().settings, member)
    switches, history = Switches(folder / f"{name}.switches"), History(folder / f"{name}-{os.getpid()}.history")
    clock, rng = _SteppedClock(switches), Random(os.getpid())
    sys.executable = str(folder / f"{name}.python")
    async with AsyncExitStack() as stack:
        store = await _open_store(stack, settings, clock)
        node = await stack.enter_async_context(Node.open(settings, clock, rng, store=store, extra=(PROBE,)))
        await _open_lines(node, settings)
        _handle_events(node, history, switches)
        history.add("ready", name)
        publisher = asyncio.create_task(_publish_forever(node, history, switches))
        await asyncio.wait((stop, node.supervisor.broken, publisher), return_when=asyncio.FIRST_COMPLETED)
        publisher.cancel()
        await asyncio.wait((publisher,))
        if not stop.done():
            history.add("broken", repr(node.supervisor.broken))
            return EXIT_BROKEN
    history.add("stopped", name)
    return 0


if __name__ == "__main__":
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    sys.exit(asyncio.run(_run(sys.argv[1], Path(sys.argv[2]))))
