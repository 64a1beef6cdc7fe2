"""The documented snapshots: the states of coordinators, kept in the store now and then, and given back."""

import asyncio
import hashlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import msgspec

from ringrift.kernel.clock import Clock
from ringrift.kernel.errors import StoreError, require_range
from ringrift.kernel.foreign import attempt_sync
from ringrift_compat.coordinators.sqlite_persistence import SQLitePersistenceMixin, pack, unpack
from ringrift_compat.daemons.base_daemon import BaseDaemon

_KEEP_MAX = 1000


class CorruptSnapshot(StoreError):
    """A snapshot is not what was written."""

    def __init__(self, id: str) -> None:
        self.id = id
        super().__init__(f"snapshot {id} is damaged: its checksum does not match")


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
        """Whether the checksum is that of its fields."""
        return self.checksum == _checksum(self.coordinator, self.number, self.timestamp, self.state)


def _checksum(*fields: Any) -> str:
    return hashlib.sha256(msgspec.msgpack.encode(fields, order="deterministic")).hexdigest()


class _Results(dict[str, Any]):
    """A result for each coordinator, by name, and the errors."""

    def __init__(self, results: Mapping[str, Any], errors: dict[str, Exception]) -> None:
        super().__init__(results)
        self.errors = errors


class SnapshotCoordinator(SQLitePersistenceMixin, BaseDaemon):
    """Keeps the last *keep* states of every registered coordinator; once started, every *interval* seconds."""

    persistence_name = "snapshots"

    def __init__(self, interval: float = 300.0, keep: int = 10, *, clock: Clock | None = None) -> None:
        super().__init__("snapshots", interval, clock=clock)
        require_range("keep", keep, 1, _KEEP_MAX)
        self.keep = keep
        self._coordinators: dict[str, Any] = {}

    def register(self, coordinator: Any, name: str = "") -> str:
        """Keep the state of *coordinator* from now on; the name of its snapshots.

        ``get_state()`` returns text, numbers, booleans, bytes, lists and dictionaries of these, and
        ``restore_state(state)`` takes them back.  Raises TypeError without both.
        """
        if not (hasattr(coordinator, "get_state") and hasattr(coordinator, "restore_state")):
            raise TypeError(f"{type(coordinator).__name__} has no get_state() and restore_state()")
        name = name or getattr(coordinator, "name", "") or type(coordinator).__name__
        self._coordinators[name] = coordinator
        return name

    def snapshot_all(self) -> _Results:
        """Keep the state of every coordinator; returns when all are durable: the snapshots, by name.

        A coordinator that raises, or whose state cannot be stored, is left out and is in ``errors``.
        """
        pairs = self._coordinators.items()
        tries = {name: attempt_sync(self._keep, name, coordinator) for name, coordinator in pairs}
        snapshots = {name: snapshot for name, (snapshot, _) in tries.items() if snapshot is not None}
        return _Results(snapshots, {name: error for name, (_, error) in tries.items() if error is not None})

    def restore_all(self) -> _Results:
        """Give every coordinator its last undamaged state: by name, whether it got one.

        A damaged snapshot is skipped; it is in ``errors``, as is what a coordinator raises.
        """
        restored: dict[str, bool] = {}
        errors: dict[str, Exception] = {}
        for name, coordinator in self._coordinators.items():
            restored[name] = False
            for number in reversed(self._numbers(name)):
                snapshot, error = attempt_sync(self._read, name, number)
                if snapshot is not None:
                    _, error = attempt_sync(coordinator.restore_state, snapshot.state)
                    restored[name] = error is None
                if error is not None:
                    errors.setdefault(name, error)
                if snapshot is not None:
                    break
        return _Results(restored, errors)

    def list_snapshots(self, name: str) -> list[StateSnapshot]:
        """The undamaged snapshots of *name*, the oldest first."""
        tries = [attempt_sync(self._read, name, number)[0] for number in self._numbers(name)]
        return [snapshot for snapshot in tries if snapshot is not None]

    async def _run_cycle(self) -> None:
        errors = (await asyncio.to_thread(self.snapshot_all)).errors
        if errors:
            raise ExceptionGroup("some states could not be kept", list(errors.values()))

    def _numbers(self, name: str) -> list[int]:
        numbers: list[int] = self.load_value(name, [])
        return numbers

    def _keep(self, name: str, coordinator: Any) -> StateSnapshot:
        state, numbers = dict(coordinator.get_state()), self._numbers(name)
        fields = (name, max(numbers, default=0) + 1, self._clock.now(), unpack(pack(state)))
        snapshot = StateSnapshot(*fields, _checksum(*fields))
        self.save_value(snapshot.snapshot_id, asdict(snapshot))
        # A crash between the two leaves a snapshot that the next one overwrites.
        numbers.append(snapshot.number)
        self.save_value(name, numbers[-self.keep :])
        for number in numbers[: -self.keep]:
            self.delete_value(f"{name}#{number}")
        return snapshot

    def _read(self, name: str, number: int) -> StateSnapshot:
        """The snapshot.  Raises CorruptSnapshot unless it is what was written."""
        id = f"{name}#{number}"
        try:
            snapshot = StateSnapshot(**self.load_value(id))
        except (msgspec.MsgspecError, TypeError) as error:
            raise CorruptSnapshot(id) from error
        if snapshot.snapshot_id != id or not snapshot.verify():
            raise CorruptSnapshot(id)
        return snapshot
