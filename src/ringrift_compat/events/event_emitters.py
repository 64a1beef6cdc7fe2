"""Emitters: ``emit_<event>(**fields)`` for every event name in any spelling, by one rule.

An emitter has the fields of its event as keyword parameters, each under our word and under those of the documents.  A
field that is missing, unknown or of another type is an error, and nothing is published; ``publish`` with the same name
takes what it gets.  A file stands for the fields that follow from it.  Names that are no event of ours take any fields.
"""

import inspect
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from ringrift.events import custom
from ringrift.kernel.errors import InvalidPayload
from ringrift_compat.embedded_node import Pending
from ringrift_compat.events import old_names
from ringrift_compat.events.event_router import publish
from ringrift_compat.events.old_rows import WORDS, Row
from ringrift_compat.events.router_event import RouterEvent

_PREFIX = "emit_"
# The documents use all three for one event.
_ENDINGS = ("complete", "completion", "completed")
_FILES: dict[str, dict[str, tuple[str, ...]]] = {
    "SELFPLAY_COMPLETE": {"db_path": ("batch", "node", "model")},
    "TRAINING_COMPLETED": {"model_path": ("model", "generation", "node")},
    "MODEL_IMPORTED": {"model_path": ("model", "source", "node")},
    "MODEL_PROMOTED": {"model_path": ("model", "generation", "variant")},
}
"""By name: the parameters that bring a file, each with the fields that follow from it."""
_OPTION = "source"
"""The parameter of every emitter that names the publisher."""


def _spellings(name: str) -> list[str]:
    for ending in _ENDINGS:
        if name.endswith(f"_{ending}"):
            return [f"{name.removesuffix(ending)}{other}" for other in _ENDINGS]
    return [name]


class _Parameters:
    """The fields that an emitter takes, by every word for them."""

    def __init__(self, name: str, row: Row) -> None:
        assert row.event is not None
        self._row, self._files = row, _FILES.get(name, {})
        self._fields = {field.name: field for field in msgspec.structs.fields(row.event) if field.name != _OPTION}
        self._words = {field: self._words_of(field) for field in self._fields}

    def _words_of(self, field: str) -> tuple[str, ...]:
        """The words for *field*, that of the documents first."""
        own = tuple(word for word, ours in self._row.same.items() if ours == field)
        others = tuple(word for word in WORDS.get(field, ()) if word not in self._fields)
        return tuple(dict.fromkeys((*own, *others, field)))

    def signature(self) -> inspect.Signature:
        """The keyword parameters: a field that must be there has no default under its first word."""
        from_files = {field for fields in self._files.values() for field in fields}
        any_mapping, keyword = Mapping[str, Any] | None, inspect.Parameter.KEYWORD_ONLY
        parameters = [
            inspect.Parameter("payload", inspect.Parameter.POSITIONAL_ONLY, default=None, annotation=any_mapping)
        ]
        taken = {"payload", _OPTION}
        for field in self._fields.values():
            if field.name in self._row.fixed:
                continue
            for number, word in enumerate(self._words[field.name]):
                if word not in taken:
                    is_required = field.required and not number and field.name not in from_files
                    default = inspect.Parameter.empty if is_required else None
                    parameters.append(inspect.Parameter(word, keyword, default=default, annotation=field.type))
                    taken.add(word)
        parameters += [inspect.Parameter(word, keyword, default=None, annotation=str) for word in self._files]
        parameters.append(inspect.Parameter(_OPTION, keyword, default="", annotation=str))
        return inspect.Signature(parameters, return_annotation=Pending[RouterEvent])

    def check(self, payload: Mapping[str, Any]) -> None:
        """Raise InvalidPayload for a field that is unknown, missing or of another type."""
        fields = {word for words in self._words.values() for word in words} | self._files.keys()
        if unknown := sorted(payload.keys() - fields):
            raise InvalidPayload(f"$.{unknown[0]}", f"is no field of this event; it has {', '.join(sorted(fields))}")
        from_file = {field for file, fields in self._files.items() if payload.get(file) for field in fields}
        plain = old_names.to_plain(payload)
        for field in self._fields.values():
            values = [plain[word] for word in self._words[field.name] if plain.get(word) is not None]
            if not values and field.required and field.name not in {*from_file, *self._row.fixed}:
                raise InvalidPayload(f"$.{self._words[field.name][0]}", "is missing")
            for value in values[:1]:
                self._check_type(field, value)

    @staticmethod
    def _check_type(field: msgspec.structs.FieldInfo, value: Any) -> None:
        try:
            msgspec.convert(value, field.type, strict=True)
        except msgspec.ValidationError as bad:
            raise InvalidPayload(f"$.{field.name}", str(bad)) from bad


def _make_emitter(function: str, name: str) -> Callable[..., Pending[RouterEvent]]:
    """The documented *function* that publishes *name* with its arguments as fields."""
    row = old_names.resolve(name)
    is_typed = row is not None and row.event is not None and row.event is not custom.Published
    parameters = _Parameters(name, row) if is_typed and row is not None else None

    def emit(payload: Mapping[str, Any] | None = None, /, *, source: str = "", **fields: Any) -> Pending[RouterEvent]:
        together = {**(payload or {}), **fields}
        if parameters is not None:
            parameters.check(together)
        return publish(name, together, source)

    emit.__name__ = emit.__qualname__ = function
    emit.__doc__ = f"Publish {name} with these fields; awaiting it is the durable acknowledgement."
    if parameters is not None:
        emit.__signature__ = parameters.signature()  # type: ignore[attr-defined]  # functions have it too
    return emit


__all__ = sorted({f"{_PREFIX}{spelling}" for word in old_names.words() for spelling in _spellings(word.lower())})


def __getattr__(name: str) -> Callable[..., Pending[RouterEvent]]:
    if not name.startswith(_PREFIX) or old_names.resolve(name.removeprefix(_PREFIX)) is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}: no event has this name")
    emitter = globals()[name] = _make_emitter(name, old_names.canonical(name.removeprefix(_PREFIX)))
    return emitter
