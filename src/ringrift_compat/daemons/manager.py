"""The daemon manager: starts, stops and reports the daemons of this program's node under their documented names."""

import logging
from collections.abc import Awaitable, Callable, Iterable
from concurrent.futures import Future
from functools import cache
from typing import Any, TypeVar

from ringrift.kernel.errors import SettingsError
from ringrift.kernel.health import ProbeResult
from ringrift_compat.daemons.duties import DUTIES
from ringrift_compat.daemons.registry import get_profile_daemons
from ringrift_compat.daemons.startup import Startup
from ringrift_compat.daemons.status import Book
from ringrift_compat.daemons.types import DaemonInfo, DaemonManagerConfig, DaemonState, DaemonType
from ringrift_compat.daemons.user_daemon import UserDaemon
from ringrift_compat.embedded_node import embedded, running_loop

T = TypeVar("T")
_ANSWER_SECONDS_MAX = 30.0
"""How long a plain call waits for the loop of the node."""
log = logging.getLogger(__name__)


class DaemonManager:
    """Starts, watches and stops daemons by name; its twelve values govern what it starts.

    Every manager of a program is over the same node.  Several documented names may stand for one daemon of ours: it
    stops when the last one is stopped that was started by its name, and what only a profile started gives way.
    """

    def __init__(self, config: DaemonManagerConfig | None = None) -> None:
        self.config = config or DaemonManagerConfig()
        self._users: dict[DaemonType, UserDaemon] = {}
        if self.config.auto_start:
            embedded.post(self._startup().start_all(None)).when_done(_log_failure)

    @classmethod
    def get_instance(cls) -> "DaemonManager":
        """The manager of this program."""
        return get_daemon_manager()

    async def start(self, daemon_type: DaemonType | str, wait_for_deps: bool = True) -> bool:
        """Start a daemon, those it depends on first; whether its duty is being done now.

        If it is not, its info has the reason.  Raises SettingsError if the registry has an error and the manager is
        strict.
        """
        return await embedded.post(self._startup().start(DaemonType(daemon_type), wait_for_deps=wait_for_deps))

    async def start_all(self, profile: str | None = None) -> dict[DaemonType, bool]:
        """Start the daemons of *profile*, each after those it depends on; which of them run.

        Without a profile: that of this node's settings, and every daemon that was registered here.
        """
        if profile is not None:
            get_profile_daemons(profile)
        return await embedded.post(self._startup().start_all(profile))

    async def stop(self, daemon_type: DaemonType | str) -> bool:
        """Stop a daemon; whether it no longer runs under this name.  A part of every node cannot be stopped: False."""
        return await embedded.post(self._startup().stop(DaemonType(daemon_type)))

    async def shutdown(self, timeout: float | None = None, force: bool = False) -> dict[DaemonType, bool]:
        """Stop everything that this manager started, the last first; which of them have ended.

        Within *timeout* seconds, or ``shutdown_timeout``; those that have not ended by then are cancelled once more and
        get ``force_kill_timeout``.  With *force* all are cancelled at once, and once.  The parts of every node stay.
        """
        return await embedded.post(self._startup().shutdown(timeout, force=force))

    def _startup(self) -> Startup:
        return Startup(embedded.node(), self, self.config, self._users)

    def register_factory(
        self,
        daemon_type: DaemonType | str,
        factory: Callable[[], Awaitable[Any]],
        depends_on: Iterable[DaemonType | str] | None = None,
        health_check_interval: float | None = None,
        auto_restart: bool = True,
        max_restarts: int | None = None,
        *,
        category: str = "other",
        critical: bool = False,
    ) -> None:
        """Run *factory* as the daemon *daemon_type* when that is started, on the loop that runs here, if one does.

        It runs for as long as the daemon lives: an end is a failure.  It may instead start a daemon object and return
        it: that lives until it is stopped, and its ``health_check()`` counts; so does that of the object whose method
        *factory* is.  Raises SettingsError.
        """
        kind = DaemonType(daemon_type)
        duty = DUTIES.get(kind.name)
        if duty is not None and (duty.kind == "part" or kind.value == duty.target):
            raise SettingsError(f"daemon {kind.value}", kind.name, "is a daemon or a part of the node itself")
        needs = tuple(DaemonType(need) for need in depends_on or ())
        options = (health_check_interval, auto_restart, max_restarts, category, critical)
        self._users[kind] = UserDaemon(kind, factory, running_loop(), needs, *options)

    def get_status(self) -> dict[DaemonType, DaemonInfo]:
        """The status of everything that was started or registered here, or runs on the node."""
        return _read(lambda book: book.infos(self._users))

    def get_daemon_status(self, daemon_type: DaemonType | str) -> DaemonInfo:
        """The status of one daemon.  Raises ValueError for an unknown name."""
        kind = DaemonType(daemon_type)
        return _read(lambda book: book.info(kind, self._users))

    def is_running(self, daemon_type: DaemonType | str) -> bool:
        """Whether the duty of a daemon is being done."""
        return self.get_daemon_status(daemon_type).is_running

    def get_all_daemon_health(self) -> dict[DaemonType, dict[str, Any]]:
        """``healthy``, ``state``, ``reason`` and counts of every daemon of :meth:`get_status`."""
        fields = ("healthy", "reason", "critical", "category", "uptime_seconds", "restart_count", "last_error")
        return {
            kind: {"state": info.state.value, **{field: getattr(info, field) for field in fields}}
            for kind, info in self.get_status().items()
        }

    def liveness_probe(self) -> ProbeResult:
        """True as long as no critical daemon is unhealthy and the loop of the node answers; with the reasons."""
        try:
            return _read(lambda book: book.liveness())
        except TimeoutError:
            reason = f"the loop of the node has not answered for {_ANSWER_SECONDS_MAX:g} s"
            return ProbeResult(ok=False, reasons=(reason,))

    def is_permanently_failed(self, daemon_type: DaemonType | str) -> bool:
        """Whether a daemon failed more often than it may, and rests until it is cleared."""
        return self.get_daemon_status(daemon_type).state is DaemonState.FAILED

    def clear_permanently_failed(self, daemon_type: DaemonType | str) -> bool:
        """Forget the failures of a daemon that was given up and let it start again; whether it was given up."""
        was_failed = self.is_permanently_failed(daemon_type)
        clearing = embedded.post(self._startup().clear(DaemonType(daemon_type)))
        # A call on the loop of the node itself cannot wait: there the daemon is cleared a moment later.
        return was_failed if embedded.is_current_loop() else clearing.result()


def _read(read: Callable[[Book], T]) -> T:
    """The result of *read* on the loop of the node, where nothing changes meanwhile."""
    node = embedded.node()
    if embedded.is_current_loop():
        return read(node.extension(Book))

    async def run() -> T:
        return read(node.extension(Book))

    return embedded.post(run()).result(_ANSWER_SECONDS_MAX)


def _log_failure(done: "Future[dict[DaemonType, bool]]") -> None:
    if not done.cancelled() and (error := done.exception()) is not None:
        log.error("the daemons were not started: %s", error)


@cache
def get_daemon_manager() -> DaemonManager:
    """The manager of this program."""
    return DaemonManager()
