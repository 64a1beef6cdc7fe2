"""The desk hands out jobs under leases, and accepts results only from the newest holder."""

import asyncio
from collections.abc import Sequence
from random import Random
from typing import Any

import pytest

from contract.engines import EVERY_STATE, Engine, ManualClock, job, recorded, renewal
from ringrift import jobs
from ringrift.bus.envelopes import EnvelopeFactory
from ringrift.events import catalog, data, training
from ringrift.events.base import Envelope, Event
from ringrift.events.work import Buried, Enqueued
from ringrift.jobs import JobFilter, Match, Play
from ringrift.kernel.backoff import Backoff
from ringrift.kernel.errors import InputError, InvalidWork, LeaseLost
from ringrift.kernel.ids import Ids
from ringrift.kernel.settings import WorkSettings
from ringrift.kernel.stall_detector import Observation, StallDetector
from ringrift.store.ports import JobRow, Lease, Put, Renewal, Store
from ringrift.work.desk import Done, Fault, JobOutcome, StoreDesk, cancel

LEASE_SECONDS = 30.0
EVENT = data.Exported(variant="v", samples="s", count=3, batches=("b",), node="n1")
OUTCOME = JobOutcome(events=(EVENT,), records=(Put(kind="copy", id="r", body=b""),), links=(("child", "parent"),))


def play(seed: int = 0, **changes: Any) -> Play:
    """A job."""
    return Play(**{"variant": "v", "seed": seed, "model": "m", "games": 2} | changes)


class Office:
    """One store, one clock, and a desk for every node."""

    def __init__(self, store: Store) -> None:
        self.store, self.clock, self.stall_detector = store, ManualClock(), StallDetector()
        self.envelopes = EnvelopeFactory("operator", self.clock, Ids(self.clock, Random("operator")))

    def desk(self, node: str = "n1") -> StoreDesk:
        """The desk of *node*."""
        ids = Ids(self.clock, Random(node))
        retry = Backoff(first_seconds=1.0, seconds_max=60.0, tries=3)
        envelopes = EnvelopeFactory(node, self.clock, ids)
        return StoreDesk(self.store, self.clock, envelopes, WorkSettings(lease_seconds=LEASE_SECONDS, retry=retry))

    async def rescue(self) -> Sequence[str]:
        """Take back the leases that were not renewed in time, as the rescue daemon does."""
        async with self.store.begin() as tx:
            rows = await tx.jobs(("claimed",), 100)
            things = [Observation(name=r.id, counter=(r.fence << 32) + r.renewals, seconds=r.seconds) for r in rows]
            over = {lease.name for lease in self.stall_detector.stalled(things, self.clock.tick())}
            return await self.desk().revoke(tx, [row for row in rows if row.id in over], "not renewed")

    async def log(self) -> list[Envelope]:
        """The log, without events about new jobs."""
        async with self.store.read() as view:
            return [envelope for envelope in await view.read(0, 100) if envelope.name != Enqueued.name()]


async def logged_ids(store: Store) -> list[str]:
    """The ids of all events about results."""
    return [envelope.id for envelope in await Office(store).log()]


def event_of(envelope: Envelope) -> object:
    """The event in *envelope*."""
    return catalog.decode(envelope.name, envelope.body)


def test_a_claimed_job_is_the_one_that_was_enqueued(engine: Engine) -> None:
    """An enqueued job is claimed with every field, under the node's name and the desk's time."""
    wish = play(7, priority=60)

    async def story(store: Store) -> tuple[Sequence[str], Lease]:
        office = Office(store)
        ids = await office.desk().enqueue([wish])
        [lease] = await office.desk("n2").claim({"play", "train"}, 5)
        return ids, lease

    ids, lease = engine.run(story)

    assert jobs.decode(lease.kind, lease.body) == wish
    assert [lease.job] == list(ids)
    assert (lease.holder, lease.seconds, lease.key) == ("n2", LEASE_SECONDS, wish.key)


