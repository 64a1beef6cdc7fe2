"""Plugins: daemons of other packages, found by their entry points; one that is broken is told and left out."""

from collections.abc import Iterable, Mapping, Sequence
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from ringrift.bus.delivery import attempt_plain
from ringrift.kernel.errors import SettingsError, told
from ringrift.kernel.health import Health, Status
from ringrift.kernel.value import Value
from ringrift.supervision.spec import Daemon, in_order

GROUP = "ringrift.daemons"
REASON_CHARACTERS_MAX = 300


class Plugins(Value):
    """What other packages bring: daemons, and for each that cannot be had a health that says why."""

    daemons: tuple[Daemon, ...] = ()
    broken: tuple[Health, ...] = ()


def installed(
    ours: Sequence[Daemon], parts: Mapping[str, Any], profile: str, entries: Iterable[EntryPoint] | None = None
) -> Plugins:
    """The daemons under the entry point group that can run beside *ours* on a node of *profile* with these *parts*.

    Each entry point leads to a `Daemon`.  Whatever is wrong with one is in its health, and stops nobody else.
    """
    found = entry_points(group=GROUP) if entries is None else entries
    daemons: list[Daemon] = []
    broken: list[Health] = []
    for entry in sorted(found, key=lambda entry: (entry.name, entry.value)):
        made, wrong = attempt_plain(_load, entry, [*ours, *daemons], parts, profile)
        if made is not None:
            daemons.append(made)
        else:
            reason = told(f"cannot be used: {type(wrong).__name__}: {wrong}", REASON_CHARACTERS_MAX)
            broken.append(Health(part=f"plugin {entry.name}", status=Status.UNHEALTHY, reason=reason))
    return Plugins(daemons=tuple(daemons), broken=tuple(broken))


def _load(entry: EntryPoint, others: Sequence[Daemon], parts: Mapping[str, Any], profile: str) -> Daemon:
    made: Any = entry.load()
    if not isinstance(made, Daemon):
        raise SettingsError(f"daemons.{entry.name}", entry.value, "it must be a ringrift Daemon")
    if made.name in {daemon.name for daemon in others}:
        raise SettingsError(f"daemons.{entry.name}", made.name, "another daemon has this name")
    if profile in made.profiles:
        in_order([*(daemon for daemon in others if profile in daemon.profiles), made])
        own = {**parts, "alive": None}
        made.bind_check(own)
        if not made.process:
            made.bind(own)
    return made
