"""A node derives its activity from its own parts' events, and publishes changes of its health."""

import asyncio
from pathlib import Path

import pytest

from ringrift.cluster.activity import _JOBS_LISTED_MAX, _JOBS_MAX, Activity, ActivityTracker, _RunningJob, health_change
from ringrift.events import work
from ringrift.events.base import Envelope, Event
from ringrift.events.health import Changed
from ringrift.kernel.errors import Backpressure
from ringrift.kernel.health import Health, Status
from unit.work.world import World, play
from wait import wait_until


def about(job: str = "j", node: str = "here") -> dict[str, str]:
    """Return the fields that every event of a job has."""
    return {"job": job, "kind": "train", "variant": "hex8_2p", "node": node}


def after(*events: Event, activity: ActivityTracker | None = None) -> Activity:
    """Return the node's activity after *events*, published one a second."""
    activity = activity or ActivityTracker("here")
    for second, event in enumerate(events, 1):
        asyncio.run(activity.apply(event, Envelope(id="e", name=event.name(), body=b"", time=float(second))))
    return activity.snapshot()


def started(job: str = "j") -> work.Started:
    """A job begins."""
    return work.Started(**about(job), attempts=1)


def test_a_job_is_shown_from_its_start_to_its_end() -> None:
    """It keeps its beginning while it comes further, and counts when it ends."""
    further = work.Progressed(**about(), done=0.4)

    assert after(started(), further) == Activity(
        jobs=(_RunningJob(job="j", kind="train", variant="hex8_2p", since=1.0, done=0.4),)
    )
    assert after(started(), work.Finished(**about(), seconds=3.0)) == Activity(finished=1)
    assert after(started(), work.Failed(**about(), error="no")) == Activity(failed=1)


def test_events_of_other_nodes_do_not_count() -> None:
    """Only the node's own events count."""
    assert after(work.Started(**about(node="far"), attempts=1)) == Activity()


def test_the_activity_in_a_beat_is_bounded() -> None:
    """A few of many jobs are shown and the rest counted; the number of remembered jobs is limited."""
    report = after(*(started(str(number)) for number in range(_JOBS_MAX + 5)))

    assert len(report.jobs) == _JOBS_LISTED_MAX
    assert report.more == _JOBS_MAX - _JOBS_LISTED_MAX


def test_after_a_gap_jobs_return_with_their_next_event() -> None:
    """An end may have been missed: jobs come back with their next event."""
    activity = ActivityTracker("here")
    after(started("a"), started("b"), activity=activity)
    activity.reset(Backpressure("the queue", 1))

    assert activity.snapshot() == Activity()
    report = after(work.Progressed(**about("b"), done=0.5), activity=activity)
    assert [(job.job, job.done) for job in report.jobs] == [("b", 0.5)]


def test_an_activity_subscribes_to_its_router(tmp_path: Path) -> None:
    """Events published through the node's router are recorded."""

    async def story(world: World) -> None:
        activity = ActivityTracker("here")
        activity.subscribe(world.router)

        world.router.publish_memory(started())

        await wait_until(lambda: bool(activity.snapshot().jobs))
        await world.router.close()

    play(tmp_path, story)


def part(name: str, status: Status) -> Health:
    """One part."""
    return Health(part=name, status=status, reason="because")


@pytest.mark.parametrize(
    ("before", "now", "change"),
    [
        (Status.HEALTHY, [Status.HEALTHY], None),
        (Status.HEALTHY, [Status.UNKNOWN, Status.HEALTHY], None),
        (Status.HEALTHY, [Status.UNKNOWN], None),
        (Status.UNHEALTHY, [Status.UNKNOWN], None),
        (Status.HEALTHY, [], None),
        (Status.HEALTHY, [Status.HEALTHY, Status.DEGRADED], ("degraded", "healthy", ("1: because",))),
        (Status.DEGRADED, [Status.DEGRADED], None),
        (Status.DEGRADED, [Status.UNHEALTHY, Status.DEGRADED], ("unhealthy", "degraded", ("0: because", "1: because"))),
        (Status.UNHEALTHY, [Status.HEALTHY, Status.UNKNOWN], ("healthy", "unhealthy", ())),
    ],
)
def test_only_a_change_of_health_is_published(
    before: Status, now: list[Status], change: tuple[str, str, tuple[str, ...]] | None
) -> None:
    """The worst reported part decides; parts that have only started or were stopped do not count."""
    changed = health_change("here", before, [part(str(number), status) for number, status in enumerate(now)])

    expected = change and Changed(node="here", status=change[0], before=change[1], reasons=change[2])
    assert changed == expected


def test_reasons_have_an_end() -> None:
    """A daemon's long error does not make the event too large."""
    parts = [Health(part="d", status=Status.UNHEALTHY, reason="x" * 100_000)] * 100

    changed = health_change("here", Status.HEALTHY, parts)

    assert changed is not None
    assert sum(map(len, changed.reasons)) < 2_000
