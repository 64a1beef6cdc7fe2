"""Event types: the documented enumerations of event names, made from the table of old names."""

from enum import StrEnum
from typing import Any

from ringrift.events import old_names
from ringrift.kernel.ids import check_name
from ringrift_compat.declaring import Declaring, declared

# Where the value of a documented member is not its name in lower case.
VALUES = {
    "NEW_GAMES_AVAILABLE": "new_games",
    "DATA_SYNC_STARTED": "sync_started",
    "DATA_SYNC_COMPLETED": "sync_completed",
    "DATA_SYNC_FAILED": "sync_failed",
    "TRAINING_THRESHOLD_REACHED": "training_threshold",
}
STAGES = """
    selfplay_complete canonical_selfplay_complete gpu_selfplay_complete sync_complete parity_validation_complete
    npz_export_started npz_export_complete training_complete training_started training_failed evaluation_complete
    shadow_tournament_complete elo_calibration_complete cmaes_complete pbt_complete nas_complete promotion_complete
    tier_gating_complete iteration_complete cluster_sync_complete model_sync_complete
"""


class _AnySpelling(Declaring):
    """Finds a member under every spelling that the table of old names knows."""

    def _called_(cls, name: str) -> str:
        return old_names.canonical(name)


class DataEventType(StrEnum, metaclass=_AnySpelling):
    """Every event that the documents and the earlier system name; two words for one event are one member."""

    _ignore_ = ["word", "members"]
    members = vars()
    for word in old_names.names():
        members[word] = VALUES.get(word, word.lower())

    @classmethod
    def _missing_(cls, value: object) -> Any:
        return cls.__members__.get(old_names.canonical(str(value)))

    @classmethod
    def declare(cls, name: str) -> "DataEventType":
        """The member *name*, which is made if there is none: an event of your own.  Raises InvalidId."""
        return declared(cls, check_name("event", name))


class StageEvent(StrEnum, metaclass=_AnySpelling):
    """What the stages of the pipeline say when they begin and end."""

    _ignore_ = ["stage", "members"]
    members = vars()
    for stage in STAGES.split():
        members[stage.upper()] = stage

    @classmethod
    def _missing_(cls, value: object) -> Any:
        name = old_names.canonical(str(value))
        return next((member for member in cls if old_names.canonical(member.name) == name), None)


EventType = DataEventType
