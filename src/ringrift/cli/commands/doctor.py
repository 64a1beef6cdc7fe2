"""Check this machine, and print the settings in force with the origin of each."""

import asyncio
import json
import shutil
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from importlib.util import find_spec
from pathlib import Path

from ringrift.blobs.folder import Folder
from ringrift.blobs.packs import is_intact
from ringrift.cli.command import Command, Context, Output, open_existing
from ringrift.cli.faults import ask_disk, nearest, node_faults
from ringrift.cli.formats import table
from ringrift.cli.plan_view import describe_machine, look_at_plan, settings_of_plan
from ringrift.cluster.roster import NODES
from ringrift.environment import VARIABLES, InForce
from ringrift.events import catalog
from ringrift.kernel.errors import NoRoute, RingriftError, printable
from ringrift.kernel.extras import EXTRAS
from ringrift.pipeline.records import CHECKED
from ringrift.store.open import inspect_store
from ringrift.workload.registry import Registry

_FREE_BYTES_MIN = 1 << 30
_BLOBS_AT_ONCE = 500
_BLOB_BYTES_MAX = 1 << 30  # how much of the files of a node is read, some seconds
_BLOB_SECONDS_MAX = 60.0
_Check = tuple[str, bool, str]
"""A check: its name, whether it is good, and the detail, which says what to do if not."""


def _run_checks(context: Context) -> list[_Check]:
    effective, settings = context.effective, context.settings
    checks = [("python", sys.version_info >= (3, 11), sys.version.split()[0])]
    checks.append(("assertions", __debug__, "on" if __debug__ else "off: do not run with -O"))
    checks += inspect_store(settings.store)
    checks += [("fault", False, fault) for fault in context.faults]
    if (store := Path(settings.store.path)).exists():
        checks += [_inspect_lock(store.parent / "coordinator.lock")]
        checks += asyncio.run(_inspect_content(context))
    free = shutil.disk_usage(nearest(Path(effective.home))).free
    checks.append(("free disk", free >= _FREE_BYTES_MIN, f"{free / (1 << 30):.1f} GiB"))
    checks += [("events", False, f"{name} is left out: {why}") for name, why in catalog.load_installed().items()]
    return [*checks, *(("variable", False, warning) for warning in effective.warnings)]


async def _inspect_content(context: Context) -> list[_Check]:
    """The records that have checksums, and the folder of every node; a store that cannot be read is one bad check."""
    try:
        async with open_existing(context.settings.store) as store, store.read() as view:
            damaged = [error for records in CHECKED for error in await records.find_damaged(view)]
            nodes = await NODES.all(view)
    except RingriftError as error:
        return [("records", False, str(error))]
    checks = [("record", False, str(error)) for error in damaged] or [("records", True, "decisions and evidence: ok")]
    faults = node_faults(nodes, context.clock, context.settings.cluster.beat_seconds)
    checks += [("fault", False, fault) for fault in faults]
    for node in (node for node in nodes if node.has_files):
        damage = ask_disk(partial(_find_damage, Folder(node.address, node.id)), node.address, _BLOB_SECONDS_MAX)
        checks.append((f"files of {node.id}", not damage, damage or f"{node.address}: ok"))
    return checks


def _find_damage(folder: Folder) -> str:
    """The files of a node that are not what their names say, as many as can be read in some seconds."""
    damaged, left = [], _BLOB_BYTES_MAX
    if away := folder.find_away():
        return away.reason
    page = folder.page("", _BLOBS_AT_ONCE)
    while page and left > 0:
        for stored in page:
            with suppress(NoRoute, FileNotFoundError):  # deleted meanwhile
                damaged += [] if left <= 0 or is_intact(stored.blob, folder.locate(stored.blob)) else [stored.blob[:12]]
            left -= stored.size
        page = folder.page(page[-1].blob, _BLOBS_AT_ONCE)
    remedy = "a running node replaces them from other copies"
    return f"{folder.root}: damaged: {', '.join(damaged)}: {remedy}" if damaged else ""


def _inspect_lock(file: Path) -> _Check:
    if file.exists() and not file.is_file():
        return "lock", False, f"{file} is no file: remove it"
    return "lock", True, printable(file.read_text(errors="replace").strip(), 200) if file.exists() else "free"


def _inspect_plugins(executables: Mapping[str, Sequence[str]]) -> list[_Check]:
    """Every installed workload; one that does not load has disabled itself, and one that lacks a module is no fault."""
    registry = Registry.load(executables)
    disabled = {name: f"disabled: {reason}" for name, reason in registry.disabled.items()}
    notes = {name: registry.find_missing(name) or "ok" for name in registry.makers} | disabled
    return [(f"plug-in {name}", name not in disabled, note) for name, note in notes.items()]


def _inspect_plan(context: Context) -> tuple[_Check, dict[str, InForce]]:
    """Whether a run could begin, and the settings that it would use; those of the person alone if it could not."""
    try:
        plan = look_at_plan(context)
    except (RingriftError, OSError) as error:
        return ("run", False, f"a run could not begin: {error}"), context.effective.in_force()
    note = f"workload {plan.settings.work.workload}, {len(plan.nodes)} nodes"
    return ("run", True, "; ".join((note, *plan.notes))), settings_of_plan(plan)


def _prepare(context: Context) -> Output:
    """Exit code 1 unless every check is good."""
    plan, in_force = _inspect_plan(context)
    machine = describe_machine()
    checks = [*_run_checks(context), *_inspect_plugins(context.settings.work.executables), plan]
    settings = [(key, json.dumps(item.value), item.origin) for key, item in in_force.items()]
    extras = {extra: all(find_spec(name.split(".")[0]) for name in modules) for extra, modules in EXTRAS.items()}
    missing = [f"{extra} (pip install 'ringrift[{extra}]')" for extra, installed in extras.items() if not installed]
    results = [("ok" if good else "BAD", name, detail) for name, good, detail in checks]
    parts = [table(("", "check", "result"), results), ", ".join(f"{name} {text}" for name, text in machine.items())]
    parts += [f"extras not installed: {', '.join(missing) or 'none'}", table(("setting", "value", "from"), settings)]
    parts.append(table(("variable", "effect"), [(name, variable.note) for name, variable in VARIABLES.items()]))
    rows = [{"name": name, "good": good, "detail": detail} for name, good, detail in checks]
    code = 0 if all(good for _, good, _ in checks) else 1
    value = {"checks": rows, "machine": machine, "settings": settings, "extras": extras}
    return Output(value=value, text="\n\n".join(parts), code=code)


COMMAND = Command(prepare=_prepare, names_faults=True)
