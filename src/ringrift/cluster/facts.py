"""Facts of a node: what its machine has and what it can run, measured by the node itself and sent with heartbeats.

Facts are a report, never proof: they decide which node is offered a job, and no safety rests on them.
"""

import os
import platform
import shutil
import subprocess
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from math import isfinite
from pathlib import Path

from ringrift.environment import find_provider
from ringrift.kernel.value import Value
from ringrift.threads import to_its_end

_GPU_SECONDS_MAX = 10.0
_GPUS_MAX = 64
_QUERY = ("nvidia-smi", "--query-gpu=name,memory.total", "--format=csv,noheader,nounits")
_SIMULATED = "simulated"
_PACKAGES = ("ringrift", "numpy", "torch")
_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")  # of a container
_VENDOR = Path("/sys/class/dmi/id/sys_vendor")


class _Gpu(Value):
    """One GPU."""

    name: str
    memory_bytes: int = 0


class NodeFacts(Value):
    """What a node has; until it has measured, *python* is empty and nothing is known."""

    cores: int = 0  # that it may use
    memory_bytes: int = 0
    gpus: tuple[_Gpu, ...] = ()
    disk_free_bytes: int = 0  # where its files are
    provider: str = ""  # the label of that name, else as measured
    price: float = 0.0  # per hour, the label of that name
    versions: dict[str, str] = {}  # of the packages that matter
    workloads: tuple[str, ...] | None = None  # that it can run; None: any
    python: str = ""

    @property
    def is_measured(self) -> bool:
        return bool(self.python)


class FactsMeter:
    """The facts of this process's node as they were measured last."""

    def __init__(self, folder: str, labels: Mapping[str, str], workloads: Callable[[], Iterable[str]] | None) -> None:
        """*folder* is where its files are; *workloads* lists those that run here, None: any do, nothing is measured."""
        self.facts = NodeFacts() if workloads else NodeFacts(python=_SIMULATED)
        self._measure = None if workloads is None else partial(_measure, folder, dict(labels), workloads)

    async def measure(self) -> None:
        """Measure, in a thread: disks and drivers may hang, and importing workloads takes seconds."""
        if self._measure is not None:
            self.facts = await to_its_end(None, self._measure, self.facts)


def _measure(
    folder: str, labels: Mapping[str, str], workloads: Callable[[], Iterable[str]], old: NodeFacts
) -> NodeFacts:
    """The facts now; what cannot change while a process lives is taken from *old*."""
    return NodeFacts(
        cores=len(os.sched_getaffinity(0)),
        memory_bytes=_memory_bytes(),
        gpus=_gpus(),
        disk_free_bytes=_disk_free_bytes(Path(folder)),
        provider=labels.get("provider") or old.provider or _provider(),
        price=_price(labels.get("price", "")),
        versions=old.versions or _versions(),
        workloads=old.workloads or tuple(sorted(workloads())),
        python=platform.python_version(),
    )


def _disk_free_bytes(folder: Path) -> int:
    """The free space at *folder*, or at the nearest one above it that exists; 0 if its disk is away."""
    with suppress(OSError, StopIteration):
        return shutil.disk_usage(next(path for path in (folder, *folder.absolute().parents) if path.exists())).free
    return 0


def _memory_bytes() -> int:
    """The memory that this process may use: that of the machine, or of the container if it has less."""
    sizes = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    for path in _LIMITS:
        with suppress(OSError, ValueError):  # no container, or "max"
            sizes.append(int(Path(path).read_text()))
    return min(sizes)


def _gpus() -> tuple[_Gpu, ...]:
    """The GPUs that the driver lists; none without one, or if it does not answer."""
    try:
        answer = subprocess.run(_QUERY, capture_output=True, text=True, timeout=_GPU_SECONDS_MAX, check=True)
    except (OSError, subprocess.SubprocessError):
        return ()
    return _parse_gpus(answer.stdout)


def _parse_gpus(text: str) -> tuple[_Gpu, ...]:
    """The GPUs that ``nvidia-smi`` lists, one a line: name, memory in MiB.  Lines of another form are left out."""
    rows = [line.rpartition(",") for line in text.splitlines()[:_GPUS_MAX]]
    pairs = [(name.strip(), size.strip()) for name, _, size in rows]
    return tuple(_Gpu(name=name, memory_bytes=int(size) << 20) for name, size in pairs if size.isdecimal())


def _provider() -> str:
    name = find_provider()
    with suppress(OSError):
        return name or _VENDOR.read_text().strip()
    return name


def _price(text: str) -> float:
    """The price in *text*; 0 for what is none: a label is free text."""
    with suppress(ValueError):
        return price if isfinite(price := float(text)) and price > 0 else 0.0
    return 0.0


def _versions() -> dict[str, str]:
    versions = {}
    for name in _PACKAGES:
        with suppress(PackageNotFoundError):
            versions[name] = version(name)
    return versions
