"""Environment variables of the documented API: those of the core, and those that only the adapters obey."""

from collections.abc import Mapping

from ringrift import environment
from ringrift.environment import EffectiveSettings, Variable, read_flag
from ringrift.kernel.value import Value

_VARIABLES: Mapping[str, Variable] = {
    "COORDINATOR_AUTO_TRIGGER_PIPELINE": Variable(
        key="policy.auto", note="whether one stage starts the next in a program that is its own node", read="flag"
    ),
    **environment.VARIABLES,
}


class PublishOptions(Value):
    """How events are published by name."""

    strict: bool = False  # refuse custom events with an unknown name
    window_seconds: float = 30.0  # how long equal events without an id, from one source and node, count as one
    window_events_max: int = 2000


def read_options(environ: Mapping[str, str] | None = None) -> PublishOptions:
    """The options that *environ* sets.  Raises SettingsError."""
    name = "RINGRIFT_EVENT_VALIDATION_STRICT"
    return PublishOptions(strict=read_flag(name, None if environ is None else environ.get(name, "")))


def read_settings(
    environ: Mapping[str, str] | None = None,
    overrides: Mapping[str, object] | None = None,
    *,
    preset: Mapping[str, object] | None = None,
) -> EffectiveSettings:
    """The settings in force for a program that uses the documented API.  Raises SettingsError, UnknownName."""
    return environment.read_settings(environ, overrides=overrides, preset=preset, variables=_VARIABLES)
