"""The documented daemon manager: starts, stops and reports the daemons of the ambient node under their old names."""

import logging
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping
from concurrent.futures import Future
from functools import cache
from typing import Any, TypeVar

from ringrift.kernel.errors import SettingsError
from ringrift_compat import daemon_status as status
from ringrift_compat.ambient import Embedded, ambient
from ringrift_compat.callbacks import running_loop
from ringrift_compat.daemon_own import Own
from ringrift_compat.daemon_registry import get_profile_daemons
from ringrift_compat.daemon_starting import Starting
from ringrift_compat.daemon_status import Book, Probe
from ringrift_compat.daemon_types import DaemonInfo, DaemonManagerConfig, DaemonState, DaemonType

T = TypeVar("T")
ANSWER_SECONDS_MAX = 30.0
"""How long a plain call waits for the loop of the node."""
log = logging.getLogger(__name__)

__all__ = ["DaemonInfo", "DaemonManager", "DaemonManagerConfig", "DaemonState", "DaemonType", "get_daemon_manager"]


class DaemonManager:
    """Starts, watches and stops daemons by name; its twelve values govern what it starts.

    Every manager of a program is over the same node.  Several old names may stand for one daemon of ours: it stops when
    the last one is stopped that was started by its name, and what only a profile started gives way.
    """

    def __init__(self, config: DaemonManagerConfig | None = None) -> None:
        self.config = config or DaemonManagerConfig()
        self._own: dict[DaemonType, Own] = {}
        if self.config.auto_start:
            pending = ambient.post(self._starting().all(None, None))
            pending.when_done(_complain)

    @classmethod
    def get_instance(cls, config: DaemonManagerConfig | None = None) -> "DaemonManager":
        """The manager of this program; *config* counts when it is made."""
        return get_daemon_manager(config)

    @classmethod
    def reset_instance(cls) -> None:
        """Let the next call make another manager of this program; what runs goes on."""
        _instance.cache_clear()

    # -- starting and stopping -----------------------------------------------------------------------------------------

    async def start(self, daemon_type: DaemonType | str, wait_for_deps: bool = True) -> bool:
        """Start a daemon, those it depends on first; whether its duty is being done now.

        If it is not, its info says why.  Raises SettingsError where the registry is wrong and the manager is strict.
        """
        return await self._post(self._starting().one(DaemonType(daemon_type), wait_for_deps=wait_for_deps))

    async def start_all(
        self, types: Iterable[DaemonType | str] | None = None, profile: str | None = None
    ) -> dict[DaemonType, bool]:
        """Start these *types*, or what belongs to *profile*, each after those it depends on; which of them run.

        Without either: the profile of this node's settings, and every daemon that was registered here.
        """
        if types is not None and profile is not None:
            raise SettingsError("profile", profile, "give types or a profile, and not both")
        names = None if types is None else [DaemonType(one) for one in types]
        if profile is not None:
            get_profile_daemons(profile)
        return await self._post(self._starting().all(names, profile))

    async def stop(self, daemon_type: DaemonType | str) -> bool:
        """Stop a daemon; whether it no longer runs under this name.  A part of every node cannot be stopped: False."""
        return await self._post(self._starting().stop(DaemonType(daemon_type)))

    async def restart(self, daemon_type: DaemonType | str) -> bool:
        """Stop a daemon and start it again; whether its duty is being done now."""
        kind = DaemonType(daemon_type)
        return await self.stop(kind) and await self.start(kind)

    async def shutdown(self, timeout: float | None = None, force: bool = False) -> dict[DaemonType, bool]:
        """Stop everything that this manager started, the last first; which of them have ended.

        Within *timeout* seconds, or ``shutdown_timeout``; those that have not ended by then are told once more and get
        ``force_kill_timeout``.  With *force* all are told at once, and once.
        """
        return await self._post(self._starting().shutdown(timeout, force=force))

    async def _post(self, work: Coroutine[Any, Any, T]) -> T:
        return await ambient.post(work)

    def _starting(self) -> Starting:
        return Starting(ambient.node(), self, self.config, self._own)

    # -- what is registered --------------------------------------------------------------------------------------------

    def register_factory(
        self, daemon_type: DaemonType | str, factory: Callable[[], Awaitable[Any]],
        depends_on: Iterable[DaemonType | str] | None = None,
        soft_depends_on: Iterable[DaemonType | str] | None = None, startup_mode: str = "strict",
        health_check_interval: float | None = None, auto_restart: bool = True, max_restarts: int | None = None,
        startup_grace_period: float = 0.0, *, category: str = "other", critical: bool = False,
    ) -> None:  # fmt: skip
        """Run *factory* as the daemon *daemon_type* when that is started, on the loop that runs here, if one does.

        It runs for as long as the daemon lives: an end is a failure.  It may instead start a daemon and return it: then
        that lives until it is stopped, and its ``health_check()`` is asked; so is that of the object whose method
        *factory* is.  Raises SettingsError.
        """
        self._take_in(
            DaemonType(daemon_type), factory=factory, depends_on=depends_on, soft_depends_on=soft_depends_on,
            startup_mode=startup_mode, health_check_interval=health_check_interval, auto_restart=auto_restart,
            max_restarts=max_restarts, startup_grace_period=startup_grace_period, category=category, critical=critical,
        )  # fmt: skip

    def register_daemon(self, daemon_type: DaemonType | str, daemon: object, **options: Any) -> None:
        """As :meth:`register_factory`, for an object with ``start`` and ``stop``, or ``run``, and ``health_check``."""
        self._take_in(DaemonType(daemon_type), factory=None, daemon=daemon, **options)

    def _take_in(
        self, kind: DaemonType, *, depends_on: Iterable[DaemonType | str] | None = None,
        soft_depends_on: Iterable[DaemonType | str] | None = None, **fields: Any,
    ) -> None:  # fmt: skip
        if kind in status.UNTOUCHABLE:
            raise SettingsError(f"daemon {kind.value}", kind.name, "is done by a daemon or part of the node")
        self._own[kind] = Own(
            kind, home=running_loop(), depends_on=tuple(DaemonType(one) for one in depends_on or ()),
            soft_depends_on=tuple(DaemonType(one) for one in soft_depends_on or ()), **fields,
        )  # fmt: skip

    @property
    def registered(self) -> Mapping[DaemonType, Own]:
        """What was registered here."""
        return self._own

    # -- how they are --------------------------------------------------------------------------------------------------

    def get_status(self) -> dict[DaemonType, DaemonInfo]:
        """Every daemon that was started, is registered, or runs; never one that nobody touched."""
        return read(lambda node: Book.of(node).infos(self._own))

    def get_daemon_status(self, daemon_type: DaemonType | str) -> DaemonInfo:
        """What is known of one daemon."""
        kind = DaemonType(daemon_type)
        return read(lambda node: Book.of(node).info(kind, self._own))

    def is_running(self, daemon_type: DaemonType | str) -> bool:
        """Whether the duty of this name is being done now, whoever started it."""
        return self.get_daemon_status(daemon_type).is_running

    def get_all_daemon_health(self) -> dict[DaemonType, dict[str, Any]]:
        """How every daemon of :meth:`get_status` is: ``healthy``, the state, and a reason to act on."""
        return {kind: status.health_of(info) for kind, info in self.get_status().items()}

    def liveness_probe(self) -> Probe:
        """True as long as no critical daemon is unhealthy and the loop of the node answers; with the reasons."""
        return _probe(lambda node: Book.of(node).liveness())

    def readiness_probe(self) -> Probe:
        """True when daemons were started and every critical one is known to work; with the reasons."""
        return _probe(lambda node: Book.of(node).readiness())

    def is_permanently_failed(self, daemon_type: DaemonType | str) -> bool:
        """Whether a daemon failed more often than it may, and rests until it is cleared."""
        return self.get_daemon_status(daemon_type).state is DaemonState.FAILED

    def clear_permanently_failed(self, daemon_type: DaemonType | str) -> bool:
        """Forget the failures of a daemon that was given up and let it start again; whether there was one."""
        cleared = ambient.post(self._starting().clear(DaemonType(daemon_type)))
        # On the loop of the node itself nobody may wait for it: there it is cleared a moment later.
        return self.is_permanently_failed(daemon_type) if ambient.is_here() else cleared.result()

    def get_metrics(self) -> dict[str, Any]:
        """Counts over everything of :meth:`get_status`."""
        return status.summary(self.get_status())

    def get_daemons_by_category(self) -> dict[str, list[DaemonInfo]]:
        """What :meth:`get_status` shows, in the groups of the documents."""
        found: dict[str, list[DaemonInfo]] = {}
        for info in self.get_status().values():
            found.setdefault(info.category, []).append(info)
        return found


def read(call: Callable[[Embedded], T]) -> T:
    """What *call* finds on the loop of the node, where nothing changes meanwhile."""
    node = ambient.node()
    if ambient.is_here():
        return call(node)

    async def there() -> T:
        return call(node)

    return ambient.post(there()).result(ANSWER_SECONDS_MAX)


def _probe(call: Callable[[Embedded], Probe]) -> Probe:
    try:
        return read(call)
    except TimeoutError:
        return Probe(ok=False, reasons=(f"the loop of the node has not answered for {ANSWER_SECONDS_MAX:g} s",))


def _complain(done: "Future[dict[DaemonType, bool]]") -> None:
    if not done.cancelled() and (wrong := done.exception()) is not None:
        log.error("the daemons were not started: %s", wrong)


@cache
def _instance() -> list[DaemonManager]:
    return []


def get_daemon_manager(config: DaemonManagerConfig | None = None) -> DaemonManager:
    """The manager of this program; *config* counts when it is made."""
    made = _instance()
    if not made:
        made.append(DaemonManager(config))
    return made[0]
