"""Supervisor: starts daemons in order, starts them again when they fail, gives up in time, stops them in reverse."""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any

from ringrift.bus.delivery import Reader
from ringrift.bus.router import Router
from ringrift.events.daemon import Cleared, Failed, Started, Stopped
from ringrift.kernel.clock import Clock
from ringrift.kernel.errors import GaveUp, NotLeader, SupervisionError, UnknownName, Unreachable, told
from ringrift.kernel.health import Health
from ringrift.kernel.watch import recent
from ringrift.store.ports import Tx
from ringrift.supervision import probe
from ringrift.supervision.restart import Enough, judge
from ringrift.supervision.spec import Daemon, in_order

READY_SECONDS_MAX = 30.0
ERROR_CHARACTERS_MAX = 500
log = logging.getLogger(__name__)

Holds = Callable[[str], bool]
Check = Callable[[str, Tx], Awaitable[None]]


class _Unit:
    """One daemon under supervision."""

    def __init__(self, spec: Daemon, seconds: float | None, tick: float) -> None:
        self.spec, self.seconds = spec, seconds
        self.body: Callable[..., Awaitable[Any]]
        self.task: asyncio.Task[None] | None = None
        self.ready = asyncio.Event()
        self.state = "starting"
        self.started = tick
        self.progress: float | None = None
        self.failures: tuple[float, ...] = ()
        self.error = ""

    def patience(self) -> float:
        """Seconds this daemon may go without progress: several ticks, or its own limit."""
        return max(self.spec.seconds_max, probe.LATE_TICKS * (self.seconds or 0.0))

    def recent_failures(self, tick: float) -> tuple[float, ...]:
        """Failures that still count: one that has worked long enough since is well again."""
        return recent(self.failures, tick, self.spec.restart.seconds)


