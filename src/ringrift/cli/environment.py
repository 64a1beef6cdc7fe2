"""Settings in force and their origins: the only place that reads TOML files and environment variables."""

import os
import socket
import tomllib
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from ringrift.kernel.errors import SettingsError, require_utf8
from ringrift.kernel.settings import Settings

_PREFIX = "RINGRIFT_"
_TRUE, _FALSE = ("1", "true", "yes", "on"), ("0", "false", "no", "off", "")


def read_flag(name: str, text: str | None = None) -> bool:
    """*text*, else the variable *name*, as true or false.  Raises SettingsError naming the variable."""
    text = os.environ.get(name, "") if text is None else text
    word = text.strip().lower()
    if word not in (*_TRUE, *_FALSE):
        raise SettingsError(name, text, "must be true or false")
    return word in _TRUE


def _either(yes: object, no: object) -> Callable[[str, str], object]:
    return lambda name, text: yes if read_flag(name, text) else no


_LOOPS = ("rate", "fill", "import_models")  # the documented loops, but for the expiry of leases, which always runs
_DISABLES = f"false: disables {', '.join(_LOOPS)}"
# The variable chooses a profile and never makes a leader: a row in the store does that.
_PROFILE = _either("coordinator", "training_node")


@dataclass(frozen=True)
class Variable:
    """A documented variable: the setting it stands for, or a note on what it does instead."""

    key: str | None
    note: str
    read: Callable[[str, str], object] = lambda _, text: text


_NETWORK = """RINGRIFT_COORDINATOR_URL RINGRIFT_P2P_URL RINGRIFT_CLUSTER_AUTH_TOKEN RINGRIFT_P2P_PORT
    RINGRIFT_P2P_STARTUP_GRACE_PERIOD RINGRIFT_SWIM_ENABLED RINGRIFT_RAFT_ENABLED"""
_NO_EFFECT = "no effect yet; it comes with: "
VARIABLES: dict[str, Variable] = {
    "RINGRIFT_HOME": Variable(None, "folder of the store, blobs and logs (default ./data)"),
    "RINGRIFT_DEBUG": Variable(None, "logs in detail, and to stderr as well"),
    "RINGRIFT_DLQ_PATH": Variable(None, "accepted without effect: dead letters are in the store"),
    "RINGRIFT_NODE_ID": Variable("node.id", "name of this node"),
    "RINGRIFT_IS_COORDINATOR": Variable("node.profile", "chooses a profile, never a leader", _PROFILE),
    "RINGRIFT_EXTRACTED_LOOPS": Variable("node.disabled_daemons", _DISABLES, _either((), _LOOPS)),
    "RINGRIFT_COORDINATOR_DB": Variable("store.path", "file of the store"),
    "RINGRIFT_EVENT_HANDLER_TIMEOUT": Variable("bus.handler_seconds_max", "seconds a handler may take for one event"),
    "RINGRIFT_EVENT_VALIDATION_STRICT": Variable(None, "true: the documented API refuses events with unknown names"),
    "RINGRIFT_JOB_GRACE_PERIOD": Variable("work.grace_seconds", "seconds from SIGTERM to SIGKILL"),
    "RINGRIFT_TRACE_DEBUG": Variable("trace.debug", "logs every span, event and delivery", read_flag),
    "OTEL_EXPORTER_OTLP_ENDPOINT": Variable("trace.endpoint", "OpenTelemetry collector for spans (needs extra otel)"),
    **dict.fromkeys(_NETWORK.split(), Variable(None, f"{_NO_EFFECT}nodes over a network")),
    "RINGRIFT_ALLOW_PENDING_GATE": Variable(None, f"{_NO_EFFECT}games of another engine"),
}
"""Every documented variable: those that this version obeys, and those of features that are not there yet."""


@dataclass(frozen=True)
class EffectiveSettings:
    """The settings in force, the origin of each, and what else the environment sets."""

    settings: Settings
    origins: dict[str, str]
    home: str
    debug: bool = False
    unknown: tuple[str, ...] = ()  # variables with our prefix that nothing reads: most likely misspelt
    warnings: tuple[str, ...] = ()  # a line for each variable that is set and that nothing reads yet


def read_settings(
    environ: Mapping[str, str] | None = None,
    file: str | None = None,
    overrides: Mapping[str, object] | None = None,
    *,
    preset: Mapping[str, object] | None = None,
    variables: Mapping[str, Variable] = VARIABLES,
) -> EffectiveSettings:
    """Defaults, *preset*, TOML file, *variables*, *overrides* (dotted keys).  Raises SettingsError, UnknownName."""
    environ = os.environ if environ is None else environ
    for name in (name for name in environ if name.startswith(_PREFIX) or name in variables):
        require_utf8(name, environ[name])
    home = environ.get("RINGRIFT_HOME", "data")
    host = "".join(char if char.isalnum() or char in "-_" else "-" for char in socket.gethostname())
    settings = Settings.lan(home, node=host[:64] or "local")
    present = {name: item for name, item in variables.items() if name in environ}
    origins: dict[str, str] = {}
    for origin, flat in (
        ("preset", dict(preset or {})),
        _from_file(file, Path(home)),
        ("environment", {item.key: item.read(name, environ[name]) for name, item in present.items() if item.key}),
        ("command line", dict(overrides or {})),
    ):
        settings = settings.overlaid(flat)
        origins |= {key: origin for key in flat}
    for key, path in (("store.path", settings.store.path), ("blobs.folder", settings.blobs.folder)):
        if not path or "\0" in path:
            raise SettingsError(key, path, "must be a path")
    unknown = tuple(sorted(name for name in environ if name.startswith(_PREFIX) and name not in variables))
    warnings = tuple(f"{name} has {item.note}" for name, item in present.items() if _NO_EFFECT in item.note)
    debug = read_flag("RINGRIFT_DEBUG", environ.get("RINGRIFT_DEBUG", ""))
    return EffectiveSettings(settings, origins, home, debug, unknown, warnings)


def _from_file(file: str | None, home: Path) -> tuple[str, dict[str, Any]]:
    """The flat settings of *file*, or of ringrift.toml in *home* if that exists."""
    path = Path(file) if file is not None else home / "ringrift.toml"
    if file is None and not path.exists():
        return "default", {}
    try:
        tree = tomllib.loads(path.read_text(encoding="utf-8"))
        workloads = tree.pop("workloads", {})
        flat = flatten(tree)
    except OSError as error:
        raise SettingsError("settings file", str(path), str(error.strerror)) from error
    except (ValueError, RecursionError) as error:  # also a number of thousands of digits
        raise SettingsError("settings file", str(path), f"is not TOML: {error}") from error
    if workloads:
        flat["work.executables"] = _executables(workloads)
    return str(path), flat


def _executables(workloads: Any) -> dict[str, Any]:
    """``[workloads.NAME] command = […]`` as name → argv."""
    try:
        return {name: msgspec.convert(table["command"], list[str]) for name, table in workloads.items()}
    except (AttributeError, KeyError, TypeError, msgspec.ValidationError) as error:
        raise SettingsError("workloads", workloads, "each needs  command = ['program', 'argument', …]") from error


def flatten(tree: Any, path: str = "", *, leaves: Collection[str] = ("work.params",)) -> dict[str, Any]:
    """Settings by their dotted keys; the values of *leaves* may be mappings themselves."""
    if not isinstance(tree, dict) or path in leaves:
        return {path: tree}
    parts = (flatten(value, f"{path}.{key}" if path else key, leaves=leaves) for key, value in tree.items())
    return {key: value for part in parts for key, value in part.items()}
