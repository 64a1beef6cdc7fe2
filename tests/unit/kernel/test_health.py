"""Health adds up so that what nobody knows is never counted as good."""

import pytest

from ringrift.kernel.health import DEGRADED_MIN, HEALTHY_MIN, Health, Status, score, word, worst


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
def test_the_worst_part_speaks_for_all(statuses: tuple[Status, ...], expected: Status) -> None:
    """The whole is as its worst part; without parts nobody knows, and unknown is worse than degraded."""
    assert worst(parts(*statuses)) is expected


@pytest.mark.parametrize(
    ("statuses", "expected"),
    [
        ((), 0.0),
        ((Status.HEALTHY,), 1.0),
        ((Status.UNKNOWN,), 0.0),
        ((Status.UNHEALTHY,), 0.0),
        ((Status.DEGRADED,), 0.5),
        ((Status.HEALTHY, Status.DEGRADED, Status.UNKNOWN, Status.UNHEALTHY), 0.375),
    ],
)
def test_the_score_is_the_mean_of_points(statuses: tuple[Status, ...], expected: float) -> None:
    """Healthy parts count 1, degraded ones a half, unknown ones nothing."""
    assert score(parts(*statuses)) == expected


@pytest.mark.parametrize(
    ("points", "expected"),
    [
        (1.0, "healthy"),
        (HEALTHY_MIN, "healthy"),
        (0.799, "degraded"),
        (DEGRADED_MIN, "degraded"),
        (0.599, "unhealthy"),
        (0.0, "unhealthy"),
    ],
)
def test_each_score_has_its_documented_word(points: float, expected: str) -> None:
    """From 0.8 on it is healthy, from 0.6 on degraded, below that unhealthy."""
    assert word(points) == expected