def test_enqueueing_again_returns_the_live_job(engine: Engine) -> None:
    """While a job for a key is alive, enqueueing it again returns its id; once it is done, a new one is made."""

    async def story(store: Store) -> tuple[str, str, str]:
        desk = Office(store).desk()
        [first] = await desk.enqueue([play()])
        [again] = await desk.enqueue([play(model="newer")])
        await desk.finish([Done(lease=renewal(lease)) for lease in await desk.claim({"play"}, 1)])
        [after] = await desk.enqueue([play()])
        return first, again, after

    first, again, after = engine.run(story)

    assert again == first
    assert after != first


@pytest.mark.parametrize("bad", [{"priority": 101}, {"priority": -1}, {"priority": True}, {"games": 0}, {"seed": -1}])
def test_work_out_of_range_is_refused(engine: Engine, bad: dict[str, Any]) -> None:
    """A job with a field out of range is refused by the field's name, with all other jobs of the call."""

    async def story(store: Store) -> tuple[str, int]:
        with pytest.raises(InvalidWork) as refused:
            await Office(store).desk().enqueue([play(1), play(**({"seed": 2} | bad))])
        async with store.read() as view:
            return refused.value.field, len(await view.jobs(EVERY_STATE, 9))

    assert engine.run(story) == (next(iter(bad)), 0)


def test_two_nodes_never_get_one_job(engine: Engine) -> None:
    """Desks that claim at the same time share the jobs out, and pinned ones go to their node alone."""

    async def story(store: Store) -> tuple[list[str], list[str]]:
        office = Office(store)
        pinned = play(99, node="n2")
        await office.desk().enqueue([*(play(seed) for seed in range(10)), pinned])
        claims = await asyncio.gather(*(office.desk(node).claim({"play"}, 6) for node in ("n1", "n2", "n1")))
        keys = [(lease.holder, lease.key) for leases in claims for lease in leases]
        return sorted(key for _, key in keys), [node for node, key in keys if key == pinned.key]

    keys, holders = engine.run(story)

    assert keys == sorted(play(seed).key for seed in (*range(10), 99))
    assert holders == ["n2"]


def test_a_result_is_published_with_the_end_of_its_job(engine: Engine) -> None:
    """Finishing ends the job, publishes its event, writes its record and its links, all at once."""

    async def story(store: Store) -> tuple[Sequence[Envelope], list[Envelope], list[str], Sequence[str], JobRow]:
        office = Office(store)
        desk = office.desk()
        await desk.enqueue([play()])
        [lease] = await desk.claim({"play"}, 1)
        published = await desk.finish([Done(lease=renewal(lease), outcome=OUTCOME)])
        records = await recorded(store, "copy")
        async with store.read() as view:
            parents = await view.walk(["child"], True, 9)
        return published, await office.log(), records, parents, await job(store, lease.job)

    published, log, records, parents, row = engine.run(story)

    assert list(published) == log
    assert [event_of(envelope) for envelope in log] == [EVENT]
    assert (records, list(parents)) == (["r"], ["parent"])
    assert (row.state, row.holder, row.progress) == ("done", None, 1.0)


def test_a_fenced_off_holder_changes_nothing(engine: Engine) -> None:
    """Once a lease has passed to another node the first holder's result is refused with all that came with it."""

    async def story(store: Store) -> tuple[tuple[str, ...], list[str], list[str], Sequence[str], bool]:
        office = Office(store)
        first, second = office.desk("n1"), office.desk("n2")
        [id] = await first.enqueue([play()])
        [old] = await first.claim({"play"}, 1)
        await office.rescue()
        office.clock.seconds += LEASE_SECONDS
        assert list(await office.rescue()) == [id]
        async with store.begin() as tx:
            await tx.resume([id])
        [_new] = await second.claim({"play"}, 1)
        before = await job(store, id)
        for refused_verb in (first.finish([Done(lease=renewal(old), outcome=OUTCOME)]), first.renew([renewal(old)])):
            with pytest.raises(LeaseLost) as refused:
                await refused_verb
        assert list(await first.fail([Fault(lease=old, error="late", retry=False)])) == []
        async with store.read() as view:
            parents = await view.walk(["child"], True, 9)
        unchanged = await job(store, id) == before
        return refused.value.names, await logged_ids(store), await recorded(store, "copy"), parents, unchanged

    names, log, records, parents, unchanged = engine.run(story)

    assert len(names) == 1
    assert (log, records, list(parents)) == ([], [], [])
    assert unchanged


