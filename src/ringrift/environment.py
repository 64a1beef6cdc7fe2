"""Settings in force and their origins: the only place that reads TOML files and environment variables."""

import os
import re
import socket
import tomllib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from difflib import get_close_matches
from importlib.resources import files
from pathlib import Path
from typing import Any, TextIO

import msgspec

from ringrift.kernel.errors import SettingsError
from ringrift.kernel.ids import require_utf8
from ringrift.kernel.settings import Settings
from ringrift.kernel.value import Value

_PREFIX = "RINGRIFT_"
_PROVIDERS = {"VAST_CONTAINERLABEL": "vast", "RUNPOD_POD_ID": "runpod", "KUBERNETES_SERVICE_HOST": "kubernetes"}
_TRUE, _FALSE = ("1", "true", "yes", "on"), ("0", "false", "no", "off", "")


def read_flag(name: str, text: str | None = None) -> bool:
    """*text*, else the variable *name*, as true or false.  Raises SettingsError naming the variable."""
    text = os.environ.get(name, "") if text is None else text
    word = text.strip().lower()
    if word not in (*_TRUE, *_FALSE):
        raise SettingsError(name, text, "must be true or false")
    return word in _TRUE


def find_provider() -> str:
    """The provider of a rented machine, by a variable that it sets in each; empty if none is."""
    return next((name for variable, name in _PROVIDERS.items() if variable in os.environ), "")


def read_terminal(stream: TextIO, environ: Mapping[str, str] | None = None) -> tuple[bool, bool]:
    """Whether *stream* may be coloured, and whether what is on it can be redrawn."""
    environ = os.environ if environ is None else environ
    can_redraw = stream.isatty() and environ.get("TERM", "dumb") != "dumb"
    return can_redraw and not environ.get("NO_COLOR"), can_redraw


def take_token() -> str:
    """The token in the environment, which is taken out of it: what this process starts does not see it."""
    return os.environ.pop("RINGRIFT_CLUSTER_AUTH_TOKEN", "")


def _either(yes: object, no: object) -> Callable[[str, str], object]:
    return lambda name, text: yes if read_flag(name, text) else no


_LOOPS = ("rate", "fill", "import_models")  # the documented loops, but for the expiry of leases, which always runs
_READ: dict[str, Callable[[str, str], object]] = {
    "flag": read_flag,
    "profile": _either("coordinator", "training_node"),
    "loops": _either((), _LOOPS),
    "list": lambda _, text: tuple(filter(None, (part.strip() for part in text.split(",")))),
}
_PASSWORD = re.compile(rb"(://[^/@:\"\s]*):[^/@\"\s]*(?=@)")  # in an address, such as that of a Redis
_NO_EFFECT = "no effect yet"  # in the note of a variable whose feature is not there yet


class Variable(Value):
    """A documented variable: the setting it stands for, or a note on what it does instead."""

    note: str
    key: str | None = None
    read: str = ""
    secret: bool = False  #: Whether no message may show it.

    def value(self, name: str, text: str) -> object:
        """*text* as the setting has it.  Raises SettingsError naming the variable."""
        return _READ[self.read](name, text) if self.read else text


_VARIABLES = files("ringrift").joinpath("environment.toml").read_text("utf-8")
VARIABLES = msgspec.convert(tomllib.loads(_VARIABLES), dict[str, Variable])
"""Every documented variable: those that this version obeys, and those of features that are not there yet."""


class InForce(Value):
    """A setting in force: its value as JSON has it, and where it comes from."""

    value: Any
    origin: str


@dataclass(frozen=True)
class EffectiveSettings:
    """The settings in force, the origin of each, and what else the environment sets."""

    settings: Settings
    origins: dict[str, str]
    home: str
    debug: bool = False
    warnings: tuple[str, ...] = ()  # a line for each variable that nothing reads, or that is unknown

    def in_force(self) -> dict[str, InForce]:
        """Every setting by its dotted key, with its origin; those of mappings one by one: ``work.params.lr``.

        A password in an address is not shown.
        """
        text = _PASSWORD.sub(rb"\1:(not shown)", msgspec.json.encode(self.settings))
        flat = _flatten(msgspec.json.decode(text))  # as a stored record has them
        return {key: InForce(value=value, origin=self.origins.get(key, "default")) for key, value in flat.items()}

    def overlaid(self, tree: Mapping[str, object], origin: str) -> "EffectiveSettings":
        """These with *tree* on top, which comes from *origin*.  Raises SettingsError, UnknownName."""
        flat = _flatten(tree)
        origins = {**self.origins, **dict.fromkeys(flat, origin)}
        return replace(self, settings=self.settings.overlaid(flat), origins=origins)


