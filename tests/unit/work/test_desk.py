"""The desk decides what becomes of a failed job, and takes results only under the newest fence."""

from pathlib import Path

import msgspec
import pytest

from ringrift.bus import trace
from ringrift.events import catalog
from ringrift.events.node import Left
from ringrift.events.work import Buried, Enqueued
from ringrift.jobs import Distribute, Play
from ringrift.kernel.errors import InvalidWork, LeaseLost
from ringrift.store.ports import JobRequest, Lease, Put, Renewal
from ringrift.work.desk import _ERROR_CHARACTERS_MAX, Done, Fault, JobOutcome, _grouped
from unit.work.world import World, play


def job(seed: int = 0) -> Play:
    """A batch of games to play."""
    return Play(variant="hex8_2p", model="m", games=10, seed=seed)


def renewal(lease: Lease) -> Renewal:
    """Return the renewal that the holder of *lease* presents."""
    return Renewal(job=lease.job, fence=lease.fence)


def test_a_result_its_records_and_its_events_come_together(tmp_path: Path) -> None:
    """Finishing ends the lease, writes records and links, and publishes the result."""

    async def story(world: World) -> None:
        [lease] = await world.claim(job())
        outcome = JobOutcome(
            events=(Left(node="a"),), records=(Put(kind="holding", id="b@here", body=b"x"),), links=(("b", "m"),)
        )

        [envelope] = await world.desk().finish([Done(lease=renewal(lease), outcome=outcome)])

        assert [row.state for row in await world.jobs()] == ["done"]
        assert await world.events(Left) == [Left(node="a")]
        assert (envelope.name, envelope.source, envelope.node) == ("node.left", "desk", "here")
        async with world.store.read() as view:
            assert await view.get("holding", ["b@here"]) == {"b@here": b"x"}
            assert await view.walk(["b"], True, 10) == ["m"]

    play(tmp_path, story)


def test_a_sleeping_holder_cannot_finish(tmp_path: Path) -> None:
    """Once a lease has passed to another node, the first holder's result is refused, with all that came with it."""

    async def story(world: World) -> None:
        [old] = await world.claim(job())
        await world.desk().fail([Fault(lease=old, error="gone", started=False)])
        [now] = await world.desk("there").claim({"play"}, 1)

        with pytest.raises(LeaseLost) as lost:
            await world.desk().finish([Done(lease=renewal(old), outcome=JobOutcome(events=(Left(node="a"),)))])

        assert lost.value.names == (old.job,)
        assert (now.job, now.holder) == (old.job, "there")
        assert now.fence > old.fence
        assert await world.events(Left) == []
        await world.desk("there").finish([Done(lease=renewal(now))])

    play(tmp_path, story)


def test_an_unpublishable_result_leaves_the_lease_alone(tmp_path: Path) -> None:
    """If the result of a job cannot be published, the job is not done either."""

    async def story(world: World) -> None:
        [lease] = await world.claim(job())

        with pytest.raises(Exception, match="lone surrogate"):
            await world.desk().finish([Done(lease=renewal(lease), outcome=JobOutcome(events=(Left(node="\ud800"),)))])

        assert [row.state for row in await world.jobs()] == ["claimed"]

    play(tmp_path, story)


def test_a_job_out_of_attempts_is_buried_with_its_reason(tmp_path: Path) -> None:
    """The last failure ends the job for good and is published once, with the beginning of a long error."""

    async def story(world: World) -> None:
        [lease] = await world.claim(job(7))

        ended = await world.desk().fail([Fault(lease=lease, error="x" * 5000, retry=False, blob="m")])
        again = await world.desk().fail([Fault(lease=lease, error="late", retry=False)])

        assert (list(ended), list(again)) == ([lease.job], [])
        [event] = await world.events(Buried)
        assert event == Buried(
            variant="hex8_2p",
            job=lease.job,
            kind="play",
            key="play:hex8_2p:7",
            error="x" * _ERROR_CHARACTERS_MAX,
            attempts=1,
            blob="m",
            cause="refused",
        )
        assert [row.state for row in await world.jobs()] == ["dead"]

    play(tmp_path, story)


def test_a_job_is_buried_whatever_its_error_text(tmp_path: Path) -> None:
    """The last output of a dying program may be no text at all; the burial is published all the same."""

    async def story(world: World) -> None:
        [lease] = await world.claim(job())

        await world.desk().fail([Fault(lease=lease, error="half a \ud800 and \x00", retry=False)])

        [event] = await world.events(Buried)
        assert event.error == "half a \\ud800 and \\x00"
        assert [row.error for row in await world.jobs()] == [event.error]

    play(tmp_path, story)


def test_a_job_that_never_began_keeps_its_attempts(tmp_path: Path) -> None:
    """Returned untouched, a job is ready at once and its next attempt is its first."""

    async def story(world: World) -> None:
        [lease] = await world.claim(job())

        await world.desk().fail([Fault(lease=lease, error="stopping", started=False)])
        [again] = await world.desk().claim({"play"}, 1)

        assert (again.attempts, again.fence) == (1, 2)

    play(tmp_path, story)


def test_a_job_with_the_same_key_is_the_same_job(tmp_path: Path) -> None:
    """While it is alive it is returned; when it has ended, enqueueing makes another."""

    async def story(world: World) -> None:
        first, again = await world.desk().enqueue([job(), job()])
        [lease] = await world.desk().claim({"play"}, 5)
        [third] = await world.desk().enqueue([job()])
        await world.desk().finish([Done(lease=renewal(lease))])
        [fourth] = await world.desk().enqueue([job()])

        assert first == again == third
        assert fourth != first

    play(tmp_path, story)


