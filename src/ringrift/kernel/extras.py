"""Extras: imports an optional dependency, or says which line installs it."""

from importlib import import_module
from types import ModuleType

from ringrift.kernel.errors import MissingExtra

EXTRAS: dict[str, tuple[str, ...]] = {
    "train": ("numpy", "torch", "numba", "safetensors"),
    "cluster": ("nats", "httpx2", "obstore"),
    "postgres": ("asyncpg",),
    "dashboard": ("starlette", "uvicorn"),
    "otel": ("opentelemetry.sdk",),
}


def need(module: str, extra: str) -> ModuleType:
    """The module *module* of *extra*.  Raises MissingExtra with the line that installs it."""
    assert extra in EXTRAS
    try:
        return import_module(module)
    except ModuleNotFoundError as absent:
        if absent.name is not None and module.split(".")[0] == absent.name.split(".")[0]:
            raise MissingExtra(module, extra) from absent
        raise
