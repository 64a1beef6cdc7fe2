"""The documented buses: views of the one router, each with the calls that the documents show for it."""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from functools import cache
from typing import Any

from ringrift_compat.ambient import Pending
from ringrift_compat.events import EventRouter
from ringrift_compat.router_event import EventSource, RouterEvent

DataEvent = RouterEvent


class DataEventBus(EventRouter):
    """The data bus: what is published here says so in its origin, and ``route_to_data_bus=False`` hides from it."""

    view = EventSource.DATA_BUS


@dataclass
class StageCompletionResult:
    """What came of a stage of the pipeline."""

    success: bool
    stage: str = ""
    iteration: int = 0
    duration_seconds: float = 0.0
    output_path: str | None = None
    error: str | None = None
    metadata: dict[str, Any] = field(default_factory=dict)
    exit_code: int | None = None
    stdout: str = ""
    stderr: str = ""


class StageEventBus(EventRouter):
    """The stage bus: says what came of a stage."""

    view = EventSource.STAGE_BUS

    def emit(self, result: object, payload: Mapping[str, Any] | None = None) -> Pending[RouterEvent]:
        """Publish what came of a stage under the stage's name."""
        if isinstance(result, StageCompletionResult):
            return self.publish(result.stage, asdict(result) | dict(payload or {}))
        return self.publish(result, payload)


class EventBus(EventRouter):
    """The core bus: topics are event names in any spelling, and ``subscribe`` decorates too."""

    def get_history(self, topic: str | None = None, limit: int = 100) -> list[RouterEvent]:
        """The last events, oldest first; of one topic, if it is given."""
        return self.get_recent_events(limit, topic)

    def replay(self, topic: str, callback: Callable[[RouterEvent], Any], limit: int = 100) -> int:
        """Call a plain *callback* with the last events of *topic*; how many."""
        found = self.get_history(topic, limit)
        for event in found:
            callback(event)
        return len(found)


Event = RouterEvent


@cache
def get_data_event_bus() -> DataEventBus:
    """The data bus of this program."""
    return DataEventBus()


@cache
def get_stage_event_bus() -> StageEventBus:
    """The stage bus of this program."""
    return StageEventBus()


@cache
def get_core_event_bus() -> EventBus:
    """The core bus of this program."""
    return EventBus()
