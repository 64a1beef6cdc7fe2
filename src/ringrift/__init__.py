"""RingRift: one loop that makes game-playing networks stronger, on whatever machines there are."""

from importlib import import_module
from typing import Any

__version__ = "0.1.0"

# Looked up on first use, so that `import ringrift` costs next to nothing.
_PUBLIC = {
    "Client": "ringrift.client",
    "Cluster": "ringrift.harness",
    "Daemon": "ringrift.supervision.spec",
    "Envelope": "ringrift.events.base",
    "Event": "ringrift.events.base",
    "Job": "ringrift.jobs",
    "Node": "ringrift.node",
    "Settings": "ringrift.kernel.settings",
    "Verdict": "ringrift.kernel.verdict",
    "Workload": "ringrift.workload.api",
    "connect": "ringrift.client",
    "get_trace_id": "ringrift.bus.spans",
    "span": "ringrift.bus.spans",
    "traced": "ringrift.bus.spans",
}

__all__ = sorted(["__version__", *_PUBLIC])


def __getattr__(name: str) -> Any:
    if name not in _PUBLIC:
        raise AttributeError(f"module 'ringrift' has no attribute {name!r}; it has {', '.join(sorted(_PUBLIC))}")
    return getattr(import_module(_PUBLIC[name]), name)
