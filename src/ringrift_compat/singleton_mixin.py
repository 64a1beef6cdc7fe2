"""The documented singletons: five ways for a class of the user's to have one instance, which lives in the class.

Each class has its own, also one that inherits from another; threads that ask at once get the same one.
"""

import threading
from typing import Any, ClassVar, TypeVar

from ringrift_compat.coordinators.sqlite_persistence import SQLitePersistenceMixin

_S = TypeVar("_S", bound="SingletonMixin")
_STATE = "state"
"""The key of the state of a persistent one."""


class SingletonMixin:
    """``get_instance()`` makes the one instance of this very class, or returns it."""

    _singleton: ClassVar[Any] = None
    _singleton_lock: ClassVar[Any] = threading.RLock()

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        cls._singleton, cls._singleton_lock = None, threading.RLock()

    @classmethod
    def get_instance(cls: type[_S], *args: Any, **options: Any) -> _S:
        """The instance; *args* and *options* make the first one and are ignored later."""
        with cls._singleton_lock:
            if cls._singleton is None:
                instance = cls(*args, **options)
                instance._on_made()
                cls._singleton = instance
            existing: _S = cls._singleton
            return existing

    @classmethod
    def has_instance(cls) -> bool:
        """Whether it has been made."""
        return cls._singleton is not None

    @classmethod
    def reset_instance(cls) -> None:
        """Forget the instance; the next call makes another."""
        with cls._singleton_lock:
            cls._singleton = None

    def _on_made(self) -> None:
        """Called once, before any caller gets the instance.  To be overridden."""


class ThreadSafeSingletonMixin(SingletonMixin):
    """A singleton whose methods share a lock: ``with self.lock:`` admits one thread at a time."""

    _shared_lock: Any = None

    @property
    def lock(self) -> Any:
        """The lock of this instance; its holder may take it again."""
        with type(self)._singleton_lock:
            if self._shared_lock is None:
                self._shared_lock = threading.RLock()
        return self._shared_lock


class LazySingletonMixin(SingletonMixin):
    """A singleton that is cheap to get: the costly part is in ``_initialize()`` and runs once, on first need."""

    is_initialized: bool = False

    def _initialize(self) -> None:
        """The costly part.  To be overridden."""

    def ensure_initialized(self) -> None:
        """Run ``_initialize()`` unless it has run; if it raises, the next call tries again."""
        with type(self)._singleton_lock:
            if not self.is_initialized:
                self._initialize()
                self.is_initialized = True


class PersistentSingletonMixin(SQLitePersistenceMixin, SingletonMixin):
    """A singleton whose state outlives the program: the next ``get_instance()`` restores what was last saved."""

    def get_state(self) -> dict[str, Any]:
        """The state to keep.  To be overridden."""
        return {}

    def restore_state(self, state: dict[str, Any]) -> None:
        """Take the state back.  To be overridden."""

    def save(self) -> None:
        """Keep the state; returns when it is durable."""
        self.save_value(_STATE, self.get_state())

    def _on_made(self) -> None:
        state = self.load_value(_STATE)
        if state is not None:
            self.restore_state(state)


class SingletonMeta(type):
    """Calling a class with this metaclass gives its one instance."""

    def __init__(cls, name: str, bases: tuple[type, ...], members: dict[str, Any], **options: Any) -> None:
        super().__init__(name, bases, members, **options)
        cls._singleton: Any = None
        cls._singleton_lock = threading.RLock()

    def __call__(cls, *args: Any, **options: Any) -> Any:
        with cls._singleton_lock:
            if cls._singleton is None:
                cls._singleton = super().__call__(*args, **options)
            return cls._singleton

    def get_instance(cls, *args: Any, **options: Any) -> Any:
        """The instance; *args* and *options* make the first one."""
        return cls(*args, **options)

    def reset_instance(cls) -> None:
        """Forget the instance; the next call makes another."""
        with cls._singleton_lock:
            cls._singleton = None
