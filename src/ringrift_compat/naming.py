"""Naming: the documented normalisation of event names and the mappings between the buses' names."""

from ringrift.events import old_names
from ringrift_compat.event_types import DataEventType, StageEvent


def normalize_event_type(event_type: object) -> str:
    """The one spelling of an event's name, in upper case; a name that nobody knows stays what it is."""
    name = getattr(event_type, "name", None)
    return old_names.canonical(name if isinstance(name, str) else str(event_type))


def is_canonical(event_type: object) -> bool:
    """Whether this already is the one spelling."""
    return str(getattr(event_type, "name", event_type)) == normalize_event_type(event_type)


def is_known(event_type: object) -> bool:
    """Whether anybody ever called an event so."""
    return old_names.resolve(normalize_event_type(event_type)) is not None


def get_variants(event_type: object) -> tuple[str, ...]:
    """Every word of the table that means the same event name."""
    name = normalize_event_type(event_type)
    return tuple(word for word in old_names.words() if old_names.canonical(word) == name)


def get_data_event_type(stage: object) -> DataEventType | None:
    """What the data bus calls what the stage bus calls so."""
    return DataEventType.__members__.get(normalize_event_type(stage))


def get_stage_event(event_type: object) -> StageEvent | None:
    """What the stage bus calls what the data bus calls so, if it has a name for it."""
    name = normalize_event_type(event_type)
    return next((stage for stage in StageEvent if old_names.canonical(stage.name) == name), None)


def _stages() -> dict[str, str]:
    return {stage.value: old_names.canonical(stage.name) for stage in StageEvent}


STAGE_TO_DATA_EVENT_MAP = _stages()
DATA_TO_STAGE_EVENT_MAP = {name: stage for stage, name in STAGE_TO_DATA_EVENT_MAP.items()}
CANONICAL_EVENT_NAMES = {word: old_names.canonical(word) for word in old_names.words()}
