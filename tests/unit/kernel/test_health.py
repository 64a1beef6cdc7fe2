"""Health is aggregated so that an unknown part never counts as good."""

import pytest

from ringrift.kernel.health import ALIVE, READY, Health, Status, probe, worst


def parts(*statuses: Status) -> list[Health]:
    """One part for each of *statuses*."""
    return [Health(part=f"part{place}", status=status) for place, status in enumerate(statuses)]


@pytest.mark.parametrize(
    ("statuses", "expected"),
    [
        ((), Status.UNKNOWN),
        ((Status.HEALTHY,), Status.HEALTHY),
        ((Status.HEALTHY, Status.DEGRADED), Status.DEGRADED),
        ((Status.DEGRADED, Status.UNKNOWN), Status.UNKNOWN),
        ((Status.UNKNOWN, Status.UNHEALTHY, Status.HEALTHY), Status.UNHEALTHY),
    ],
)
def test_the_worst_part_decides(statuses: tuple[Status, ...], expected: Status) -> None:
    """The whole is as its worst part; without parts it is unknown, and unknown is worse than degraded."""
    assert worst(parts(*statuses)) is expected


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        (Status.HEALTHY, 1.0),
        (Status.UNKNOWN, 0.0),
        (Status.UNHEALTHY, 0.0),
        (Status.DEGRADED, 0.5),
    ],
)
def test_each_status_has_its_points(status: Status, expected: float) -> None:
    """Healthy counts 1, degraded a half, unknown nothing; a part with members counts their mean."""
    assert Health(part="a", status=status).points == expected
    assert Health(part="a", status=status, mean=0.25).points == 0.25


@pytest.mark.parametrize(
    ("status", "alive", "ready"),
    [
        (Status.HEALTHY, True, True),
        (Status.DEGRADED, True, True),
        (Status.UNKNOWN, True, False),
        (Status.UNHEALTHY, False, False),
    ],
)
def test_probes_check_critical_parts(status: Status, alive: bool, ready: bool) -> None:
    """Unhealthy is not alive; unknown is not ready; parts that are not critical change nothing."""
    total = [Health(part="heart", status=status), Health(part="hobby", status=Status.UNHEALTHY)]

    assert bool(probe(total, {"heart"}, ALIVE)) is alive
    assert bool(probe(total, {"heart"}, READY)) is ready


def test_a_critical_part_that_reports_nothing_is_neither_alive_nor_ready() -> None:
    """A list without it is not a list in which it is well; the answer names it."""
    assert probe([], {"heart"}, ALIVE).reasons == ("heart: reports nothing",)
    assert not probe([Health(part="hobby", status=Status.HEALTHY)], {"heart"}, READY)
    assert probe([], (), ALIVE)
