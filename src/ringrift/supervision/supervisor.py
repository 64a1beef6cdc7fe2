"""Supervisor: starts daemons in order, starts them again when they fail, gives up in time, stops them in reverse."""

import asyncio
import logging
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from random import Random
from typing import Any

import msgspec

from ringrift.bus.delivery import Reader
from ringrift.bus.router import Router
from ringrift.events.daemon import Cleared, Failed, Started, Stopped
from ringrift.kernel.clock import Clock
from ringrift.kernel.errors import GaveUp, NoRoom, SupervisionError, UnknownName, Unreachable
from ringrift.kernel.health import Answer, Health, liveness, readiness
from ringrift.supervision import child
from ringrift.supervision.live import Check, Holds, Want, live, reader
from ringrift.supervision.lookout import Lookout, Pace
from ringrift.supervision.report import DaemonReport
from ringrift.supervision.restart import Enough, judge
from ringrift.supervision.spec import Daemon, in_order
from ringrift.supervision.unit import RESTING, Unit

log = logging.getLogger(__name__)


class Supervisor:
    """Keeps the daemons of one node alive."""

    def __init__(
        self, node: str, router: Router, clock: Clock, *, holds: Holds, check: Check, rng: Random | None = None,
        pace: Pace | None = None, want: Want | None = None,
    ) -> None:  # fmt: skip
        """*rng* spreads the pauses after failures.  A *pace* with *stall_seconds_max* needs a loop that has threads.

        *want* is told the role of every daemon that is taken in, where roles are taken.
        """
        self._node, self._router, self._clock = node, router, clock
        self._holds, self._check, self._rng, self._pace, self._want = holds, check, rng, pace or Pace(), want
        self._units: dict[str, Unit] = {}
        self._parts: Mapping[str, Any] = {}
        self._unusable: tuple[Health, ...] = ()
        self._regrouping: dict[str, asyncio.Task[None]] = {}
        self._pauses: dict[str, float] = {}
        """Seconds after which a group is to start again, while somebody sees to it."""
        self._lookout = Lookout(node, self._units, clock, self._pace, give_up=self._abandon)
        self.readers: dict[str, Reader] = {}
        self.broken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Fails when the store does: then this process can only end and start again."""

    @asynccontextmanager
    async def run(
        self, daemons: Sequence[Daemon], parts: Mapping[str, Any], profile: str, unusable: Sequence[Health] = (), *,
        begin: Collection[str] | None = None,
    ) -> AsyncIterator[None]:  # fmt: skip
        """Run the *daemons* of *profile* while the body runs; *unusable* are plugins that could not be loaded.

        With *begin* only those start, and the others rest until they are started by hand.  Raises Unbound or
        SettingsError before anything has started.
        """
        names = in_order([daemon for daemon in daemons if profile in daemon.profiles])
        in_order([msgspec.structs.replace(daemon, needs=()) for daemon in daemons])  # names differ in every profile
        self._parts, self._unusable = parts, tuple(unusable)
        bound = [self._bound(spec) for spec in names]
        for unit in bound:
            self._take_in(unit)
        try:
            with self._lookout.looking():
                for unit in bound:
                    if begin is None or unit.spec.name in begin:
                        await self._start(unit)
                yield
        finally:
            for task in list(self._regrouping.values()):
                task.cancel()
            await self._stop_all()

    def add(self, spec: Daemon) -> None:
        """Take in one more daemon, which rests until it is started; one of its name that does not run is replaced.

        Raises Unbound, SettingsError, and SupervisionError for one that runs.
        """
        before = self._units.get(spec.name)
        if before is not None and (before.wanted or before.is_running()):
            raise SupervisionError(f"daemon {spec.name} runs: stop it before another takes its place")
        self._take_in(self._bound(spec))

    def _take_in(self, unit: Unit) -> None:
        self._units[unit.spec.name] = unit
        if unit.spec.role is not None and self._want is not None:
            self._want(unit.spec.role)
        if unit.spec.on:
            self.readers[unit.spec.name] = reader(unit, self._check)

    def _bound(self, spec: Daemon) -> Unit:
        parts = self._parts
        unit = Unit(spec, parts.get("settings"), self._clock)
        own = {**parts, "alive": unit.alive}
        unit.check = spec.bind_check(own)
        if not spec.process:
            unit.body = spec.bind(own)
            return unit
        greeting = msgspec.json.encode({"daemon": spec.name, "node": self._node, "settings": parts["settings"]})
        unit.body = partial(
            child.serve, spec.name, spec.process, greeting, say=unit.hear, began=unit.took_pid,
            stop_seconds_max=unit.stop_seconds,
        )  # fmt: skip
        return unit

    # -- one daemon, by hand -------------------------------------------------------------------------------------------

    async def start(self, name: str) -> bool:
        """Start a daemon that was stopped; whether it was.  Raises GaveUp for one that must be cleared first."""
        unit = self._unit(name)
        if unit.state == "failed":
            raise GaveUp(name, unit.spec.restart.times, unit.spec.restart.seconds)
        if unit.wanted:
            return False
        await self._start(unit)
        return True

    async def stop(self, name: str) -> bool:
        """Stop one daemon and leave the others alone, also those that start after it; whether it ended in time."""
        return await self._stop(self._unit(name))

    async def restart(self, name: str) -> None:
        """Stop one daemon and start it again; its record stays as it is.  Raises GaveUp, SupervisionError."""
        await self.stop(name)
        await self.start(name)

    async def clear(self, name: str) -> None:
        """Forget the failures of a daemon and start it again: the only way back for one that was given up.

        Others of its group that were given up with it come back too.  Raises SupervisionError if it cannot be ended.
        """
        first = self._unit(name)
        given_up = [unit for unit in self._group(first) if unit.state == "failed"]
        units = [unit for unit in self._units.values() if unit in given_up or unit is first]
        for unit in reversed(units):
            await self._end(unit)
        for unit in units:
            unit.forget()
            await self._start(unit)
            if unit in given_up:
                await self._router.publish(Cleared(daemon=unit.spec.name, node=self._node), source="supervisor")

    # -- how they are --------------------------------------------------------------------------------------------------

    def health(self) -> list[Health]:
        """How every daemon is that was ever started, and why a plugin is not there."""
        begun = (unit for unit in self._units.values() if unit.state != RESTING)
        return [*(unit.health(self._lookout.awake) for unit in begun), *self._unusable]

    def report(self, name: str) -> DaemonReport:
        """What is known of one daemon.  Raises UnknownName."""
        return self._unit(name).report(self._lookout.awake)

    def reports(self) -> list[DaemonReport]:
        """What is known of every daemon, in the order they start in."""
        return [unit.report(self._lookout.awake) for unit in self._units.values()]

    def spec(self, name: str) -> Daemon:
        """How a daemon was declared.  Raises UnknownName."""
        return self._unit(name).spec

    def liveness(self) -> Answer:
        """Whether no critical daemon is unhealthy."""
        return liveness(self.health(), self._critical())

    def readiness(self) -> Answer:
        """Whether every critical daemon works."""
        return readiness(self.health(), self._critical())

    def _critical(self) -> frozenset[str]:
        begun = (unit for unit in self._units.values() if unit.state != RESTING)
        return frozenset(unit.spec.name for unit in begun if unit.spec.critical)

    # -- starting and ending -------------------------------------------------------------------------------------------

    async def _start(self, unit: Unit) -> None:
        """Start and wait until it is ready: one that never is must not keep the others from starting."""
        if unit.is_running():
            raise SupervisionError(f"daemon {unit.spec.name} was told to stop and still runs: it cannot run twice")
        unit.expect()
        if unit.spec.look_seconds is not None:
            self._lookout.notice()
        unit.task = asyncio.get_running_loop().create_task(self._keep(unit), name=f"{self._node}:{unit.spec.name}")
        try:
            await asyncio.wait_for(unit.ready.wait(), self._pace.ready_seconds_max)
        except TimeoutError:
            log.warning("daemon %s is not ready after %g s", unit.spec.name, self._pace.ready_seconds_max)

    async def _stop_all(self) -> None:
        """Stop everybody, the last first, each as soon as those have ended that started after it.

        One that takes long holds up only what it started after: so the node ends in the time of its longest row.
        """
        loop = asyncio.get_running_loop()
        stopping: dict[str, asyncio.Task[None]] = {}
        for unit in reversed(list(self._units.values())):
            name = unit.spec.name
            behind = [task for other, task in stopping.items() if name in self._units[other].spec.follows]
            stopping[name] = loop.create_task(self._stop_behind(unit, behind), name=f"{self._node}:{name}:stop")
        await asyncio.gather(*stopping.values())

    async def _stop_behind(self, unit: Unit, behind: Collection["asyncio.Task[None]"]) -> None:
        if behind:
            await asyncio.wait(behind)
        await self._stop(unit)

    async def _stop(self, unit: Unit) -> bool:
        unit.wanted = False
        if unit.state not in ("failed", RESTING):
            unit.turn("stopped")
        return await self._end(unit)

    async def _end(self, unit: Unit) -> bool:
        """End the task of *unit*; whether it ended in time.  One that does not is left behind and shown as such."""
        unit.ending = True
        if unit.task is None or unit.task.done():
            return True
        unit.task.cancel()
        _, late = await asyncio.wait((unit.task,), timeout=unit.stop_seconds_max)
        if late:
            log.error("daemon %s did not stop in %g s", unit.spec.name, unit.stop_seconds_max)
        return not late

    def _unit(self, name: str) -> Unit:
        if name not in self._units:
            raise UnknownName("daemon", name, self._units)
        return self._units[name]

    def _group(self, unit: Unit) -> list[Unit]:
        """*unit* and those that share its fate, in the order they start in."""
        group = unit.spec.group
        return [one for one in self._units.values() if one is unit or (group and one.spec.group == group)]

    # -- keeping alive -------------------------------------------------------------------------------------------------

    async def _keep(self, unit: Unit) -> None:
        """Run the body for ever; a failure is followed by a pause and another start, or by giving up."""
        try:
            pause: float | None = 0.0
            while pause is not None:
                await asyncio.sleep(pause)
                pause = await self._once(unit)
        except Unreachable as gone:
            self._break(gone)
            unit.ready.set()

    def _break(self, gone: Unreachable) -> None:
        if not self.broken.done():
            self.broken.set_exception(gone)

    async def _once(self, unit: Unit) -> float | None:
        """Run the body until it ends; seconds until it may start again, None if it may not."""
        failures = len(unit.recent_failures(self._clock.tick()))
        self._router.tell(Started(daemon=unit.spec.name, node=self._node, failures=failures))
        unit.begin()
        try:
            async with asyncio.timeout(None) as unit.scope:
                await live(unit, self._router, self.readers, self._holds)
        except Unreachable:
            raise
        except asyncio.CancelledError:
            if unit.is_cancelled():
                self._router.tell(Stopped(daemon=unit.spec.name, node=self._node))
                raise
            wrong: BaseException = SupervisionError("what it awaited was cancelled")
        except NoRoom as full:
            self._say_stopped(unit, str(full))
            return unit.wait(str(full))
        except SystemExit as end:
            wrong = SupervisionError(f"called for the end of the program: {end}")
        except Exception as raised:  # noqa: BLE001 - whatever a daemon raises is its failure, and nobody else's
            wrong = unit.hung() or raised
        else:
            return None  # it was told to stop, and has
        finally:
            unit.scope = None
        return await self._failed(unit, wrong)

    async def _failed(self, unit: Unit, wrong: BaseException) -> float | None:
        verdict = judge(unit.failures, self._clock.tick(), unit.spec.restart, self._rng)
        unit.fail(verdict.failures, wrong)
        log.warning("daemon %s failed: %s", unit.spec.name, unit.error, exc_info=wrong)
        self._say_stopped(unit, unit.error)
        if unit.ending:
            return None
        if isinstance(verdict, Enough) or isinstance(wrong, unit.spec.final):
            await self._give_up(unit)
            return None
        unit.turn("pausing")
        if len(self._group(unit)) == 1:
            return verdict.seconds
        self._regroup(unit, verdict.seconds)
        return None

    def _say_stopped(self, unit: Unit, error: str) -> None:
        self._router.tell(Stopped(daemon=unit.spec.name, node=self._node, error=error))
        unit.ready.set()  # the others need not wait for one that fails

    def _regroup(self, unit: Unit, seconds: float) -> None:
        """Start the group of *unit* again in *seconds*; if that is under way already, once more behind it."""
        group = unit.spec.group
        self._pauses[group] = seconds
        if group not in self._regrouping:
            again = self._start_together(group, self._group(unit))
            task = asyncio.get_running_loop().create_task(again, name=f"{self._node}:group:{group}")
            self._regrouping[group] = task

    async def _start_together(self, group: str, units: Sequence[Unit]) -> None:
        try:
            while (seconds := self._pauses.pop(group, None)) is not None:
                for unit in reversed(units):
                    if unit.wanted and not await self._end(unit):
                        await self._abandon(unit)
                await asyncio.sleep(seconds)
                for unit in units:
                    if unit.wanted and unit.state != "failed" and not unit.is_running():
                        await self._start(unit)
        finally:
            del self._regrouping[group]

    async def _abandon(self, unit: Unit) -> None:
        """Give up one that cannot be ended: a second one beside it would be worse than none."""
        unit.ending = True
        unit.fail(unit.failures, SupervisionError("hangs and does not stop: only a restart of the node helps"))
        await self._give_up(unit)
        if unit.task is not None:
            unit.task.cancel()

    async def _give_up(self, unit: Unit) -> None:
        """Let *unit* rest until it is cleared, and its group with it."""
        rule, error = unit.spec.restart, unit.error
        for one in self._group(unit):
            if one.state in ("failed", "stopped"):
                continue
            one.give_up(error if one is unit else f"with {unit.spec.name}, of its group: {error}")
            log.error("%s", GaveUp(one.spec.name, rule.times, rule.seconds))
            if one is not unit:
                await self._end(one)
            said = Failed(
                daemon=one.spec.name, node=self._node, error=one.error, times=rule.times, seconds=rule.seconds
            )
            try:
                await self._router.publish(said, source="supervisor")
            except NoRoom as full:  # its health says so all the same
                log.error("that %s was given up could not be written down: %s", one.spec.name, full)
            except Unreachable as gone:
                self._break(gone)
