"""DataEventType: the documented enumeration of event names, made from the table of old names."""

from enum import StrEnum
from typing import Any

from ringrift.kernel.ids import check_name
from ringrift_compat.events import old_names
from ringrift_compat.extensible_enum import ExtensibleEnum, declare

# Where the value of a documented member is not its name in lower case.
_VALUES = {
    "NEW_GAMES_AVAILABLE": "new_games",
    "DATA_SYNC_STARTED": "sync_started",
    "DATA_SYNC_COMPLETED": "sync_completed",
    "DATA_SYNC_FAILED": "sync_failed",
    "TRAINING_THRESHOLD_REACHED": "training_threshold",
}


class _AnySpelling(ExtensibleEnum):
    """Finds a member under every spelling that the table of old names has."""

    def _member_name_(cls, name: str) -> str:
        return old_names.canonical(name)


class DataEventType(StrEnum, metaclass=_AnySpelling):
    """Every event that the documents and the earlier system name; two words for one event are one member."""

    _ignore_ = ["word", "members"]
    members = vars()
    for word in old_names.names():
        members[word] = _VALUES.get(word, word.lower())

    @classmethod
    def _missing_(cls, value: object) -> Any:
        return cls.__members__.get(old_names.canonical(str(value)))

    @classmethod
    def declare(cls, name: str) -> "DataEventType":
        """The member *name*, made if there is none: an event of the user's own.  Raises InvalidId."""
        return declare(cls, check_name("event", name))
