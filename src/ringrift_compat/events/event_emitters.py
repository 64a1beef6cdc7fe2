"""Emitters: ``emit_<event>(**payload)`` for every event name in any spelling, by one rule."""

from collections.abc import Callable

from ringrift_compat.embedded_node import Pending
from ringrift_compat.events import old_names
from ringrift_compat.events.event_router import make_emitter
from ringrift_compat.events.router_event import RouterEvent

_PREFIX = "emit_"
# The documents use all three for one event.
_ENDINGS = ("complete", "completion", "completed")


def _spellings(name: str) -> list[str]:
    for ending in _ENDINGS:
        if name.endswith(f"_{ending}"):
            return [f"{name.removesuffix(ending)}{other}" for other in _ENDINGS]
    return [name]


__all__ = sorted({f"{_PREFIX}{spelling}" for word in old_names.words() for spelling in _spellings(word.lower())})


def __getattr__(name: str) -> Callable[..., Pending[RouterEvent]]:
    if not name.startswith(_PREFIX) or old_names.resolve(name.removeprefix(_PREFIX)) is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}: no event has this name")
    emitter = globals()[name] = make_emitter(name, old_names.canonical(name.removeprefix(_PREFIX)))
    return emitter
