"""The documented snapshots: what coordinators say of their state is kept in the store now and then, and given back."""

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from ringrift.bus.delivery import attempt_plain
from ringrift.cluster.alerts import open_alerts
from ringrift.events import alert
from ringrift.kernel.clock import Clock
from ringrift.kernel.errors import UnknownName, within
from ringrift.store import snapshot
from ringrift.store.snapshot import Damaged, Snapshot
from ringrift_compat.ambient import ambient
from ringrift_compat.configuring import get_config
from ringrift_compat.cycling import BaseDaemon, DaemonConfig
from ringrift_compat.remembering import packed, unpacked

KEPT = "snapshots"
ALERT = "snapshot"
"""The kind of alert that tells of a damaged one."""
REGISTERED_MAX = 1000
CorruptSnapshot = Damaged


@runtime_checkable
class StatePersistable(Protocol):
    """Whatever can say what its state is and take it back."""

    def get_state(self) -> dict[str, Any]:
        """What is to be kept: text, numbers, truth, bytes, lists and dictionaries of these."""

    def restore_state(self, state: dict[str, Any]) -> None:
        """Take back what was kept."""


@dataclass(frozen=True)
class StateSnapshot:
    """The state that a coordinator had."""

    coordinator: str
    number: int
    timestamp: float
    state: dict[str, Any]
    checksum: str

    @property
    def snapshot_id(self) -> str:
        """Its name."""
        return f"{self.coordinator}#{self.number}"

    def verify(self) -> bool:
        """Whether the checksum is that of what it says."""
        right = snapshot.checksum(self.coordinator, self.number, self.timestamp, packed(self.state))
        return self.checksum == right


class Told(dict[str, Any]):
    """What came of each coordinator, by name, and what went wrong; it may be awaited too, and is there already."""

    def __init__(self, found: Mapping[str, Any], errors: Mapping[str, Exception]) -> None:
        super().__init__(found)
        self.errors = dict(errors)

    def __await__(self) -> Any:
        return self
        yield  # what makes it awaitable


