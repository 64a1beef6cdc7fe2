"""Health is aggregated so that an unknown part never counts as good."""

import pytest

from ringrift.kernel.health import (
    _REASONS_MAX,
    Health,
    Status,
    _score,
    liveness,
    readiness,
    whole,
    worst,
)


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
    assert _score(parts(*statuses)) == expected


def test_a_whole_is_as_its_worst_part_for_the_reasons_of_all() -> None:
    """The worst reason comes first, healthy parts need none, and the score is the mean."""
    total = whole(
        "node",
        [
            Health(part="a", status=Status.HEALTHY, since=1.0),
            Health(part="b", status=Status.DEGRADED, reason="slow", since=2.0),
            Health(part="c", status=Status.UNHEALTHY, reason="given up", since=9.0),
            Health(part="d", status=Status.UNHEALTHY, reason="gone", since=5.0),
        ],
    )

    assert (total.part, total.status, total.since) == ("node", Status.UNHEALTHY, 5.0)
    assert total.reason == "c: given up; d: gone; b: slow"
    assert total.points == 0.375


def test_a_whole_of_wholes_keeps_their_scores() -> None:
    """A cluster of one perfect and one half-well node stands between the two."""
    well = whole("n1", parts(Status.HEALTHY, Status.HEALTHY))
    half = whole("n2", parts(Status.HEALTHY, Status.UNHEALTHY))

    assert whole("cluster", [well, half]).points == 0.75
    assert whole("cluster", [well, half]).status is Status.UNHEALTHY


def test_a_whole_without_parts_is_unknown() -> None:
    """A component without reports is not healthy."""
    total = whole("node", [])

    assert (total.status, total.points, total.reason) == (Status.UNKNOWN, 0.0, "nothing reports its health")


def test_a_whole_with_much_wrong_stays_readable() -> None:
    """Reasons have a limit, and what is left out is counted."""
    total = whole("node", parts(*[Status.UNHEALTHY] * (_REASONS_MAX + 3)))

    assert total.reason.endswith("; and 3 more")
    assert total.reason.count(";") == _REASONS_MAX


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

    assert bool(liveness(total, {"heart"})) is alive
    assert bool(readiness(total, {"heart"})) is ready


def test_a_critical_part_that_reports_nothing_is_neither_alive_nor_ready() -> None:
    """A list without it is not a list in which it is well; the answer names it."""
    assert liveness([], {"heart"}).reasons == ("heart: reports nothing",)
    assert not readiness([Health(part="hobby", status=Status.HEALTHY)], {"heart"})
    assert liveness([], ())
