"""The safe calls: they do what they are named after, and where that fails they answer no instead of raising."""

import inspect
from collections.abc import Iterator
from pathlib import Path

import pytest

from ringrift_compat import helpers
from ringrift_compat.embedded_node import embedded
from ringrift_compat.health import overall
from ringrift_compat.types import BackpressureLevel

ARGUMENTS: dict[str, tuple[object, ...]] = {
    "can_spawn_safe": ("training", "node-1"),
    "register_task_safe": ("t1", "training", "node-1"),
    "complete_task_safe": ("t1",),
    "fail_task_safe": ("t1", "why"),
    "heartbeat_task_safe": ("t1",),
    "acquire_role_safe": ("p2p_leader",),
    "request_training_slot_safe": ("hex8", 2),
    "publish_event_safe": ("EVENT_A", {}),
    "emit_event_safe": ("EVENT_A", {}),
    "subscribe_safe": ("EVENT_A", print),
    "has_subscribers_safe": ("EVENT_A",),
    "is_daemon_running_safe": ("auto_sync",),
}


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A home of its own for the embedded node."""
    monkeypatch.setenv("RINGRIFT_HOME", str(tmp_path / "home"))
    yield tmp_path / "home"
    embedded.shutdown()


@pytest.mark.parametrize("name", helpers.__all__)
def test_a_call_that_cannot_work_answers_no(name: str, home: Path) -> None:
    """In a home that is a file nothing can be opened: every guard is closed, and none raises."""
    home.write_text("no folder")
    _, fallback = helpers._TARGETS[name]

    answer = getattr(helpers, name)(*ARGUMENTS.get(name, ()))

    if name == "can_spawn_safe":
        assert answer[0] is False
        assert answer[1]
    elif name == "get_system_health_safe":
        assert (answer["overall_health"], answer["status"]) == (0.0, "unhealthy")  # the plain form says so by itself
    else:
        assert answer == fallback


def test_guards_are_closed_and_not_open() -> None:
    """On failure a permission is refused, and a restriction stays in force."""
    fallbacks = {name: fallback for name, (_, fallback) in helpers._TARGETS.items()}

    assert fallbacks["should_throttle_safe"] is True
    assert fallbacks["check_backpressure_safe"] is BackpressureLevel.STOP
    assert fallbacks["can_spawn_safe"][0] is False
    grants = ("acquire_role_safe", "register_task_safe", "request_training_slot_safe")
    assert not any(fallbacks[name] for name in grants)


def test_they_do_the_real_thing_where_that_works() -> None:
    """One task gets the only slot for training, the next is refused, and its end frees the slot."""
    assert helpers.can_spawn_safe("training", "node-1") == (True, "OK")
    assert helpers.register_task_safe("t1", "training", "node-1") == "t1"
    assert helpers.register_task_safe("t2", "training", "node-1") is None
    assert helpers.complete_task_safe("t1") is True
    assert helpers.register_task_safe("t2", "training", "node-1") == "t2"
    assert helpers.acquire_role_safe("p2p_leader") is True
    assert helpers.publish_event_safe("EVENT_A", {"n": 1}).payload == {"n": 1}
    assert helpers.check_backpressure_safe() is BackpressureLevel.NONE


def test_every_safe_call_documents_its_fallback() -> None:
    """Its docstring names the value returned on failure."""
    for name in helpers.__all__:
        assert "where that fails the answer is" in (inspect.getdoc(getattr(helpers, name)) or "")


def test_a_mistake_in_our_code_is_not_swallowed(monkeypatch: pytest.MonkeyPatch) -> None:
    """An error that no failure of the world raises goes through."""

    def broken() -> None:
        raise AssertionError("a mistake")

    monkeypatch.setattr(overall, "get_system_health", broken)
    with pytest.raises(AssertionError, match="a mistake"):
        helpers.get_system_health_safe()
