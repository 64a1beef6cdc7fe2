"""Overlay: a tree of settings with other values on top, converted and checked field by field."""

from collections.abc import Collection, Iterator, Mapping
from types import NoneType, UnionType
from typing import Annotated, Any, TypeVar, Union, get_args, get_origin

import msgspec

from ringrift.kernel.errors import SettingsError, UnknownName
from ringrift.kernel.value import Value

V = TypeVar("V", bound=Value)
_WORDS = {int: "a whole number", float: "a number", bool: "true or false", str: "text"}


def leaves(branch: Value, path: str = "") -> Iterator[tuple[str, Value, msgspec.structs.FieldInfo]]:
    """Every setting below *branch*: its dotted key, its branch and its field."""
    for field in msgspec.structs.fields(branch):
        value = getattr(branch, field.name)
        if isinstance(value, Value):
            yield from leaves(value, f"{path}{field.name}.")
        else:
            yield f"{path}{field.name}", branch, field


def describe_type(kind: Any) -> str:
    """*kind* in the words of a message: ``a list of text, e.g. ["a", "b"]``."""
    if get_origin(kind) is Annotated:
        return describe_type(get_args(kind)[0])
    if get_origin(kind) in (Union, UnionType):
        words = [describe_type(part) for part in get_args(kind) if part is not NoneType]
        return f"{', '.join(words[:-1])} or {words[-1]}" if len(words) > 1 else words[0]
    if get_origin(kind) in (tuple, list):
        return f'a list of {describe_type(get_args(kind)[0])}, e.g. ["a", "b"]'
    if get_origin(kind) is dict:
        return f"a table whose values are {describe_type(get_args(kind)[1])}"
    return _WORDS.get(kind, "a table of settings")


def overlay(tree: V, values: Mapping[str, Any], keys: Collection[str]) -> V:
    """*tree* with *values*, ``{"work.slots": 4}``, on top.  Raises SettingsError, or UnknownName with close *keys*."""
    result: V = _overlay(tree, _nested(values), (), keys)
    return result


def _nested(values: Mapping[str, Any]) -> dict[str, Any]:
    """*values* without dots in their keys.  Raises SettingsError for a key that is a value and a branch at once."""
    nested: dict[str, Any] = {}
    for key, value in values.items():
        *path, field = key.split(".")
        branch = nested
        for name in path:
            branch = branch.setdefault(name, {})
            if not isinstance(branch, dict):
                raise SettingsError(key, value, f"{name} itself is set to {branch!r:.80} as well")
        branch[field] = value
    return nested


def _overlay(branch: Any, tree: Mapping[str, Any], path: tuple[str, ...], keys: Collection[str]) -> Any:
    fields = {field.name: field.type for field in msgspec.structs.fields(type(branch))}
    changed = {}
    for name, value in tree.items():
        key, current = ".".join((*path, name)), getattr(branch, name, None)
        if name not in fields:
            while isinstance(value, Mapping) and value:  # as it was written: the misspelt part may be the first
                name, value = next(iter(value.items()))
                key = f"{key}.{name}"
            raise UnknownName("setting", key, keys)
        if isinstance(current, Value) and isinstance(value, Mapping):
            changed[name] = _overlay(current, value, (*path, name), keys)
            continue
        if isinstance(current, dict) and isinstance(value, Mapping):
            value = {**current, **value}
        try:
            changed[name] = msgspec.convert(value, fields[name], strict=not isinstance(value, str))
        except msgspec.ValidationError as error:
            raise SettingsError(key, value, f"must be {describe_type(fields[name])}") from error
    try:
        return msgspec.structs.replace(branch, **changed)
    except SettingsError as error:
        # A branch that stands at several places of the tree names its field only.
        field = error.key.rsplit(".", 1)[-1]
        key = error.key if error.key.startswith(".".join((*path, ""))) else ".".join((*path, field))
        raise SettingsError(key, error.value, error.limit) from error
