"""The documented configuration: a view of our settings under the old words, and a few knobs of the adapters' own.

Settings have one source (defaults, file, environment, command line) and are fixed while a node is open.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from functools import reduce
from typing import Any

import msgspec

from ringrift.cli.environment import VARIABLES, effective
from ringrift.kernel.errors import SettingsError, UnknownName, within
from ringrift.kernel.settings import Settings
from ringrift_compat.ambient import ambient

KEPT = "config"
KNOBS: Mapping[str, str] = {
    "node_id": "node.id",
    "profile": "node.profile",
    "is_ephemeral": "node.ephemeral",
    "db_path": "store.path",
    "event_handler_timeout": "bus.handler_seconds_max",
    "event_validation_strict": "bus.strict",
    "job_grace_period": "work.grace_seconds",
    "trace_debug": "trace.debug",
    "auto_trigger_pipeline": "policy.auto",
    "dedup_window_seconds": "bus.window_seconds",
    "dlq_max_retries": "bus.redelivery.tries",
    "heartbeat_interval": "cluster.beat_seconds",
    "games_per_export": "policy.games_per_export",
    "min_replicas": "replicas.copies_min",
}
"""Old word → the key of the setting that it stands for."""


@dataclass(frozen=True)
class Own:
    """The knobs of the adapters themselves, which may be turned while a program runs."""

    snapshot_interval_seconds: float = 300.0
    max_snapshots: int = 10
    bridge_max_workers: int = 8

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(value, bool) or not isinstance(value, int | float):
                raise SettingsError(field.name, value, "must be a number")
        for name in ("max_snapshots", "bridge_max_workers"):
            if not isinstance(getattr(self, name), int):
                raise SettingsError(name, getattr(self, name), "must be a whole number")
        within("snapshot_interval_seconds", self.snapshot_interval_seconds, 0.05, 86_400)
        within("max_snapshots", self.max_snapshots, 1, 1000)
        within("bridge_max_workers", self.bridge_max_workers, 1, 1024)


class CoordinatorConfig:
    """The configuration as attributes: old words, and the branches of our settings (``config.bus.batch``)."""

    def __init__(self, settings: Settings | None = None, **own: Any) -> None:
        self.settings = effective().settings if settings is None else settings
        _check_known(own, [field.name for field in fields(Own)])
        self.own = Own(**own)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name in ("settings", "own"):
            raise AttributeError(name)
        if name in KNOBS:
            return self.get(KNOBS[name])
        for owner in (self.own, self.settings):
            if hasattr(owner, name):
                return getattr(owner, name)
        known = ", ".join(sorted((*KNOBS, *asdict(self.own), *self.settings.__struct_fields__)))
        raise AttributeError(f"no configuration is called {name!r}; there are {known}")

    @property
    def is_coordinator(self) -> bool:
        """Whether the profile is the coordinator's; who leads is another question."""
        return self.settings.node.profile == "coordinator"

    def get(self, key: str) -> Any:
        """The value of an old word or of a dotted key of our settings.  Raises UnknownName."""
        if key in asdict(self.own):
            return getattr(self.own, key)
        path = KNOBS.get(key, key)
        try:
            return reduce(getattr, path.split("."), self.settings)
        except AttributeError as absent:
            raise UnknownName("setting", key, (*KNOBS, *asdict(self.own))) from absent

    def origin(self, key: str) -> str:
        """Where the value comes from: default, the file, the environment, or set by the program."""
        if key in asdict(self.own):
            return "default" if self.get(key) == getattr(Own(), key) else "program"
        self.get(key)
        return effective().origins.get(KNOBS.get(key, key), "default")

    def to_dict(self) -> dict[str, Any]:
        """The old words with their values, and the whole tree under ``settings``."""
        words = {name: self.get(key) for name, key in KNOBS.items()}
        return words | asdict(self.own) | {"settings": msgspec.to_builtins(self.settings)}

    def __repr__(self) -> str:
        return f"CoordinatorConfig({self.to_dict()!r})"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, CoordinatorConfig):
            return NotImplemented
        return (self.settings, self.own) == (other.settings, other.own)

    def __hash__(self) -> int:
        return hash(self.own)


def get_config() -> CoordinatorConfig:
    """The configuration of this program: the settings that its node was opened with."""
    node = ambient.node()
    return CoordinatorConfig(node.settings, **node.kept.get(KEPT, {}))


def update_config(changes: Mapping[str, Any] | None = None, **more: Any) -> CoordinatorConfig:
    """Turn knobs of the adapters; the configuration behind it.

    Raises UnknownName for a word that nobody knows, SettingsError for a value out of range, and SettingsError for
    another value of a setting: that is fixed while the node is open.  If one is refused, none is changed.
    """
    config, wanted = get_config(), {**(changes or {}), **more}
    own: dict[str, Any] = {}
    for key, value in wanted.items():
        if key in asdict(config.own):
            own[key] = value
        elif config.get(key) != value:
            raise SettingsError(key, value, f"is fixed while the node is open; {_advice(key)}")
    turned = replace(config.own, **own)
    ambient.node().kept[KEPT] = asdict(turned)
    return get_config()


def set_config(config: CoordinatorConfig | Mapping[str, Any]) -> CoordinatorConfig:
    """Turn every knob as in *config*.  Raises as :func:`update_config` does."""
    if isinstance(config, CoordinatorConfig):
        if config.settings != ambient.node().settings:
            raise SettingsError("settings", "others", "are fixed while the node is open; set them before it is")
        return update_config(asdict(config.own))
    return update_config(config)


def reset_config() -> CoordinatorConfig:
    """Turn every knob of the adapters back."""
    ambient.node().kept.pop(KEPT, None)
    return get_config()


def _check_known(own: Mapping[str, Any], known: list[str]) -> None:
    for key in own:
        if key not in known:
            raise UnknownName("setting", key, known)


def _advice(key: str) -> str:
    """How to change a setting for the next time."""
    path = KNOBS.get(key, key)
    variable = next((name for name, one in VARIABLES.items() if one.key == path), None)
    where = f"{path} in ringrift.toml" if variable is None else f"{path} in ringrift.toml, or {variable},"
    return f"set {where} and open it again"
