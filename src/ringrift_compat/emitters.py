"""Emitters: ``emit_<event>(**payload)`` for every event name there is, in any spelling, by one rule."""

from collections.abc import Callable, Mapping
from typing import Any

from ringrift.events import old_names
from ringrift_compat.ambient import Pending
from ringrift_compat.events import get_router
from ringrift_compat.router_event import RouterEvent

PREFIX = "emit_"
# Duties that the documents call otherwise than the events they emit.
_SPELLINGS = ("complete", "completion", "completed")


def _spelled(name: str) -> list[str]:
    """*name* with each of its endings."""
    for ending in _SPELLINGS:
        if name.endswith(f"_{ending}"):
            return [f"{name.removesuffix(ending)}{other}" for other in _SPELLINGS]
    return [name]


__all__ = sorted({f"{PREFIX}{spelled}" for word in old_names.words() for spelled in _spelled(word.lower())})


def _emitter(function: str) -> Callable[..., Pending[RouterEvent]]:
    name = old_names.canonical(function.removeprefix(PREFIX))

    def emit(payload: Mapping[str, Any] | None = None, /, *, source: str = "", **fields: Any) -> Pending[RouterEvent]:
        return get_router().publish(name, {**(payload or {}), **fields}, source)

    emit.__name__ = emit.__qualname__ = function
    emit.__doc__ = f"Publish {name} with these fields; awaiting it is the durable acknowledgement."
    return emit


def __getattr__(name: str) -> Callable[..., Pending[RouterEvent]]:
    if not name.startswith(PREFIX) or old_names.resolve(name.removeprefix(PREFIX)) is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}: no event is called so")
    emitter = globals()[name] = _emitter(name)
    return emitter
