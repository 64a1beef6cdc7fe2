"""Calls of the documents that failed or misled in the earlier system, each as a test of what it does here.

The rows are those of the list of such calls that concern events, daemons, health and the pipeline.  Those about copying
files come with the work that serves them.
"""

import asyncio
import inspect

import pytest

from compat.subscribers import EventRecorder, async_test, home
from ringrift_compat import embedded_host
from ringrift_compat.daemons.duties import DUTIES
from ringrift_compat.daemons.manager import get_daemon_manager
from ringrift_compat.daemons.types import DaemonType
from ringrift_compat.events.buses import get_data_event_bus
from ringrift_compat.events.event_emitters import emit_selfplay_complete, emit_training_complete
from ringrift_compat.events.event_router import EventRouter, get_event_router, get_router
from ringrift_compat.events.router_event import RouterEvent
from ringrift_compat.health.circuit_breaker import CircuitBreaker
from ringrift_compat.health.node_health import get_health_check_orchestrator
from ringrift_compat.health.protocols import HealthCheckHelper
from ringrift_compat.types import BackpressureLevel
from wait import wait_until

__all__ = ["home"]


@async_test
async def test_emitters_take_a_config_key() -> None:
    """Nothing but the documented fields is needed, and each is in the event."""
    played = await emit_selfplay_complete(config_key="hex8_2p", games_generated=1000, db_path="/nowhere/games.db")
    trained = await emit_training_complete(config_key="hex8_2p", model_path="/nowhere/m.pth", metrics={"loss": 0.5})

    assert (played.event_type, played.payload["games_generated"]) == ("SELFPLAY_COMPLETE", 1000)
    assert (trained.event_type, trained.payload["metrics"]) == ("TRAINING_COMPLETED", {"loss": 0.5})


@pytest.mark.parametrize("level", list(BackpressureLevel))
def test_levels_are_compared_by_severity(level: BackpressureLevel) -> None:
    """At least HIGH are HIGH, CRITICAL and STOP, and no other."""
    assert (level >= BackpressureLevel.HIGH) == (level.value in ("high", "critical", "stop"))


@async_test
async def test_a_profile_can_be_started_and_a_shutdown_forced() -> None:
    """Both calls take the documented arguments; after the shutdown only what every node has still runs."""
    manager = get_daemon_manager()

    started = await manager.start_all(profile="minimal")
    assert started
    assert all(started.values())
    assert all(manager.is_running(daemon_type) for daemon_type in started)
    await manager.shutdown(timeout=10.0, force=True)
    left = [DUTIES[daemon_type.name] for daemon_type in started if manager.is_running(daemon_type)]
    assert all(duty.kind == "part" or duty.target in embedded_host.ALWAYS for duty in left)
    assert len(left) < len(started)


@async_test
async def test_the_health_and_the_status_of_daemons_can_be_read() -> None:
    """Each started daemon has a health with its state, and a single one its status."""
    manager = get_daemon_manager()
    await manager.start(DaemonType.AUTO_SYNC)

    health = manager.get_all_daemon_health()
    assert (health[DaemonType.AUTO_SYNC]["healthy"], health[DaemonType.AUTO_SYNC]["state"]) == (True, "running")
    info = manager.get_daemon_status(DaemonType.AUTO_SYNC)
    assert (info.is_running, info.duty, info.category, info.restart_count) == (True, "replicate", "sync", 0)
    await wait_until(lambda: manager.get_daemon_status(DaemonType.AUTO_SYNC).uptime_seconds > 0)
    await manager.shutdown()


@async_test
async def test_a_probe_is_true_only_if_all_critical_daemons_run() -> None:
    """With a critical daemon that was given up the probe is false and names it."""
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


@async_test
async def test_the_router_returns_recent_events_and_statistics() -> None:
    """The last events are there under both names, and the statistics have the documented keys."""
    router = get_router()
    await router.publish("EVENT_A", {"n": 1}, source="me")

    assert [event.payload["n"] for event in router.get_recent_events(limit=100)] == [1]
    assert [event.payload["n"] for event in router._event_history] == [1]
    assert router.get_stats()["events_routed"] == {"EVENT_A": 1}


def test_the_queue_depth_is_a_keyword() -> None:
    """The documented call passes it by keyword."""
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


@async_test
async def test_a_subscriber_of_a_finished_export_is_called() -> None:
    """Both spellings are one event: the documented example reaches its second stage."""
    recorder, router = EventRecorder(), get_router()
    router.subscribe("NPZ_EXPORT_COMPLETED", recorder.plain)
    await router.publish("NPZ_EXPORT_COMPLETE", {"samples_exported": 20_000})

    assert [event.payload["samples_exported"] for event in await recorder.until(1)] == [20_000]


@async_test
async def test_publishing_without_awaiting_is_durable_all_the_same() -> None:
    """One documented call does not await: the event is accepted at once, and delivered."""
    recorder, router = EventRecorder(), get_router()
    router.subscribe("TRAINING_STARTED", recorder.plain)
    pending = router.publish("TRAINING_STARTED", {"config": "hex8_2p"})

    assert not inspect.iscoroutine(pending), "a coroutine without an await would never run"
    assert isinstance((await recorder.until(1))[0], RouterEvent)
    await asyncio.sleep(0)
