"""Check this machine, and print the settings in force with the origin of each."""

import json
import shutil
import sys
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


def _run_checks(effective: EffectiveSettings) -> list[tuple[str, bool, str]]:
    """Each check of this machine: its name, whether it is good, and the detail, which says what to do if not."""
    settings = effective.settings
    checks = [("python", sys.version_info >= (3, 11), sys.version.split()[0])]
    checks.append(("assertions", __debug__, "on" if __debug__ else "off: do not run with -O"))
    try:
        checks += inspect_store(settings.store)
    except RingriftError as error:
        checks.append(("store", False, str(error)))
    home = Path(effective.home)
    folder = next(parent for parent in (home, *home.absolute().parents) if parent.exists())
    free = shutil.disk_usage(folder).free
    checks.append(("free disk", free >= _FREE_BYTES_MIN, f"{free / (1 << 30):.1f} GiB"))
    names, workload = Registry.load(settings.work.executables).names(), settings.work.workload
    checks.append(("workload", workload in names, f"{workload} (installed: {', '.join(names)})"))
    notes = [f"{name} is unknown and has no effect: misspelt?" for name in effective.unknown]
    return [*checks, *(("variable", False, note) for note in (*notes, *effective.warnings))]


def _prepare(context: Context) -> Output:
    """Exit code 1 unless every check is good."""
    effective = context.effective
    checks, tree = _run_checks(effective), msgspec.to_builtins(effective.settings)
    pairs = flatten(tree, leaves=("work.params", "work.executables")).items()
    settings = [(key, json.dumps(value), effective.origins.get(key, "default")) for key, value in pairs]
    extras = {extra: all(find_spec(name.split(".")[0]) for name in modules) for extra, modules in EXTRAS.items()}
    missing = [f"{extra} (pip install 'ringrift[{extra}]')" for extra, installed in extras.items() if not installed]
    results = [("ok" if good else "BAD", name, detail) for name, good, detail in checks]
    parts = [table(("", "check", "result"), results), f"extras not installed: {', '.join(missing) or 'none'}"]
    parts.append(table(("setting", "value", "from"), settings))
    parts.append(table(("variable", "effect"), [(name, variable.note) for name, variable in VARIABLES.items()]))
    rows = [{"name": name, "good": good, "detail": detail} for name, good, detail in checks]
    code = 0 if all(good for _, good, _ in checks) else 1
    return Output(value={"checks": rows, "settings": settings, "extras": extras}, text="\n\n".join(parts), code=code)


COMMAND = Command(prepare=_prepare)
