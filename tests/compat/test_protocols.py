"""The documented results of health checks, and the checks that they are made of."""

import math
from dataclasses import dataclass
from enum import Enum
from typing import Any

import pytest

from ringrift.kernel.clock import SystemClock
from ringrift.kernel.health import Status
from ringrift_compat.health.protocols import (
    CoordinatorProtocol,
    CoordinatorStatus,
    DaemonProtocol,
    HealthCheckHelper,
    HealthCheckResult,
    read_health,
)
from unit.kernel.manual_clock import ManualClock


def test_a_result_has_its_creation_time() -> None:
    """Its time is that of its creation, and its details are its own."""
    before = SystemClock().now()
    first, second = HealthCheckResult(healthy=True), HealthCheckResult(healthy=True)
    first.details["seen"] = 1

    assert before <= first.timestamp <= SystemClock().now()
    assert second.details == {}


def test_a_result_is_true_only_without_problems() -> None:
    """With problems it is degraded, and its message names all of them."""
    good, bad = HealthCheckResult.from_problems([]), HealthCheckResult.from_problems(["slow", "late"], errors=2)

    assert (bool(good), good.status) == (True, CoordinatorStatus.RUNNING)
    assert (bool(bad), bad.status, bad.message) == (False, CoordinatorStatus.DEGRADED, "slow; late")
    assert bad.details == {"errors": 2}


class Own(Enum):
    """A user's own enumeration."""

    DEGRADED = "degraded"
    STRANGE = "strange"


@dataclass
class OwnResult:
    """A user's own result class."""

    healthy: bool
    status: Any
    message: str
    details: dict[str, Any]


@pytest.mark.parametrize(
    ("result", "status", "reason"),
    [
        (OwnResult(True, CoordinatorStatus.RUNNING, "Healthy", {}), Status.HEALTHY, "Healthy"),
        (OwnResult(False, Own.DEGRADED, "slow", {}), Status.DEGRADED, "slow"),
        (OwnResult(False, Own.STRANGE, "", {}), Status.UNHEALTHY, "its health_check() returned strange"),
        (OwnResult(1, Own.STRANGE, "", {}), Status.UNKNOWN, "OwnResult"),  # type: ignore[arg-type]  # as users do
        ({"healthy": False, "status": "STOPPED"}, Status.UNHEALTHY, "its health_check() returned stopped"),
        (True, Status.HEALTHY, ""),
        (False, Status.UNHEALTHY, "its health_check() returned unhealthy"),
        (None, Status.UNKNOWN, "its health_check() returned None"),
        ("hetzner-cpu1", Status.UNKNOWN, "hetzner-cpu1"),
        ({}, Status.UNKNOWN, "returned {}"),
    ],
)
def test_only_the_fields_of_a_result_count(result: object, status: Status, reason: str) -> None:
    """A user's own class with the same fields will do; a result without a bool is unknown."""
    health = read_health("mine", result)

    assert (health.part, health.status) == ("mine", status)
    assert reason in health.reason
    assert read_health("mine", health) is health


@pytest.mark.parametrize(
    ("errors", "cycles", "ok"),
    [(5, 100, True), (50, 100, True), (51, 100, False), (0, 1, True), (0, 0, False), (3, 0, False), (-1, 5, False)],
)
def test_an_error_rate_is_judged_from_cycles(errors: int, cycles: int, ok: bool) -> None:
    """At the threshold it is still ok, beyond it is not, and before the first cycle it is unknown."""
    result, message = HealthCheckHelper.check_error_rate(errors=errors, cycles=cycles, threshold=0.5)

    assert result is ok
    assert str(errors) in message
    assert ("unknown" in message) == (cycles == 0)


@pytest.mark.parametrize("wall", [True, False])
@pytest.mark.parametrize(
    ("ago", "ok", "word"), [(0.0, False, "starting"), (29.0, False, "starting"), (30.0, True, "past its grace")]
)
def test_a_part_counts_once_its_grace_is_over(ago: float, ok: bool, word: str, wall: bool) -> None:
    """Within the grace period it is unknown, so it is not ok yet; either clock can give the start time."""
    clock = ManualClock()
    start = (clock.now() if wall else clock.tick()) - ago

    result, message = HealthCheckHelper.check_uptime_grace(start_time=start, grace_period=30, clock=clock)

    assert result is ok
    assert word in message


def test_a_start_in_the_future_is_not_ok() -> None:
    """After a clock was set back, the uptime of the part is unknown."""
    clock = ManualClock()

    ok, message = HealthCheckHelper.check_uptime_grace(clock.now() + 9, clock=clock)

    assert not ok
    assert "future" in message


@pytest.mark.parametrize("start", [None, 0.0, math.nan, math.inf])
def test_an_unstarted_part_is_not_ok(start: float | None) -> None:
    """No start time means not started."""
    assert HealthCheckHelper.check_uptime_grace(start_time=start)[0] is False


def test_the_depth_of_a_queue_has_a_limit() -> None:
    """At the limit it is ok, beyond it is not."""
    results = [HealthCheckHelper.check_queue_depth(depth=depth, max_depth=1000) for depth in (0, 1000, 1001, -1)]

    assert [ok for ok, _ in results] == [True, True, False, False]
    assert all(message for _, message in results)


def test_a_class_with_a_health_check_is_a_coordinator() -> None:
    """``if check():`` has its usual meaning, and a class with a health check is a coordinator."""

    class Mine:
        def health_check(self) -> HealthCheckResult:
            return HealthCheckResult(healthy=False, status=CoordinatorStatus.DEGRADED, message="slow")

    assert not Mine().health_check()
    assert HealthCheckResult(healthy=True)
    assert isinstance(Mine(), CoordinatorProtocol)
    assert not isinstance(Mine(), DaemonProtocol)