class Supervisor:
    """Keeps the daemons of one node alive."""

    def __init__(self, node: str, router: Router, clock: Clock, *, holds: Holds, check: Check) -> None:
        self._node, self._router, self._clock = node, router, clock
        self._holds, self._check = holds, check
        self._units: dict[str, _Unit] = {}
        self.readers: dict[str, Reader] = {}
        self.broken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Fails when the store does: then this process can only end and start again."""

    @asynccontextmanager
    async def run(self, daemons: Sequence[Daemon], parts: Mapping[str, Any], profile: str) -> AsyncIterator[None]:
        """Run the *daemons* of *profile* while the body runs.  Raises Unbound before anything has started."""
        chosen = in_order([daemon for daemon in daemons if profile in daemon.profiles])
        for spec in chosen:
            unit = _Unit(spec, _seconds(spec, parts), self._clock.tick())
            unit.body = spec.bind({**parts, "alive": self._alive(unit)})
            self._units[spec.name] = unit
            if spec.on:
                self.readers[spec.name] = self._reader(unit)
        try:
            for spec in chosen:
                await self._start(self._units[spec.name])
            yield
        finally:
            await self._stop([self._units[spec.name] for spec in reversed(chosen)])

    async def _start(self, unit: _Unit) -> None:
        """Start and wait until it is ready: one that never is must not keep the others from starting."""
        unit.state, unit.started = "running", self._clock.tick()
        unit.ready.clear()
        unit.task = asyncio.get_running_loop().create_task(self._keep(unit), name=f"{self._node}:{unit.spec.name}")
        try:
            await asyncio.wait_for(unit.ready.wait(), READY_SECONDS_MAX)
        except TimeoutError:
            log.warning("daemon %s is not ready after %g s", unit.spec.name, READY_SECONDS_MAX)

    async def _stop(self, units: Sequence[_Unit]) -> None:
        for unit in units:
            unit.state = "stopped"
            if unit.task is not None:
                unit.task.cancel()
                _, late = await asyncio.wait((unit.task,), timeout=unit.spec.stop_seconds_max)
                if late:
                    log.error("daemon %s did not stop in time", unit.spec.name)

    async def stop(self, name: str) -> None:
        """Stop one daemon and leave the others alone."""
        await self._stop([self._unit(name)])

    async def clear(self, name: str) -> None:
        """Forget the failures of a daemon and start it again: the only way back for one that was given up."""
        unit = self._unit(name)
        given_up = unit.state == "failed"
        await self._stop([unit])
        unit.failures, unit.error, unit.progress = (), "", None
        await self._start(unit)
        if given_up:
            await self._router.publish(Cleared(daemon=name, node=self._node), source="supervisor")

    def health(self) -> list[Health]:
        """How every daemon is."""
        tick = self._clock.tick()
        return [
            probe.judge(
                probe.Seen(
                    name=name, state=unit.state, progress=unit.progress, started=unit.started, patience=unit.patience(),
                    failures=len(unit.recent_failures(tick)), error=unit.error,
                ),
                tick,
            )
            for name, unit in self._units.items()
        ]  # fmt: skip

    def _unit(self, name: str) -> _Unit:
        if name not in self._units:
            raise UnknownName("daemon", name, self._units)
        return self._units[name]

    def _alive(self, unit: _Unit) -> Callable[[], None]:
        def alive() -> None:
            unit.progress = self._clock.tick()
            unit.ready.set()

        return alive

    def _reader(self, unit: _Unit) -> Reader:
        role = unit.spec.role

        async def guard(tx: Tx) -> None:
            if role is not None:
                await self._check(role, tx)

        wants = frozenset(event.name() for event in unit.spec.on)
        return Reader(name=unit.spec.name, wants=wants, react=unit.body, guard=guard)

    async def _keep(self, unit: _Unit) -> None:
        """Run the body for ever; a failure is followed by a pause and another start, or by giving up."""
        try:
            while True:
                failures = len(unit.recent_failures(self._clock.tick()))
                self._router.tell(Started(daemon=unit.spec.name, node=self._node, failures=failures))
                try:
                    await self._live(unit)
                except Unreachable:
                    raise
                except asyncio.CancelledError:
                    self._router.tell(Stopped(daemon=unit.spec.name, node=self._node))
                    raise
                except Exception as wrong:
                    verdict = judge(unit.failures, self._clock.tick(), unit.spec.restart)
                    unit.failures, unit.error = verdict.failures, f"{type(wrong).__name__}: {wrong}"
                    log.warning("daemon %s failed: %s", unit.spec.name, unit.error, exc_info=wrong)
                error = told(unit.error, ERROR_CHARACTERS_MAX)
                self._router.tell(Stopped(daemon=unit.spec.name, node=self._node, error=error))
                unit.ready.set()  # the others need not wait for one that fails
                if isinstance(verdict, Enough):
                    await self._give_up(unit)
                    return
                await asyncio.sleep(verdict.seconds)
        except Unreachable as gone:
            if not self.broken.done():
                self.broken.set_exception(gone)
            unit.ready.set()

    async def _give_up(self, unit: _Unit) -> None:
        rule = unit.spec.restart
        unit.state = "failed"
        log.error("%s", GaveUp(unit.spec.name, rule.times, rule.seconds))
        said = Failed(
            daemon=unit.spec.name,
            node=self._node,
            error=told(unit.error, ERROR_CHARACTERS_MAX),
            times=rule.times,
            seconds=rule.seconds,
        )
        await self._router.publish(said, source="supervisor")

    async def _live(self, unit: _Unit) -> None:
        spec, alive = unit.spec, self._alive(unit)
        role = spec.role
        if spec.on:
            holds = (lambda: True) if role is None else (lambda: self._holds(role))
            await self._serve_reader(unit, alive, holds)
        elif spec.serve:
            await unit.body()
            raise SupervisionError(f"daemon {spec.name} is to serve, but ended by itself")
        else:
            assert unit.seconds is not None
            while True:
                if role is None or self._holds(role):
                    async with asyncio.timeout(spec.seconds_max):
                        with suppress(NotLeader):  # the role has gone to another node: nothing happened
                            await unit.body()
                alive()
                await asyncio.sleep(unit.seconds)

    async def _serve_reader(self, unit: _Unit, alive: Callable[[], None], holds: Callable[[], bool]) -> None:
        while True:
            try:
                await self._router.serve(self.readers[unit.spec.name], alive, holds)
            except NotLeader:
                await asyncio.sleep(unit.spec.restart.first_seconds)


def _seconds(spec: Daemon, parts: Mapping[str, Any]) -> float | None:
    """The seconds between ticks, looked up in the settings if they are named there."""
    if not isinstance(spec.every, str):
        return spec.every
    found: Any = parts["settings"]
    for name in spec.every.split("."):
        found = getattr(found, name)
    return float(found)
