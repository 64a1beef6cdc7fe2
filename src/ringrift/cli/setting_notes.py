"""Setting notes: what each setting means, its unit, range and default, and when to change it."""

import tomllib
from importlib.resources import files
from typing import Any

from ringrift.kernel.overlay import describe_type, leaves
from ringrift.kernel.ranges import Branch
from ringrift.kernel.settings import Settings
from ringrift.kernel.value import Value
from ringrift.workload.api import Workload, params_of

_CHANGE = "Change: "


class SettingNote(Value, kw_only=False):
    """A setting for people."""

    key: str
    kind: str  #: What it must be, in words.
    unit: str
    range: str
    default: Any
    meaning: str
    change: str


def setting_notes() -> dict[str, SettingNote]:
    """A note for every setting, by its key."""
    notes, texts = {}, tomllib.loads(files("ringrift.kernel").joinpath("settings.toml").read_text("utf-8"))
    for key, branch, field in leaves(Settings()):
        assert isinstance(branch, Branch)
        about = texts[type(branch).__name__]
        meaning, _, change = about.get(field.name, "").partition(_CHANGE)
        unit = span = ""
        if limits := branch.ranges().get(field.name):
            unit, span = texts["units"].get(field.name) or _unit(field.name), f"{limits.low:g} … {limits.high:g}"
        kind, default = describe_type(field.type), getattr(branch, field.name)
        notes[key] = SettingNote(key, kind, unit, span, default, meaning.strip(), change or about["change"])
    return notes


def param_notes(workload: Workload) -> dict[str, SettingNote]:
    """A note for every declared job parameter of *workload*, by its key."""
    notes = {}
    for spec in params_of(workload):
        key, is_range = f"work.params.{spec.name}", spec.low is not None and spec.high is not None
        kind = describe_type(type(spec.low if spec.default is None else spec.default))
        span = f"{spec.low:g} … {spec.high:g}" if is_range else ", ".join(spec.choices)
        notes[key] = SettingNote(key, kind, spec.unit, span, spec.default, spec.meaning, spec.change)
    return notes


def _unit(name: str) -> str:
    """The unit that the name of a number says: its plural, ``games_per_batch``, but bytes and seconds before others."""
    words = [word for word in name.split("_") if word.endswith("s")]
    return next((word for word in words if word in ("bytes", "seconds")), words[0] if words else "")
