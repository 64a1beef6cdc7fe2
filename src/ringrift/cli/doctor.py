"""``ringrift doctor``: is this machine fit, and which settings are in force?"""

import argparse
import json
import shutil
import sys
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import msgspec

from ringrift.cli.environment import VARIABLES, Effective, effective
from ringrift.cli.show import table
from ringrift.kernel.errors import RingriftError
from ringrift.kernel.extras import EXTRAS
from ringrift.kernel.value import Value
from ringrift.store.open import inspect_store
from ringrift.workload.registry import Registry

FREE_BYTES_MIN = 1 << 30


class Finding(Value):
    """One thing that was looked at."""

    what: str
    good: bool
    found: str


def examine(found: Effective) -> list[Finding]:
    """Look at everything; a finding that is not good says what to do."""
    settings = found.settings
    findings = [
        Finding(what="python", good=sys.version_info >= (3, 11), found=sys.version.split()[0]),
        Finding(what="assertions", good=_asserts(), found="on" if _asserts() else "off: do not run with -O"),
    ]
    try:
        findings += [Finding(what=what, good=good, found=text) for what, good, text in inspect_store(settings.store)]
    except RingriftError as wrong:
        findings.append(Finding(what="store", good=False, found=str(wrong)))
    folder = next(parent for parent in (Path(found.home), *Path(found.home).absolute().parents) if parent.exists())
    free = shutil.disk_usage(folder).free
    findings.append(Finding(what="free disk", good=free >= FREE_BYTES_MIN, found=f"{free / (1 << 30):.1f} GiB"))
    registry = Registry.load(settings.work.executables)
    known = settings.work.workload in registry.names()
    findings.append(Finding(what="workload", good=known, found=f"{settings.work.workload} of {registry.names()}"))
    for name in found.unknown:
        findings.append(Finding(what="variable", good=False, found=f"{name} is read by nothing here: misspelt?"))
    for name in found.later:
        findings.append(Finding(what="variable", good=False, found=f"{name} has no effect, {VARIABLES[name].note}"))
    return findings


def _asserts() -> bool:
    try:
        assert False  # noqa: B011, PT015 - the question is whether this line runs at all
    except AssertionError:
        return True
    return False


def extras() -> dict[str, bool]:
    """Which extras are installed."""
    return {extra: all(find_spec(name.split(".")[0]) for name in modules) for extra, modules in EXTRAS.items()}


def flat(tree: Any, path: str = "") -> list[tuple[str, str]]:
    """Every setting in force as (dotted key, value)."""
    if isinstance(tree, dict) and path != "work.params" and path != "work.executables":
        return [pair for key, value in tree.items() for pair in flat(value, f"{path}.{key}" if path else key)]
    return [(path, json.dumps(tree))]


def main(options: argparse.Namespace, given: Mapping[str, object]) -> int:
    """Print findings and settings; 0 if everything is good, else 1."""
    found = effective(file=options.settings, given=given)
    findings = examine(found)
    settings = [(k, v, found.origins.get(k, "default")) for k, v in flat(msgspec.to_builtins(found.settings))]
    if options.json:
        tree = {"findings": msgspec.to_builtins(findings), "settings": settings, "extras": extras()}
        print(json.dumps(tree, indent=2))
    else:
        print(table(("", "what", "found"), [("ok" if f.good else "BAD", f.what, f.found) for f in findings]))
        missing = [extra for extra, there in extras().items() if not there]
        print("\nextras not installed: " + (", ".join(f"{e} (pip install 'ringrift[{e}]')" for e in missing) or "none"))
        print("\n" + table(("setting", "value", "from"), settings))
        print("\n" + table(("variable", "what it does"), [(name, v.note) for name, v in VARIABLES.items()]))
    return 0 if all(finding.good for finding in findings) else 1
