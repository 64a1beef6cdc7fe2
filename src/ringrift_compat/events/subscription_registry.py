"""The documented registries: the events that each daemon of ours reacts to, and those that start before it."""

from dataclasses import dataclass

from ringrift.daemons import DAEMONS
from ringrift_compat.events import old_names


@dataclass(frozen=True)
class _DelegationSpec:
    """A daemon of ours and the events that it reacts to, under the names of the documents."""

    name: str
    event_types: tuple[str, ...]


@dataclass(frozen=True)
class _InitCallSpec:
    """A daemon of ours, and those that start before it."""

    name: str
    after: tuple[str, ...] = ()


_ROWS = old_names.names().items()
DELEGATION_REGISTRY = tuple(
    _DelegationSpec(daemon.name, tuple(name for name, row in _ROWS if row.event in daemon.on))
    for daemon in DAEMONS
    if daemon.on
)
INIT_CALL_REGISTRY = tuple(_InitCallSpec(daemon.name, daemon.follows) for daemon in DAEMONS)
