"""Reservations: programs that move files themselves take their bandwidth from what transfers of nodes may use.

Rows in the store, one for each transfer of a program that waits or runs.  Whoever waits settles the queue: it removes
rows that were not renewed in time, on its own monotonic clock, and grants those that fit, by class and then by age.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence

from ringrift.kernel.clock import Clock
from ringrift.kernel.errors import Backpressure
from ringrift.kernel.stall_detector import Observation, StallDetector
from ringrift.kernel.transfer_settings import BandwidthSettings
from ringrift.kernel.value import Value, changed
from ringrift.store.ports import Reads, Store
from ringrift.store.records import Records
from ringrift.sync.bandwidth import rank_of, total_rate

_ROWS_MAX = 1000


class Reservation(Value):
    """The bandwidth of one transfer with *host*; *owner* identifies the process that moves the files."""

    id: str
    host: str
    transfer_class: str
    bytes_per_second: float
    owner: str
    seconds: float  #: It ends when it was not renewed for so long.
    number: int = 0  #: Grows with every row.
    renewals: int = 0
    granted: bool = False


_RESERVATIONS = Records("reservation", Reservation, id="id", limit=_ROWS_MAX)


def _choose(rows: Iterable[Reservation], settings: BandwidthSettings, total: float) -> list[Reservation]:
    """The rows that wait and can be granted now, beside those that are, when *total* bytes a second may pass in all.

    None passes one that waits for the same host, or for all hosts, and goes before it.
    """
    rows = sorted(rows, key=lambda row: (rank_of(row.transfer_class), row.number))
    granted, blocked = [row for row in rows if row.granted], set[str]()
    new: list[Reservation] = []
    for row in rows:
        if row.granted or row.host in blocked:
            continue
        with_host = [other for other in granted if other.host == row.host]
        host_rate = settings.hosts.get(row.host, settings.host_bytes_per_second)
        if not _fits(row, granted, total, settings.transfers_max):
            break
        if not _fits(row, with_host, host_rate, settings.transfers_per_host_max):
            blocked.add(row.host)
            continue
        granted.append(row)
        new.append(row)
    return new


def _fits(row: Reservation, others: Sequence[Reservation], rate: float, count_max: int) -> bool:
    """Whether *row* fits beside *others*; alone it always does, however much it asks for."""
    reserved = sum(other.bytes_per_second for other in others)
    return len(others) < count_max and (not others or not rate or reserved + row.bytes_per_second <= rate)


class Reservations:
    """The rows of one store, as one process observes them.  *has_died*: whether an owner certainly has ended."""

    def __init__(self, store: Store, clock: Clock, has_died: Callable[[str], bool] = lambda owner: False) -> None:
        self._store, self._clock, self._has_died = store, clock, has_died
        self._detector = StallDetector()

    async def in_force(self) -> Mapping[str, float]:
        """Bytes a second that are reserved now, by host."""
        rates: dict[str, float] = {}
        for row in await self.rows():
            if row.granted:
                rates[row.host] = rates.get(row.host, 0.0) + row.bytes_per_second
        return rates

    async def rows(self) -> list[Reservation]:
        """The rows that have not expired."""
        async with self._store.read() as view:
            return (await self._observe(view))[0]

    async def request(self, row: Reservation) -> None:
        """Let *row* wait for its turn.  Raises Backpressure if too many do."""
        async with self._store.begin() as tx:
            rows = await _RESERVATIONS.all(tx)
            if len(rows) >= _ROWS_MAX:
                raise Backpressure("the queue of transfers of programs", _ROWS_MAX)
            number = max((other.number for other in rows), default=0) + 1
            await _RESERVATIONS.put(tx, [changed(row, number=number)])

    async def settle(self, id: str, settings: BandwidthSettings) -> Reservation | None:
        """Renew the row *id*, remove what has expired and grant what fits; the row, None if it has expired."""
        async with self._store.begin() as tx:
            rows, expired = await self._observe(tx, keep=id)
            await _RESERVATIONS.delete(tx, [row.id for row in expired])
            new = {row.id for row in _choose(rows, settings, total_rate(settings, self._clock.now()))}
            own = next((row for row in rows if row.id == id), None)
            changes = [changed(row, granted=True) for row in rows if row.id in new and row.id != id]
            if own is not None:
                own = changed(own, granted=own.granted or id in new, renewals=own.renewals + 1)
                changes.append(own)
            await _RESERVATIONS.put(tx, changes)
        return own

    async def release(self, id: str) -> Reservation | None:
        """Delete the row *id*; what it was, None if it had expired."""
        async with self._store.begin() as tx:
            row = await _RESERVATIONS.get(tx, id)
            await _RESERVATIONS.delete(tx, [id])
        return row

    async def _observe(self, view: Reads, keep: str = "") -> tuple[list[Reservation], list[Reservation]]:
        """The rows that are renewed in time, and those that are not."""
        rows = await _RESERVATIONS.all(view)
        observations = [Observation(row.id, row.renewals, row.seconds) for row in rows]
        stalled = {observation.name for observation in self._detector.stalled(observations, self._clock.tick())}
        stalled |= {row.id for row in rows if self._has_died(row.owner)}
        stalled.discard(keep)
        return [row for row in rows if row.id not in stalled], [row for row in rows if row.id in stalled]