def test_one_lost_lease_refuses_all_results(engine: Engine) -> None:
    """When one of several results is refused, none of them has happened and each can be handed in alone."""

    async def story(store: Store) -> tuple[bool, list[str], list[str]]:
        office = Office(store)
        desk = office.desk()
        await desk.enqueue([play(1), play(2)])
        good, gone = await desk.claim({"play"}, 2)
        await desk.fail([Fault(lease=gone, error="broke")])
        with pytest.raises(LeaseLost) as refused:
            await desk.finish([Done(lease=renewal(good), outcome=OUTCOME), Done(lease=renewal(gone))])
        before = await logged_ids(store)
        await desk.finish([Done(lease=renewal(good), outcome=OUTCOME)])
        return refused.value.names == (gone.job,), before, [e.name for e in await office.log()]

    assert engine.run(story) == (True, [], [EVENT.name()])


@pytest.mark.parametrize(
    "event",
    [
        training.Finished(variant="v", model="m", generation=1, node="n", metrics={"loss": float("nan")}),
        data.Lost(variant="v", blob="b", reason="\ud800"),
    ],
    ids=["nan", "surrogate"],
)
def test_a_result_that_cannot_be_encoded_is_refused(engine: Engine, event: Event) -> None:
    """An event that cannot be encoded is refused, and the job is still claimed."""

    async def story(store: Store) -> tuple[str, list[str]]:
        desk = Office(store).desk()
        await desk.enqueue([play()])
        [lease] = await desk.claim({"play"}, 1)
        with pytest.raises(InputError):
            await desk.finish([Done(lease=renewal(lease), outcome=JobOutcome(events=(EVENT, event)))])
        return (await job(store, lease.job)).state, await logged_ids(store)

    assert engine.run(story) == ("claimed", [])


def test_a_failing_job_is_tried_again_and_then_buried(engine: Engine) -> None:
    """After each failure the pause doubles; after the last try the job is dead, and an event gives the reason."""

    async def story(store: Store) -> tuple[list[tuple[str, float]], list[Envelope], str]:
        office = Office(store)
        desk = office.desk()
        [id] = await desk.enqueue([play()])
        rows = []
        for number in range(3):
            [lease] = await desk.claim({"play"}, 1)
            await desk.fail([Fault(lease=lease, error=f"broke {number} " + "x" * 5000, blob="b")])
            row = await job(store, id)
            rows.append((row.state, row.pause))
            async with store.begin() as tx:
                await tx.resume([id])
        return rows, await office.log(), id

    rows, log, id = engine.run(story)

    assert rows == [("ready", 1.0), ("ready", 2.0), ("dead", 0.0)]
    error = ("broke 2 " + "x" * 5000)[:2000]
    buried = Buried(variant="v", job=id, kind="play", key=play().key, error=error, attempts=3, blob="b")
    assert [event_of(envelope) for envelope in log] == [buried]


def test_a_job_that_cannot_succeed_is_buried_at_once(engine: Engine) -> None:
    """A failure that no retry can help makes the job dead at the first try."""

    async def story(store: Store) -> tuple[str, list[str]]:
        office = Office(store)
        desk = office.desk()
        [id] = await desk.enqueue([play()])
        [lease] = await desk.claim({"play"}, 1)
        await desk.fail([Fault(lease=lease, error="bad input", retry=False)])
        return (await job(store, id)).state, [envelope.name for envelope in await office.log()]

    assert engine.run(story) == ("dead", [Buried.name()])


def test_work_returned_unstarted_costs_no_try(engine: Engine) -> None:
    """However often work is returned before it began, it is ready at once and never buried."""

    async def story(store: Store) -> tuple[list[int], list[str]]:
        office = Office(store)
        desk = office.desk()
        await desk.enqueue([play()])
        attempts = []
        for _ in range(10):
            [lease] = await desk.claim({"play"}, 1)
            attempts.append(lease.attempts)
            await desk.fail([Fault(lease=lease, error="no slot", started=False)])
        return attempts, await logged_ids(store)

    assert engine.run(story) == ([1] * 10, [])


