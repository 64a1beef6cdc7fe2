"""Daemons that react, called as the plain functions that they are, each in one transaction."""

from pathlib import Path

import msgspec
import pytest

from ringrift.bus.delivery import Reader
from ringrift.daemons.fill import fill
from ringrift.daemons.pipeline import pipeline
from ringrift.daemons.redeliver import redeliver
from ringrift.events.base import Envelope, Event
from ringrift.events.data import Synced
from ringrift.events.node import Left
from ringrift.events.pipeline import Moved, Opened
from ringrift.events.work import Buried, PressureChanged
from ringrift.jobs import Play
from ringrift.kernel.errors import Retry
from ringrift.kernel.settings import Policy
from ringrift.kernel.stall_detector import StallDetector
from ringrift.kernel.verdict import Verdict
from ringrift.pipeline.line import Batch, Line, Stage
from ringrift.store.ports import Delivery, Tx
from ringrift.work.limits import VERDICTS
from ringrift.work.pressure import BOUNDS, PLAY_QUEUES, PRESSURES, QueuePressure
from unit.pipeline.story import POLICY, VARIANT, at, blob
from unit.work.world import World, play

MOVED = Moved(variant=VARIANT, stage="collecting", before="distributing")
PRESSURE = PressureChanged(queue="export", level="none", before="stop", limit=36_000, backpressure="released")


async def fill_once(world: World, event: Event = MOVED, policy: Policy = POLICY) -> list[Play]:
    """Let fill react to *event*; every Play job that waits afterwards."""
    async with world.store.begin() as tx:
        await fill(event, world.envelope(event), tx, policy=policy, envelopes=world.envelopes)
    return [msgspec.json.decode(row.body, type=Play) for row in await world.jobs("ready") if row.kind == "play"]


async def verdict(world: World, gate: str) -> Verdict:
    """The stored verdict of *gate*."""
    async with world.store.read() as view:
        row = await VERDICTS.get(view, f"{VARIANT}:{gate}")
    assert row is not None
    return row


async def step(world: World, event: Event) -> None:
    """Let the pipeline react to *event*."""
    async with world.store.begin() as tx:
        await pipeline(event, world.envelope(event), tx, policy=POLICY, envelopes=world.envelopes)


def test_self_play_is_topped_up_and_not_more(tmp_path: Path) -> None:
    """As many jobs are enqueued as the policy keeps open, however often an event comes."""

    async def story(world: World) -> None:
        line = at(Stage.COLLECTING).line
        await world.keep(line)

        first = await fill_once(world)
        await world.desk().claim({"play"}, 1)
        again = await fill_once(world)

        assert len(first) == POLICY.play_jobs_open
        assert len(again) == POLICY.play_jobs_open - 1
        assert {job.model for job in first} == {line.champion}
        assert (await world.line(VARIANT)).plays == line.plays + POLICY.play_jobs_open

    play(tmp_path, story)


def test_a_closed_gate_leaves_its_verdict(tmp_path: Path) -> None:
    """A closed gate enqueues nothing and leaves its verdict."""

    async def story(world: World) -> None:
        await world.keep(msgspec.structs.replace(at(Stage.COLLECTING).line, fresh=10_000))

        assert await fill_once(world) == []
        async with world.store.read() as view:
            [verdict] = await VERDICTS.all(view, "variant", VARIANT)
        assert (verdict.gate, verdict.allowed, verdict.rule) == ("fill", False, "games that wait for export")

    play(tmp_path, story)


async def press(world: World, queue: str, level: str) -> None:
    """Let *queue* be measured at *level*."""
    pressure = QueuePressure(
        queue=queue, depth=9, drain_seconds=40_000.0, level=level, trend="rising", since=1.0, limit=36_000.0
    )
    async with world.store.begin() as tx:
        await PRESSURES.put(tx, [pressure])


