"""The documented configuration: a view of our settings under the old words.

Settings have one source (defaults, file, environment, command line) and are fixed while a node is open.
"""

from collections.abc import Mapping
from functools import reduce
from typing import Any

import msgspec

from ringrift.kernel.errors import UnknownName
from ringrift.kernel.settings import Settings
from ringrift_compat.embedded_node import embedded
from ringrift_compat.variables import read_options, read_settings

_KEYS: Mapping[str, str] = {
    "node_id": "node.id",
    "profile": "node.profile",
    "is_ephemeral": "node.ephemeral",
    "db_path": "store.path",
    "event_handler_timeout": "bus.handler_seconds_max",
    "event_validation_strict": "options.strict",
    "job_grace_period": "work.grace_seconds",
    "trace_debug": "trace.debug",
    "auto_trigger_pipeline": "policy.auto",
    "dedup_window_seconds": "options.window_seconds",
    "dlq_max_retries": "bus.redelivery.tries",
    "heartbeat_interval": "cluster.beat_seconds",
    "games_per_export": "policy.games_per_export",
    "min_replicas": "replicas.copies_min",
}
"""Old word → the key of our setting."""


class CoordinatorConfig:
    """The configuration as attributes: old words, and the branches of our settings (``config.bus.batch``)."""

    def __init__(self, settings: Settings | None = None) -> None:
        self.settings = read_settings().settings if settings is None else settings
        self.options = read_options()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name == "settings":
            raise AttributeError(name)
        if name in _KEYS or name in self.settings.__struct_fields__:
            return self.get(name)
        names = ", ".join(sorted((*_KEYS, *self.settings.__struct_fields__)))
        raise AttributeError(f"no configuration is called {name!r}; there are {names}")

    @property
    def is_coordinator(self) -> bool:
        """Whether the profile is the coordinator's; another question is which node leads now."""
        return self.settings.node.profile == "coordinator"

    def get(self, key: str) -> Any:
        """The value of an old word or of a dotted key of our settings.  Raises UnknownName."""
        path = _KEYS.get(key, key)
        try:
            return reduce(getattr, path.split("."), self if path.startswith("options.") else self.settings)
        except AttributeError as absent:
            raise UnknownName("setting", key, _KEYS) from absent

    def to_dict(self) -> dict[str, Any]:
        """The old words with their values, and the whole tree under ``settings``."""
        return {name: self.get(name) for name in _KEYS} | {"settings": msgspec.to_builtins(self.settings)}


def get_config() -> CoordinatorConfig:
    """The configuration of this program: the settings that its node was opened with."""
    return CoordinatorConfig(embedded.node().settings)
