"""Daemon starting: how a manager begins and ends daemons on the ambient node; everything here runs on its loop."""

import asyncio
import logging
from collections.abc import Coroutine, Mapping, Sequence
from typing import Any

import msgspec

from ringrift.kernel.errors import GaveUp, RingriftError, SettingsError, SupervisionError
from ringrift.supervision.supervisor import Supervisor
from ringrift.work.limits import KINDS
from ringrift_compat.ambient import Embedded
from ringrift_compat.daemon_duties import DUTIES, LOOPS_OFF, OF_THE_BUS, does_loop
from ringrift_compat.daemon_own import Own
from ringrift_compat.daemon_registry import DAEMON_REGISTRY, get_profile_daemons
from ringrift_compat.daemon_status import UNKNOWN, Begun, Book
from ringrift_compat.daemon_types import DaemonManagerConfig, DaemonState, DaemonType
from ringrift_compat.hosting import ALWAYS, host, hosted

CLEAR_SECONDS, CLEAR_LOOKS_MAX = 0.01, 500
"""How often, and how many times, is looked whether a daemon that was given up has been cleared."""
_HOPELESS = (DaemonState.FAILED, DaemonState.IMPORT_FAILED, DaemonState.STOPPED)
log = logging.getLogger(__name__)


class Starting:
    """One wish of one manager."""

    def __init__(
        self, node: Embedded, manager: object, config: DaemonManagerConfig, own: Mapping[DaemonType, Own]
    ) -> None:
        self._node, self._manager, self._config, self._own = node, manager, config, own
        self._book = Book.of(node)

    # -- starting ------------------------------------------------------------------------------------------------------

    async def all(self, types: Sequence[DaemonType] | None, profile: str | None) -> dict[DaemonType, bool]:
        """Start many; which of them run once all have been started."""
        if types is None:
            profile_meant = profile or self._node.settings.node.profile
            chosen = get_profile_daemons(profile_meant)
            (await host(self._node)).runner.kinds = KINDS[profile_meant]
            types = [*chosen, *(self._own if profile is None else ())]
            by_name = False
        else:
            places = {kind: place for place, kind in enumerate(DAEMON_REGISTRY)}
            types = sorted(types, key=lambda kind: places.get(kind, len(places)))
            by_name = True
        for kind in types:
            await self.one(kind, by_name=by_name)
        return {kind: self._runs(kind) for kind in types}

    async def one(
        self, kind: DaemonType, *, wait_for_deps: bool = True, by_name: bool = True, above: tuple[DaemonType, ...] = ()
    ) -> bool:
        """Start one, after those it depends on; whether it runs."""
        book = self._book
        book.touched.add(kind)
        book.reasons.pop(kind, None)
        if (refusal := self._refusal(kind)) is not None:
            return self._refuse(kind, refusal)
        if kind not in self._own and DUTIES[kind.name].kind == "part":
            if kind.name not in OF_THE_BUS:
                await host(self._node)
            return True
        mode = self._own[kind].startup_mode if kind in self._own else "strict"
        if wait_for_deps and mode != "local":
            missing = await self._missing(kind, above)
            if missing and mode == "strict":
                return self._refuse(kind, missing)
            if missing:
                book.reasons[kind] = f"it runs without what it depends on: {missing}"
        return await self._begin(kind, by_name)

    def _refusal(self, kind: DaemonType) -> str | None:
        """Why nothing of that name can start here; None if it can.  Raises SettingsError where that is asked for."""
        if kind in self._own:
            return None
        duty = DUTIES.get(kind.name)
        if duty is None:
            return self._fault(kind, UNKNOWN)
        if duty.kind == "later":
            return duty.target
        return LOOPS_OFF if does_loop(duty) and not self._node.settings.node.loops else None

    def _fault(self, kind: DaemonType, why: str) -> str:
        """What is wrong with the registry about *kind*; an error where the manager is strict."""
        if self._config.strict_registry_validation:
            raise SettingsError(f"daemon {kind.value}", kind.name, why)
        return why

    def _refuse(self, kind: DaemonType, reason: str) -> bool:
        self._book.reasons[kind] = reason
        log.warning("%s: %s", kind.value, reason)
        return False

    async def _missing(self, kind: DaemonType, above: tuple[DaemonType, ...]) -> str:
        """Start what *kind* depends on; which of that does not run, and why, "" if all does."""
        mine = self._own.get(kind)
        needs, wishes = (mine.depends_on, mine.soft_depends_on) if mine else (DAEMON_REGISTRY[kind].depends_on, ())
        path = (*above, kind)
        for need in needs:
            if need in path:
                circle = " → ".join(one.value for one in (*path[path.index(need) :], need))
                return self._fault(kind, f"it depends on itself: {circle}")
            if not self._runs(need) and not await self._comes(need, self.one(need, by_name=False, above=path)):
                why = self._book.info(need, self._own).reason
                return f"it depends on {need.value}, which does not run: {why or 'it has not begun in time'}"
        for wish in wishes:
            if wish in self._book.begun and not self._runs(wish):
                await self._comes(wish, asyncio.sleep(0, result=False))
        return ""

    async def _comes(self, need: DaemonType, starting: Coroutine[Any, Any, bool]) -> bool:
        """Whether *need* runs in time, looked at again and again; one that cannot is not waited for."""
        config, clock = self._config, self._node.clock
        deadline = clock.tick() + config.dependency_wait_timeout
        task = asyncio.get_running_loop().create_task(starting)
        try:
            while True:
                left = max(0.0, deadline - clock.tick())
                if not task.done():
                    await asyncio.wait((task,), timeout=min(config.dependency_poll_interval, left))
                if task.done():
                    task.result()  # a wrong registry is told to who asked
                    if not self._runs(need) and self._book.info(need, self._own).state in _HOPELESS:
                        return False
                if self._runs(need) or left <= 0.0:
                    return self._runs(need)
                if task.done():
                    await asyncio.sleep(min(config.dependency_poll_interval, left))
        finally:
            task.cancel()

    async def _begin(self, kind: DaemonType, by_name: bool) -> bool:
        book, supervisor = self._book, (await host(self._node)).supervisor
        unit = self._declare(supervisor, kind)
        before = book.begun.get(kind)
        book.begun[kind] = Begun(self._manager, by_name or (before is not None and before.by_name))
        book.let_go.pop(kind, None)
        try:
            await supervisor.start(unit)
        except GaveUp as gone:
            return self._refuse(kind, f"{gone}: clear_permanently_failed() lets it start again")
        except SupervisionError as busy:
            return self._refuse(kind, str(busy))
        return self._runs(kind)

    def _declare(self, supervisor: Supervisor, kind: DaemonType) -> str:
        """Take the daemon in as this manager's values govern it, unless it runs; its name on the node."""
        book, config = self._book, self._config
        unit = book.unit(kind, self._own)
        assert unit is not None
        known = book.report(unit)
        if known is not None and known.wanted:
            return unit
        if (mine := self._own.get(kind)) is not None:
            own, governed, spec = book.declared.get(kind, (None, None, None))
            if own is not mine or governed != config or spec is None:
                spec = mine.declared(self._node, config)
            book.own[kind], book.declared[kind] = mine, (mine, config, spec)
        else:
            spec = supervisor.spec(unit)
            look = config.look_seconds(spec.critical)
            spec = msgspec.structs.replace(spec, restart=config.restart(), look_seconds=look)
        # A daemon that is taken in anew has lost its record.
        if known is None or supervisor.spec(unit) != spec:
            supervisor.add(spec)
        return unit

    def _runs(self, kind: DaemonType) -> bool:
        return self._book.info(kind, self._own).is_running

    # -- ending --------------------------------------------------------------------------------------------------------

    async def stop(self, kind: DaemonType) -> bool:
        """Stop one name, and its daemon unless another name that was started by itself needs it."""
        book, unit = self._book, self._book.unit(kind, self._own)
        book.touched.add(kind)
        book.reasons.pop(kind, None)
        if unit in ALWAYS or (unit is None and kind.name in DUTIES and DUTIES[kind.name].kind == "part"):
            return self._refuse(kind, "cannot be stopped: it is a part of every node")
        book.begun.pop(kind, None)
        others = [one for one in self._names(unit) if book.begun[one].by_name]
        if others and book.report(unit) is not None:
            book.let_go[kind] = f"stopped; its duty {unit} goes on for {', '.join(one.value for one in others)}"
            return True
        for one in self._names(unit):
            del book.begun[one]
        whole = hosted(self._node)
        if unit is None or whole is None or book.report(unit) is None:
            return True
        return await whole.supervisor.stop(unit) or self._refuse(kind, "was told to stop and still runs")

    def _names(self, unit: str | None) -> list[DaemonType]:
        """The names that were started and stand for *unit*."""
        return [one for one in self._book.begun if self._book.unit(one, self._own) == unit]

    async def shutdown(self, timeout: float | None, *, force: bool) -> dict[DaemonType, bool]:
        """Stop what this manager has started, and nobody else needs."""
        book, whole = self._book, hosted(self._node)
        mine = [kind for kind, begun in book.begun.items() if begun.manager is self._manager]
        mine = [kind for kind in mine if book.unit(kind, self._own) not in ALWAYS]
        for kind in mine:
            del book.begun[kind]
        if whole is None:
            return {}
        supervisor = whole.supervisor
        units = [str(book.unit(kind, self._own)) for kind in reversed(mine)]
        units = [unit for unit in dict.fromkeys(units) if not self._names(unit)]
        seconds = self._config.shutdown_timeout if timeout is None else timeout
        if not force:
            await _within(seconds, [self._in_turn(supervisor, units)])
            seconds = self._config.force_kill_timeout
        rest = [unit for unit in units if not self._ended(unit)]
        await _within(seconds, [self._in_turn(supervisor, [unit]) for unit in rest])
        for unit in (unit for unit in rest if not self._ended(unit)):
            log.error("daemon %s was told to stop and still runs", unit)
        return {kind: self._ended(str(book.unit(kind, self._own))) for kind in mine}

    async def _in_turn(self, supervisor: Supervisor, units: Sequence[str]) -> None:
        for unit in units:
            await supervisor.stop(unit)

    def _ended(self, unit: str) -> bool:
        report = self._book.report(unit)
        return report is None or (not report.wanted and "still runs" not in report.health.reason)

    async def clear(self, kind: DaemonType) -> bool:
        """Forget the failures of one that was given up, and start it again; whether there was one."""
        unit = self._book.unit(kind, self._own)
        report, whole = self._book.report(unit), hosted(self._node)
        if unit is None or whole is None or report is None or report.state != "failed":
            return False
        self._book.reasons.pop(kind, None)
        self._book.begun.setdefault(kind, Begun(self._manager, by_name=True))
        clearing = asyncio.get_running_loop().create_task(self._clear(whole.supervisor, kind, unit))
        self._book.tasks.add(clearing)
        clearing.add_done_callback(self._book.tasks.discard)
        # Who waits may hold up the very loop that the daemon has to start on: the start goes on by itself.
        for _ in range(CLEAR_LOOKS_MAX):
            await asyncio.wait((clearing,), timeout=CLEAR_SECONDS)
            if clearing.done() or self._book.info(kind, self._own).state is not DaemonState.FAILED:
                break
        return True

    async def _clear(self, supervisor: Supervisor, kind: DaemonType, unit: str) -> None:
        try:
            await supervisor.clear(unit)
        except RingriftError as wrong:
            self._refuse(kind, str(wrong))


async def _within(seconds: float, work: Sequence[Coroutine[Any, Any, None]]) -> None:
    """Let all of *work* go on at once, for so many *seconds*."""
    tasks = [asyncio.get_running_loop().create_task(one) for one in work]
    if tasks:
        _, late = await asyncio.wait(tasks, timeout=seconds)
        for task in late:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
