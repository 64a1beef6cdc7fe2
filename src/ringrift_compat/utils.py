"""The documented utilities: a history with a limit, callbacks that are called together, and a loader of YAML."""

import inspect
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, Generic, TypeVar

from ringrift.bus.delivery import attempt
from ringrift.kernel.errors import InputError
from ringrift.kernel.extras import require_module

T = TypeVar("T")
_CALLBACKS_MAX = 1000
_YAML_BYTES_MAX = 16 * 1024 * 1024


class BoundedHistory(Generic[T]):
    """The last *max_size* items, oldest first."""

    def __init__(self, max_size: int = 100, items: Iterable[T] = ()) -> None:
        if max_size < 1:
            raise ValueError(f"max_size is {max_size}, and must be 1 or more")
        self.max_size = max_size
        self._items: deque[T] = deque(items, maxlen=max_size)

    def append(self, item: T) -> None:
        """Add an item; the oldest goes if there is no room."""
        self._items.append(item)

    def get_recent(self, limit: int | None = None) -> list[T]:
        """The last *limit* items, or all, oldest first."""
        items = list(self._items)
        return items if limit is None else items[max(len(items) - limit, 0) :]

    def __len__(self) -> int:
        return len(self._items)

    def __iter__(self) -> Iterator[T]:
        return iter(self.get_recent())


class CallbackRegistry:
    """Callbacks, plain or async, that are called together; their errors are returned, not raised."""

    def __init__(self, name: str = "") -> None:
        self.name = name
        self._callbacks: list[Callable[..., Any]] = []

    def register(self, callback: Callable[..., Any]) -> None:
        """Add *callback*, once however often it is registered."""
        if callback not in self._callbacks:
            assert len(self._callbacks) < _CALLBACKS_MAX, f"{self.name}: callbacks are registered and never removed"
            self._callbacks.append(callback)

    def unregister(self, callback: Callable[..., Any]) -> bool:
        """Remove *callback*; whether it was registered."""
        is_registered = callback in self._callbacks
        if is_registered:
            self._callbacks.remove(callback)
        return is_registered

    async def invoke_all(self, *args: Any, **options: Any) -> list[Exception]:
        """Call each, in order; the errors."""

        async def call(callback: Callable[..., Any]) -> None:
            result = callback(*args, **options)
            if inspect.isawaitable(result):
                await result

        errors = [await attempt(call, callback) for callback in tuple(self._callbacks)]
        return [error for error in errors if error is not None]

    def __len__(self) -> int:
        return len(self._callbacks)


def load_yaml(path: str | Path) -> Any:
    """The content of a YAML file, which runs nothing.  Raises InputError, MissingExtra."""
    yaml = require_module("yaml", "cluster")
    try:
        with Path(path).open("rb") as file:
            text = file.read(_YAML_BYTES_MAX + 1)
        if len(text) > _YAML_BYTES_MAX:
            raise InputError(f"{path} is larger than {_YAML_BYTES_MAX} bytes")
        return yaml.safe_load(text)
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}") from error
    except (ValueError, RecursionError, yaml.YAMLError) as error:
        raise InputError(f"{path} is not YAML: {error}") from error
