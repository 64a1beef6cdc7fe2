"""The declaration of a daemon, which ticks, reacts, serves or is a program, and the parts of the node that it needs."""

import inspect
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial, reduce
from random import Random
from typing import Any

import msgspec

from ringrift.events.base import Event
from ringrift.kernel.backoff import Backoff
from ringrift.kernel.errors import SettingsError, Unbound
from ringrift.kernel.health import Health
from ringrift.kernel.settings import PROFILES
from ringrift.kernel.stall_detector import recent
from ringrift.kernel.value import Value

CATEGORIES = ("core", "sync", "training", "evaluation", "health", "resources", "other")  #: Other: from outside.
CHECK_SECONDS_MIN = 0.01
_STOP_MARGIN_SECONDS = 10.0  #: What a daemon gets to end in good order, after the time that a setting gives its work.
COORDINATES = frozenset({"coordinator", "full"})  #: Profiles whose nodes take roles.
_ELECTION = "elect"  #: The daemon that takes roles.


class Restart(Value):
    """How often a daemon may fail: more than *times* in *seconds* and it is given up."""

    times: int = 5
    seconds: float = 300.0
    first_seconds: float = 0.2
    seconds_max: float = 30.0
    jitter: float = 0.2  #: Share of a pause that is added at random, lest daemons that failed together return together.
    rest_seconds: float = 600.0  #: After which a vital daemon that was given up is started again.

    def after_failure(
        self, failures: tuple[float, ...], tick: float, rng: Random | None = None
    ) -> tuple[float | None, tuple[float, ...]]:
        """Seconds until another start, spread by *rng*, or None to give up; the failures that count, with this one."""
        failures = (*recent(failures, tick, self.seconds), tick)
        first, longest, tries = self.first_seconds, self.seconds_max, self.times + 1
        backoff = Backoff(first_seconds=first, seconds_max=longest, tries=tries, jitter=self.jitter)
        return backoff.delay(len(failures), rng), failures


