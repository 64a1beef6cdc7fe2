"""Registry: the installed workloads, which of them plays a variant, and why one cannot run here.

A plug-in that does not import, or whose preset is bad, disables itself alone: its reason is stored, and the others
work as ever.
"""

import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from importlib.metadata import EntryPoint, entry_points
from types import MappingProxyType

from ringrift.kernel.errors import InvalidId, SettingsError, UnknownName, require_name
from ringrift.kernel.foreign import attempt_sync
from ringrift.kernel.ids import check_id
from ringrift.kernel.variant import parse
from ringrift.workload.api import HasRequirements, VariantSpec, Workload, missing_requirements
from ringrift.workload.executable import Executable
from ringrift.workload.presets import checked_preset, describe_fault

GROUP = "ringrift.workloads"
_BUNDLED = "ringrift"  # the distribution

# Registered even where the package runs from its source and no entry point is installed.
_FAKE = EntryPoint(name="fake", value="ringrift.workload.fake:Fake", group=GROUP)


@dataclass(frozen=True, slots=True)
class Registry:
    """Workload name → factory, in order of precedence.  A workload is imported or started on first use, once."""

    makers: Mapping[str, Callable[[], Workload]]
    programs: Mapping[str, str] = field(default_factory=dict)  #: Of workloads that are programs of their own, by name.
    _made: dict[str, Workload | str] = field(default_factory=dict)  #: By name; a plug-in that fails is the reason why.
    _faults: dict[str, str] = field(default_factory=dict)  #: By name, of presets.

    @classmethod
    def load(cls, executables: Mapping[str, Sequence[str]]) -> "Registry":
        """Everything installed under the entry point group, and *executables*: name → argv.

        An executable hides an entry point of its name.  Those that come with RingRift itself precede other plug-ins,
        which follow by their names, so that installing one changes no default.  The fake comes last, so that it never
        hides a real workload.
        Raises InvalidId for a malformed name.
        """
        makers: dict[str, Callable[[], Workload]] = {
            check_id("workload", name): partial(Executable, name, tuple(command))
            for name, command in executables.items()
        }
        entries = (*entry_points(group=GROUP), _FAKE)
        for entry in sorted(entries, key=_rank):
            makers.setdefault(check_id("workload", entry.name), partial(_make, entry))
        programs = {name: command[0] for name, command in executables.items() if command}
        return cls(MappingProxyType(makers), programs)

    @property
    def disabled(self) -> Mapping[str, str]:
        """The plug-ins that do not import or break their contract, each with the reason.  Loads every workload."""
        for name in self.makers:
            self.find_missing(name)
        return {name: made for name, made in self._made.items() if isinstance(made, str)} | self._faults

    def get(self, name: str) -> Workload:
        """The workload *name*, made on first use.  Raises UnknownName, or SettingsError if the plug-in is disabled."""
        require_name("workload", name, self.makers)
        if name not in self._made:
            workload, error = attempt_sync(_load, self.makers[name])
            self._made[name] = describe_fault(error) if workload is None else workload
        if isinstance(made := self._made[name], str):
            raise SettingsError("work.workload", name, f"the plug-in does not load: {made}")
        return made

    def find_missing(self, name: str) -> str:
        """Why the workload *name* cannot run here; empty if it can.  A program is only looked for, not started."""
        if name not in self.makers:
            return "it is not installed"
        if name in self.programs:
            return "" if shutil.which(self.programs[name]) else f"program not found: {self.programs[name]}"
        try:
            workload = self.get(name)
        except SettingsError as error:
            return error.limit
        if missing := missing_requirements(workload):
            install = workload.install_command if isinstance(workload, HasRequirements) else ""
            return f"{', '.join(missing)} not installed" + (f"; install: {install}" if install else "")
        try:
            checked_preset(workload, cores=os.cpu_count() or 1)
        except SettingsError as error:
            self._faults[name] = str(error)
        return self._faults.get(name, "")

    def runnable(self) -> list[str]:
        """The workloads that can run here.  Loads every workload."""
        return [name for name in self.makers if not self.find_missing(name)]

    def owner(self, variant: str, prefer: str | None = None) -> str:
        """The workload that plays *variant*: *prefer* if it can, else the first that can.

        Loads no more workloads than necessary, and leaves out those that are disabled.
        Raises InvalidId, or UnknownName if no workload plays *variant* or there is no workload *prefer*.
        """
        parse(variant)
        offered: set[str] = set()
        for name in (prefer, *self.makers) if prefer else self.makers:
            variants = {spec.name for spec in self.variants_of(name)}
            if variant in variants:
                return name
            offered |= variants
        raise UnknownName("variant", variant, offered)

    def variants_of(self, name: str) -> Sequence[VariantSpec]:
        """The variants that the workload *name* offers; none if it is disabled.  Raises UnknownName."""
        try:
            return self.get(name).variants()
        except SettingsError:
            return ()


def _rank(entry: EntryPoint) -> tuple[bool, bool, str]:
    return entry.name == _FAKE.name, entry.dist is None or entry.dist.name != _BUNDLED, entry.name


def _load(make: Callable[[], Workload]) -> Workload:
    """Make a workload.  Raises InvalidId unless every variant that it offers has a name that fits it."""
    workload = make()
    for spec in workload.variants():
        try:
            players = parse(spec.name).players
        except InvalidId as error:
            raise InvalidId(f"variant of workload {workload.name!r}", spec.name, error.rule) from error
        if players != spec.players:
            rule = f"its name must end in _{spec.players}p"
            raise InvalidId(f"variant of workload {workload.name!r} for {spec.players} players", spec.name, rule)
    return workload


def _make(entry: EntryPoint) -> Workload:
    workload = entry.load()()
    if not isinstance(workload, Workload) or workload.name != entry.name:
        raise TypeError(f"{entry.value} must make a Workload of the name {entry.name}")
    return workload
