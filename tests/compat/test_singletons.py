"""The five documented singletons: one instance for each class and every caller, and the extras of each."""

import threading
from collections.abc import Callable
from typing import Any

import pytest

from compat.subscribers import home
from ringrift_compat.embedded_node import embedded
from ringrift_compat.singleton_mixin import (
    LazySingletonMixin,
    PersistentSingletonMixin,
    SingletonMeta,
    SingletonMixin,
    ThreadSafeSingletonMixin,
)

__all__ = ["home"]
THREADS = 8
OVERLAP_SECONDS_MAX = 0.05


class Doorway:
    """Makes an entering thread wait a moment for a second one, so that two admitted threads overlap."""

    def __init__(self) -> None:
        self.entered: list[int] = []
        self._second = threading.Event()

    def enter(self) -> None:
        """Be noted, and let another one come in if nothing keeps it out."""
        self.entered.append(threading.get_ident())
        if len(self.entered) > 1:
            self._second.set()
        self._second.wait(OVERLAP_SECONDS_MAX)


def at_once(call: Callable[[], Any]) -> list[Any]:
    """Return the results of *call* in many threads that call together."""
    result: list[Any] = []
    together = threading.Barrier(THREADS)

    def run() -> None:
        together.wait()
        result.append(call())

    threads = [threading.Thread(target=run) for _ in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return result


@pytest.mark.parametrize(
    "kind", [SingletonMixin, ThreadSafeSingletonMixin, LazySingletonMixin, PersistentSingletonMixin]
)
def test_each_class_has_one_instance(kind: type[SingletonMixin]) -> None:
    """Threads that ask at once get the same one, a subclass has its own, and a reset makes room for another."""
    made: list[str] = []

    class Mine(kind):  # type: ignore[misc, valid-type]  # the parameter is a class
        def __init__(self, word: str = "first") -> None:
            made.append(word)
            self.word = word

    class Below(Mine):
        pass

    assert not Mine.has_instance()
    result = at_once(Mine.get_instance)
    below = Below.get_instance("below")

    assert {id(instance) for instance in result} == {id(Mine.get_instance("ignored"))}
    assert (below is not result[0], below.word, made) == (True, "below", ["first", "below"])
    Mine.reset_instance()
    assert (Mine.has_instance(), Below.has_instance()) == (False, True)
    assert Mine.get_instance("second").word == "second"


@pytest.mark.parametrize(
    "kind", [SingletonMixin, ThreadSafeSingletonMixin, LazySingletonMixin, PersistentSingletonMixin]
)
def test_threads_share_one_instance(kind: type[SingletonMixin]) -> None:
    """While one thread makes the instance, the others wait for it, however long that takes."""
    door = Doorway()

    class Mine(kind):  # type: ignore[misc, valid-type]  # the parameter is a class
        def __init__(self) -> None:
            door.enter()

    result = at_once(Mine.get_instance)

    assert (len(door.entered), len({id(instance) for instance in result})) == (1, 1)


def test_threads_share_one_instance_with_the_metaclass() -> None:
    """The same holds where calling the class returns the instance."""
    door = Doorway()

    class Mine(metaclass=SingletonMeta):
        def __init__(self) -> None:
            door.enter()

    result = at_once(Mine)

    assert (len(door.entered), len({id(instance) for instance in result})) == (1, 1)


def test_a_failed_construction_is_retried() -> None:
    """The error of the constructor is raised, and no instance is stored."""

    class Mine(SingletonMixin):
        tries = 0

        def __init__(self) -> None:
            Mine.tries += 1
            if Mine.tries == 1:
                raise ValueError("not yet")

    with pytest.raises(ValueError, match="not yet"):
        Mine.get_instance()
    assert not Mine.has_instance()
    assert Mine.get_instance() is Mine.get_instance()


def test_the_lock_admits_one_thread_at_a_time() -> None:
    """All threads get the same lock; while one holds it no other enters, and its holder may acquire it again."""
    door = Doorway()

    class Mine(ThreadSafeSingletonMixin):
        first = 0

        def enter(self) -> object:
            with self.lock, self.lock:
                door.enter()
                self.first = self.first or len(door.entered)
            return self.lock

    locks = at_once(lambda: Mine.get_instance().enter())

    assert ({id(lock) for lock in locks}, len(door.entered)) == ({id(Mine.get_instance().lock)}, THREADS)
    assert Mine.get_instance().first == 1


def test_a_lazy_singleton_is_initialised_once() -> None:
    """Getting it costs nothing; the costly part runs once for all threads, and again only after a failure."""

    door = Doorway()

    class Mine(LazySingletonMixin):
        runs = 0

        def _initialize(self) -> None:
            Mine.runs += 1
            if Mine.runs == 1:
                raise ValueError("busy")
            door.enter()

    mine = Mine.get_instance()
    assert (Mine.runs, mine.is_initialized) == (0, False)
    with pytest.raises(ValueError, match="busy"):
        mine.ensure_initialized()
    at_once(mine.ensure_initialized)

    assert (Mine.runs, mine.is_initialized) == (2, True)


def test_a_persistent_singleton_is_restored() -> None:
    """Its saved state is restored into the next instance, also after the node was closed and opened again."""

    class Mine(PersistentSingletonMixin):
        persistence_name = "mine"

        def __init__(self) -> None:
            self.games = 0

        def get_state(self) -> dict[str, Any]:
            return {"games": self.games}

        def restore_state(self, state: dict[str, Any]) -> None:
            self.games = state["games"]

    Mine.get_instance().games = 7
    Mine.get_instance().save()
    Mine.get_instance().games = 8
    Mine.reset_instance()
    embedded.shutdown()

    assert Mine.get_instance().games == 7


def test_calling_a_class_with_the_metaclass_returns_its_instance() -> None:
    """Each class has its own, also one that inherits; a reset lets the next call make another."""

    class Mine(metaclass=SingletonMeta):
        def __init__(self, word: str = "first") -> None:
            self.word = word

    class Below(Mine):
        """Has an instance of its own."""

    instances = at_once(Mine)

    assert {id(instance) for instance in instances} == {id(Mine.get_instance())}
    assert (Mine("ignored").word, Below("below").word) == ("first", "below")
    Mine.reset_instance()
    assert Mine("second").word == "second"
