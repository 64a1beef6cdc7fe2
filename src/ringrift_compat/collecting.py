"""The documented utilities: a history with a limit, callbacks of which none spoils another, and running sums."""

import inspect
import math
import threading
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

from ringrift.bus.delivery import attempt, attempt_plain
from ringrift.kernel.errors import Backpressure, InputError
from ringrift_compat.ambient import ambient

T = TypeVar("T")
HISTORY_MAX = 100
CALLBACKS_MAX = 1000
METRICS_MAX = 1000
"""Names that one accumulator counts by."""


class BoundedHistory(Generic[T]):
    """The last *max_size* things, oldest first."""

    def __init__(self, max_size: int = HISTORY_MAX, items: Iterable[T] = ()) -> None:
        if max_size < 1:
            raise ValueError(f"max_size is {max_size}, and must be 1 or more")
        self._items: deque[T] = deque(items, maxlen=max_size)

    @property
    def max_size(self) -> int:
        """How many it keeps."""
        assert self._items.maxlen is not None
        return self._items.maxlen

    def append(self, item: T) -> None:
        """Add one; the oldest goes if there is no room."""
        self._items.append(item)

    add = append

    def get_recent(self, limit: int | None = None) -> list[T]:
        """The last *limit*, or all, oldest first."""
        items = list(self._items)
        return items if limit is None else items[max(len(items) - limit, 0) :]

    def clear(self) -> None:
        """Forget everything."""
        self._items.clear()

    def __len__(self) -> int:
        return len(self._items)

    def __iter__(self) -> Iterator[T]:
        return iter(self.get_recent())


class CallbackRegistry:
    """Callbacks, plain or async, that are told together; what one of them raises is returned, not raised."""

    def __init__(self, name: str = "") -> None:
        self.name = name
        self._callbacks: list[Callable[..., Any]] = []
        self._invocations = self._errors = 0
        self._last_error = ""

    def register(self, callback: Callable[..., Any]) -> None:
        """Tell *callback* too, once however often it is registered."""
        if callback not in self._callbacks:
            assert len(self._callbacks) < CALLBACKS_MAX, f"{self.name}: callbacks are registered and never taken out"
            self._callbacks.append(callback)

    def unregister(self, callback: Callable[..., Any]) -> bool:
        """Tell *callback* no more; whether it was there."""
        known = callback in self._callbacks
        if known:
            self._callbacks.remove(callback)
        return known

    async def invoke_all(self, *args: Any, **options: Any) -> list[Exception]:
        """Call each, in order; what went wrong."""
        return self._noted([await attempt(self._call, one, args, options) for one in tuple(self._callbacks)])

    notify = invoke_all

    def invoke_all_sync(self, *args: Any, **options: Any) -> list[Exception]:
        """As :meth:`invoke_all`, without a loop; what is async runs on the ambient one, and is waited for.

        On the ambient loop itself that cannot be: then it is a RuntimeError among what went wrong.
        """
        return self._noted([attempt_plain(self._call_sync, one, args, options)[1] for one in tuple(self._callbacks)])

    def get_stats(self) -> dict[str, Any]:
        """How many there are, and how they have done."""
        return {
            "name": self.name, "callback_count": len(self._callbacks), "invocation_count": self._invocations,
            "error_count": self._errors, "last_error": self._last_error,
        }  # fmt: skip

    def _noted(self, outcomes: Sequence[Exception | None]) -> list[Exception]:
        wrong = [one for one in outcomes if one is not None]
        self._invocations += 1
        self._errors += len(wrong)
        if wrong:
            self._last_error = f"{type(wrong[-1]).__name__}: {wrong[-1]}"
        return wrong

    async def _call(self, callback: Callable[..., Any], args: Sequence[Any], options: Mapping[str, Any]) -> None:
        found = callback(*args, **options)
        if inspect.isawaitable(found):
            await found

    def _call_sync(self, callback: Callable[..., Any], args: Sequence[Any], options: Mapping[str, Any]) -> None:
        found = callback(*args, **options)
        if not inspect.isawaitable(found):
            return
        if ambient.is_here() and inspect.iscoroutine(found):
            found.close()
        ambient.require_elsewhere("invoke_all_sync with an async callback")
        ambient.post(_awaited(found)).result(ambient.node().settings.bus.handler_seconds_max)

    def __len__(self) -> int:
        return len(self._callbacks)


async def _awaited(found: Awaitable[Any]) -> None:
    await found


@dataclass
class Metric:
    """What was recorded under one name."""

    count: int = 0
    total: float = 0.0
    minimum: float = math.inf
    maximum: float = -math.inf
    last: float = 0.0

    @property
    def mean(self) -> float:
        """The mean; 0 before the first."""
        return self.total / self.count if self.count else 0.0


class MetricsAccumulator:
    """Running sums by name, from any thread."""

    def __init__(self, name: str = "") -> None:
        self.name = name
        self._lock = threading.Lock()
        self._metrics: dict[str, Metric] = {}

    def record(self, metric: str, value: float = 1.0) -> None:
        """Take in one value of *metric*.  Raises InputError for no number, Backpressure for too many names."""
        if not math.isfinite(value):
            raise InputError(f"{metric} = {value} is no number that can be added up")
        with self._lock:
            if metric not in self._metrics and len(self._metrics) >= METRICS_MAX:
                raise Backpressure(f"the metrics of {self.name or 'an accumulator'}", METRICS_MAX)
            found = self._metrics.setdefault(metric, Metric())
            found.count += 1
            found.total += value
            found.minimum, found.maximum, found.last = min(found.minimum, value), max(found.maximum, value), value

    add = record

    def increment(self, metric: str, by: float = 1.0) -> None:
        """Count *metric*."""
        self.record(metric, by)

    def get(self, metric: str) -> Metric:
        """What was recorded under *metric*, so far; nothing under a name that was not used."""
        with self._lock:
            return replace(self._metrics.get(metric, Metric()))

    def get_stats(self) -> dict[str, dict[str, float]]:
        """Every metric: count, total, mean, min, max and last."""
        with self._lock:
            return _shown(self._metrics)

    def reset(self) -> dict[str, dict[str, float]]:
        """Begin anew; what had been recorded."""
        with self._lock:
            before, self._metrics = self._metrics, {}
        return _shown(before)


def _shown(metrics: Mapping[str, Metric]) -> dict[str, dict[str, float]]:
    return {
        name: {"count": one.count, "total": one.total, "mean": one.mean, "min": one.minimum, "max": one.maximum,
               "last": one.last}
        for name, one in metrics.items()
    }  # fmt: skip
