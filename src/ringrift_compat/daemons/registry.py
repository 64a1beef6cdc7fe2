"""The daemon registry: how each documented daemon is declared, and the order in which they start.

Everything is read from the table of duties and from the specs of our daemons, so the two cannot disagree.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from ringrift.daemons import DAEMONS
from ringrift.kernel.errors import require_name
from ringrift.kernel.settings import PROFILES
from ringrift_compat.daemons.duties import DUTIES, WIRE, Duty
from ringrift_compat.daemons.types import DaemonType

_OURS = {daemon.name: (place, daemon) for place, daemon in enumerate(DAEMONS)}


@dataclass(frozen=True)
class DaemonSpec:
    """How a documented daemon is declared."""

    daemon_type: DaemonType
    duty: Duty
    """The part that does its duty."""
    depends_on: tuple[DaemonType, ...] = ()
    profiles: frozenset[str] = frozenset()
    """The profiles that start it; none for a duty that is not built yet or starts only by its name."""
    critical: bool = False


def _spec(duty: Duty) -> DaemonSpec:
    kind = DaemonType[duty.name]
    if duty.kind == "part":
        return DaemonSpec(kind, duty, profiles=frozenset(PROFILES))
    depends_on = (DaemonType.EVENT_ROUTER,)
    if not duty.is_done:
        return DaemonSpec(kind, duty, depends_on)
    if duty.target == WIRE:
        return DaemonSpec(kind, duty, depends_on)
    _, daemon = _OURS[duty.target]
    return DaemonSpec(kind, duty, depends_on, daemon.profiles, daemon.critical)


def _place(duty: Duty) -> int:
    if duty.kind == "daemon" and duty.target != WIRE:
        return _OURS[duty.target][0]
    return -1 if duty.kind == "part" else len(DAEMONS)


DAEMON_REGISTRY: Mapping[DaemonType, DaemonSpec] = {
    DaemonType[duty.name]: _spec(duty) for duty in sorted(DUTIES.values(), key=_place)
}
"""In the order in which they start, with what is not built yet at the end."""


def get_profile_daemons(profile: str) -> tuple[DaemonType, ...]:
    """The daemons that *profile* starts, in order.  Raises UnknownName."""
    require_name("profile", profile, PROFILES)
    return tuple(kind for kind, spec in DAEMON_REGISTRY.items() if profile in spec.profiles)