def test_an_invalid_job_is_not_enqueued(tmp_path: Path) -> None:
    """One invalid job among good ones, and none of them is enqueued."""

    async def story(world: World) -> None:
        with pytest.raises(InvalidWork):
            await world.desk().enqueue([job(1), job(-1)])

        assert await world.jobs() == []

    play(tmp_path, story)


def test_a_renewed_lease_is_not_taken_back(tmp_path: Path) -> None:
    """An expiry check from before the renewal takes nothing away after it."""

    async def story(world: World) -> None:
        [lease] = await world.claim(job())
        rows = await world.jobs("claimed")
        await world.desk().renew([renewal(lease)])

        async with world.store.begin() as tx:
            back = await world.desk("judge").revoke(tx, rows, "the lease was not renewed")

        assert list(back) == []
        assert [row.state for row in await world.jobs()] == ["claimed"]

    play(tmp_path, story)


@pytest.mark.parametrize(("started", "attempts"), [(True, 1), (False, 0)])
def test_a_node_revokes_only_its_own_leases(tmp_path: Path, started: bool, attempts: int) -> None:
    """The children of its earlier process are dead, those of other nodes are not; a clean stop counts no attempt."""

    async def story(world: World) -> None:
        [mine] = await world.claim(job(1))
        await world.claim(job(2), node="there")

        back = await world.desk().revoke_own("started again", started=started)

        assert list(back) == [mine.job]
        first, second = await world.jobs()
        assert (first.state, first.holder, first.attempts, first.error) == ("ready", None, attempts, "started again")
        assert (second.state, second.holder) == ("claimed", "there")

    play(tmp_path, story)


def test_new_jobs_are_published_by_variant_and_kind(tmp_path: Path) -> None:
    """One event for all new jobs of a kind; a job that is already alive is not published again."""

    async def story(world: World) -> None:
        [old] = await world.desk().enqueue([job(1)])
        ids = await world.desk().enqueue(
            [
                job(1),
                job(2),
                msgspec.structs.replace(job(3), variant="hex8_3p"),
                job(4),
                Distribute(variant="hex8_2p", model="m"),
            ]
        )

        assert await world.events(Enqueued) == [
            Enqueued(variant="hex8_2p", kind="play", jobs=(old,)),
            Enqueued(variant="hex8_2p", kind="play", jobs=(ids[1], ids[3])),
            Enqueued(variant="hex8_3p", kind="play", jobs=(ids[2],)),
            Enqueued(variant="hex8_2p", kind="distribute", jobs=(ids[4],)),
        ]

    play(tmp_path, story)


def test_many_jobs_are_published_in_bounded_events() -> None:
    """However many are enqueued at once, each event fits its limit, and each job is in one of them."""
    fresh = [JobRequest(id=f"{n:024}", kind="play", variant="v", key=str(n), body=b"") for n in range(10_000)]

    events = [Enqueued(**fields) for fields in _grouped([(row, None) for row in fresh])]

    assert [id for event in events for id in event.jobs] == [row.id for row in fresh]
    for event in events:
        catalog.encode(event)


def test_the_result_of_a_job_belongs_to_the_trace_of_its_request(tmp_path: Path) -> None:
    """Trace, correlation and cause of the requesting event come back with the result, and with a burial."""

    async def story(world: World) -> None:
        cause = world.envelope(Left(node="asks"))
        with trace.within(trace.context_of(cause)):
            await world.desk().enqueue([job(1), job(2)])
        first, second = await world.desk().claim({"play"}, 2)

        done = Done(lease=renewal(first), outcome=JobOutcome(events=(Left(node="a"),)), context=first.context)
        [finished] = await world.desk().finish([done])
        await world.desk().fail([Fault(lease=second, error="no", retry=False)])

        async with world.store.read() as view:
            [buried] = await view.read(0, 10, [Buried.name()])
        for envelope in (finished, buried):
            assert (envelope.trace, envelope.correlation, envelope.cause) == (cause.trace, cause.correlation, cause.id)
            assert envelope.depth == 0, "work lies between"

    play(tmp_path, story)


def test_a_job_without_a_trace_begins_one(tmp_path: Path) -> None:
    """Without a context each result has a trace of its own, whatever else is published meanwhile."""

    async def story(world: World) -> None:
        one, two = await world.claim(job(1), job(2))

        with trace.within(trace.context_of(world.envelope(Left(node="x")))):
            envelopes = await world.desk().finish(
                [
                    Done(lease=renewal(lease), outcome=JobOutcome(events=(Left(node="a"),)), context=lease.context)
                    for lease in (one, two)
                ]
            )

        assert [envelope.cause for envelope in envelopes] == ["", ""]
        assert envelopes[0].trace != envelopes[1].trace

    play(tmp_path, story)


def test_a_failure_of_the_node_opens_its_breaker_and_costs_no_try(tmp_path: Path) -> None:
    """The job is ready for others at once, and this node claims no more jobs for a while."""

    async def story(world: World) -> None:
        [lease] = await world.claim(job())
        fault = Fault(lease=lease, error="no gpu", started=False, cause="spawn")
        assert await world.desk().fail([fault]) == {lease.job: True}

        [row] = await world.jobs()
        assert (row.state, row.pause, row.attempts) == ("ready", 0.0, 0)
        assert await world.desk().claim({"play"}, 1) == ()
        assert len(await world.desk("there").claim({"play"}, 1)) == 1

    play(tmp_path, story)
