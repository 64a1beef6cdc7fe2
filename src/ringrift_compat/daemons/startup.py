"""Startup: how a manager starts and stops daemons on the node of its program; everything here runs on its loop."""

import asyncio
import logging
from collections.abc import Coroutine, Iterable, Sequence
from typing import Any

import msgspec

from ringrift.kernel.errors import GaveUp, RingriftError, SettingsError, SupervisionError
from ringrift.supervision.supervisor import Supervisor
from ringrift.work.limits import KINDS
from ringrift_compat.daemons.duties import DUTIES, OF_THE_BUS, WIRE
from ringrift_compat.daemons.registry import DAEMON_REGISTRY, get_profile_daemons
from ringrift_compat.daemons.status import UNREGISTERED, Book, Start, Users
from ringrift_compat.daemons.types import DaemonManagerConfig, DaemonState, DaemonType
from ringrift_compat.embedded_host import get_host, offer_wire, open_host, rest
from ringrift_compat.embedded_node import EmbeddedNode

_CLEAR_SECONDS, _CLEAR_POLLS_MAX = 0.01, 500
_HOPELESS = (DaemonState.FAILED, DaemonState.IMPORT_FAILED, DaemonState.STOPPED)
log = logging.getLogger(__name__)


class Startup:
    """The daemons of one manager on one node."""

    def __init__(self, node: EmbeddedNode, manager: object, config: DaemonManagerConfig, users: Users) -> None:
        self._node, self._manager, self._config, self._users = node, manager, config, users
        self._book = node.extension(Book)

    async def start_all(self, profile: str | None) -> dict[DaemonType, bool]:
        """Start the daemons of *profile*, or of the settings and every user daemon; those that run afterwards."""
        chosen = profile or self._node.settings.node.profile
        named = [kind for kind in get_profile_daemons(chosen) if not self._book.unset(DUTIES[kind.name])]
        kinds = [*named, *(() if profile else self._users)]
        (await open_host(self._node)).runner.kinds = KINDS[chosen]
        for kind in kinds:
            await self.start(kind, by_name=False)
        return {kind: self._is_running(kind) for kind in kinds}

    async def start(
        self, kind: DaemonType, *, wait_for_deps: bool = True, by_name: bool = True, path: tuple[DaemonType, ...] = ()
    ) -> bool:
        """Start one, after those it depends on; whether it runs."""
        self._book.touched.add(kind)
        self._book.reasons.pop(kind, None)
        duty = None if kind in self._users else DUTIES.get(kind.name)
        if duty is None and kind not in self._users:
            return self._refuse(kind, self._fault(kind, UNREGISTERED))
        if duty is not None and not duty.is_done:
            return self._refuse(kind, duty.target)
        if duty is not None and (unset := self._book.unset(duty)):
            return self._refuse(kind, unset)
        if duty is not None and duty.kind == "part":
            if kind.name not in OF_THE_BUS:
                await open_host(self._node)
            return True
        await open_host(self._node)  # before the wait for dependencies, whose limit is not for this
        if wait_for_deps and (missing := await self._missing(kind, path)):
            return self._refuse(kind, missing)
        return await self._begin(kind, by_name)

    def _fault(self, kind: DaemonType, error: str) -> str:
        """An error of the registry about *kind*, which is raised where the manager is strict."""
        if self._config.strict_registry_validation:
            raise SettingsError(f"daemon {kind.value}", kind.name, error)
        return error

    def _refuse(self, kind: DaemonType, reason: str) -> bool:
        self._book.reasons[kind] = reason
        log.warning("%s: %s", kind.value, reason)
        return False

    async def _missing(self, kind: DaemonType, path: tuple[DaemonType, ...]) -> str:
        """Start what *kind* depends on; which of that does not run, and why, "" if all does."""
        path = (*path, kind)
        needs = self._users[kind].depends_on if kind in self._users else DAEMON_REGISTRY[kind].depends_on
        for need in needs:
            if need in path:
                circle = " → ".join(member.value for member in (*path[path.index(need) :], need))
                return self._fault(kind, f"it depends on itself: {circle}")
            if not self._is_running(need) and not await self._wait_for(need, path):
                reason = self._book.info(need, self._users).reason or "it has not started in time"
                return f"it depends on {need.value}, which does not run: {reason}"
        return ""

    async def _wait_for(self, need: DaemonType, path: tuple[DaemonType, ...]) -> bool:
        """Start *need*; whether it runs in time.  One that cannot run is not waited for."""
        config, clock = self._config, self._node.clock
        deadline = clock.tick() + config.dependency_wait_timeout
        task = asyncio.create_task(self.start(need, by_name=False, path=path))
        try:
            while True:
                left = max(0.0, deadline - clock.tick())
                if not task.done():
                    await asyncio.wait((task,), timeout=min(config.dependency_poll_interval, left))
                if task.done():
                    task.result()  # raises an error of the registry
                    if not self._is_running(need) and self._book.info(need, self._users).state in _HOPELESS:
                        return False
                if self._is_running(need) or left <= 0.0:
                    return self._is_running(need)
                if task.done():
                    await asyncio.sleep(min(config.dependency_poll_interval, left))
        finally:
            task.cancel()

    async def _begin(self, kind: DaemonType, by_name: bool) -> bool:
        book, supervisor = self._book, (await open_host(self._node)).supervisor
        if book.daemon(kind, self._users) == WIRE and (obstacle := await offer_wire(self._node)):
            return self._refuse(kind, obstacle)
        daemon = self._declare(supervisor, kind)
        before = book.started.get(kind)
        book.started[kind] = Start(self._manager, by_name or (before is not None and before.by_name))
        book.released.pop(kind, None)
        try:
            await supervisor.start(daemon)
        except GaveUp as error:
            return self._refuse(kind, f"{error}: clear_permanently_failed() lets it start again")
        except SupervisionError as error:
            return self._refuse(kind, str(error))
        return self._is_running(kind)

    def _declare(self, supervisor: Supervisor, kind: DaemonType) -> str:
        """Give the daemon to the supervisor as this manager's values govern it, unless it runs; its name there."""
        book, config = self._book, self._config
        name = book.daemon(kind, self._users)
        assert name is not None
        status = book.status(name)
        if status is not None and status.should_run:
            return name
        if (user := self._users.get(kind)) is not None:
            before, governed_by, spec = book.specs.get(kind, (None, None, None))
            if before is not user or governed_by != config or spec is None:
                spec = user.to_spec(self._node, config)
            book.users[kind], book.specs[kind] = user, (user, config, spec)
        else:
            spec = supervisor.spec(name)
            seconds = config.check_seconds(spec.critical)
            spec = msgspec.structs.replace(spec, restart=config.restart(), check_seconds=seconds)
        # A daemon that is declared anew has lost its record of failures.
        if status is None or supervisor.spec(name) != spec:
            supervisor.add(spec)
        return name

    def _is_running(self, kind: DaemonType) -> bool:
        return self._book.info(kind, self._users).is_running

    async def stop(self, kind: DaemonType) -> bool:
        """Stop one name, and its daemon unless another name that was started by itself needs it."""
        book, daemon, duty = self._book, self._book.daemon(kind, self._users), DUTIES.get(kind.name)
        book.touched.add(kind)
        book.reasons.pop(kind, None)
        if daemon is None and duty is not None and duty.kind == "part":
            return self._refuse(kind, "cannot be stopped: it is a part of every node")
        book.started.pop(kind, None)
        others = [name for name in self._names(daemon) if book.started[name].by_name]
        if others and book.status(daemon) is not None:
            goes_on = ", ".join(name.value for name in others)
            book.released[kind] = f"stopped; its duty {daemon} goes on for {goes_on}"
            return True
        for name in self._names(daemon):
            del book.started[name]
        host = get_host(self._node)
        if daemon is None or host is None or book.status(daemon) is None:
            return True
        return await host.supervisor.stop(daemon) or self._refuse(kind, "was asked to stop and still runs")

    def _names(self, daemon: str | None) -> list[DaemonType]:
        """The names that were started and stand for *daemon*."""
        return [kind for kind in self._book.started if self._book.daemon(kind, self._users) == daemon]

    async def shutdown(self, timeout: float | None, *, force: bool) -> dict[DaemonType, bool]:
        """Stop what this manager has started and no other manager needs; which of that has ended."""
        book, host = self._book, get_host(self._node)
        kinds = [kind for kind, start in book.started.items() if start.manager is self._manager]
        for kind in kinds:
            del book.started[kind]
        if host is None:
            return {}
        names = [str(book.daemon(kind, self._users)) for kind in reversed(kinds)]
        daemons = [name for name in dict.fromkeys(names) if not self._names(name)]
        seconds = self._config.shutdown_timeout if timeout is None else timeout
        if not force:
            await _within(seconds, [_stop(host.supervisor, daemons)])
            seconds = self._config.force_kill_timeout
        late = [name for name in daemons if not self._has_ended(name)]
        await _within(seconds, [_stop(host.supervisor, [name]) for name in late])
        for name in late:
            if not self._has_ended(name):
                log.error("daemon %s was asked to stop and still runs", name)
        await rest(self._node)
        return {kind: self._has_ended(str(book.daemon(kind, self._users))) for kind in kinds}

    def _has_ended(self, daemon: str) -> bool:
        status = self._book.status(daemon)
        return status is None or (not status.should_run and "still runs" not in status.health.reason)

    async def clear(self, kind: DaemonType) -> bool:
        """Forget the failures of a daemon that was given up, and start it again; whether it was given up."""
        book, name = self._book, self._book.daemon(kind, self._users)
        status, host = book.status(name), get_host(self._node)
        if name is None or host is None or status is None or status.state != "failed":
            return False
        book.reasons.pop(kind, None)
        book.started.setdefault(kind, Start(self._manager, by_name=True))
        task = asyncio.create_task(self._clear(host.supervisor, kind, name))
        book.tasks.add(task)
        task.add_done_callback(book.tasks.discard)
        # The caller may hold up the very loop that the daemon has to start on, so its start is not waited for.
        for _ in range(_CLEAR_POLLS_MAX):
            await asyncio.wait((task,), timeout=_CLEAR_SECONDS)
            if task.done() or book.info(kind, self._users).state is not DaemonState.FAILED:
                break
        return True

    async def _clear(self, supervisor: Supervisor, kind: DaemonType, name: str) -> None:
        try:
            await supervisor.clear(name)
        except RingriftError as error:
            self._refuse(kind, str(error))


async def _stop(supervisor: Supervisor, daemons: Iterable[str]) -> None:
    for daemon in daemons:
        await supervisor.stop(daemon)


async def _within(seconds: float, works: Sequence[Coroutine[Any, Any, None]]) -> None:
    """Run all *works* at once, for so many *seconds*."""
    tasks = [asyncio.create_task(work) for work in works]
    if tasks:
        _, late = await asyncio.wait(tasks, timeout=seconds)
        for task in late:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
