"""The documented results of health checks, and the checks that they are made of."""

import math
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any

import pytest

from ringrift.kernel.clock import SystemClock
from ringrift.kernel.health import Health, Status
from ringrift_compat.health import CoordinatorStatus, HealthCheckHelper, HealthCheckResult, read_result
from unit.kernel.hand import HandClock

Made: Any = HealthCheckResult
"""The class as old code sees it: ``healthy`` is a field and a way to make one."""


def test_a_result_is_made_by_name() -> None:
    """Each way to make one sets the fields, and only a healthy one is true."""
    well, bad, slow = Made.healthy("fine", cycles=3), Made.unhealthy("broken"), Made.degraded("slow", errors=1)

    assert (well.healthy, well.status, well.message, well.details) == (True, "running", "fine", {"cycles": 3})
    assert (bad.healthy, bad.status, bad.details) == (False, CoordinatorStatus.ERROR, {})
    assert (slow.healthy, slow.status, slow.details) == (False, CoordinatorStatus.DEGRADED, {"errors": 1})
    assert [bool(one) for one in (well, bad, slow)] == [True, False, False]
    assert replace(well, healthy=False).healthy is False


def test_a_result_knows_when_it_was_made() -> None:
    """Its time is that of its making, and its details are its own."""
    before = SystemClock().now()
    first, second = HealthCheckResult(healthy=True), HealthCheckResult(healthy=True)
    first.details["seen"] = 1

    assert before <= first.timestamp <= SystemClock().now()
    assert second.details == {}
    assert first.to_dict()["status"] == "running"


@pytest.mark.parametrize("status", Status)
def test_our_health_is_told_in_the_documented_shape(status: Status) -> None:
    """Only what is healthy is: degraded, unhealthy and unknown are not."""
    found = HealthCheckResult.from_health(Health(part="fill", status=status, reason="so it is"))

    assert bool(found) is (status is Status.HEALTHY)
    assert (found.status is CoordinatorStatus.RUNNING) is (status is Status.HEALTHY)
    assert found.message == "so it is"


class Own(Enum):
    """Somebody's own words."""

    DEGRADED = "degraded"
    STRANGE = "strange"


@dataclass
class OwnResult:
    """What a user's own result looks like."""

    healthy: bool
    status: Any
    message: str
    details: dict[str, Any]


@pytest.mark.parametrize(
    ("found", "healthy", "status"),
    [
        (OwnResult(True, CoordinatorStatus.RUNNING, "Healthy", {}), True, "running"),
        (OwnResult(False, Own.DEGRADED, "slow", {}), False, "degraded"),
        (OwnResult(False, Own.STRANGE, "", {}), False, "error"),
        (OwnResult(1, Own.STRANGE, "", {}), False, "error"),  # type: ignore[arg-type]  # as users do
        ({"healthy": False, "status": "STOPPED"}, False, "stopped"),
        (True, True, "running"),
        (False, False, "error"),
        (None, False, "error"),
        ("hetzner-cpu1", False, "error"),
        ({}, False, "error"),
    ],
)
def test_only_the_fields_of_a_result_count(found: object, healthy: bool, status: str) -> None:
    """A user's own class of the same name will do; what says nothing, and what is no bool, is not healthy."""
    read = read_result(found)

    assert (read.healthy, read.status.value) == (healthy, status)
    assert read_result(read) is read


@pytest.mark.parametrize(
    ("errors", "cycles", "ok"),
    [(5, 100, True), (50, 100, True), (51, 100, False), (0, 1, True), (0, 0, False), (3, 0, False), (-1, 5, False)],
)
def test_an_error_rate_is_judged_from_cycles(errors: int, cycles: int, ok: bool) -> None:
    """At the threshold it is still ok, beyond it is not, and before the first cycle nobody knows."""
    found, message = HealthCheckHelper.check_error_rate(errors=errors, cycles=cycles, threshold=0.5)

    assert found is ok
    assert str(errors) in message
    assert ("unknown" in message) == (cycles == 0)


@pytest.mark.parametrize("wall", [True, False])
@pytest.mark.parametrize(
    ("ago", "ok", "word"), [(0.0, False, "starting"), (29.0, False, "starting"), (30.0, True, "past its grace")]
)
def test_a_part_counts_once_its_grace_is_over(ago: float, ok: bool, word: str, wall: bool) -> None:
    """Within the grace nobody knows, so it is not ok yet; both clocks will do to say when it began."""
    clock = HandClock()
    start = (clock.now() if wall else clock.tick()) - ago

    found, message = HealthCheckHelper.check_uptime_grace(start_time=start, grace_period=30, clock=clock)

    assert found is ok
    assert word in message


def test_a_start_in_the_future_is_not_ok() -> None:
    """A clock was set back: how long the part is up is not known."""
    clock = HandClock()

    ok, message = HealthCheckHelper.check_uptime_grace(clock.now() + 9, clock=clock)

    assert not ok
    assert "future" in message


@pytest.mark.parametrize("start", [None, 0.0, math.nan, math.inf])
def test_what_has_not_started_is_not_ok(start: float | None) -> None:
    """No start time means not started, and nothing happened yet means nothing happened."""
    assert HealthCheckHelper.check_uptime_grace(start_time=start)[0] is False
    assert HealthCheckHelper.check_last_activity(start)[0] is False


def test_depth_memory_and_age_have_limits() -> None:
    """At the limit it is ok, beyond it is not."""
    clock = HandClock()
    found = [
        HealthCheckHelper.check_queue_depth(depth=1000, max_depth=1000),
        HealthCheckHelper.check_queue_depth(depth=1001),
        HealthCheckHelper.check_memory_usage(100.0, max_mb=100.0),
        HealthCheckHelper.check_memory_usage(101.0, max_mb=100.0),
        HealthCheckHelper.check_last_activity(clock.now() - 60, max_age=60, clock=clock),
        HealthCheckHelper.check_staleness(clock.now() - 61, max_age=60, clock=clock),
    ]

    assert [ok for ok, _ in found] == [True, False] * 3
    assert all(message for _, message in found)


def test_several_checks_make_one_result() -> None:
    """It is healthy if each is, for the reasons of those that are not; without any check it is not."""
    good, bad = HealthCheckHelper.check_queue_depth(1), HealthCheckHelper.check_queue_depth(2000)

    assert HealthCheckHelper.combine(good, good)
    assert HealthCheckHelper.combine(good, bad).message == bad[1]
    assert not HealthCheckHelper.combine(good, bad)
    assert not HealthCheckHelper.combine()
