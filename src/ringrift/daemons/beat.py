"""Writes the heartbeat of this node with its activity, and publishes when its health changes."""

from typing import Any

import msgspec

from ringrift.bus.router import Router
from ringrift.cluster.activity import ActivityTracker, health_change
from ringrift.cluster.daemon_summary import summarize
from ringrift.cluster.facts import FactsMeter
from ringrift.cluster.roster import NodeRecord, Roster
from ringrift.events.alert import Cleared, Raised
from ringrift.kernel.clock import Clock
from ringrift.kernel.health import Status
from ringrift.supervision.spec import Daemon
from ringrift.supervision.supervisor import Supervisor

_STEP_SECONDS_MIN, _STEADY_SECONDS = 5.0, 600.0  # a jump that is worth an alert, and when the alert closes


class _ClockWatch:
    """Compares the wall clock with the monotonic one: when it jumps, what people read as times is wrong."""

    def __init__(self) -> None:
        self._wall: float | None = None
        self._since: float | None = None  # the tick of the last jump, while its alert is open

    def look(self, node: str, clock: Clock) -> Raised | Cleared | None:
        """An alert if the wall clock of *node* has jumped since the last look; its end after some minutes."""
        tick, wall = clock.tick(), clock.now() - clock.tick()
        step, self._wall = 0.0 if self._wall is None else wall - self._wall, wall
        if abs(step) >= _STEP_SECONDS_MIN:
            self._since = tick
            detail = f"the wall clock jumped by {step:+.0f} s (or the machine slept): times that are shown are off"
            return Raised(kind="wall_clock", subject=node, level="warning", detail=detail)
        if self._since is not None and tick - self._since >= _STEADY_SECONDS:
            self._since = None
            return Cleared(kind="wall_clock", subject=node)
        return None


async def beat(
    *, roster: Roster, record: NodeRecord, clock: Clock, activity: ActivityTracker, supervisor: Supervisor,
    router: Router, facts: FactsMeter, memory: _ClockWatch,
) -> None:  # fmt: skip
    """One beat: any number will do, as long as it differs from the last."""
    number, health = int(clock.tick() * 1000), supervisor.health()
    report = activity.snapshot(summarize(supervisor.statuses(), health))
    news = {"beat": number, "wall": clock.now() - clock.tick(), "activity": report, "facts": facts.facts}
    await roster.put(msgspec.structs.replace(record, **news))
    if (alert := memory.look(record.id, clock)) is not None:
        await router.publish(alert, source="beat")
    changed = health_change(record.id, activity.status, health)
    if changed is not None:
        await router.publish(msgspec.structs.replace(changed, profile=record.profile), source="beat")
        activity.status = Status[changed.status.upper()]


# The first heartbeat says what the node has, and jobs are claimed behind it.
_KIND: dict[str, Any] = {"category": "core", "critical": True, "store": False, "after": ("measure_facts",)}
SPEC = Daemon(name="beat", run=beat, every="cluster.beat_seconds", memory=_ClockWatch, **_KIND)
