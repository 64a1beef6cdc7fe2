"""Jobs: each has one holder at a time, and only the newest holder can end it."""

import asyncio
from collections.abc import Sequence

import pytest

from contract.engines import EVERY_STATE, Engine, claim, enqueue, envelope, job, logged, new_job, renewal
from ringrift.kernel.errors import IdConflict, LeaseLost
from ringrift.store.ports import Failure, JobRow, Lease, Renewal, Store


async def end_badly(store: Store, lease: Lease, **changes: object) -> Sequence[str]:
    """Fail *lease*, ready again at once unless *changes* set otherwise."""
    failure = Failure(**{"job": lease.job, "fence": lease.fence, "error": "broke", "pause": 0.0} | changes)  # type: ignore[arg-type]  # a test's shorthand
    async with store.begin() as tx:
        return await tx.fail([failure])


async def end_well(store: Store, *leases: Lease) -> None:
    """Finish *leases*."""
    async with store.begin() as tx:
        await tx.finish([renewal(lease) for lease in leases])


async def append_and(store: Store, verb: str, lease: Lease) -> None:
    """Append an event, and renew or finish *lease* in the same transaction."""
    async with store.begin() as tx:
        await tx.append([envelope(f"appended-at-{verb}")])
        await getattr(tx, verb)([renewal(lease)])


def test_a_claim_returns_the_job_as_enqueued(engine: Engine) -> None:
    """The lease carries the job as it was enqueued, the holder, the time, a first fence and a first try."""
    spec = new_job("a", body=b'{"games":3}', variant="v", priority=50, time=4.0)

    async def story(store: Store) -> tuple[Lease, JobRow]:
        await enqueue(store, spec)
        [lease] = await claim(store, "node-1")
        return lease, await job(store, "a")

    lease, row = engine.run(story)

    assert lease == Lease(
        job="a",
        kind="play",
        variant="v",
        key="key:a",
        body=b'{"games":3}',
        holder="node-1",
        fence=1,
        renewals=0,
        seconds=30.0,
        attempts=1,
    )
    assert (row.state, row.holder, row.fence, row.priority, row.time) == ("claimed", "node-1", 1, 50, 4.0)


def test_claims_are_fair_within_priority(engine: Engine) -> None:
    """Higher priority goes first, and among equals the oldest, whatever its kind and however many are claimed."""
    jobs = [
        new_job("old", priority=40),
        new_job("urgent", priority=90, kind="sync"),
        new_job("older-kind", kind="train"),
        new_job("new", priority=40),
        new_job("late-urgent", priority=90),
        new_job("low", priority=0, kind="sync"),
    ]

    async def story(store: Store) -> list[str]:
        await enqueue(store, *jobs[:3])
        await enqueue(store, *jobs[3:])
        one_by_one = [(await claim(store, kinds=("train", "sync", "play")))[0].job for _ in range(3)]
        return one_by_one + [lease.job for lease in await claim(store, limit=9, kinds=("train", "sync", "play"))]

    assert engine.run(story) == ["urgent", "late-urgent", "old", "older-kind", "new", "low"]


def test_one_claim_returns_the_most_urgent_first(engine: Engine) -> None:
    """However many jobs a claim gets, they come by priority, and among equals the oldest first."""

    async def story(store: Store) -> list[str]:
        rows = [("a", 10), ("b", 90), ("c", 40), ("d", 90)]
        await enqueue(store, *(new_job(id, priority=priority) for id, priority in rows))
        return [lease.job for lease in await claim(store, limit=9)]

    assert engine.run(story) == ["b", "d", "c", "a"]


def test_only_the_requested_kinds_are_claimed(engine: Engine) -> None:
    """A claim returns only jobs of the kinds it names, and with no kinds nothing."""

    async def story(store: Store) -> list[list[str]]:
        await enqueue(store, new_job("p"), new_job("s", kind="sync"))
        return [[lease.job for lease in await claim(store, limit=9, kinds=kinds)] for kinds in ((), ("sync",))]

    assert engine.run(story) == [[], ["s"]]


