"""Daemon: a declared duty that ticks, reacts, serves or is a program, and the parts of the node that it asks for."""

import inspect
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any

from ringrift.events.base import Event
from ringrift.kernel.errors import SettingsError, Unbound
from ringrift.kernel.health import Health
from ringrift.kernel.settings import PROFILES
from ringrift.kernel.value import Value

CATEGORIES = ("core", "sync", "training", "evaluation", "health", "resources", "other")
"""What a daemon is about, as the documents group them; *other* is for daemons from outside."""
LOOK_SECONDS_MIN = 0.01
STOP_MARGIN_SECONDS = 10.0
"""What a daemon gets to end in good order when the time that a setting gives its work is over."""


class Restart(Value):
    """How often a daemon may fail: more than *times* in *seconds* and it is given up."""

    times: int = 5
    seconds: float = 300.0
    first_seconds: float = 0.2
    seconds_max: float = 30.0
    jitter: float = 0.2
    """Share of a pause that chance may add, so that what failed together does not return together."""


class Daemon(Value):
    """One duty of one shape: *every* so many seconds, *on* events, *serve* while the node runs, or a *process*."""

    name: str
    run: Callable[..., Awaitable[Any]] | None = None
    """The body, of every shape but *process*."""
    every: float | str | None = None
    """Seconds between ticks, or the dotted name of the setting that has them."""
    on: tuple[type[Event], ...] = ()
    serve: bool = False
    process: tuple[str, ...] = ()
    """The arguments of a program: foreign or blocking code, which runs as a child of the node."""
    role: str | None = None
    """Only where this role is held."""
    after: tuple[str, ...] = ()
    """Daemons that must be ready before this one starts, where they run."""
    needs: tuple[str, ...] = ()
    """Like *after*, but the node does not start without them."""
    group: str = ""
    """Daemons of one group are started again, given up and cleared together."""
    profiles: frozenset[str] = frozenset(PROFILES)
    restart: Restart = Restart()
    seconds_max: float = 60.0
    """How long one tick may take, and how long a serving daemon or a program may be silent."""
    stop_seconds_max: float | str = 10.0
    """How long it may take to stop before the supervisor goes on without it; a program is killed then.

    The dotted name of a setting stands for its seconds and STOP_MARGIN_SECONDS more."""
    critical: bool = False
    """The node is not alive without it."""
    category: str = "other"
    check: Callable[..., Awaitable[Health]] | None = None
    """Asked from time to time how the daemon is; raising or hanging is unhealthy."""
    look_seconds: float | None = None
    """Between two looks at it, where the pace of the node will not do."""
    final: tuple[type[Exception], ...] = ()
    """Errors after which another start cannot help: it is given up at once."""

    def __post_init__(self) -> None:
        shapes = (self.every is not None) + bool(self.on) + self.serve + bool(self.process)
        key = f"daemon {self.name}"
        if shapes != 1:
            raise SettingsError(key, shapes, "has exactly one of every, on, serve, process")
        if (self.run is None) != bool(self.process):
            raise SettingsError(key, self.process, "has a body to run, or is a process, and not both")
        if self.process and self.role is not None:
            raise SettingsError(key, self.role, "a program cannot be bound to a role: it cannot know when it has gone")
        if unknown := self.profiles - set(PROFILES):
            raise SettingsError(key, sorted(unknown), f"profiles are {', '.join(PROFILES)}")
        if self.category not in CATEGORIES:
            raise SettingsError(key, self.category, f"categories are {', '.join(CATEGORIES)}")
        if self.look_seconds is not None and self.look_seconds < LOOK_SECONDS_MIN:
            raise SettingsError(key, self.look_seconds, f"is looked at every {LOOK_SECONDS_MIN:g} s at most")

    @property
    def follows(self) -> tuple[str, ...]:
        """Those it starts after, where they run, and before which it stops."""
        return self.after + self.needs

    def seconds_between(self, settings: Any) -> float | None:
        """The seconds between ticks, looked up in *settings* if they are named there."""
        return float(_named(self.every, settings)) if isinstance(self.every, str) else self.every

    def stop_seconds(self, settings: Any) -> float:
        """How long it may take to stop, looked up in the same way."""
        limit = self.stop_seconds_max
        return float(_named(limit, settings)) + STOP_MARGIN_SECONDS if isinstance(limit, str) else limit

    def bind(self, parts: Mapping[str, Any]) -> Callable[..., Awaitable[Any]]:
        """The body with every keyword-only parameter filled from *parts*.  Raises Unbound."""
        assert self.run is not None, "a program has no body"
        return _bind(self.name, self.run, parts)

    def bind_check(self, parts: Mapping[str, Any]) -> Callable[..., Awaitable[Health]] | None:
        """What is asked how the daemon is, filled in the same way.  Raises Unbound."""
        return None if self.check is None else _bind(self.name, self.check, parts)


def _bind(name: str, call: Callable[..., Awaitable[Any]], parts: Mapping[str, Any]) -> Callable[..., Awaitable[Any]]:
    wanted = inspect.signature(call).parameters.values()
    names = [parameter.name for parameter in wanted if parameter.kind is parameter.KEYWORD_ONLY]
    for part in names:
        if part not in parts:
            raise Unbound(name, part)
    return partial(call, **{part: parts[part] for part in names})


def _named(name: str, settings: Any) -> Any:
    """The setting of that dotted *name*."""
    found = settings
    for part in name.split("."):
        found = getattr(found, part)
    return found


def in_order(daemons: Sequence[Daemon]) -> tuple[Daemon, ...]:
    """*daemons* with each behind those it starts after, otherwise as listed.

    What it starts after may be absent in this profile; then it does not wait.  Raises SettingsError on a circle, on a
    name that is taken twice, and on a need that is absent.
    """
    by_name = {daemon.name: daemon for daemon in daemons}
    if taken := [name for name, times in Counter(daemon.name for daemon in daemons).items() if times > 1]:
        raise SettingsError("daemons", taken, "names must differ")
    for daemon in daemons:
        if absent := [name for name in daemon.needs if name not in by_name]:
            raise SettingsError(f"daemon {daemon.name}", absent[0], "it needs this daemon, which does not run here")
    ordered: list[Daemon] = []
    waiting = list(daemons)
    while waiting:
        placed = {daemon.name for daemon in ordered}
        ready = next((d for d in waiting if all(a in placed or a not in by_name for a in d.follows)), None)
        if ready is None:
            raise SettingsError("daemons", [d.name for d in waiting], "start after each other in a circle")
        waiting.remove(ready)
        ordered.append(ready)
    return tuple(ordered)


def stop_seconds_max(daemons: Sequence[Daemon], settings: Any) -> float:
    """How long stopping *daemons* may take: each waits for those that started after it, and for nobody else."""
    last: dict[str, float] = {}
    for daemon in reversed(in_order(daemons)):
        behind = [last[other.name] for other in daemons if other.name in last and daemon.name in other.follows]
        last[daemon.name] = max(behind, default=0.0) + daemon.stop_seconds(settings)
    return max(last.values(), default=0.0)
