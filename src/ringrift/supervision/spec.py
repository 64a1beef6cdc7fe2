"""Daemon: a declared duty that ticks, reacts or serves, and the parts of the node that it asks for by name."""

import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any

from ringrift.events.base import Event
from ringrift.kernel.errors import SettingsError, Unbound
from ringrift.kernel.settings import PROFILES
from ringrift.kernel.value import Value


class Restart(Value):
    """How often a daemon may fail: more than *times* in *seconds* and it is given up."""

    times: int = 5
    seconds: float = 300.0
    first_seconds: float = 0.2
    seconds_max: float = 30.0


class Daemon(Value):
    """One duty of exactly one shape: *every* so many seconds, *on* these events, or *serve* while the node runs."""

    name: str
    run: Callable[..., Awaitable[Any]]
    every: float | str | None = None
    """Seconds between ticks, or the dotted name of the setting that has them."""
    on: tuple[type[Event], ...] = ()
    serve: bool = False
    role: str | None = None
    """Only where this role is held."""
    after: tuple[str, ...] = ()
    """Daemons that must be ready before this one starts."""
    profiles: frozenset[str] = frozenset(PROFILES)
    restart: Restart = Restart()
    seconds_max: float = 60.0
    """How long one tick may take, and how long a serving daemon may be silent."""
    stop_seconds_max: float = 10.0
    """How long it may take to stop before the supervisor goes on without it."""

    def __post_init__(self) -> None:
        shapes = (self.every is not None) + bool(self.on) + self.serve
        if shapes != 1:
            raise SettingsError(f"daemon {self.name}", shapes, "has exactly one of every, on, serve")
        if unknown := self.profiles - set(PROFILES):
            raise SettingsError(f"daemon {self.name}", sorted(unknown), f"profiles are {', '.join(PROFILES)}")

    def bind(self, parts: Mapping[str, Any]) -> Callable[..., Awaitable[Any]]:
        """The body with every keyword-only parameter filled from *parts*.  Raises Unbound."""
        wanted = inspect.signature(self.run).parameters.values()
        names = [parameter.name for parameter in wanted if parameter.kind is parameter.KEYWORD_ONLY]
        for name in names:
            if name not in parts:
                raise Unbound(self.name, name)
        return partial(self.run, **{name: parts[name] for name in names})


def in_order(daemons: Sequence[Daemon]) -> tuple[Daemon, ...]:
    """*daemons* with each behind those it starts after, otherwise as listed.  Raises SettingsError on a cycle.

    What it starts after may be absent in this profile; then it does not wait.
    """
    by_name = {daemon.name: daemon for daemon in daemons}
    if len(by_name) != len(daemons):
        raise SettingsError("daemons", [daemon.name for daemon in daemons], "names must differ")
    ordered: list[Daemon] = []
    waiting = list(daemons)
    while waiting:
        placed = {daemon.name for daemon in ordered}
        ready = next((d for d in waiting if all(a in placed or a not in by_name for a in d.after)), None)
        if ready is None:
            raise SettingsError("daemons", [d.name for d in waiting], "start after each other in a circle")
        waiting.remove(ready)
        ordered.append(ready)
    return tuple(ordered)
