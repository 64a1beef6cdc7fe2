"""The supervisor: starts daemons in order, restarts them when they fail, gives up in time, stops them in reverse."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from random import Random
from typing import Any

import msgspec

from ringrift.bus.delivery import Reader
from ringrift.bus.router import Router
from ringrift.events.daemon import Cleared, Failed, Started, Stopped
from ringrift.kernel.backoff import wait_out
from ringrift.kernel.clock import Clock
from ringrift.kernel.errors import TRANSIENT, GaveUp, NoRoom, SettingsError, SupervisionError, Unreachable, require_name
from ringrift.kernel.health import Health
from ringrift.store.ports import RESERVED
from ringrift.supervision.hang_detector import CheckIntervals, HangDetector
from ringrift.supervision.program import serve
from ringrift.supervision.spec import Daemon, in_order
from ringrift.supervision.status import RESTING, DaemonStatus
from ringrift.supervision.unit import CheckRole, HoldsRole, Unit, make_reader, run_daemon

log = logging.getLogger(__name__)


class Supervisor:
    """Keeps the daemons of one node alive."""

    def __init__(
        self,
        node: str,
        router: Router,
        clock: Clock,
        *,
        holds: HoldsRole,
        check: CheckRole,
        rng: Random | None = None,
        intervals: CheckIntervals | None = None,
        want: Callable[[str], None] | None = None,
    ) -> None:
        """*rng* spreads the pauses after failures; *want* gets the role of every daemon, for which the node stands."""
        self._node, self._router, self._clock, self._rng = node, router, clock, rng
        self._holds, self._check, self._want = holds, check, want
        self._intervals = intervals or CheckIntervals()
        self._units: dict[str, Unit] = {}
        self._parts: Mapping[str, Any] = {}
        self._unusable: tuple[Health, ...] = ()
        self._group_restarts: dict[str, asyncio.Task[None]] = {}
        self._pauses: dict[str, float] = {}  #: Seconds after which a group is to start again.
        self._revivals: set[asyncio.Task[None]] = set()
        self._hang_detector = HangDetector(
            node, self._units, clock, self._intervals, give_up=self._abandon, publish=router.publish_memory
        )
        self.readers: dict[str, Reader] = {}
        self.broken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Fails when the store does: then this process can only end and start again."""

    @asynccontextmanager
    async def run(
        self,
        daemons: Sequence[Daemon],
        parts: Mapping[str, Any],
        profile: str,
        unusable: Sequence[Health] = (),
        *,
        plugins: Sequence[Daemon] = (),
        begin: Collection[str] | None = None,
        disabled: Collection[str] = (),
    ) -> AsyncIterator[None]:
        """Run the *daemons* of *profile* while the body runs; *unusable* are plugins that could not be loaded.

        The daemons, not the *plugins*, have reserved places in the queue of the store.  With *begin* only those start,
        and the others rest until :meth:`start`; those that are *disabled* never start.  Raises Unbound or SettingsError
        before anything has started.
        """
        own, daemons = {daemon.name for daemon in daemons}, [*daemons, *plugins]
        if unknown := sorted(set(disabled) - {daemon.name for daemon in daemons}):
            rule = "no daemon has this name (ringrift daemons lists them)"
            raise SettingsError("node.disabled_daemons", unknown, rule)
        specs = in_order([daemon for daemon in daemons if profile in daemon.profiles])
        in_order([msgspec.structs.replace(daemon, needs=()) for daemon in daemons])  # names differ in every profile
        self._parts, self._unusable = parts, tuple(unusable)
        for spec in specs:
            self._add(spec, disabled=spec.name in disabled, reserved=spec.name in own)
        try:
            with self._hang_detector.watching():
                for unit in list(self._units.values()):
                    if not unit.disabled and (begin is None or unit.spec.name in begin):
                        await self._start(unit)
                yield
        finally:
            for task in (*self._group_restarts.values(), *self._revivals):
                task.cancel()
            await self._stop_all()
            await self._router.flush()

    def add(self, spec: Daemon) -> None:
        """Add a daemon without starting it, in place of one of its name.  Raises SupervisionError if that one runs."""
        before = self._units.get(spec.name)
        if before is not None and (before.should_run or before.is_running()):
            raise SupervisionError(f"daemon {spec.name} runs: stop it before another takes its place")
        self._add(spec, disabled=before is not None and before.disabled)

    def _add(self, spec: Daemon, *, disabled: bool, reserved: bool = False) -> None:
        settings = self._parts.get("settings")
        unit = Unit(spec, settings, self._clock)
        unit.disabled, unit.reserved = disabled, reserved
        cleared = Cleared(daemon=spec.name, node=self._node)
        unit.on_recovery = partial(self._router.publish_later, cleared, source="supervisor")
        own = spec.own_parts(self._parts, unit.mark_progress)
        unit.check = spec.bind_check(own)
        unit.body = partial(serve, unit, self._node, settings) if spec.process else spec.bind(own)
        self._units[spec.name] = unit
        if spec.role is not None and self._want is not None:
            self._want(spec.role)
        if spec.on:
            self.readers[spec.name] = make_reader(unit, self._check)

    async def start(self, name: str) -> bool:
        """Start a daemon; False if it runs already.  Raises GaveUp for one that must be cleared first."""
        unit = self._unit(name)
        if unit.state == "failed":
            raise GaveUp(name, unit.spec.restart.times, unit.spec.restart.seconds)
        if unit.should_run:
            return False
        await self._start(unit)
        return True

    async def stop(self, name: str) -> bool:
        """Stop one daemon and no other, not even those that start after it; whether it ended in time."""
        return await self._stop(self._unit(name))

    async def restart(self, name: str) -> None:
        """Stop one daemon and start it again; its failures stay counted.  Raises GaveUp, SupervisionError."""
        await self.stop(name)
        await self.start(name)

    async def clear(self, name: str) -> None:
        """Forget the failures of a daemon and start it again: the way back for one that was given up.

        Others of its group that were given up with it come back too.  Raises SupervisionError if it cannot be ended.
        """
        first = self._unit(name)
        given_up = [unit for unit in self._group(first) if unit.state == "failed"]
        units = [unit for unit in self._units.values() if unit in given_up or unit is first]
        for unit in reversed(units):
            await self._end(unit)
        for unit in units:
            unit.clear()
            await self._start(unit)

    def health(self) -> list[Health]:
        """The health of every daemon that was ever started, of plug-ins that could not be loaded, of bad handlers."""
        started = [unit for unit in self._units.values() if unit.state != RESTING]
        daemons = [unit.health(self._hang_detector.awake) for unit in started]
        return [*daemons, *self._unusable, *self._router.health()]

    def status(self, name: str) -> DaemonStatus:
        """The status of one daemon.  Raises UnknownName."""
        return self._unit(name).status(self._hang_detector.awake)

    def statuses(self) -> list[DaemonStatus]:
        """The status of every daemon, in the order they start in."""
        return [unit.status(self._hang_detector.awake) for unit in self._units.values()]

    def spec(self, name: str) -> Daemon:
        """The declaration of a daemon.  Raises UnknownName."""
        return self._unit(name).spec

    async def _start(self, unit: Unit) -> None:
        """Start and wait until it is ready: one that never is must not keep the others from starting."""
        if unit.disabled:
            remedy = "take it out of node.disabled_daemons and start the node again"
            raise SupervisionError(f"daemon {unit.spec.name} is disabled by settings: {remedy}")
        if unit.is_running():
            raise SupervisionError(f"daemon {unit.spec.name} was told to stop and still runs: it cannot run twice")
        unit.expect_start()
        if unit.spec.check_seconds is not None:
            self._hang_detector.on_start()
        loop, name = asyncio.get_running_loop(), f"{self._node}:{unit.spec.name}"
        unit.task = loop.create_task(self._keep_running(unit), name=name)
        try:
            # Not asyncio.wait_for: in Python 3.11 it swallows a cancellation that comes at the moment of the event.
            async with asyncio.timeout(self._intervals.ready_seconds_max):
                await unit.ready.wait()
        except TimeoutError:
            log.warning("daemon %s is not ready after %g s", unit.spec.name, self._intervals.ready_seconds_max)

    async def _stop_all(self) -> None:
        """Stop all, the last first, each as soon as those have ended that started after it: a slow one delays few."""
        loop = asyncio.get_running_loop()
        stopping: dict[str, asyncio.Task[bool]] = {}
        for unit in reversed(list(self._units.values())):
            name = unit.spec.name
            later = [task for other, task in stopping.items() if name in self._units[other].spec.follows]
            stopping[name] = loop.create_task(self._stop(unit, later), name=f"{self._node}:{name}:stop")
        await asyncio.gather(*stopping.values())

    async def _stop(self, unit: Unit, later: Collection["asyncio.Task[bool]"] = ()) -> bool:
        if later:
            await asyncio.wait(later)
        unit.should_run = False
        if unit.state not in ("failed", RESTING):
            unit.enter("stopped")
        return await self._end(unit)

    async def _end(self, unit: Unit) -> bool:
        """End the task of *unit*; whether it ended in time.  If not it is left behind, and its health says so."""
        unit.is_stopping, unit.is_left = True, False
        if unit.task is None or unit.task.done():
            return True
        unit.task.cancel()
        try:
            await asyncio.wait((unit.task,), timeout=unit.stop_seconds_max)
        finally:  # its time is also over if the caller waits no longer
            unit.is_left = not unit.task.done()
        if unit.is_left:
            log.error("daemon %s did not stop in %g s", unit.spec.name, unit.stop_seconds_max)
        return not unit.is_left

    def _unit(self, name: str) -> Unit:
        require_name("daemon", name, self._units)
        return self._units[name]

    def _group(self, unit: Unit) -> list[Unit]:
        """*unit* and the others of its group, in the order they start in."""
        group = unit.spec.group
        return [other for other in self._units.values() if other is unit or (group and other.spec.group == group)]

    async def _keep_running(self, unit: Unit) -> None:
        """Run the body for ever; after a failure it pauses and starts again, or gives up.  A busy store is none."""
        RESERVED.set(unit.reserved)
        try:
            pause: float | None = 0.0
            while pause is not None:
                await asyncio.sleep(pause)
                pause = await wait_out(partial(self._run_until_end, unit), on_wait=unit.wait)
        except Unreachable as error:
            if not self.broken.done():
                self.broken.set_exception(error)
            unit.ready.set()

    async def _run_until_end(self, unit: Unit) -> float | None:
        """Run the body until it ends; seconds until it may start again, None if it may not.  Raises TRANSIENT."""
        failures = len(unit.recent_failures(self._clock.tick()))
        self._router.publish_memory(Started(daemon=unit.spec.name, node=self._node, failures=failures))
        unit.record_start()
        try:
            async with asyncio.timeout(None) as unit.scope:
                await run_daemon(unit, self._router, self.readers, self._holds)
        except Unreachable:
            raise
        except asyncio.CancelledError:
            if unit.task is None or unit.task.cancelling():
                self._router.publish_memory(Stopped(daemon=unit.spec.name, node=self._node))
                raise
            error: BaseException = SupervisionError("something that it awaited was cancelled")
        except TRANSIENT as wait:
            self._publish_stopped(unit, str(wait), "no_room" if isinstance(wait, NoRoom) else "busy")
            raise
        except SystemExit as end:
            error = SupervisionError(f"tried to end the process: {end}")
        except Exception as raised:  # noqa: BLE001 - any error of a daemon is its own failure
            hang = TimeoutError(f"no progress for more than {unit.patience():g} s")
            error = raised if unit.cancelled_at is None else hang
        else:
            return None  # it was told to stop, and has
        finally:
            unit.scope = None
        return await self._on_failure(unit, error)

    async def _on_failure(self, unit: Unit, error: BaseException) -> float | None:
        """Record *error*; seconds until *unit* may start again, None if it may not or its group does that."""
        seconds, failures = unit.spec.restart.after_failure(unit.failures, self._clock.tick(), self._rng)
        unit.record_failure(failures, error)
        log.warning("daemon %s failed: %s", unit.spec.name, unit.error, exc_info=error)
        self._publish_stopped(unit, unit.error, "error" if unit.cancelled_at is None else "hang")
        if unit.is_stopping:
            return None
        if seconds is None or isinstance(error, unit.spec.final):
            await self._give_up(unit, "budget" if seconds is None else "final")
            return None
        unit.enter("pausing")
        if len(self._group(unit)) == 1:
            return seconds
        self._restart_group(unit, seconds)
        return None

    def _publish_stopped(self, unit: Unit, error: str, cause: str) -> None:
        ready = unit.progress is not None and unit.progress >= unit.started_at
        stopped = Stopped(daemon=unit.spec.name, node=self._node, error=error, cause=cause, ready=ready)
        self._router.publish_memory(stopped)
        unit.ready.set()  # the others need not wait for one that fails

    def _restart_group(self, unit: Unit, seconds: float) -> None:
        """Start the group of *unit* again in *seconds*; if that is under way already, once more after it."""
        group = unit.spec.group
        self._pauses[group] = seconds
        if group not in self._group_restarts:
            restart = self._start_together(group, self._group(unit))
            task = asyncio.get_running_loop().create_task(restart, name=f"{self._node}:group:{group}")
            self._group_restarts[group] = task

    async def _start_together(self, group: str, units: Sequence[Unit]) -> None:
        try:
            while (seconds := self._pauses.pop(group, None)) is not None:
                for unit in reversed(units):
                    if unit.should_run and not await self._end(unit):
                        await self._abandon(unit)
                await asyncio.sleep(seconds)
                for unit in units:
                    if unit.should_run and unit.state != "failed" and not unit.is_running():
                        await self._start(unit)
        finally:
            del self._group_restarts[group]

    async def _abandon(self, unit: Unit) -> None:
        """Give up one that cannot be ended: a second one beside it would be worse than none."""
        unit.is_stopping = True
        error = SupervisionError("hangs and does not stop: only a restart of the node helps")
        unit.record_failure(unit.failures, error)
        await self._give_up(unit, "hang")
        if unit.task is not None:
            unit.task.cancel()

    async def _give_up(self, unit: Unit, cause: str) -> None:
        """Stop starting *unit*, and its group with it, until it is cleared; one that is vital rests for a while only.

        Its end is reported as soon as the store takes it, so giving up cannot fail.
        """
        rule, error = unit.spec.restart, unit.error
        for member in self._group(unit):
            if member.state in ("failed", "stopped"):
                continue
            name = member.spec.name
            member.give_up(error if member is unit else f"with {unit.spec.name}, of its group: {error}")
            log.error("%s", GaveUp(name, rule.times, rule.seconds))
            if member is not unit:
                await self._end(member)
            about = {"daemon": name, "node": self._node, "cause": cause if member is unit else "group"}
            event = Failed(error=member.error, times=rule.times, seconds=rule.seconds, **about)
            self._router.publish_later(event, source="supervisor")
        if cause != "final" and any(member.spec.is_vital for member in self._group(unit)):
            name, loop = f"{self._node}:{unit.spec.name}:rest", asyncio.get_running_loop()
            self._revivals.add(revival := loop.create_task(self._revive(unit), name=name))
            revival.add_done_callback(self._revivals.discard)

    async def _revive(self, unit: Unit) -> None:
        """Start *unit* again after its rest, with its group, unless an operator was faster."""
        await asyncio.sleep(unit.spec.restart.rest_seconds)
        clinging = [member.task for member in self._group(unit) if member.task is not None and member.state == "failed"]
        await asyncio.wait(clinging)  # a second one beside it would be worse than none
        if unit.state == "failed" and unit.should_run:
            await self.clear(unit.spec.name)