class SnapshotCoordinator(BaseDaemon):
    """Keeps the states of those who registered; started, it does so every *interval* seconds.

    Of each coordinator the last *keep* snapshots are kept.  What is not given comes from ``get_config()``.
    """

    def __init__(self, interval: float | None = None, keep: int | None = None, *, clock: Clock | None = None) -> None:
        config = get_config()
        seconds = config.snapshot_interval_seconds if interval is None else interval
        super().__init__(DaemonConfig(name="snapshots", interval=seconds), clock=clock)
        self.keep = config.max_snapshots if keep is None else keep
        within("max_snapshots", self.keep, 1, snapshot.KEPT_MAX)
        self._coordinators: dict[str, StatePersistable] = {}

    def register(self, coordinator: StatePersistable, name: str = "") -> str:
        """Keep the state of *coordinator* from now on; the name it is kept under.  Raises TypeError without a state."""
        if not isinstance(coordinator, StatePersistable):
            raise TypeError(f"{type(coordinator).__name__} has no get_state() and restore_state()")
        found = name or getattr(coordinator, "name", "") or type(coordinator).__name__
        assert len(self._coordinators) < REGISTERED_MAX or found in self._coordinators, "registered without end"
        self._coordinators[found] = coordinator
        return found

    def unregister(self, name: str) -> bool:
        """Keep the state of *name* no more; whether it was registered.  Its snapshots stay."""
        return self._coordinators.pop(name, None) is not None

    @property
    def registered(self) -> list[str]:
        """Whose states are kept."""
        return list(self._coordinators)

    def snapshot_all(self) -> Told:
        """Ask everybody for its state and keep it; returns when all are durable: the snapshots, by name.

        Whoever raises, or says what cannot be stored, is left out and stands in ``errors``.
        """
        states, errors = self._states()
        return Told(ambient.call(_take(states, self.keep)), errors)

    def restore_all(self) -> Told:
        """Give everybody the last state that is whole: by name, whether it has taken one back.

        A damaged snapshot is refused, which an alert tells, and the one before it is used; it stands in ``errors``
        too, as does what a coordinator raises when it is given its state.
        """
        names = list(self._coordinators)
        found, errors = ambient.call(_newest(names))
        restored = dict.fromkeys(names, False)
        for name, one in found.items():
            _, wrong = attempt_plain(self._coordinators[name].restore_state, one.state)
            restored[name] = wrong is None
            if wrong is not None:
                errors[name] = wrong
        return Told(restored, errors)

    def latest(self, name: str) -> StateSnapshot | None:
        """The newest snapshot of *name*.  Raises CorruptSnapshot if that is damaged."""
        found = ambient.call(_history(name))
        if found and isinstance(found[-1], Damaged):
            raise found[-1]
        return _shown(found[-1]) if found and isinstance(found[-1], Snapshot) else None

    def list_snapshots(self, name: str) -> list[StateSnapshot]:
        """The snapshots of *name* that are whole, the oldest first."""
        return [_shown(one) for one in ambient.call(_history(name)) if isinstance(one, Snapshot)]

    def restore(self, name: str) -> StateSnapshot | None:
        """Give *name* the last state that is whole; which one, None if there is none.  Raises UnknownName."""
        if name not in self._coordinators:
            raise UnknownName("coordinator", name, self._coordinators)
        found, _ = ambient.call(_newest([name]))
        if name in found:
            self._coordinators[name].restore_state(found[name].state)
        return found.get(name)

    async def _run_cycle(self) -> None:
        states, errors = self._states()
        await ambient.post(_take(states, self.keep))
        if errors:
            raise ExceptionGroup("some states could not be kept", list(errors.values()))

    def _states(self) -> tuple[dict[str, bytes], dict[str, Exception]]:
        states: dict[str, bytes] = {}
        errors: dict[str, Exception] = {}
        for name, coordinator in list(self._coordinators.items()):
            state, wrong = attempt_plain(lambda who=coordinator: packed(dict(who.get_state())))
            if wrong is not None:
                errors[name] = wrong
            elif state is not None:
                states[name] = state
        return states, errors


def get_snapshot_coordinator() -> SnapshotCoordinator:
    """The one of this program, for as long as its node is open."""
    kept = ambient.node().kept
    found: SnapshotCoordinator = kept.get(KEPT) or kept.setdefault(KEPT, SnapshotCoordinator())
    return found


def _shown(one: Snapshot) -> StateSnapshot:
    return StateSnapshot(one.name, one.number, one.time, unpacked(one.state), one.checksum)


async def _take(states: Mapping[str, bytes], keep: int) -> dict[str, StateSnapshot]:
    """Keep *states*, each in a transaction of its own, for together they may be too much for one."""
    node = ambient.node()

    async def take(name: str, state: bytes) -> StateSnapshot:
        async with node.store.begin() as tx:
            return _shown(await snapshot.take(tx, name, state, node.clock.now(), keep))

    taken = await asyncio.gather(*(take(name, state) for name, state in states.items()))
    async with node.store.read() as view:
        open_now = [one for one in await open_alerts(view) if one.kind == ALERT and one.subject in states]
    for one in open_now:  # there is a whole one again
        await node.router.publish(alert.Cleared(kind=ALERT, subject=one.subject), source="compat")
    return {one.coordinator: one for one in taken}


async def _history(name: str) -> list[Snapshot | Damaged]:
    async with ambient.node().store.read() as view:
        return list(await snapshot.history(view, name))


async def _newest(names: Iterable[str]) -> tuple[dict[str, StateSnapshot], dict[str, Exception]]:
    """The last snapshot of each that is whole, and the damaged ones behind it, of which alerts are raised."""
    found: dict[str, StateSnapshot] = {}
    errors: dict[str, Exception] = {}
    for name in names:
        for one in reversed(await _history(name)):
            if isinstance(one, Snapshot):
                found[name] = _shown(one)
                break
            errors.setdefault(name, one)
            told = alert.Raised(kind=ALERT, subject=name, level="severe", detail=str(one))
            await ambient.node().router.publish(told, source="compat")
    return found, errors