@pytest.mark.parametrize("queue", PLAY_QUEUES)
def test_a_full_queue_slows_and_stops_self_play_and_its_relief_starts_it_for_every_line(
    tmp_path: Path, queue: str
) -> None:
    """Soft levels keep their share of the jobs, hard ones ask for none; relief fills every line."""

    async def story(world: World) -> None:
        line, policy = at(Stage.COLLECTING).line, msgspec.structs.replace(POLICY, play_jobs_open=4)
        for variant in (VARIANT, "hex8_3p"):
            await world.keep(msgspec.structs.replace(line, variant=variant))

        for level in ("stop", "critical", "high", "hard"):
            await press(world, queue, level)
            assert await fill_once(world, PRESSURE, policy) == []
        assert str(await verdict(world, "fill")) == (
            f"fill: waits — the queue {queue} is at hard, seconds until it is drained: 40000 of 36000"
        )
        for level, share in (("medium", 1), ("soft", 2), ("low", 3), ("none", 4)):
            await press(world, queue, level)
            assert len(await fill_once(world, PRESSURE, policy)) == 2 * share
            assert (await verdict(world, "fill")).allowed
            assert (f"is at {level}" in (await verdict(world, "fill")).rule) is (level != "none")

    play(tmp_path, story)


@pytest.mark.parametrize("queue", sorted(set(BOUNDS) - set(PLAY_QUEUES)))
def test_queues_that_self_play_does_not_fill_do_not_stop_it(tmp_path: Path, queue: str) -> None:
    """However many matches wait, games go on: they wait in other queues."""

    async def story(world: World) -> None:
        await world.keep(at(Stage.COLLECTING).line)
        await press(world, queue, "stop")

        assert len(await fill_once(world)) == POLICY.play_jobs_open

    play(tmp_path, story)


def test_a_full_queue_holds_exports_back_and_its_relief_asks_for_them(tmp_path: Path) -> None:
    """The pipeline asks for no export while the export queue stops, says why, and asks when its pressure falls."""

    async def story(world: World) -> None:
        line = at(Stage.COLLECTING, rounds=0).line
        games = POLICY.games_per_export
        counts = msgspec.structs.replace(line.counts, batches=1, games=games)
        batch = Batch(blob=blob("batch"), games=games)
        line = msgspec.structs.replace(line, pending=(batch,), counts=counts, window=(), fresh=0)
        await world.keep(line)
        await press(world, "export", "stop")

        await step(world, Synced(variant=VARIANT, blob=batch.blob, kind="games", nodes=("here",)))
        assert await world.jobs() == []
        assert str(await verdict(world, "pressure")) == (
            "pressure: waits — the queue export is at stop, seconds until it is drained: 40000 of 36000"
        )
        await press(world, "export", "critical")
        await step(world, PRESSURE)

        assert [row.kind for row in await world.jobs("ready")] == ["export"]
        assert (await world.line(VARIANT)).manual_jobs == ()
        assert (await verdict(world, "pressure")).allowed

    play(tmp_path, story)


def test_an_event_of_an_unknown_line_fills_nothing(tmp_path: Path) -> None:
    """A line that was never opened gets no jobs."""

    async def story(world: World) -> None:
        assert await fill_once(world) == []

    play(tmp_path, story)


def test_the_pipeline_opens_a_line_and_moves_it(tmp_path: Path) -> None:
    """Opening writes the line and its first job; a burial makes it again; a stranger's event writes nothing."""

    async def story(world: World) -> None:
        buried = Buried(variant=VARIANT, job="j", kind="train", key="", error="no", attempts=4)
        await step(world, buried)
        assert await world.jobs() == []

        await step(world, Opened(variant=VARIANT, workload="fake"))
        line = await world.line(VARIANT)
        [train] = await world.jobs()
        assert (line.stage, train.kind, train.state) == (Stage.STARTING, "train", "ready")

        await step(world, msgspec.structs.replace(buried, key=train.key))
        assert (await world.line(VARIANT)).tries == line.tries + 1

    play(tmp_path, story)


class Mailbox:
    """A reader that fails while it is set to, and records its deliveries."""

    def __init__(self) -> None:
        self.broken: Exception | None = ValueError("not today")
        self.seen: list[str] = []

    async def react(self, event: Event, envelope: Envelope, tx: Tx) -> None:
        assert isinstance(event, Left)
        if self.broken is not None:
            raise self.broken
        self.seen.append(event.node)

    @property
    def reader(self) -> Reader:
        return Reader(name="mailbox", event_names=frozenset({Left.name()}), react=self.react)


