"""Check this machine, and print the settings in force with the origin of each."""

import json
import shutil
import sys
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import msgspec

from ringrift.cli.command import Command, Context, Output
from ringrift.cli.environment import VARIABLES, EffectiveSettings, flatten
from ringrift.cli.formats import table
from ringrift.kernel.errors import RingriftError
from ringrift.kernel.extras import EXTRAS
from ringrift.store.open import inspect_store
from ringrift.workload.registry import Registry

_FREE_BYTES_MIN = 1 << 30


@dataclass(frozen=True)
class _Check:
    """One check of this machine; one that is not *good* says what to do."""

    name: str
    good: bool
    detail: str


def _run_checks(effective: EffectiveSettings) -> list[_Check]:
    settings = effective.settings
    checks = [
        _Check("python", sys.version_info >= (3, 11), sys.version.split()[0]),
        _Check("assertions", __debug__, "on" if __debug__ else "off: do not run with -O"),
    ]
    try:
        checks += [_Check(*row) for row in inspect_store(settings.store)]
    except RingriftError as error:
        checks.append(_Check("store", False, str(error)))
    home = Path(effective.home)
    folder = next(parent for parent in (home, *home.absolute().parents) if parent.exists())
    free = shutil.disk_usage(folder).free
    checks.append(_Check("free disk", free >= _FREE_BYTES_MIN, f"{free / (1 << 30):.1f} GiB"))
    names, workload = Registry.load(settings.work.executables).names(), settings.work.workload
    detail = f"{workload} (installed: {', '.join(names)})"
    checks.append(_Check("workload", workload in names, detail))
    notes = [f"{name} is unknown and has no effect: misspelt?" for name in effective.unknown]
    notes += [f"{name} has {VARIABLES[name].note}" for name in effective.unsupported]
    return [*checks, *(_Check("variable", False, note) for note in notes)]


def _prepare(context: Context) -> Output:
    """Exit code 1 unless every check is good."""
    effective = context.effective
    checks, tree = _run_checks(effective), msgspec.to_builtins(effective.settings)
    pairs = flatten(tree, leaves=("work.params", "work.executables")).items()
    settings = [(key, json.dumps(value), effective.origins.get(key, "default")) for key, value in pairs]
    extras = {extra: all(find_spec(name.split(".")[0]) for name in modules) for extra, modules in EXTRAS.items()}
    missing = [f"{extra} (pip install 'ringrift[{extra}]')" for extra, installed in extras.items() if not installed]
    parts = [
        table(("", "check", "result"), [("ok" if check.good else "BAD", check.name, check.detail) for check in checks]),
        f"extras not installed: {', '.join(missing) or 'none'}",
        table(("setting", "value", "from"), settings),
        table(("variable", "effect"), [(name, variable.note) for name, variable in VARIABLES.items()]),
    ]
    code = 0 if all(check.good for check in checks) else 1
    return Output(value={"checks": checks, "settings": settings, "extras": extras}, text="\n\n".join(parts), code=code)


COMMAND = Command(prepare=_prepare)
