"""The documented utilities: a history with a limit, and callbacks in both forms."""

import asyncio
from pathlib import Path

import pytest

from compat.subscribers import async_test, home
from ringrift.kernel.errors import InputError
from ringrift_compat.utils import BoundedHistory, CallbackRegistry

__all__ = ["home"]


def registry(called: list[str]) -> CallbackRegistry:
    """One plain callback, one that fails, one that is async, and one that is async and fails."""

    def plain(word: str, *, loud: bool = False) -> None:
        called.append(word.upper() if loud else word)

    def broken(word: str, **_: bool) -> None:
        raise ValueError(word)

    async def awaited(word: str, **_: bool) -> None:
        await asyncio.sleep(0)
        called.append(f"{word} later")

    async def broken_later(word: str, **_: bool) -> None:
        raise KeyError(word)

    result = CallbackRegistry("mine")
    for callback in (plain, broken, awaited, broken_later):
        result.register(callback)
    return result


def test_a_history_keeps_a_hundred_by_default() -> None:
    """The documented default."""
    assert BoundedHistory().max_size == 100


@async_test
async def test_all_are_called_and_errors_are_returned() -> None:
    """Plain and async callbacks run in order; the errors are returned."""
    called: list[str] = []

    errors = await registry(called).invoke_all("a", loud=True)

    assert [type(error) for error in errors] == [ValueError, KeyError]
    assert called == ["A", "a later"]


def test_a_history_keeps_the_last() -> None:
    """It has a limit, and returns the newest of its entries."""
    history: BoundedHistory[int] = BoundedHistory(max_size=3)
    for number in range(5):
        history.append(number)

    assert (list(history), len(history), history.max_size) == ([2, 3, 4], 3, 3)
    assert (history.get_recent(2), history.get_recent(9), history.get_recent(0)) == ([3, 4], [2, 3, 4], [])
    with pytest.raises(ValueError, match="max_size"):
        BoundedHistory(max_size=0)


def test_a_failing_callback_does_not_affect_the_others() -> None:
    """All are called in order, plain and async; errors are returned; none is called twice or after its end."""
    called: list[str] = []

    def plain(word: str) -> None:
        called.append(word)

    def broken(word: str) -> None:
        raise ValueError(word)

    async def awaited(word: str) -> None:
        called.append(word.upper())

    registry = CallbackRegistry("test")
    for callback in (plain, broken, awaited, plain):
        registry.register(callback)
    [cause] = asyncio.run(registry.invoke_all("word"))

    assert called == ["word", "WORD"]
    assert str(cause) == "word"
    assert registry.unregister(plain)
    assert not registry.unregister(plain)
    assert len(registry) == 2


def test_a_yaml_file_is_loaded_and_runs_nothing(tmp_path: Path) -> None:
    """Plain values come back; a tag that would make an object, broken text and a missing file are refused."""
    from app.coordination.core_utils import load_yaml, sync_lock, training_lock

    path = tmp_path / "hosts.yaml"
    path.write_text("hosts:\n  a: {port: 22}\n")
    assert load_yaml(path) == {"hosts": {"a": {"port": 22}}}
    for text in ("!!python/object/apply:os.getcwd []", "a: [", "\x00"):
        path.write_text(text)
        with pytest.raises(InputError):
            load_yaml(path)
    with pytest.raises(InputError, match="cannot be read"):
        load_yaml(tmp_path / "none.yaml")
    assert callable(sync_lock)
    assert callable(training_lock)
