"""Plan view: what ``ringrift run`` would use here, for the commands that show it, from the plan of the run itself."""

import os
import sys
from collections.abc import Iterable, Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from ringrift.cli.command import Context, parse_overrides
from ringrift.cli.main import build_parser
from ringrift.cli.run_plan import RANDOM, Plan, cores, make_plan
from ringrift.environment import InForce

_GPUS = Path("/proc/driver/nvidia/gpus")


def look_at_plan(context: Context, variant: str | None = None) -> Plan:
    """The plan of ``ringrift run`` with these settings, for *variant* if it is named; nothing is created or changed.

    Raises what the run would raise.
    """
    words = ["run", *(["--variants", variant] if variant is not None else [])]
    options = build_parser("run").parse_args(words)
    options.settings, options.set = context.options.settings, context.options.set
    return make_plan(options, parse_overrides(options.set), is_look=True)


def settings_of_plan(plan: Plan) -> dict[str, InForce]:
    """Every setting of *plan* by its key; a seed that the run will draw has no value yet."""
    settings = plan.effective.in_force()
    if settings["policy.seed"].origin == RANDOM:
        settings["policy.seed"] = InForce(value=None, origin="random: the run draws one")
    return settings


def difference(before: Mapping[str, InForce], after: Mapping[str, InForce]) -> dict[str, tuple[InForce, InForce]]:
    """The settings that have another value; one that is missing on a side has none there."""
    absent = InForce(value=None, origin="not set")
    pairs = {key: (before.get(key, absent), after.get(key, absent)) for key in sorted({*before, *after})}
    return {key: (first, second) for key, (first, second) in pairs.items() if first.value != second.value}


def describe_machine() -> dict[str, str]:
    """Cores, memory, GPUs, Python and torch of this machine; imports none of them."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    try:
        torch = version("torch")
    except PackageNotFoundError:
        torch = "not installed"
    gpus = ", ".join(_gpu_names(sorted(_GPUS.glob("*/information")))) or "none"
    parts = {"cores": str(cores()), "memory": f"{memory / (1 << 30):.1f} GiB", "GPU": gpus}
    return {**parts, "python": sys.version.split()[0], "torch": torch}


def _gpu_names(files: Iterable[Path]) -> list[str]:
    lines = (line for file in files for line in file.read_text(errors="replace").splitlines())
    return [line.partition(":")[2].strip() for line in lines if line.startswith("Model:")]
