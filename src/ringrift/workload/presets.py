"""Presets: those of workloads, refused before a run if it could not begin or would not prove what they claim."""

from collections.abc import Callable
from functools import partial

from ringrift.kernel.errors import RingriftError, SettingsError, printable, require_name, require_range
from ringrift.kernel.foreign import attempt_sync
from ringrift.kernel.settings import Settings
from ringrift.workload.api import HasPreset, Preset, Workload
from ringrift.workload.params import own_params

_REASON_CHARACTERS_MAX = 500
NODES_MAX = 64  #: Of a local cluster.
MINUTES_MAX = 7 * 24 * 60.0  #: Of a run.


def describe_fault(error: Exception | None) -> str:
    """What foreign code raised, fit to be stored and shown."""
    text = str(error) if isinstance(error, RingriftError) else f"{type(error).__name__}: {error}"
    return printable(text, _REASON_CHARACTERS_MAX)


def checked_preset(workload: Workload, *, cores: int, nodes: int | None = None) -> Preset:
    """The preset of *workload*; without one: no settings, *nodes* or three nodes, no time limit.

    Raises SettingsError, which names the workload, if its preset raises anything, sets what is no setting or no
    parameter of its own, or names a variant that it does not offer or a player that the variant does not declare.
    """
    if not isinstance(workload, HasPreset):
        return Preset(nodes=3 if nodes is None else nodes)
    preset, error = attempt_sync(_check, workload, partial(workload.preset, cores=cores, nodes=nodes))
    if preset is None:
        raise SettingsError("preset of workload", workload.name, describe_fault(error))
    return preset


def _check(workload: Workload, ask: Callable[[], Preset]) -> Preset:
    preset = ask()
    if not isinstance(preset, Preset):  # foreign code: its type is a promise
        raise TypeError(f"it must be a ringrift.workload.api.Preset, not {preset!r:.80}")
    require_range("its nodes", preset.nodes, 1, NODES_MAX)
    require_range("its minutes", preset.minutes, 0, MINUTES_MAX)
    own_params(workload, Settings().overlaid(preset.settings).work.params)
    declared = {spec.name: spec.baselines for spec in workload.variants()}
    for variant, names in preset.baselines.items():
        require_name("variant", variant, declared)
        for name in names:
            require_name(f"baseline of {variant}", name, declared[variant])
    return preset