class Daemon(Value):
    """One duty of one shape: *every* so many seconds, *on* events, *serve* while the node runs, or a *process*."""

    name: str
    run: Callable[..., Awaitable[Any]] | None = None  #: The body, for every shape but *process*.
    every: float | str | None = None  #: Seconds between ticks, or the dotted name of the setting that has them.
    on: tuple[type[Event], ...] = ()
    serve: bool = False
    process: tuple[str, ...] = ()  #: The arguments of a program: foreign or blocking code, as a child of the node.
    role: str | None = None  #: Only where this role is held.
    after: tuple[str, ...] = ()  #: Daemons that must be ready before this one starts, where they run.
    needs: tuple[str, ...] = ()  #: Like *after*, but the node does not start without them.
    group: str = ""  #: Daemons of one group are started again, given up and cleared together.
    profiles: frozenset[str] = frozenset()  #: Kinds of node that run it: by default all, or with a *role* COORDINATES.
    store: bool = True  #: Whether it needs a store: then it does not run on a worker, which has none.
    restart: Restart = Restart()
    seconds_max: float = 60.0  #: For one tick, and how long a serving daemon or a program may go without progress.
    stop_seconds_max: float | str = 10.0
    """How long it may take to stop before the supervisor goes on without it; a program is killed then.  The dotted name
    of a setting stands for its seconds and _STOP_MARGIN_SECONDS more."""
    critical: bool = False  #: The node is not alive without it.
    category: str = "other"
    check: Callable[..., Awaitable[Health]] | None = None  #: For its health; an error or a hang of it is unhealthy.
    check_seconds: float | None = None  #: Between two checks of it, instead of the interval of the node.
    final: tuple[type[Exception], ...] = ()  #: Errors after which another start cannot help: it is given up at once.
    memory: Callable[[], Any] | None = None  #: Makes its parameter *memory*: one per daemon and node, over restarts.

    def __post_init__(self) -> None:
        if not self.profiles:
            msgspec.structs.force_setattr(self, "profiles", COORDINATES if self.role else frozenset(PROFILES))
        shapes = (self.every is not None) + bool(self.on) + self.serve + bool(self.process)
        key = f"daemon {self.name}"
        if shapes != 1:
            raise SettingsError(key, shapes, "has exactly one of every, on, serve, process")
        if (self.run is None) != bool(self.process):
            raise SettingsError(key, self.process, "has a body to run, or is a process, and not both")
        if self.process and self.role is not None:
            raise SettingsError(key, self.role, "a program cannot be bound to a role: it cannot know when it is lost")
        if unknown := self.profiles - set(PROFILES):
            raise SettingsError(key, sorted(unknown), f"profiles are {', '.join(PROFILES)}")
        if self.category not in CATEGORIES:
            raise SettingsError(key, self.category, f"categories are {', '.join(CATEGORIES)}")
        if self.check_seconds is not None and self.check_seconds < CHECK_SECONDS_MIN:
            raise SettingsError(key, self.check_seconds, f"is checked every {CHECK_SECONDS_MIN:g} s at most")

    @property
    def is_vital(self) -> bool:
        """Whether the loop stands still without it: no other node does its duty while this one lives."""
        return self.critical or self.role is not None

    @property
    def follows(self) -> tuple[str, ...]:
        """The daemons that it starts after, where they run, and before which it stops."""
        # Roles are there only once the election has run.
        return self.after + self.needs + ((_ELECTION,) if self.role and self.name != _ELECTION else ())

    def seconds_between(self, settings: Any) -> float | None:
        """The seconds between ticks, looked up in *settings* if they are named there."""
        return float(_named(self.every, settings)) if isinstance(self.every, str) else self.every

    def stop_seconds(self, settings: Any) -> float:
        """How long it may take to stop, looked up in the same way."""
        limit = self.stop_seconds_max
        return float(_named(limit, settings)) + _STOP_MARGIN_SECONDS if isinstance(limit, str) else limit

    def own_parts(self, parts: Mapping[str, Any], alive: Callable[[], None] | None = None) -> dict[str, Any]:
        """*parts* and what belongs to this daemon alone: *alive* and its memory.  Call it once per daemon and node."""
        return {**parts, "alive": alive} | ({"memory": self.memory()} if self.memory is not None else {})

    def bind(self, parts: Mapping[str, Any]) -> Callable[..., Awaitable[Any]]:
        """Fill every keyword-only parameter of the body from *parts*.  Raises Unbound."""
        assert self.run is not None, "a program has no body"
        return _bind(self.name, self.run, parts)

    def bind_check(self, parts: Mapping[str, Any]) -> Callable[..., Awaitable[Health]] | None:
        """Fill the parameters of the health check in the same way.  Raises Unbound."""
        return None if self.check is None else _bind(self.name, self.check, parts)


def _bind(name: str, call: Callable[..., Awaitable[Any]], parts: Mapping[str, Any]) -> Callable[..., Awaitable[Any]]:
    parameters = inspect.signature(call).parameters.values()
    names = [parameter.name for parameter in parameters if parameter.kind is parameter.KEYWORD_ONLY]
    if missing := [part for part in names if part not in parts]:
        raise Unbound(name, missing[0])
    return partial(call, **{part: parts[part] for part in names})


def _named(name: str, settings: Any) -> Any:
    return reduce(getattr, name.split("."), settings)


def in_order(daemons: Sequence[Daemon]) -> tuple[Daemon, ...]:
    """*daemons* with each behind those it starts after, otherwise as listed.

    A daemon that it starts after may be absent in this profile; then it does not wait.  Raises SettingsError on a
    circle, on a name that two have, and on a need that is absent.
    """
    by_name = {daemon.name: daemon for daemon in daemons}
    if doubled := [name for name, times in Counter(daemon.name for daemon in daemons).items() if times > 1]:
        raise SettingsError("daemons", doubled, "names must differ")
    for daemon in daemons:
        if absent := [name for name in daemon.needs if name not in by_name]:
            raise SettingsError(f"daemon {daemon.name}", absent[0], "it needs this daemon, which does not run here")
    ordered, waiting = dict[str, Daemon](), list(daemons)
    while waiting:
        ready = next((d for d in waiting if all(a in ordered or a not in by_name for a in d.follows)), None)
        if ready is None:
            raise SettingsError("daemons", [d.name for d in waiting], "start after each other in a circle")
        waiting.remove(ready)
        ordered[ready.name] = ready
    return tuple(ordered.values())