def test_a_claimed_job_is_not_claimed_again(engine: Engine) -> None:
    """Concurrent claims get different jobs, and every job is claimed once."""

    async def story(store: Store) -> list[str]:
        await enqueue(store, *(new_job(str(number)) for number in range(20)))
        claims = await asyncio.gather(*(claim(store, f"n{number}", 3) for number in range(10)))
        return [lease.job for leases in claims for lease in leases]

    assert sorted(engine.run(story), key=int) == [str(number) for number in range(20)]


def test_an_expired_lease_can_be_claimed_and_its_old_holder_is_fenced_off(engine: Engine) -> None:
    """Once a lease has passed on, the first holder can neither renew nor finish nor fail it, though it only slept."""

    async def story(store: Store) -> tuple[Lease, Lease, Sequence[str], JobRow, list[str]]:
        await enqueue(store, new_job("a"))
        [sleeper] = await claim(store, "sleeper")
        assert await end_badly(store, sleeper, renewals=0, error="not renewed") == ["a"]
        [second] = await claim(store, "second")
        before = await job(store, "a")
        for verb in ("renew", "finish"):
            with pytest.raises(LeaseLost) as refused:
                await append_and(store, verb, sleeper)
            assert refused.value.names == ("a",)
        ended = await end_badly(store, sleeper)
        assert await job(store, "a") == before
        reported = await logged(store)
        await end_well(store, second)
        return sleeper, second, ended, await job(store, "a"), reported

    sleeper, second, ended, row, reported = engine.run(story)

    assert second.fence > sleeper.fence
    assert (list(ended), reported) == ([], [])
    assert (row.state, row.fence) == ("done", second.fence)


def test_a_renewed_lease_is_not_taken_back(engine: Engine) -> None:
    """Taking back by old renewals ends nothing: the holder has renewed in between."""

    async def story(store: Store) -> tuple[Sequence[str], JobRow]:
        await enqueue(store, new_job("a"))
        [lease] = await claim(store)
        async with store.begin() as tx:
            await tx.renew([Renewal(job="a", fence=lease.fence, progress=0.5, outputs=b'["x"]')])
        return await end_badly(store, lease, renewals=0), await job(store, "a")

    ended, row = engine.run(story)

    assert list(ended) == []
    assert (row.state, row.renewals, row.progress) == ("claimed", 1, 0.5)


def test_partial_outputs_reach_the_next_holder(engine: Engine) -> None:
    """Partial outputs registered under a fence are in the next holder's lease; a renewal without any keeps them."""

    async def story(store: Store) -> tuple[bytes, bytes]:
        await enqueue(store, new_job("a"))
        [first] = await claim(store)
        async with store.begin() as tx:
            await tx.renew([Renewal(job="a", fence=first.fence, outputs=b'["x"]')])
            await tx.renew([renewal(first)])
        await end_badly(store, first)
        [second] = await claim(store)
        return first.outputs, second.outputs

    assert engine.run(story) == (b"[]", b'["x"]')


@pytest.mark.parametrize("verb", ["renew", "finish"])
def test_one_lost_lease_refuses_the_whole_call(engine: Engine, verb: str) -> None:
    """When one of several leases is lost the error names it alone, and none of them is renewed or finished."""

    async def story(store: Store) -> tuple[LeaseLost, list[tuple[str, int]]]:
        await enqueue(store, new_job("a"), new_job("b"), new_job("c"))
        a, b, c = await claim(store, limit=3)
        await end_badly(store, b)
        with pytest.raises(LeaseLost) as refused:
            async with store.begin() as tx:
                await getattr(tx, verb)([renewal(a), renewal(b), renewal(c), Renewal(job="none", fence=1)])
        return refused.value, [((row := await job(store, id)).state, row.renewals) for id in "abc"]

    lost, rows = engine.run(story)

    assert lost.names == ("b", "none")
    assert rows == [("claimed", 0), ("ready", 0), ("claimed", 0)]


@pytest.mark.parametrize("fence", [0, 2, -1])
def test_only_the_exact_fence_is_accepted(engine: Engine, fence: int) -> None:
    """A fence that was never issued for this job ends nothing, whether smaller or greater."""

    async def story(store: Store) -> tuple[Sequence[str], str]:
        await enqueue(store, new_job("a"))
        [lease] = await claim(store)
        with pytest.raises(LeaseLost):
            async with store.begin() as tx:
                await tx.finish([Renewal(job="a", fence=fence)])
        return await end_badly(store, lease, fence=fence), (await job(store, "a")).state

    assert engine.run(story) == ([], "claimed")


