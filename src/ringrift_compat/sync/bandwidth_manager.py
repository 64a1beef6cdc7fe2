"""Bandwidth of programs: what one of them reserves is left to it by the transfers of every node on the same store."""

import asyncio
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

from ringrift.sync.bandwidth import total_rate
from ringrift.sync.reservations import Reservation, Reservations
from ringrift_compat.cluster.distributed_lock import has_died, own_name
from ringrift_compat.embedded_node import EmbeddedNode, embedded

BYTES_PER_MBIT = 125_000
_POLL_SECONDS = 0.25


class TransferPriority(IntEnum):
    """How urgent a transfer is; those that wait go in this order, the highest first."""

    LOW = 0
    NORMAL = 1
    HIGH = 2
    CRITICAL = 3

    @classmethod
    def parse(cls, value: "TransferPriority | str | int") -> "TransferPriority":
        """The priority that *value* names, in any case.  Raises ValueError."""
        if isinstance(value, str):
            try:
                return cls[value.upper()]
            except KeyError:
                names = ", ".join(member.name.lower() for member in cls)
                raise ValueError(f"{value!r} is no priority: use one of {names}") from None
        return cls(value)

    @property
    def transfer_class(self) -> str:
        """The class of transfers that it stands for."""
        return ("mirror", "second", "champion", "urgent")[self]


@dataclass(frozen=True)
class BandwidthAllocation:
    """What was reserved; false if nothing was, and then *reason* says why."""

    id: str
    host: str
    priority: TransferPriority
    bandwidth_mbps: float
    """Megabits a second, 0 where no limit is set."""
    granted: bool = True
    reason: str = ""

    def __bool__(self) -> bool:
        return self.granted


class BandwidthManager:
    """The reservations of the programs on one store, under the settings ``bandwidth``."""

    def __init__(self, node: EmbeddedNode) -> None:
        self._node, self._limits = node, node.settings.bandwidth
        self._rows = Reservations(node.store, node.clock, has_died)
        self._owner = own_name(node)
        self._moved: dict[str, int] = {}

    async def request(
        self,
        host: str,
        mbps: float = 0.0,
        priority: "TransferPriority | str" = TransferPriority.NORMAL,
        timeout: float = 0.0,
    ) -> BandwidthAllocation:
        """Reserve *mbps* for a transfer with *host*, by default an even share; wait up to *timeout* seconds for it.

        It ends when it is released, when this process ends, and when it is not renewed for bandwidth.expiry_seconds.
        """
        level, rate, id = TransferPriority.parse(priority), self._rate(host, mbps), self._node.ids.next()
        own: dict[str, Any] = {"owner": self._owner, "seconds": self._limits.expiry_seconds}
        await self._rows.request(
            Reservation(id=id, host=host, transfer_class=level.transfer_class, bytes_per_second=rate, **own)
        )
        is_granted = False
        try:
            is_granted = await self._wait(id, timeout)
        finally:
            if not is_granted:
                await self._rows.release(id)
        if is_granted:
            return BandwidthAllocation(id, host, level, rate / BYTES_PER_MBIT)
        reason = f"no place or not enough bandwidth for {host} within {timeout:g} s: see get_status()"
        return BandwidthAllocation(id, host, level, 0.0, granted=False, reason=reason)

    async def _wait(self, id: str, seconds: float) -> bool:
        deadline = self._node.clock.tick() + seconds
        while True:
            row = await self._rows.settle(id, self._limits)
            left = deadline - self._node.clock.tick()
            if row is None or row.granted or left <= 0:
                return row is not None and row.granted
            await asyncio.sleep(min(_POLL_SECONDS, left))

    def _rate(self, host: str, mbps: float) -> float:
        if mbps:
            return mbps * BYTES_PER_MBIT
        limits = self._limits
        shares = [
            limits.hosts.get(host, limits.host_bytes_per_second) / limits.transfers_per_host_max,
            total_rate(limits, self._node.clock.now()) / limits.transfers_max,
        ]
        return min(filter(None, shares), default=0.0)

    async def renew(self, allocation_id: str) -> bool:
        """Say that it is still used; whether it has not expired."""
        return await self._rows.settle(allocation_id, self._limits) is not None

    async def release(self, allocation_id: str, bytes_transferred: int = 0) -> bool:
        """Give it back; whether it had not expired.  What it moved is added to the status of its host."""
        row = await self._rows.release(allocation_id)
        if row is not None:
            self._moved[row.host] = self._moved.get(row.host, 0) + bytes_transferred
        return row is not None

    async def status(self) -> dict[str, Any]:
        """Limits in megabits a second, the transfers that run and wait, by host, and what this program has moved."""
        rows, limits = await self._rows.rows(), self._limits
        hosts = {row.host for row in rows} | set(limits.hosts) | set(self._moved)
        return {
            "limit_mbps": total_rate(limits, self._node.clock.now()) / BYTES_PER_MBIT,
            "max_concurrent": limits.transfers_max,
            "max_concurrent_per_host": limits.transfers_per_host_max,
            "active": sum(row.granted for row in rows),
            "waiting": sum(not row.granted for row in rows),
            "hosts": {host: self._host_status(host, rows) for host in sorted(hosts)},
        }

    def _host_status(self, host: str, rows: list[Reservation]) -> dict[str, Any]:
        own, limits = [row for row in rows if row.host == host], self._limits
        granted = [row for row in own if row.granted]
        return {
            "limit_mbps": limits.hosts.get(host, limits.host_bytes_per_second) / BYTES_PER_MBIT,
            "allocated_mbps": sum(row.bytes_per_second for row in granted) / BYTES_PER_MBIT,
            "active": len(granted),
            "waiting": len(own) - len(granted),
            "bytes_transferred": self._moved.get(host, 0),
        }

    def get_status(self) -> dict[str, Any]:
        """As :meth:`status`, and waits for it."""
        return embedded.call(self.status())


def get_bandwidth_manager() -> BandwidthManager:
    """The manager of this program."""
    return embedded.node().extension(BandwidthManager)


def request_bandwidth(
    host: str, mbps: float = 0.0, priority: TransferPriority | str = TransferPriority.NORMAL, timeout: float = 0.0
) -> BandwidthAllocation:
    """Reserve bandwidth for a transfer with *host*, as :meth:`BandwidthManager.request`, and wait for it."""
    return embedded.call(get_bandwidth_manager().request(host, mbps, priority, timeout))


def release_bandwidth(allocation: BandwidthAllocation | str, bytes_transferred: int = 0) -> bool:
    """Give back what was reserved; whether it had not expired."""
    id = allocation if isinstance(allocation, str) else allocation.id
    return embedded.call(get_bandwidth_manager().release(id, bytes_transferred))
