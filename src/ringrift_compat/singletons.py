"""The documented singletons: five ways for a class of the user's to have one instance, which lives in the class.

Each class has its own, also one that inherits from another, and threads that ask at once get the same one.
"""

import threading
from typing import Any, ClassVar, TypeVar

from ringrift_compat.remembering import SQLitePersistenceMixin

S = TypeVar("S", bound="SingletonMixin")
T = TypeVar("T")
STATE = "state"
"""The key under which a persistent one keeps its state."""


class SingletonMixin:
    """``get_instance()`` makes the one instance of this very class, or returns it."""

    _singleton: ClassVar[Any] = None
    _singleton_lock: ClassVar[Any] = threading.RLock()

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        cls._singleton, cls._singleton_lock = None, threading.RLock()

    @classmethod
    def get_instance(cls: type[S], *args: Any, **options: Any) -> S:
        """The instance; *args* and *options* make the first one and are not looked at later."""
        with cls._singleton_lock:
            if cls._singleton is None:
                made = cls(*args, **options)
                made._on_made()
                cls._singleton = made
            found: S = cls._singleton
            return found

    @classmethod
    def has_instance(cls) -> bool:
        """Whether it has been made."""
        return cls._singleton is not None

    @classmethod
    def reset_instance(cls) -> None:
        """Forget the instance; the next one who asks makes another."""
        with cls._singleton_lock:
            cls._singleton = None

    def _on_made(self) -> None:
        """Called once, before anybody else gets the instance.  To be overridden."""


class ThreadSafeSingletonMixin(SingletonMixin):
    """A singleton whose methods share a lock: ``with self.lock:`` lets one thread in at a time."""

    _shared_lock: Any = None

    @property
    def lock(self) -> Any:
        """The lock of this instance; who has it may take it again."""
        if self._shared_lock is None:
            with type(self)._singleton_lock:
                if self._shared_lock is None:
                    self._shared_lock = threading.RLock()
        return self._shared_lock


class LazySingletonMixin(SingletonMixin):
    """A singleton that is cheap to get: what is costly stands in ``_initialize()`` and runs once, on first need."""

    _initialized: bool = False

    def _initialize(self) -> None:
        """What is costly.  To be overridden."""

    def ensure_initialized(self) -> None:
        """Run ``_initialize()`` unless it has run; if it raises, the next call tries again."""
        with type(self)._singleton_lock:
            if not self._initialized:
                self._initialize()
                self._initialized = True

    @property
    def is_initialized(self) -> bool:
        """Whether ``_initialize()`` has run."""
        return self._initialized


class PersistentSingletonMixin(SQLitePersistenceMixin, SingletonMixin):
    """A singleton whose state outlives the program: the next ``get_instance()`` restores what was last saved.

    A subclass says what its state is by ``get_state()`` and takes it back by ``restore_state(state)``.
    """

    def get_state(self) -> dict[str, Any]:
        """What is to be kept.  To be overridden."""
        return {}

    def restore_state(self, state: dict[str, Any]) -> None:
        """Take back what was kept.  To be overridden."""

    def save(self) -> None:
        """Keep the state; returns when it is durable."""
        self.save_value(STATE, self.get_state())

    def _on_made(self) -> None:
        state = self.load_value(STATE)
        if state is not None:
            self.restore_state(state)


class SingletonMeta(type):
    """Calling a class of this kind gives its one instance."""

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

    def has_instance(cls) -> bool:
        """Whether it has been made."""
        return cls._singleton is not None

    def reset_instance(cls) -> None:
        """Forget the instance; the next one who asks makes another."""
        with cls._singleton_lock:
            cls._singleton = None


def singleton(cls: type[T]) -> type[T]:
    """Decorate a class: calling it gives its one instance, as ``get_instance()`` does."""
    kinds = (SingletonMeta,) if type(cls) is type else (SingletonMeta, type(cls))
    kind: Any = type(f"{cls.__name__}Kind", kinds, {})
    words = {"__module__": cls.__module__, "__qualname__": cls.__qualname__, "__doc__": cls.__doc__}
    one: type[T] = kind(cls.__name__, (cls,), words)
    return one