@pytest.mark.parametrize("retry", [True, False])
def test_a_job_can_fail_with_any_text(engine: Engine, retry: bool) -> None:
    """An error text that is not valid Unicode, as a child may leave it, does not keep the job from ending."""

    async def story(store: Store) -> tuple[str, str]:
        desk = Office(store).desk()
        await desk.enqueue([play()])
        [lease] = await desk.claim({"play"}, 1)
        await desk.fail([Fault(lease=lease, error="broke: \udcff\x00", retry=retry)])
        row = await job(store, lease.job)
        return row.state, (row.error or "")[:6]

    assert engine.run(story) == ("ready" if retry else "dead", "broke:")


def test_a_lease_ends_when_it_stood_still_for_its_time(engine: Engine) -> None:
    """A lease is over once its renewals stood still for its seconds on the observer's clock, not before."""

    async def story(store: Store) -> list[bool]:
        office = Office(store)
        desk = office.desk()
        await desk.enqueue([play()])
        [lease] = await desk.claim({"play"}, 1)
        rescued = [bool(await office.rescue())]
        for _ in range(3):
            office.clock.seconds += LEASE_SECONDS - 1
            await desk.renew([Renewal(job=lease.job, fence=lease.fence, progress=0.5)])
            rescued.append(bool(await office.rescue()))
        office.clock.seconds += LEASE_SECONDS - 1
        rescued.append(bool(await office.rescue()))
        office.clock.seconds += 1
        rescued.append(bool(await office.rescue()))
        return rescued

    assert engine.run(story) == [False] * 5 + [True]


def test_a_lease_renewed_since_it_was_read_is_not_taken_back(engine: Engine) -> None:
    """Taking back by rows from before a renewal ends nothing."""

    async def story(store: Store) -> tuple[Sequence[str], str]:
        office = Office(store)
        desk = office.desk()
        [id] = await desk.enqueue([play()])
        [lease] = await desk.claim({"play"}, 1)
        stale = await job(store, id)
        await desk.renew([renewal(lease)])
        async with store.begin() as tx:
            back = await desk.revoke(tx, [stale], "not renewed")
        return back, (await job(store, id)).state

    assert engine.run(story) == ([], "claimed")


@pytest.mark.parametrize(("started", "attempts"), [(True, 1), (False, 0)])
def test_a_node_takes_back_its_own_leases_alone(engine: Engine, started: bool, attempts: int) -> None:
    """A node that starts or ends returns its own leases, as a try or as none, and leaves the others' leases."""

    async def story(store: Store) -> tuple[bool, str, int, str]:
        office = Office(store)
        first, second = office.desk("n1"), office.desk("n2")
        await first.enqueue([play(1), play(2)])
        [own] = await first.claim({"play"}, 1)
        [other] = await second.claim({"play"}, 1)
        back = await first.revoke_own("started again", started=started)
        row = await job(store, own.job)
        return list(back) == [own.job], row.state, row.attempts, (await job(store, other.job)).state

    assert engine.run(story) == (True, "ready", attempts, "claimed")


def test_cancelling_a_match_spares_other_candidates(engine: Engine) -> None:
    """Cancelling one candidate's matches does not cancel those of a candidate whose name only begins alike."""

    async def story(store: Store) -> tuple[int, list[str]]:
        desk = Office(store).desk()
        blocks = ((candidate, first) for candidate in ("m1", "m10") for first in (0, 8))
        await desk.enqueue(
            [Match(variant="v", candidate=c, champion="m0", first=first, count=8) for c, first in blocks]
        )
        async with store.begin() as tx:
            count = await cancel(tx, JobFilter(variant="v", candidate="m1"), Office(store).envelopes)
            return count, [row.key for row in await tx.jobs(("ready",), 9)]

    assert engine.run(story) == (2, ["match:promotion:v:m10:m0:0", "match:promotion:v:m10:m0:8"])
