"""Disk pressure: how full the disk of a node is, in tiers, and what each tier asks for.

low: what retention lets go is deleted at once.  high: retention and grace are cut short, games leave that enough other
durable nodes hold by receipt, and an alert is raised.  critical: the node takes no more jobs, but moves files for
others.  What is pinned stays in every tier.
"""

from collections.abc import Collection

from ringrift.jobs import NODE_KINDS
from ringrift.kernel.settings import SweepSettings
from ringrift.kernel.transfer_settings import UpkeepSettings
from ringrift.kernel.value import Value, changed
from ringrift.store.ports import Reads
from ringrift.store.records import Records

NONE, LOW, HIGH, CRITICAL = "none", "low", "high", "critical"
_ORDER = (NONE, LOW, HIGH, CRITICAL)
_FALL_SHARE = 1.2  # a tier ends when this much more is free than where it begins: else it would come and go
_SECONDS_MIN = 3600.0  # no file goes earlier for want of room
_SHARES = {HIGH: 0.25, CRITICAL: 0.05}  # of the usual times


class DiskPressure(Value):
    """How full the disk of *node* is."""

    node: str
    level: str
    free_bytes: int
    total_bytes: int
    since: float  #: When it came to this level.


DISKS = Records("disk_pressure", DiskPressure, id="node")


def judge_disk(free: int, total: int, before: str, settings: UpkeepSettings) -> str:
    """The tier of a disk with *free* of *total* bytes; *before* is the one that it had."""
    bounds = {LOW: settings.disk_low, HIGH: settings.disk_high, CRITICAL: settings.disk_critical}
    level = NONE
    for tier, bound in bounds.items():
        is_held = _ORDER.index(tier) <= _ORDER.index(before)
        if free < bound * (_FALL_SHARE if is_held else 1.0) * total:
            level = tier
    return level


def is_high(level: str) -> bool:
    """Whether files go early."""
    return _ORDER.index(level) >= _ORDER.index(HIGH)


def shorten(settings: SweepSettings, level: str) -> SweepSettings:
    """How long files stay in this tier: never longer than usual, and not less than an hour."""
    share = _SHARES.get(level, 1.0)

    def cut(seconds: float) -> float:
        return min(seconds, max(seconds * share, _SECONDS_MIN))

    times = {"retention_seconds": cut(settings.retention_seconds), "grace_seconds": cut(settings.grace_seconds)}
    return changed(settings, **times, newest_min=int(settings.newest_min * share))


async def refused_kinds(view: Reads, node: str, kinds: Collection[str]) -> dict[str, str]:
    """Those of *kinds* that *node* may not take because its disk is full, with the reason."""
    disk = await DISKS.get(view, node)
    if disk is None or disk.level != CRITICAL:
        return {}
    reason = f"its disk has only {disk.free_bytes / 1e9:.3g} of {disk.total_bytes / 1e9:.3g} GB free"
    return {kind: reason for kind in kinds if kind not in NODE_KINDS}
