"""The game ledger: every slot of self-play is in exactly one place, by two accounts that agree."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from ringrift.events.selfplay import BatchFinished
from ringrift.jobs import JobFilter, Play, Sync
from ringrift.store.ports import ClaimTerms, JobRequest, Lease, Origin, Renewal
from ringrift.work.desk import Done, Fault, JobOutcome, cancel, cancel_rows
from ringrift.work.durations import JobRun
from ringrift.work.game_ledger import (
    _EMPTY,
    _OTHER,
    _REASONS_MAX,
    ACCOUNTS,
    CANCELLED,
    Amount,
    GameAccount,
    SlotChange,
    _apply,
    find_imbalance,
    find_imbalances,
)
from unit.work.world import World, play

VARIANT = "hex8_2p"


def slot(seed: int) -> Play:
    """A slot of ten games."""
    return Play(variant=VARIANT, model="m", games=10, seed=seed)


def done(lease: Lease, blob: str, games: int = 10, **facts: Any) -> Done:
    """The result of *lease*: so many games in *blob*."""
    event = BatchFinished(variant=VARIANT, batch=blob, games=games, node="here", model="m", **facts)
    origin = Origin(blob=blob, node=lease.holder, kind="games", variant=VARIANT, games=games, job_kind="play")
    run = JobRun(kind="play", variant=VARIANT)
    outcome = JobOutcome(events=(event,), origins=(origin,))
    return Done(lease=Renewal(job=lease.job, fence=lease.fence), outcome=outcome, run=run)


async def account(world: World) -> GameAccount:
    """The account of the line, after both accounts were seen to agree."""
    async with world.store.read() as view:
        assert await find_imbalances(view) == {}
        row = await ACCOUNTS.get(view, VARIANT)
    assert row is not None
    return row


async def leases(world: World, count: int) -> Sequence[Lease]:
    return await world.claim(*(slot(seed) for seed in range(1, count + 1)))


def test_every_way_a_slot_can_end_is_one_place(tmp_path: Path) -> None:
    """Asked = waiting + running + ingested + repeated + lost, and reruns are counted beside."""

    async def story(world: World) -> None:
        first, second, third, fourth, fifth, sixth = await leases(world, 6)
        desk = world.desk()
        await desk.finish([done(first, "a"), done(second, "b", games=7)])
        await desk.finish([done(third, "a")])
        await desk.finish([Done(lease=Renewal(job=fourth.job, fence=fourth.fence))])
        await desk.fail([Fault(lease=fifth, error="broken", retry=False)])
        await desk.fail([Fault(lease=sixth, error="died", cause="child_died")])

        row = await account(world)

        assert row.enqueued == Amount(slots=6, games=60)
        assert (row.ingested, row.repeated) == (Amount(slots=2, games=17), Amount(slots=1, games=10))
        assert row.lost == {_EMPTY: Amount(slots=1), "refused": Amount(slots=1, games=10)}
        assert row.reruns == {"child_died": Amount(slots=1, games=10)}

        async with world.store.begin() as tx:
            await cancel(tx, JobFilter(variant=VARIANT), world.envelopes)
        assert (await account(world)).lost[CANCELLED] == Amount(slots=1, games=10)

    play(tmp_path, story)


def test_a_batch_without_a_lease_is_a_slot_of_its_own(tmp_path: Path) -> None:
    """It is asked for and ingested in one transaction; offered again it changes nothing."""

    async def story(world: World) -> None:
        job = slot(1)
        await world.desk().enqueue([slot(2)])
        event = BatchFinished(variant=VARIANT, batch="a", games=10, node="here", model="m", island=True)
        origin = Origin(blob="a", node="here", kind="games", variant=VARIANT, games=10, job_kind="play")
        outcome = JobOutcome(events=(event,), origins=(origin,))

        assert await world.desk().ingest("island:here:e:1", job, outcome, "", None)
        assert not await world.desk().ingest("island:here:e:1", job, outcome, "", None)

        row = await account(world)
        assert (row.enqueued.slots, row.ingested.slots, row.islands.slots, row.repeated.slots) == (2, 1, 1, 0)

    play(tmp_path, story)


def test_a_lost_lease_writes_nothing(tmp_path: Path) -> None:
    """The sums belong to the transaction of the job: what is refused is not counted."""

    async def story(world: World) -> None:
        [lease] = await leases(world, 1)
        await world.desk().fail([Fault(lease=lease, error="gone", started=False, cause="stopped")])
        before = await account(world)

        with pytest.raises(Exception, match=lease.job):
            await world.desk().finish([done(lease, "a")])
        await world.desk().fail([Fault(lease=lease, error="late")])

        assert await account(world) == before
        assert before.reruns == {"stopped": Amount(slots=1, games=10)}

    play(tmp_path, story)


def test_jobs_of_other_kinds_have_no_slot(tmp_path: Path) -> None:
    """Only self-play is accounted for; games that another kind of job brings are imported."""

    async def story(world: World) -> None:
        await world.desk().enqueue([slot(1)])
        job = Sync(variant=VARIANT, blob="b" * 64, kind_of="games", source="here")
        [lease, failing] = await world.claim(job, Sync(variant=VARIANT, blob="c" * 64, kind_of="games", source="here"))
        event = BatchFinished(variant=VARIANT, batch="x", games=5, node="here", model="m")
        end = Done(lease=Renewal(job=lease.job, fence=lease.fence), outcome=JobOutcome(events=(event,)))
        await world.desk().fail([Fault(lease=failing, error="away")])
        await world.desk().finish([end])

        row = await account(world)

        assert (row.enqueued, row.imported) == (Amount(slots=1, games=10), Amount(slots=1, games=5))

    play(tmp_path, story)


def test_a_store_that_is_older_than_its_ledger_begins_with_what_is_there(tmp_path: Path) -> None:
    """Slots of before are counted, so that the accounts agree from the first change on."""

    async def story(world: World) -> None:
        rows = [("old-done", 1), ("old-lost", 2), ("old-open", 3), ("old-ready", 4)]
        requests = [JobRequest(id=id, kind="play", variant=VARIANT, key=id, body=b"{}") for id, _ in rows]
        async with world.store.begin() as tx:
            await tx.enqueue(requests)
            terms = ClaimTerms(only_jobs=["old-done"])
            [lease] = await tx.claim(["play"], "here", 1.0, 1, terms)
            await tx.finish([Renewal(job=lease.job, fence=lease.fence)])
            await tx.cancel(["old-lost"])
        [open_lease] = await world.desk().claim({"play"}, 1)

        await world.desk().fail([Fault(lease=open_lease, error="broken", retry=False)])
        row = await account(world)
        await world.desk().enqueue([slot(9)])

        assert (row.enqueued.slots, row.done_before, row.lost_before, row.total("lost").slots) == (4, 1, 1, 1)
        assert (await account(world)).enqueued == Amount(slots=5, games=10)

    play(tmp_path, story)


def test_an_account_may_begin_with_a_new_slot(tmp_path: Path) -> None:
    """Beside those that a store had before, it counts once."""

    async def story(world: World) -> None:
        async with world.store.begin() as tx:
            await tx.enqueue([JobRequest(id="old", kind="play", variant=VARIANT, key="old", body=b"{}")])
        await world.desk().enqueue([slot(1), slot(2)])

        assert (await account(world)).enqueued == Amount(slots=3, games=20)

    play(tmp_path, story)


def test_what_bypasses_the_ledger_is_noticed(tmp_path: Path) -> None:
    """A job that comes or goes without its account is an imbalance, with both numbers."""

    async def story(world: World) -> None:
        await leases(world, 2)
        async with world.store.begin() as tx:
            await tx.cancel([(await tx.jobs(("claimed",), 1))[0].id])
        async with world.store.read() as view:
            assert await find_imbalances(view) == {VARIANT: "given up: 0 slots, 1 jobs"}

    play(tmp_path, story)


def test_each_sum_is_compared() -> None:
    """Whatever is one too many or too few is named."""
    row = GameAccount(variant=VARIANT, done_before=1, lost_before=1, enqueued=Amount(slots=7), ingested=Amount(slots=1))
    row = _apply(row, SlotChange(variant=VARIANT, place="repeated", games=1))
    row = _apply(row, SlotChange(variant=VARIANT, place="lost", games=1, reason="error"))
    counts = {"ready": 1, "claimed": 1, "done": 3, "dead": 1, "cancelled": 1}

    assert find_imbalance(row, counts) == ""
    assert find_imbalance(row, {**counts, "ready": 2}) == "in all: 7 slots, 8 jobs"
    assert "done: 3 slots, 4 jobs" in find_imbalance(row, {**counts, "done": 4})
    assert "given up: 2 slots, 1 jobs" in find_imbalance(row, {**counts, "dead": 0})


def test_reasons_are_bounded() -> None:
    """However many reasons there are, an account stays small and its sums stay right."""
    row = GameAccount(variant=VARIANT)
    for number in range(3 * _REASONS_MAX):
        row = _apply(row, SlotChange(variant=VARIANT, place="lost", games=2, reason=f"reason {number}"))

    assert len(row.lost) == _REASONS_MAX + 1
    assert row.lost[_OTHER].slots == 2 * _REASONS_MAX
    assert row.total("lost") == Amount(slots=3 * _REASONS_MAX, games=6 * _REASONS_MAX)


def test_an_account_may_begin_with_a_cancelled_slot(tmp_path: Path) -> None:
    """It says since when it is kept."""

    async def story(world: World) -> None:
        request = JobRequest(id="old", kind="play", variant=VARIANT, key="old", body=b"{}")
        async with world.store.begin() as tx:
            await tx.enqueue([request])
            await cancel_rows(tx, await tx.jobs(("ready",), 1), world.envelopes)

        assert (await account(world)).since == world.clock.now()

    play(tmp_path, story)