@pytest.mark.parametrize("ending", ["done", "dead", "cancelled"])
def test_an_ended_job_stays_ended(engine: Engine, ending: str) -> None:
    """After its end a job is not claimed again, and the holder's own fence is no longer accepted."""

    async def story(store: Store) -> tuple[Sequence[Lease], Sequence[str], str]:
        await enqueue(store, new_job("a"))
        [lease] = await claim(store)
        async with store.begin() as tx:
            if ending == "done":
                await tx.finish([renewal(lease)])
            elif ending == "dead":
                await tx.fail([Failure(job="a", fence=lease.fence, error="broke", pause=None)])
            else:
                await tx.cancel(["a"])
            await tx.resume(["a"])
        with pytest.raises(LeaseLost):
            await end_well(store, lease)
        return await claim(store), await end_badly(store, lease), (await job(store, "a")).state

    assert engine.run(story) == ([], [], ending)


def test_a_live_key_returns_its_job(engine: Engine) -> None:
    """While a job with a key is ready or claimed, enqueueing again returns its id; once it ended, a new one is made."""

    async def story(store: Store) -> list[str]:
        ids = [*await enqueue(store, new_job("a", key="k"), new_job("b", key="k"))]
        [lease] = await claim(store)
        ids += await enqueue(store, new_job("c", key="k"))
        await end_badly(store, lease, pause=60.0)
        ids += await enqueue(store, new_job("d", key="k"))
        async with store.begin() as tx:
            await tx.resume(["a"])
        await end_well(store, *await claim(store))
        return [*ids, *await enqueue(store, new_job("e", key="k"))]

    assert engine.run(story) == ["a", "a", "a", "a", "e"]


def test_the_id_of_another_job_is_refused(engine: Engine) -> None:
    """An id that belongs to a job for another key is a conflict, and the whole transaction is undone."""

    async def story(store: Store) -> list[tuple[str, str]]:
        await enqueue(store, new_job("a"))
        with pytest.raises(IdConflict):
            await enqueue(store, new_job("b"), new_job("a", key="other"))
        async with store.read() as view:
            return [(row.id, row.key) for row in await view.jobs(EVERY_STATE, 9)]

    assert engine.run(story) == [("a", "key:a")]


def test_pinned_jobs_only_go_to_their_node(engine: Engine) -> None:
    """A job for one node is claimed by that node alone, in turn with those for any node."""

    async def story(store: Store) -> tuple[list[str], list[str]]:
        await enqueue(store, new_job("free"), new_job("pinned", node="n2"), new_job("high", node="n2", priority=80))
        others = [lease.job for lease in await claim(store, "n1", 9)]
        await enqueue(store, new_job("later"))
        return others, [lease.job for lease in await claim(store, "n2", 9)]

    assert engine.run(story) == (["free"], ["high", "pinned", "later"])


def test_cancelling_jobs_fences_holders(engine: Engine) -> None:
    """Every live job that is named is cancelled, its holder fenced off, and no other and no ended job changed."""
    keys = ("match:a:1:0", "match:a:1:8", "match:a:10:0", "match:a:1", "match:b:1:0", "match:a:1:ended")

    async def story(store: Store) -> tuple[int, dict[str, str], Sequence[Lease]]:
        await enqueue(store, new_job("5", key=keys[5], priority=99))
        await end_well(store, *await claim(store))
        await enqueue(store, *(new_job(str(number), key=key) for number, key in enumerate(keys[:5])))
        [lease] = await claim(store)
        async with store.begin() as tx:
            count = await tx.cancel(["0", "1", "5", "none"])
        with pytest.raises(LeaseLost):
            await end_well(store, lease)
        return count, {keys[int(id)]: (await job(store, id)).state for id in "012345"}, await claim(store, limit=9)

    count, states, left = engine.run(story)

    assert count == 2
    assert [states[key] for key in keys] == ["cancelled", "cancelled", "ready", "ready", "ready", "done"]
    assert [lease.job for lease in left] == ["2", "3", "4"]