async def deliveries(world: World) -> list[Delivery]:
    """Every delivery that ever went wrong."""
    async with world.store.read() as view:
        return list(await view.deliveries(("parked", "dead", "done", "discarded"), 100))


def test_a_parked_delivery_is_retried_when_its_pause_is_over(tmp_path: Path) -> None:
    """It is not retried before; a failure parks it for longer, a success ends it, and others are not delivered
    twice."""

    async def story(world: World) -> None:
        box, watch = Mailbox(), StallDetector()
        deliverer = world.router.deliverer

        async def look(after: float) -> tuple[str, int]:
            world.clock.seconds += after
            await redeliver(
                router=world.router,
                readers={"mailbox": box.reader},
                memory=watch,
                clock=world.clock,
            )
            [one] = await deliveries(world)
            return one.state, one.attempts

        await world.router.publish(Left(node="a"))
        place = await deliverer.deliver_batch(box.reader, await deliverer.register(box.reader))
        box.broken = None
        await world.router.publish(Left(node="b"))
        await deliverer.deliver_batch(box.reader, place)
        assert box.seen == ["b"]

        box.broken = Retry(after=5.0)
        assert await look(0.0) == ("parked", 1)
        assert await look(59.9) == ("parked", 1)
        assert await look(0.1) == ("parked", 2)
        box.broken = None
        assert await look(0.0) == ("parked", 2)
        assert await look(5.0) == ("done", 3)
        assert await look(1000.0) == ("done", 3)
        assert box.seen == ["b", "a"]

    play(tmp_path, story)


def test_dead_letters_of_an_absent_reader_wait_for_it(tmp_path: Path) -> None:
    """A failed delivery of another node's reader is left to that reader."""

    async def story(world: World) -> None:
        box = Mailbox()
        deliverer = world.router.deliverer
        await world.router.publish(Left(node="a"))
        await deliverer.deliver_batch(box.reader, await deliverer.register(box.reader))
        watch = StallDetector()

        for _ in range(2):
            await redeliver(router=world.router, readers={}, memory=watch, clock=world.clock)
            world.clock.seconds += 1000.0

        [one] = await deliveries(world)
        assert (one.state, one.attempts) == ("parked", 1)

    play(tmp_path, story)


def test_unserved_dead_letters_do_not_delay_the_others(tmp_path: Path) -> None:
    """However many old ones wait for a reader that is gone, a newer one of a present reader is retried."""

    async def story(world: World) -> None:
        box, watch = Mailbox(), StallDetector()
        box.broken = None
        await world.router.publish_many([Left(node=str(number)) for number in range(101)])
        gone = [("gone", number) for number in range(1, 101)]
        async with world.store.begin() as tx:
            await tx.put_deliveries(
                [
                    Delivery(
                        reader=reader,
                        position=position,
                        state="parked",
                        attempts=1,
                        pause=60.0,
                        error="no",
                        first=0.0,
                        last=0.0,
                    )
                    for reader, position in [*gone, ("mailbox", 101)]
                ]
            )

        for _ in range(2):
            await redeliver(
                router=world.router,
                readers={"mailbox": box.reader},
                memory=watch,
                clock=world.clock,
            )
            world.clock.seconds += 60.0

        assert box.seen == ["100"]

    play(tmp_path, story)


def test_a_line_of_another_workload_is_not_mixed_up(tmp_path: Path) -> None:
    """Lines are stored by variant, each with its own champion."""

    async def story(world: World) -> None:
        ours = at(Stage.COLLECTING).line
        theirs = Line(
            variant="hex8_3p", workload="other", players=3, stage=Stage.COLLECTING, champion=blob("x"), generation=0
        )
        for line in (ours, theirs):
            await world.keep(line)

        jobs = await fill_once(world, PRESSURE)

        assert {(job.variant, job.model) for job in jobs} == {(VARIANT, ours.champion), ("hex8_3p", blob("x"))}

    play(tmp_path, story)
