"""Daemon registry: how each documented daemon is declared, which profiles it belongs to, and in which order they start.

Everything is read from the table of duties and from the declarations of our daemons, so that nothing can disagree.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from ringrift.daemons import DAEMONS
from ringrift.kernel.errors import UnknownName
from ringrift.kernel.settings import PROFILES
from ringrift.supervision.lookout import CRITICAL_SECONDS, ROUTINE_SECONDS
from ringrift.supervision.spec import CATEGORIES
from ringrift_compat.daemon_duties import DUTIES, Duty
from ringrift_compat.daemon_types import DaemonType

_OURS = {daemon.name: daemon for daemon in DAEMONS}
_PLACES = {daemon.name: place for place, daemon in enumerate(DAEMONS)}


@dataclass(frozen=True)
class DaemonSpec:
    """How a documented daemon is declared."""

    daemon_type: DaemonType
    duty: Duty
    category: str
    depends_on: tuple[DaemonType, ...] = ()
    profiles: frozenset[str] = frozenset()
    """Where it starts with all others; none for what is not built yet."""
    critical: bool = False
    auto_restart: bool = True
    max_restarts: int = 5
    health_check_interval: float = ROUTINE_SECONDS

    @property
    def description(self) -> str:
        """Who does its duty."""
        return self.duty.target


def _spec(duty: Duty) -> DaemonSpec:
    kind = DaemonType[duty.name]
    if duty.kind == "part":
        return DaemonSpec(kind, duty, duty.category, profiles=frozenset(PROFILES))
    depends_on = (DaemonType.EVENT_ROUTER,)
    if duty.kind == "later":
        return DaemonSpec(kind, duty, duty.category, depends_on)
    ours = _OURS[duty.target]
    interval = CRITICAL_SECONDS if ours.critical else ROUTINE_SECONDS
    return DaemonSpec(
        kind, duty, duty.category, depends_on, ours.profiles, ours.critical, health_check_interval=interval
    )


DAEMON_REGISTRY: Mapping[DaemonType, DaemonSpec] = {
    DaemonType[duty.name]: _spec(duty)
    for duty in sorted(DUTIES.values(), key=lambda duty: _PLACES.get(duty.target, -1 if duty.kind == "part" else 99))
}
"""In the order in which they start, with what is not built yet at the end."""

DAEMON_STARTUP_ORDER: tuple[DaemonType, ...] = tuple(
    kind for kind, spec in DAEMON_REGISTRY.items() if spec.duty.kind != "later"
)
CRITICAL_DAEMONS: frozenset[DaemonType] = frozenset(kind for kind, spec in DAEMON_REGISTRY.items() if spec.critical)
DAEMON_DEPENDENCIES: Mapping[DaemonType, tuple[DaemonType, ...]] = {
    kind: spec.depends_on for kind, spec in DAEMON_REGISTRY.items()
}
DAEMON_CATEGORIES: Mapping[str, tuple[DaemonType, ...]] = {
    category: tuple(kind for kind, spec in DAEMON_REGISTRY.items() if spec.category == category)
    for category in CATEGORIES
}
DAEMON_PROFILES: Mapping[str, tuple[DaemonType, ...]] = {
    profile: tuple(kind for kind in DAEMON_STARTUP_ORDER if profile in DAEMON_REGISTRY[kind].profiles)
    for profile in PROFILES
}


def get_spec(daemon_type: DaemonType) -> DaemonSpec | None:
    """How *daemon_type* is declared; None for a user's own."""
    return DAEMON_REGISTRY.get(daemon_type)


def get_category_daemons(category: str) -> tuple[DaemonType, ...]:
    """The daemons of a category.  Raises UnknownName."""
    if category.lower() not in DAEMON_CATEGORIES:
        raise UnknownName("category", category, DAEMON_CATEGORIES)
    return DAEMON_CATEGORIES[category.lower()]


def get_profile_daemons(profile: str) -> tuple[DaemonType, ...]:
    """What *profile* starts, in order.  Raises UnknownName."""
    if profile not in DAEMON_PROFILES:
        raise UnknownName("profile", profile, DAEMON_PROFILES)
    return DAEMON_PROFILES[profile]


def validate_registry() -> list[str]:
    """What is wrong with the registry: nothing, or a line for each fault."""
    placed: set[DaemonType] = set()
    wrong = []
    for kind, spec in DAEMON_REGISTRY.items():
        wrong += [f"{kind.name} starts before {need.name}" for need in spec.depends_on if need not in placed]
        placed.add(kind)
    return wrong
