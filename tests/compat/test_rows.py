"""Calls of the documents that failed or misled in the earlier system, each as a test of what it does here.

The rows are those of the list of such calls that concern events, daemons, health and the pipeline.  Those about copying
files come with the work that serves them.
"""

import asyncio
import inspect

import pytest

from compat.ears import Ears, home, on_a_loop
from ringrift_compat import hosting
from ringrift_compat.buses import get_data_event_bus
from ringrift_compat.circuits import CircuitBreaker
from ringrift_compat.daemon_duties import DUTIES
from ringrift_compat.daemon_manager import get_daemon_manager
from ringrift_compat.daemon_types import DaemonType
from ringrift_compat.emitters import emit_selfplay_complete, emit_training_complete
from ringrift_compat.events import EventRouter, get_event_router, get_router
from ringrift_compat.health import HealthCheckHelper
from ringrift_compat.levels import BackpressureLevel
from ringrift_compat.node_health import get_health_check_orchestrator
from ringrift_compat.router_event import RouterEvent
from waiting import wait_until

__all__ = ["home"]


@on_a_loop
async def test_emitters_take_a_config_key() -> None:
    """Nothing but the documented fields is needed, and each is in the event."""
    played = await emit_selfplay_complete(config_key="hex8_2p", games_generated=1000, db_path="/nowhere/games.db")
    trained = await emit_training_complete(config_key="hex8_2p", model_path="/nowhere/m.pth", metrics={"loss": 0.5})

    assert (played.event_type, played.payload["games_generated"]) == ("SELFPLAY_COMPLETE", 1000)
    assert (trained.event_type, trained.payload["metrics"]) == ("TRAINING_COMPLETED", {"loss": 0.5})


@pytest.mark.parametrize("level", list(BackpressureLevel))
def test_a_level_is_compared_by_how_hard_it_presses(level: BackpressureLevel) -> None:
    """At least HIGH are HIGH, CRITICAL and STOP, and no other."""
    assert (level >= BackpressureLevel.HIGH) == (level.value in ("high", "critical", "stop"))


@on_a_loop
async def test_a_profile_can_be_started_and_a_shutdown_forced() -> None:
    """Both calls take the documented arguments; after the shutdown only what every node has still runs."""
    manager = get_daemon_manager()

    started = await manager.start_all(profile="minimal")
    assert started
    assert all(started.values())
    assert all(manager.is_running(daemon_type) for daemon_type in started)
    await manager.shutdown(timeout=10.0, force=True)
    left = [DUTIES[daemon_type.name] for daemon_type in started if manager.is_running(daemon_type)]
    assert all(duty.kind == "part" or duty.target in hosting.ALWAYS for duty in left)
    assert len(left) < len(started)


@on_a_loop
async def test_the_health_and_the_status_of_daemons_can_be_asked_for() -> None:
    """Of each that was started there is a health with its state, and of one its status."""
    manager = get_daemon_manager()
    await manager.start(DaemonType.AUTO_SYNC)

    health = manager.get_all_daemon_health()
    assert (health[DaemonType.AUTO_SYNC]["healthy"], health[DaemonType.AUTO_SYNC]["state"]) == (True, "running")
    assert manager.get_daemon_status(DaemonType.AUTO_SYNC).is_running
    await manager.shutdown()


@on_a_loop
async def test_a_probe_is_true_only_when_it_is_so() -> None:
    """With a critical daemon that was given up the probe is false, and says which."""
    manager, kind = get_daemon_manager(), DaemonType.declare("CRITICAL_OF_MINE")

    async def broken() -> None:
        raise ValueError("no")

    assert manager.liveness_probe()
    manager.register_factory(kind, broken, max_restarts=0, critical=True)
    await manager.start(kind)
    await wait_until(lambda: manager.is_permanently_failed(kind))
    probe = manager.liveness_probe()
    assert not probe
    assert "critical_of_mine" in " ".join(probe.reasons)
    await manager.shutdown()


@on_a_loop
async def test_the_router_tells_of_recent_events_and_of_its_figures() -> None:
    """The last events are there under both names, and the figures have the documented keys."""
    router = get_router()
    await router.publish("EVENT_A", {"n": 1}, source="me")

    assert [event.payload["n"] for event in router.get_recent_events(limit=100)] == [1]
    assert [event.payload["n"] for event in router._event_history] == [1]
    assert router.get_stats()["events_routed"] == {"EVENT_A": 1}


def test_the_queue_depth_is_a_keyword() -> None:
    """As the documents write it."""
    assert HealthCheckHelper.check_queue_depth(depth=5, max_depth=1000)[0] is True
    assert HealthCheckHelper.check_queue_depth(depth=1001, max_depth=1000)[0] is False


def test_a_breaker_takes_the_documented_timeout() -> None:
    """After three failures it is open, with the key and without."""
    breaker = CircuitBreaker(failure_threshold=3, reset_timeout_seconds=300)
    for _ in range(3):
        assert breaker.can_execute()
        breaker.record_failure("training", "no")

    assert not breaker.can_execute()
    assert not breaker.can_execute("training")
    assert breaker.can_execute("evaluation")


def test_the_documented_ways_to_get_things_exist() -> None:
    """One router, one data bus, one health orchestrator."""
    assert isinstance(get_event_router(), EventRouter)
    assert get_event_router() is get_router()
    assert get_data_event_bus() is get_data_event_bus()
    assert get_health_check_orchestrator() is get_health_check_orchestrator()


@on_a_loop
async def test_whoever_waits_for_a_finished_export_hears_of_it() -> None:
    """Both spellings are one event: the example of the documents reaches its second stage."""
    ears, router = Ears(), get_router()
    router.subscribe("NPZ_EXPORT_COMPLETED", ears.plain)
    await router.publish("NPZ_EXPORT_COMPLETE", {"samples_exported": 20_000})

    assert [event.payload["samples_exported"] for event in await ears.until(1)] == [20_000]


@on_a_loop
async def test_publishing_without_awaiting_is_durable_all_the_same() -> None:
    """One of the documents does not await: the event is accepted at once, and heard."""
    ears, router = Ears(), get_router()
    router.subscribe("TRAINING_STARTED", ears.plain)
    pending = router.publish("TRAINING_STARTED", {"config": "hex8_2p"})

    assert not inspect.iscoroutine(pending), "a coroutine that nobody awaits would never run"
    assert isinstance((await ears.until(1))[0], RouterEvent)
    await asyncio.sleep(0)
