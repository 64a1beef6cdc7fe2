"""The documented utilities: a history with a limit, and a list of callbacks of which one that fails spoils nothing."""

import inspect
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Generic, TypeVar

from ringrift.bus.delivery import attempt

T = TypeVar("T")
HISTORY_MAX = 1000
CALLBACKS_MAX = 1000


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

    async def notify(self, *args: Any) -> list[Exception]:
        """Call each, in order; what went wrong."""
        wrong = [await attempt(self._call, callback, *args) for callback in tuple(self._callbacks)]
        return [one for one in wrong if one is not None]

    async def _call(self, callback: Callable[..., Any], *args: Any) -> None:
        found = callback(*args)
        if inspect.isawaitable(found):
            await found

    def __len__(self) -> int:
        return len(self._callbacks)
