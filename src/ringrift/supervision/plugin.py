"""Daemons of other packages, loaded by their entry points; a broken one is left out, and its health says why."""

from collections.abc import Iterable, Mapping, Sequence
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from ringrift.kernel.errors import SettingsError, printable
from ringrift.kernel.foreign import attempt_sync
from ringrift.kernel.health import Health, Status
from ringrift.supervision.spec import Daemon, in_order

_GROUP = "ringrift.daemons"
_REASON_CHARACTERS_MAX = 300


def installed(
    ours: Sequence[Daemon],
    parts: Mapping[str, Any],
    profile: str,
    entries: Iterable[EntryPoint] | None = None,
    *,
    has_store: bool = True,
) -> tuple[tuple[Daemon, ...], tuple[Health, ...]]:
    """The daemons under the entry point group that can run beside *ours* on a node of *profile* with these *parts*.

    For each that cannot be loaded there is a health that says why.  On a worker those that need a store are left out.
    """
    points = entry_points(group=_GROUP) if entries is None else entries
    daemons, broken = list[Daemon](), list[Health]()
    for entry in sorted(points, key=lambda entry: (entry.name, entry.value)):
        daemon, error = attempt_sync(_load, entry, [*ours, *daemons], parts, profile, has_store)
        if daemon is not None:
            daemons += [daemon] if has_store or not daemon.store else []
        else:
            reason = printable(f"cannot be used: {type(error).__name__}: {error}", _REASON_CHARACTERS_MAX)
            broken.append(Health(part=f"plugin {entry.name}", status=Status.UNHEALTHY, reason=reason))
    return tuple(daemons), tuple(broken)


def _load(
    entry: EntryPoint, others: Sequence[Daemon], parts: Mapping[str, Any], profile: str, has_store: bool
) -> Daemon:
    loaded: Any = entry.load()
    if not isinstance(loaded, Daemon):
        raise SettingsError(f"daemons.{entry.name}", entry.value, "it must be a ringrift Daemon")
    if loaded.name in {daemon.name for daemon in others}:
        raise SettingsError(f"daemons.{entry.name}", loaded.name, "another daemon has this name")
    if profile in loaded.profiles and (has_store or not loaded.store):
        in_order([*(daemon for daemon in others if profile in daemon.profiles), loaded])
        own = loaded.own_parts(parts)
        loaded.bind_check(own)
        if not loaded.process:
            loaded.bind(own)
    return loaded