def test_a_paused_job_waits_until_it_is_resumed(engine: Engine) -> None:
    """A failure with a pause keeps the job from being claimed until the pause is ended."""

    async def story(store: Store) -> tuple[Sequence[Lease], list[tuple[str, float]], Lease, int]:
        await enqueue(store, new_job("a"), new_job("ready"))
        first, _ = await claim(store, limit=2)
        await end_badly(store, first, pause=60.0)
        early = await claim(store)
        async with store.begin() as tx:
            paused = [(row.id, row.pause) for row in await tx.jobs(("paused",), 9)]
            await tx.resume(["a", "ready", "none"])
            left = len(await tx.jobs(("paused",), 9))
        [second] = await claim(store)
        return early, paused, second, left

    early, paused, second, left = engine.run(story)

    assert list(early) == []
    assert paused == [("a", 60.0)]
    assert (second.job, second.fence, second.attempts, left) == ("a", 2, 2, 0)


def test_a_failure_without_a_pause_is_the_end(engine: Engine) -> None:
    """A failure whose pause is None makes the job dead, with its error and no holder."""

    async def story(store: Store) -> JobRow:
        await enqueue(store, new_job("a"))
        [lease] = await claim(store)
        assert await end_badly(store, lease, pause=None, error="no use") == ["a"]
        return await job(store, "a")

    row = engine.run(story)

    assert (row.state, row.error, row.holder, row.attempts) == ("dead", "no use", None, 1)


def test_only_started_work_counts_as_a_try(engine: Engine) -> None:
    """Work that was returned unstarted does not count as a try; work that began does."""

    async def story(store: Store) -> list[int]:
        await enqueue(store, new_job("a"))
        attempts = []
        for started in (True, False, False, True, True):
            [lease] = await claim(store)
            attempts.append(lease.attempts)
            await end_badly(store, lease, started=started)
        return attempts

    assert engine.run(story) == [1, 2, 2, 2, 3]


def test_jobs_are_selected_by_state_variant_and_holder(engine: Engine) -> None:
    """A query for jobs is answered oldest first, filtered and no longer than its limit."""

    async def story(store: Store) -> list[list[str]]:
        await enqueue(store, *(new_job(id, variant=variant) for id, variant in zip("abcdef", "xyxyxy", strict=True)))
        await claim(store, "n1", 2)
        [third] = await claim(store, "n2")
        await end_badly(store, third, pause=9.0)
        await claim(store, "n2")
        async with store.read() as view:
            answers = [
                await view.jobs(("ready", "claimed"), 9),
                await view.jobs(("ready",), 2),
                await view.jobs(("claimed",), 9, variant="y"),
                await view.jobs(("claimed",), 9, holder="n2"),
                await view.jobs(("ready", "claimed"), 9, variant="x", holder="n1"),
            ]
        return [[row.id for row in answer] for answer in answers]

    assert engine.run(story) == [list("abcdef"), ["c", "e"], ["b", "d"], ["d"], ["a"]]


def test_paused_jobs_are_selected_by_variant(engine: Engine) -> None:
    """The query for paused jobs applies its filters like every other."""

    async def story(store: Store) -> list[list[str]]:
        await enqueue(store, new_job("a", variant="x"), new_job("b", variant="y"))
        for lease in await claim(store, limit=2):
            await end_badly(store, lease, pause=9.0)
        async with store.read() as view:
            return [[row.id for row in await view.jobs(("paused",), 9, variant=variant)] for variant in (None, "y")]

    assert engine.run(story) == [["a", "b"], ["b"]]


def test_a_failed_body_gives_its_claims_back(engine: Engine) -> None:
    """A claim whose transaction fails never happened: the job is ready with its old fence."""

    async def story(store: Store) -> tuple[str, int, int]:
        async def claim_and_fail() -> None:
            async with store.begin() as tx:
                await tx.claim(("play",), "n", 30.0, 1)
                raise ZeroDivisionError

        await enqueue(store, new_job("a"))
        with pytest.raises(ZeroDivisionError):
            await claim_and_fail()
        row = await job(store, "a")
        return row.state, row.fence, row.attempts

    assert engine.run(story) == ("ready", 0, 0)
