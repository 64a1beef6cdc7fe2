"""Environment: the only place that reads TOML files and environment variables, and knows where each value came from."""

import os
import socket
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from ringrift.kernel.errors import SettingsError
from ringrift.kernel.settings import Settings
from ringrift.kernel.value import Value

HOME_DEFAULT = "data"
FILE = "ringrift.toml"
PREFIX = "RINGRIFT_"


def _flag(name: str, text: str) -> bool:
    """What *text* says, yes or no.  Raises SettingsError naming the variable."""
    match text.strip().lower():
        case "1" | "true" | "yes" | "on":
            return True
        case "0" | "false" | "no" | "off" | "":
            return False
    raise SettingsError(name, text, "must be true or false")


def _profile(name: str, text: str) -> str:
    # The variable chooses a profile and never makes a leader: a row in the store does that.
    return "coordinator" if _flag(name, text) else "training_node"


def _text(_: str, text: str) -> str:
    return text


class Variable(Value):
    """A documented variable: the setting it stands for, or a note on what it does instead."""

    key: str | None
    note: str
    read: Callable[[str, str], object] = _text


LATER = {
    "nodes over a network": """RINGRIFT_COORDINATOR_URL RINGRIFT_P2P_URL RINGRIFT_CLUSTER_AUTH_TOKEN RINGRIFT_P2P_PORT
        RINGRIFT_P2P_STARTUP_GRACE_PERIOD RINGRIFT_SWIM_ENABLED RINGRIFT_RAFT_ENABLED""",
    "games of another engine": "RINGRIFT_ALLOW_PENDING_GATE",
}
"""What brings it → documented variables that nothing reads yet."""
VARIABLES: dict[str, Variable] = {
    "COORDINATOR_AUTO_TRIGGER_PIPELINE": Variable(
        key="policy.auto",
        note="whether one stage starts the next in a program that is its own node; ringrift run always does",
        read=_flag,
    ),
    "RINGRIFT_HOME": Variable(key=None, note="where the store, blobs and logs lie (default ./data)"),
    "RINGRIFT_DEBUG": Variable(key=None, note="shows what happens on stderr, and logs in detail"),
    "RINGRIFT_DLQ_PATH": Variable(key=None, note="accepted: dead letters are a state in the same store"),
    "RINGRIFT_NODE_ID": Variable(key="node.id", note="the name of this node"),
    "RINGRIFT_IS_COORDINATOR": Variable(key="node.profile", note="chooses a profile, never a leader", read=_profile),
    "RINGRIFT_EXTRACTED_LOOPS": Variable(
        key="node.loops", note="false: a program does not start the duties of the six loops", read=_flag
    ),
    "RINGRIFT_COORDINATOR_DB": Variable(key="store.path", note="the file of the store"),
    "RINGRIFT_EVENT_HANDLER_TIMEOUT": Variable(
        key="bus.handler_seconds_max", note="how long a handler may take for one event, in seconds"
    ),
    "RINGRIFT_EVENT_VALIDATION_STRICT": Variable(
        key="bus.strict", note="refuses events whose name nobody knows", read=_flag
    ),
    "RINGRIFT_JOB_GRACE_PERIOD": Variable(key="work.grace_seconds", note="from SIGTERM to SIGKILL, in seconds"),
    "RINGRIFT_TRACE_DEBUG": Variable(
        key="trace.debug", note="enables trace debug logging: every span, event and delivery", read=_flag
    ),
    "OTEL_EXPORTER_OTLP_ENDPOINT": Variable(
        key="trace.endpoint", note="the OpenTelemetry collector that spans are sent to; needs the extra otel"
    ),
    **{name: Variable(key=None, note=f"not yet: {what}") for what, names in LATER.items() for name in names.split()},
}
"""Every documented variable: what this version obeys, and what waits for the part that it configures."""


class Effective(Value):
    """The settings in force, where each came from, and what else the environment asks for."""

    settings: Settings
    origins: dict[str, str]
    home: str
    debug: bool = False
    unknown: tuple[str, ...] = ()
    """Variables with our prefix that nothing reads: most likely misspelt."""
    later: tuple[str, ...] = ()
    """Documented variables that are set and that nothing reads yet."""


def effective(
    environ: Mapping[str, str] | None = None, file: str | None = None, given: Mapping[str, object] | None = None, *,
    preset: Mapping[str, object] | None = None,
) -> Effective:  # fmt: skip
    """Defaults, then a *preset*, the TOML file, variables, and what was *given* on the command line (dotted keys).

    Raises SettingsError or UnknownName naming the key, and nothing has been touched.
    """
    environ = os.environ if environ is None else environ
    home = environ.get("RINGRIFT_HOME", HOME_DEFAULT)
    settings = Settings.lan(home, node=_node_default())
    origins: dict[str, str] = {}
    for origin, flat in (
        ("preset", dict(preset or {})),
        _from_file(file, Path(home)),
        ("environment", _from_variables(environ)),
        ("command line", dict(given or {})),
    ):
        settings = settings.overlaid(_tree(flat))
        origins |= {key: origin for key in flat}
    return Effective(
        settings=settings,
        origins=origins,
        home=home,
        debug=_flag("RINGRIFT_DEBUG", environ.get("RINGRIFT_DEBUG", "")),
        unknown=tuple(sorted(name for name in environ if name.startswith(PREFIX) and name not in VARIABLES)),
        later=tuple(name for names in LATER.values() for name in names.split() if name in environ),
    )


def _node_default() -> str:
    name = "".join(letter if letter.isalnum() or letter in "-_" else "-" for letter in socket.gethostname())
    return name[:64] or "local"


def _from_file(file: str | None, home: Path) -> tuple[str, dict[str, Any]]:
    """The flat settings of *file*, or of ringrift.toml in *home* if that is there."""
    path = Path(file) if file is not None else home / FILE
    if file is None and not path.exists():
        return "default", {}
    try:
        tree = tomllib.loads(path.read_text())
    except OSError as absent:
        raise SettingsError("settings file", str(path), str(absent.strerror)) from absent
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as bad:
        raise SettingsError("settings file", str(path), f"is not TOML: {bad}") from bad
    workloads = tree.pop("workloads", {})
    flat = dict(_flat(tree, ()))
    if workloads:
        flat["work.executables"] = _commands(workloads)
    return str(path), flat


def _commands(workloads: Any) -> dict[str, Any]:
    """``[workloads.NAME] command = […]`` as name → argv."""
    try:
        return {name: msgspec.convert(table["command"], list[str]) for name, table in workloads.items()}
    except (AttributeError, KeyError, TypeError, msgspec.ValidationError) as bad:
        raise SettingsError("workloads", workloads, "each needs  command = ['program', 'argument', …]") from bad


def _from_variables(environ: Mapping[str, str]) -> dict[str, Any]:
    found = {name: variable for name, variable in VARIABLES.items() if variable.key is not None and name in environ}
    return {str(variable.key): variable.read(name, environ[name]) for name, variable in found.items()}


def _flat(tree: Mapping[str, Any], path: tuple[str, ...]) -> list[tuple[str, Any]]:
    pairs: list[tuple[str, Any]] = []
    for name, value in tree.items():
        inner = isinstance(value, dict) and ".".join((*path, name)) != "work.params"
        pairs += _flat(value, (*path, name)) if inner else [(".".join((*path, name)), value)]
    return pairs


def _tree(flat: Mapping[str, Any]) -> dict[str, Any]:
    tree: dict[str, Any] = {}
    for key, value in flat.items():
        *path, last = key.split(".")
        branch = tree
        for name in path:
            branch = branch.setdefault(name, {})
        branch[last] = value
    return tree
