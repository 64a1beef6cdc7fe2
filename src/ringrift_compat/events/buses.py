"""The documented buses: views of the one router, each with the calls that the documents show for it."""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from functools import cache, wraps
from typing import Any

from ringrift_compat.embedded_node import Pending
from ringrift_compat.events.event_router import EventRouter
from ringrift_compat.events.old_names import canonical
from ringrift_compat.events.router_event import EventSource, RouterEvent
from ringrift_compat.events.subscriptions import Callback

_EventCheck = Callable[[RouterEvent], bool]


class DataEventBus(EventRouter):
    """The data bus: the origin of what is published here; ``route_to_data_bus=False`` hides an event from it."""

    view = EventSource.DATA_BUS


@dataclass
class StageCompletionResult:
    """The result of a stage of the pipeline."""

    success: bool
    stage: str = ""
    iteration: int = 0
    duration_seconds: float = 0.0
    output_path: str | None = None
    error: str | None = None
    metadata: dict[str, Any] = field(default_factory=dict)


class StageEventBus(EventRouter):
    """The stage bus: publishes the results of stages."""

    view = EventSource.STAGE_BUS

    def emit(self, result: object, payload: Mapping[str, Any] | None = None) -> Pending[RouterEvent]:
        """Publish the result of a stage under the stage's name."""
        if isinstance(result, StageCompletionResult):
            return self.publish(result.stage, asdict(result) | dict(payload or {}))
        return self.publish(result, payload)


class EventBus(EventRouter):
    """The core bus: topics are event names in any spelling, and ``subscribe`` decorates too."""

    def __init__(self) -> None:
        self._filtered: dict[tuple[str, Callback], Callback] = {}

    def subscribe(
        self, event_type: object, callback: Callback | None = None, *, filter: _EventCheck | None = None
    ) -> Any:
        """Call *callback* for every event of this name that *filter* accepts; without a callback it is a decorator.

        A filter that raises counts as a failed call.
        """
        if callback is None:
            return lambda function: self.subscribe(event_type, function, filter=filter) or function
        key = (canonical(event_type), callback)
        if filter is not None:
            callback = self._filtered.setdefault(key, _only_if(filter, callback))
        return super().subscribe(event_type, callback)

    def unsubscribe(self, event_type: object, callback: Callback) -> bool:
        """End a subscription, with its filter if it has one; whether there was one."""
        return super().unsubscribe(event_type, self._filtered.pop((canonical(event_type), callback), callback))

    def get_history(self, topic: str | None = None, limit: int = 100) -> list[RouterEvent]:
        """The last events, oldest first; with *topic* only those of that name."""
        return self.get_recent_events(limit, topic)

    def replay(self, topic: str, callback: Callable[[RouterEvent], Any], limit: int = 100) -> int:
        """Call a plain *callback* with the last events of *topic*; how many."""
        events = self.get_history(topic, limit)
        for event in events:
            callback(event)
        return len(events)


def _only_if(check: _EventCheck, callback: Callback) -> Callback:
    """*callback* for the events that *check* accepts."""
    if inspect.iscoroutinefunction(callback):

        @wraps(callback)
        async def call_async(event: RouterEvent) -> None:
            if check(event):
                await callback(event)

        return call_async

    @wraps(callback)
    def call(event: RouterEvent) -> None:
        if check(event):
            callback(event)

    return call


Event = RouterEvent


@cache
def get_data_event_bus() -> DataEventBus:
    """The data bus of this program."""
    return DataEventBus()


@cache
def get_core_event_bus() -> EventBus:
    """The core bus of this program."""
    return EventBus()
