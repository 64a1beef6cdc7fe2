"""Import an optional dependency, or raise an error that names the line which installs it."""

from importlib import import_module
from types import ModuleType

from ringrift.kernel.errors import MissingExtra

EXTRAS = {"train": ("numpy", "torch", "numba", "safetensors"), "otel": ("opentelemetry.sdk",), "redis": ("redis",)}
EXTRAS["cluster"] = ("httptools", "cryptography", "yaml", "obstore")


def require_module(module: str, extra: str) -> ModuleType:
    """The module *module* of *extra*.  Raises MissingExtra with the line that installs it."""
    assert extra in EXTRAS
    try:
        return import_module(module)
    except ModuleNotFoundError as absent:
        if absent.name is not None and module.split(".")[0] == absent.name.split(".")[0]:
            raise MissingExtra(module, extra) from absent
        raise
