"""A node knows what it does from what its own parts tell, and says when its health changes."""

import asyncio
from pathlib import Path

import pytest

from ringrift.cluster.activity import JOBS_MAX, JOBS_SHOWN_MAX, Activity, Doing, Running, change
from ringrift.events import daemon, work
from ringrift.events.base import Envelope, Event
from ringrift.events.health import Changed
from ringrift.kernel.errors import Backpressure
from ringrift.kernel.health import Health, Status
from unit.work.world import World, play
from waiting import wait_until


def about(job: str = "j", node: str = "here") -> dict[str, str]:
    """What every event of a job has."""
    return {"job": job, "kind": "train", "variant": "hex8_2p", "node": node}


def after(*events: Event, activity: Activity | None = None) -> Doing:
    """What the node does when *events* have been told, one a second."""
    activity = activity or Activity("here")
    for second, event in enumerate(events, 1):
        asyncio.run(activity.hear(event, Envelope(id="e", name=event.name(), body=b"", time=float(second))))
    return activity.value()


def started(job: str = "j") -> work.Started:
    """A job begins."""
    return work.Started(**about(job), attempts=1)


def test_a_job_is_shown_from_its_start_to_its_end() -> None:
    """It keeps its beginning while it comes further, and counts when it ends."""
    further = work.Progressed(**about(), done=0.4)

    assert after(started(), further) == Doing(
        jobs=(Running(job="j", kind="train", variant="hex8_2p", since=1.0, done=0.4),)
    )
    assert after(started(), work.Finished(**about(), seconds=3.0)) == Doing(finished=1)
    assert after(started(), work.Failed(**about(), error="no")) == Doing(failed=1)


def test_what_other_nodes_tell_is_not_ours() -> None:
    """Only the node's own events count."""
    assert after(work.Started(**about(node="far"), attempts=1), daemon.Started(daemon="d", node="far")) == Doing()


def test_daemons_run_fail_and_stop() -> None:
    """One that ended with an error is failing until it starts again; one that was stopped is not there."""
    runs, fails = daemon.Started(daemon="d", node="here"), daemon.Stopped(daemon="d", node="here", error="no")

    assert after(runs) == Doing(daemons=1)
    assert after(runs, fails) == Doing(failing=("d",))
    assert after(runs, fails, runs) == Doing(daemons=1)
    assert after(runs, daemon.Stopped(daemon="d", node="here")) == Doing()


def test_what_goes_with_a_beat_is_bounded() -> None:
    """Of many jobs a few are shown and the rest counted; of too many not all are remembered."""
    doing = after(*(started(str(number)) for number in range(JOBS_MAX + 5)))

    assert len(doing.jobs) == JOBS_SHOWN_MAX
    assert doing.more == JOBS_MAX - JOBS_SHOWN_MAX


def test_after_a_gap_only_what_is_heard_of_again_runs() -> None:
    """An end may have been missed: jobs come back with their next word."""
    activity = Activity("here")
    after(started("a"), started("b"), activity=activity)
    activity.miss(Backpressure("the queue", 1))

    assert activity.value() == Doing()
    doing = after(work.Progressed(**about("b"), done=0.5), activity=activity)
    assert [(job.job, job.done) for job in doing.jobs] == [("b", 0.5)]


def test_an_activity_listens_to_its_router(tmp_path: Path) -> None:
    """What is told through the node's router is heard."""

    async def story(world: World) -> None:
        activity = Activity("here")
        activity.listen(world.router)

        world.router.tell(started())

        await wait_until(lambda: bool(activity.value().jobs))
        await world.router.close()

    play(tmp_path, story)


def part(name: str, status: Status) -> Health:
    """One part."""
    return Health(part=name, status=status, reason="because")


@pytest.mark.parametrize(
    ("before", "now", "said"),
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
def test_a_change_of_health_is_told_and_nothing_else(
    before: Status, now: list[Status], said: tuple[str, str, tuple[str, ...]] | None
) -> None:
    """The worst part that is known of decides; parts that have only started or were stopped say nothing."""
    changed = change("here", before, [part(str(number), status) for number, status in enumerate(now)])

    expected = said and Changed(node="here", status=said[0], before=said[1], reasons=said[2])
    assert changed == expected


def test_reasons_have_an_end() -> None:
    """A daemon's long error does not make the event too large."""
    parts = [Health(part="d", status=Status.UNHEALTHY, reason="x" * 100_000)] * 100

    changed = change("here", Status.HEALTHY, parts)

    assert changed is not None
    assert sum(map(len, changed.reasons)) < 2_000
