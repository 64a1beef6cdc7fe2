"""The documented registries of who listens to what: our own daemons, and the callbacks of this program."""

from dataclasses import dataclass
from typing import Any

from ringrift.daemons import DAEMONS
from ringrift.events import old_names
from ringrift_compat.ambient import ambient
from ringrift_compat.listening import Listeners


@dataclass(frozen=True)
class DelegationSpec:
    """A daemon of ours and the events it reacts to, under the names of the documents."""

    name: str
    event_types: tuple[str, ...]


@dataclass(frozen=True)
class InitCallSpec:
    """A daemon of ours that is started with a node, and those that start before it."""

    name: str
    after: tuple[str, ...] = ()


def _heard(events: tuple[Any, ...]) -> tuple[str, ...]:
    names = (name for name, row in old_names.names().items() if row.event in events)
    return tuple(dict.fromkeys(names))


DELEGATION_REGISTRY = tuple(DelegationSpec(daemon.name, _heard(daemon.on)) for daemon in DAEMONS if daemon.on)
INIT_CALL_REGISTRY = tuple(InitCallSpec(daemon.name, daemon.after) for daemon in DAEMONS)


def get_subscriptions() -> list[dict[str, str]]:
    """The callbacks of this program that listen now: to what, through which view, and which one."""
    return [
        {"event_type": asked or "*", "view": view.value, "callback": getattr(call, "__qualname__", repr(call))}
        for view, asked, call in Listeners.of(ambient.node()).listed()
    ]
