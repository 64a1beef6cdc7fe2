"""The safe calls: they do what they are named after, and where that fails they answer no instead of raising."""

import inspect
from collections.abc import Iterator
from pathlib import Path

import pytest

from ringrift_compat import safely
from ringrift_compat.ambient import ambient
from ringrift_compat.levels import BackpressureLevel
from ringrift_compat.safely import GUARDS

ARGUMENTS: dict[str, tuple[object, ...]] = {
    "can_spawn_safe": ("training", "node-1"),
    "check_spawn_allowed": ("training", "node-1"),
    "register_task_safe": ("t1", "training", "node-1"),
    "complete_task_safe": ("t1",),
    "fail_task_safe": ("t1", "why"),
    "cancel_task_safe": ("t1",),
    "heartbeat_task_safe": ("t1",),
    "acquire_role_safe": ("p2p_leader",),
    "release_role_safe": ("p2p_leader",),
    "has_role_safe": ("p2p_leader",),
    "get_role_holder_safe": ("p2p_leader",),
    "is_role_available_safe": ("p2p_leader",),
    "request_training_slot_safe": ("hex8", 2),
    "release_training_slot_safe": ("j1",),
    "can_train_safe": ("hex8", 2),
    "publish_event_safe": ("EVENT_A", {}),
    "emit_event_safe": ("EVENT_A", {}),
    "subscribe_safe": ("EVENT_A", print),
    "has_subscribers_safe": ("EVENT_A",),
    "is_daemon_running_safe": ("auto_sync",),
}


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A home of its own for the ambient node."""
    monkeypatch.setenv("RINGRIFT_HOME", str(tmp_path / "home"))
    yield tmp_path / "home"
    ambient.shutdown()


@pytest.mark.parametrize("name", sorted(GUARDS))
def test_a_call_that_cannot_work_answers_no(name: str, home: Path) -> None:
    """In a home that is a file nothing can be opened: every guard is closed, and none raises."""
    home.write_text("no folder")
    guard = GUARDS[name]

    found = getattr(safely, name)(*ARGUMENTS.get(name, ()))

    if guard.why:
        assert found[0] is False
        assert found[1].startswith("nobody can tell")
    else:
        assert found == guard.closed


def test_guards_are_closed_and_not_open() -> None:
    """What lets something happen is refused, and what holds something back is held."""
    closed = {name: guard.closed for name, guard in GUARDS.items()}

    assert closed["should_throttle_safe"] is closed["should_stop_safe"] is True
    assert closed["check_backpressure_safe"] is BackpressureLevel.STOP
    assert closed["get_throttle_factor_safe"] == 0.0
    lets = ("can_spawn_safe", "acquire_role_safe", "can_train_safe", "register_task_safe", "liveness_probe_safe")
    assert not any(closed[name] for name in lets)


def test_they_do_the_real_thing_where_that_works() -> None:
    """One task gets the only slot for training, the next is refused, and its end frees the slot."""
    assert safely.can_spawn_safe("training", "node-1") == (True, "OK")
    assert safely.register_task_safe("t1", "training", "node-1") == "t1"
    assert safely.register_task_safe("t2", "training", "node-1") is None
    assert safely.complete_task_safe("t1") is True
    assert safely.register_task_safe("t2", "training", "node-1") == "t2"
    assert safely.acquire_role_safe("p2p_leader") is True
    assert safely.has_role_safe("p2p_leader") is True
    assert safely.publish_event_safe("EVENT_A", {"n": 1}).payload == {"n": 1}
    assert safely.check_backpressure_safe() is BackpressureLevel.NONE


def test_every_safe_call_says_what_it_answers() -> None:
    """Its docstring names the answer in the case of failure."""
    for name in GUARDS:
        assert "where it fails the answer is" in (inspect.getdoc(getattr(safely, name)) or "")


def test_a_mistake_in_our_code_is_not_swallowed() -> None:
    """What no failure of the world raises goes through."""

    def broken() -> None:
        raise AssertionError("a mistake")

    with pytest.raises(AssertionError, match="a mistake"):
        safely.safely(broken)()
    assert safely.safely(int, default=-1)("no number") == -1