def read_settings(
    environ: Mapping[str, str] | None = None,
    file: str | None = None,
    overrides: Mapping[str, object] | None = None,
    *,
    home: str | None = None,
    preset: Mapping[str, object] | None = None,
    variables: Mapping[str, Variable] = VARIABLES,
) -> EffectiveSettings:
    """Defaults, *preset*, TOML file, *variables*, *overrides* (dotted keys).  Raises SettingsError, UnknownName."""
    environ = os.environ if environ is None else environ
    for name in (name for name in environ if name.startswith(_PREFIX) or name in variables):
        is_secret = name in variables and variables[name].secret
        require_utf8(name, environ[name], text="(not shown)" if is_secret else None)
    home = environ.get("RINGRIFT_HOME", "data") if home is None else home
    host = "".join(char if char.isalnum() or char in "-_" else "-" for char in socket.gethostname())
    settings = Settings.lan(home, node=host[:64] or "local")
    present = {name: item for name, item in variables.items() if name in environ}
    unknown = sorted(name for name in environ if name.startswith(_PREFIX) and name not in variables)
    unread = (f"{name} has {item.note}" for name, item in present.items() if _NO_EFFECT in item.note)
    warnings = (*(f"{name} is unknown and has no effect{_hint(name, variables)}" for name in unknown), *unread)
    debug = read_flag("RINGRIFT_DEBUG", environ.get("RINGRIFT_DEBUG", ""))
    effective = EffectiveSettings(settings, {}, home, debug, warnings)
    for origin, tree in (
        ("preset", dict(preset or {})),
        _from_file(file, Path(home)),
        ("environment", {item.key: item.value(name, environ[name]) for name, item in present.items() if item.key}),
        ("command line", dict(overrides or {})),
    ):
        effective = effective.overlaid(tree, origin)
    settings = effective.settings
    for key, path in (("store.path", settings.store.path), ("blobs.folder", settings.blobs.folder)):
        if not path or "\0" in path:
            raise SettingsError(key, path, "must be a path")
    return effective


def _hint(name: str, names: Iterable[str]) -> str:
    return "".join(f"; did you mean {close}?" for close in get_close_matches(name, names, 1)) or ": misspelt?"


def _from_file(file: str | None, home: Path) -> tuple[str, dict[str, Any]]:
    """The settings of *file*, or of ringrift.toml in *home* if that exists."""
    path = Path(file) if file is not None else home / "ringrift.toml"
    try:
        if file is None and not path.exists():
            return "default", {}
        tree = tomllib.loads(path.read_text(encoding="utf-8"))
        _flatten(tree)
    except OSError as error:
        raise SettingsError("settings file", str(path), str(error.strerror)) from error
    except (ValueError, RecursionError) as error:  # also a number of thousands of digits
        raise SettingsError("settings file", str(path), f"is not TOML: {error}") from error
    if workloads := tree.pop("workloads", {}):
        tree["work.executables"] = _executables(workloads)
    return str(path), tree


def _executables(workloads: Any) -> dict[str, Any]:
    """``[workloads.NAME] command = […]`` as name → argv."""
    try:
        return {name: msgspec.convert(table["command"], list[str]) for name, table in workloads.items()}
    except (AttributeError, KeyError, TypeError, msgspec.ValidationError) as error:
        raise SettingsError("workloads", workloads, "each needs  command = ['program', 'argument', …]") from error


def _flatten(tree: Any, path: str = "") -> dict[str, Any]:
    """*tree* by dotted keys; an empty mapping is a value."""
    if path and not (isinstance(tree, Mapping) and tree):
        return {path: tree}
    parts = (_flatten(value, f"{path}.{key}" if path else key) for key, value in tree.items())
    return {key: value for part in parts for key, value in part.items()}
