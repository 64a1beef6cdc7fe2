"""Line plans: the lines that a run works on, the workload that does their jobs, and the players of their proof."""

from collections.abc import Sequence
from dataclasses import dataclass

from ringrift.kernel.errors import SettingsError
from ringrift.pipeline.line import Line
from ringrift.workload.api import Preset, VariantSpec
from ringrift.workload.registry import Registry

_VARIANTS_MAX = 3  # that a run of a game takes by itself, if nobody names any


@dataclass(frozen=True)
class LinePlan:
    """One line of a run: its workload, and what its variant offers."""

    workload: str
    spec: VariantSpec | None  # None: its jobs cannot run here

    def proof_baselines(self, variant: str, preset: Preset) -> tuple[str, ...]:
        """The players that the champion must have beaten: those of the checked *preset*, else the weakest."""
        declared = self.spec.baselines if self.spec is not None else ()
        return tuple(preset.baselines.get(variant, ()) if preset.baselines else declared[:1])


def parse_variants(text: str) -> tuple[str, ...]:
    """The variants of the option.  Raises SettingsError if it names none, an empty one or one twice."""
    names = tuple(name.strip() for name in text.split(","))
    if not all(names):
        raise SettingsError("--variants", text, "name at least one, with commas between: square8_2p,hex8_2p")
    if len(set(names)) < len(names):
        raise SettingsError("--variants", text, "names a variant twice")
    return names


def default_variants(offered: Sequence[VariantSpec], defaults: Sequence[str]) -> tuple[str, ...]:
    """Those of *defaults* that a workload offers, else its own first ones."""
    names = [spec.name for spec in offered]
    return tuple(name for name in defaults if name in names) or tuple(names[:_VARIANTS_MAX])


def plan_lines(
    variants: Sequence[str], lines: Sequence[Line], registry: Registry, prefer: str
) -> tuple[dict[str, LinePlan], list[str]]:
    """By variant its plan, and notes for people.  A line that was begun keeps its workload, a new one has *prefer*.

    Raises UnknownName if nobody plays a new variant, SettingsError if no line can run here.
    """
    begun, plans, notes = {line.variant: line.workload for line in lines}, dict[str, LinePlan](), list[str]()
    for variant in variants:
        name = begun.get(variant) or registry.owner(variant, prefer)
        missing = registry.find_missing(name)
        spec = None if missing else _find(registry.variants_of(name), variant)
        if spec is None:
            reason = missing or f"it does not offer {variant}"
            notes.append(f"{variant} waits: workload {name} cannot run here: {reason}")
        elif variant in begun and name != prefer and _find(registry.variants_of(prefer), variant):
            notes.append(f"{variant} goes on with {name}, with which it was begun; {prefer} would need another home")
        plans[variant] = LinePlan(workload=name, spec=spec)
    if not any(plan.spec for plan in plans.values()):
        raise SettingsError("--variants", ",".join(variants), "; ".join(notes))
    return plans, notes


def _find(specs: Sequence[VariantSpec], variant: str) -> VariantSpec | None:
    return next((spec for spec in specs if spec.name == variant), None)
