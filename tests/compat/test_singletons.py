"""The five documented singletons: one instance for each class, whoever asks, and what is special about each."""

import abc
import threading
from collections.abc import Callable
from typing import Any

import pytest

from compat.ears import home
from ringrift_compat.ambient import ambient
from ringrift_compat.singletons import (
    LazySingletonMixin,
    PersistentSingletonMixin,
    SingletonMixin,
    ThreadSafeSingletonMixin,
    singleton,
)

__all__ = ["home"]
THREADS = 8
OVERLAP_SECONDS_MAX = 0.05


class Doorway:
    """Who enters waits a moment for a second one, so that two who may enter together do."""

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
    """What *call* returns to many threads that call together."""
    found: list[Any] = []
    together = threading.Barrier(THREADS)

    def run() -> None:
        together.wait()
        found.append(call())

    threads = [threading.Thread(target=run) for _ in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found


@pytest.mark.parametrize(
    "kind", [SingletonMixin, ThreadSafeSingletonMixin, LazySingletonMixin, PersistentSingletonMixin]
)
def test_there_is_one_for_each_class(kind: type[SingletonMixin]) -> None:
    """Threads that ask at once get the same one, a subclass has its own, and a reset makes room for another."""
    made: list[str] = []

    class Mine(kind):  # type: ignore[misc, valid-type]  # the parameter is a class
        def __init__(self, word: str = "first") -> None:
            made.append(word)
            self.word = word

    class Below(Mine):
        pass

    assert not Mine.has_instance()
    found = at_once(Mine.get_instance)
    below = Below.get_instance("below")

    assert {id(one) for one in found} == {id(Mine.get_instance("ignored"))}
    assert (below is not found[0], below.word, made) == (True, "below", ["first", "below"])
    Mine.reset_instance()
    assert (Mine.has_instance(), Below.has_instance()) == (False, True)
    assert Mine.get_instance("second").word == "second"


@pytest.mark.parametrize(
    "kind", [SingletonMixin, ThreadSafeSingletonMixin, LazySingletonMixin, PersistentSingletonMixin]
)
def test_threads_do_not_make_two(kind: type[SingletonMixin]) -> None:
    """While one thread makes the instance, the others wait for it, however long the making takes."""
    door = Doorway()

    class Mine(kind):  # type: ignore[misc, valid-type]  # the parameter is a class
        def __init__(self) -> None:
            door.enter()

    found = at_once(Mine.get_instance)

    assert (len(door.entered), len({id(one) for one in found})) == (1, 1)


def test_threads_do_not_make_two_of_a_decorated_class() -> None:
    """The same where calling the class is asking for it."""
    door = Doorway()

    @singleton
    class Mine:
        def __init__(self) -> None:
            door.enter()

    found = at_once(Mine)

    assert (len(door.entered), len({id(one) for one in found})) == (1, 1)


def test_one_that_could_not_be_made_is_tried_again() -> None:
    """What the constructor raises is raised, and nothing is kept of it."""

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


def test_the_lock_lets_one_in_at_a_time() -> None:
    """All threads get the same lock; while one holds it no other enters, and who has it may take it again."""
    door = Doorway()

    class Mine(ThreadSafeSingletonMixin):
        first = 0

        def enter(self) -> object:
            with self.lock, self.lock:
                door.enter()
                self.first = self.first or len(door.entered)
            return self.lock

    locks = at_once(lambda: Mine.get_instance().enter())

    assert ({id(one) for one in locks}, len(door.entered)) == ({id(Mine.get_instance().lock)}, THREADS)
    assert Mine.get_instance().first == 1


def test_a_lazy_one_is_prepared_once() -> None:
    """Getting it costs nothing; what is costly runs once for all threads, and again only after it failed."""

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


def test_a_persistent_one_comes_back() -> None:
    """What it saved is restored into the next one, also after the node was closed and opened again."""

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
    ambient.shutdown()

    assert Mine.get_instance().games == 7


def test_a_decorated_class_gives_its_one_instance() -> None:
    """Calling it is asking for it; it stays a class to inherit from, and one with a kind of its own works too."""

    class Speaker(abc.ABC):
        @abc.abstractmethod
        def told(self) -> str:
            """What it says."""

    @singleton
    class Mine(Speaker):
        """Mine."""

        def __init__(self, word: str = "first") -> None:
            self.word = word

        def told(self) -> str:
            return self.word

    class Below(Mine):  # type: ignore[misc, valid-type]  # the decorator returns a class
        def told(self) -> str:
            return super().told().upper()

    kind: Any = Mine
    found = at_once(Mine)

    assert {id(one) for one in found} == {id(kind.get_instance())}
    assert (Mine("ignored").told(), Below("below").told(), Mine.__name__, Mine.__doc__) == (
        "first", "BELOW", "Mine", "Mine.",
    )  # fmt: skip
    assert isinstance(Below(), Mine)
    kind.reset_instance()
    assert not kind.has_instance()
    assert Mine("second").word == "second"
