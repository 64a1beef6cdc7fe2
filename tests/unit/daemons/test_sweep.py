"""A sweep deletes blobs that nothing needs, records first, and goes on where it stopped."""

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

import pytest
from msgspec.json import encode

from ringrift.daemons.sweep import _Files
from ringrift.events.data import Removed
from ringrift.events.selfplay import BatchFinished
from ringrift.jobs import Distribute, Play, Verify
from ringrift.kernel.errors import InputError, NodeAway, NoRoute
from ringrift.kernel.settings import Policy
from ringrift.kernel.value import changed
from ringrift.pipeline import operator, retention
from ringrift.pipeline.inbox import INBOX, InboxFile
from ringrift.pipeline.line import LINES, Batch
from ringrift.pipeline.models import MODELS, Change, State, become, resolve
from ringrift.pipeline.operator import Actor
from ringrift.pipeline.ratings import RATINGS
from ringrift.sim.blobs import MemoryBlobs
from ringrift.store.ports import Lease, Put, Renewal
from ringrift.sync.transfer import Transfer
from ringrift.work.checkpoints import CHECKPOINTS, Checkpoint
from ringrift.work.desk import Done, Fault
from ringrift.work.limits import VERDICTS
from unit.pipeline.blob_rig import DAY, LINE, OTHER, SWEEP, Shelf, collecting, made, write
from unit.pipeline.story import VARIANT, blob
from unit.work.world import World, play


def test_unneeded_blobs_go_when_they_are_old(tmp_path: Path) -> None:
    """Games outside the window go after the retention, blobs of no origin after the grace; the event names them, the
    facts stay, and whoever asks is told."""

    async def story(world: World) -> None:
        shelf = Shelf(world)
        champion, window, games, leftover = await shelf.put("champion", "window", "games", "leftover")
        await world.keep(collecting(champion, window=(Batch(blob=window, games=3),)))
        born = world.clock.now()
        await write(world, made(games, "games", born), made(window, "games", born), links=[(champion, games)])

        world.clock.seconds += 4 * DAY
        assert await shelf.sweep() == {champion, window, games, leftover}
        world.clock.seconds += 2 * DAY
        assert await shelf.sweep() == {champion, window, games}
        world.clock.seconds += 5 * DAY
        assert await shelf.sweep() == {champion, window}

        removed = await world.events(Removed)
        assert removed == [
            Removed(node="here", blobs=(name,), count=1, bytes=size) for name, size in ((leftover, 8), (games, 5))
        ]
        assert await world.holders(games) == []
        async with world.store.read() as view:
            assert [origin.blob for origin in await view.origins([games])] == [games]
            assert await view.walk([champion], True, 9) == [games]
            verdict = await VERDICTS.get(view, "retention:here")
        assert verdict is not None
        assert (verdict.allowed, verdict.value, verdict.limit) == (True, 1, 3)
        assert verdict.rule == "2 old blobs stay: a line needs it"
        transfer = Transfer("here", world.store, shelf.blobs, reach, world.envelopes, clock=world.clock)
        with pytest.raises(NoRoute, match=r"deleted by retention .node here removed it on 2023-11-25"):
            await transfer.fetch([games])

    async def reach(node: str) -> MemoryBlobs:
        raise NodeAway(node)

    play(tmp_path, story)


def test_a_checkpoint_goes_when_its_job_has_ended(tmp_path: Path) -> None:
    """While the job runs, or waits after it was given back or has failed, it stays; then no grace is needed."""

    async def story(world: World) -> None:
        shelf, desk = Shelf(world), world.desk()
        first, other, leftover = await shelf.put("first", "other", "leftover")
        await desk.enqueue([Verify(variant=VARIANT, model=blob("m")), Verify(variant=VARIANT, model=blob("n"))])

        async def claim(*checkpoints: str) -> list[Lease]:
            leases = list(await desk.claim([Verify.kind()], 2))
            pairs = zip(leases, checkpoints, strict=False)
            outputs = [(lease, encode([Checkpoint(blob=name, node="here")])) for lease, name in pairs]
            await desk.renew([Renewal(job=row.job, fence=row.fence, outputs=data) for row, data in outputs])
            return leases

        leases = await claim(first, other)
        assert await shelf.sweep() == {first, other, leftover}  # they run
        await desk.fail([Fault(lease=lease, error="stopped", started=False) for lease in leases])
        world.clock.seconds += 60 * DAY
        again = await shelf.put("first")
        assert await shelf.sweep() == {first, other}  # they were given back
        leases = await claim()
        await desk.finish([Done(lease=Renewal(job=leases[0].job, fence=leases[0].fence))])
        assert await shelf.sweep() == {first, other}  # it was stored a moment ago: perhaps for another job
        world.clock.seconds += retention.CHECKPOINT_SECONDS + 1
        assert await shelf.sweep() == {other}
        await desk.fail([Fault(lease=leases[1], error="refused", retry=False)])
        assert await shelf.sweep() == set()
        assert again == [first]
        async with world.store.read() as view:
            assert await CHECKPOINTS.scan(view) == {}

    play(tmp_path, story)


def test_a_removed_model_cannot_be_nominated(tmp_path: Path) -> None:
    """A rejected model whose file is gone is refused with the reason, and its line goes on as it was."""

    async def story(world: World) -> None:
        shelf = Shelf(world)
        champion, rejected = await shelf.put("champion", "rejected")
        await world.keep(collecting(champion))
        async with world.store.begin() as tx:
            await MODELS.put(tx, [become(None, VARIANT, Change(rejected, 2, State.REJECTED), 0.0)])
        world.clock.seconds += 20 * DAY
        assert await shelf.sweep() == {champion}

        async with world.store.begin() as tx:
            match = await resolve(tx, rejected)
            actor = Actor(envelopes=world.envelopes, now=world.clock.now())
            with pytest.raises(InputError, match="deleted by retention"):
                await operator.nominate(tx, match, policy=Policy(), actor=actor)

    play(tmp_path, story)


def test_a_crash_between_record_and_file_leaves_nothing_for_ever(tmp_path: Path) -> None:
    """If a node dies after it recorded a deletion, the next sweep deletes the file."""

    class Failing(MemoryBlobs):
        async def delete(self, blobs: Any, before: float) -> Sequence[str]:
            raise NodeAway("here", "its disk went away")

    async def story(world: World) -> None:
        shelf, failing = Shelf(world), Failing("here", world.clock.now)
        [unneeded] = await shelf.put("unneeded")
        failing.files = shelf.blobs.files
        world.clock.seconds += 20 * DAY

        with pytest.raises(NodeAway):
            await shelf.sweep(blobs=failing)
        assert await world.holders(unneeded) == []
        assert set(shelf.blobs.files) == {unneeded}
        assert await shelf.sweep() == set()

    play(tmp_path, story)


def test_what_is_stored_again_in_the_last_moment_is_listed_again(tmp_path: Path) -> None:
    """A writer that puts the same bytes while they are deleted keeps its file and its place in the ledger."""

    class Racing(MemoryBlobs):
        async def delete(self, blobs: Any, before: float) -> Sequence[str]:
            await self.put([b"again"])
            return await super().delete(blobs, before)

    async def story(world: World) -> None:
        shelf, racing = Shelf(world), Racing("here", world.clock.now)
        again, old = await shelf.put("again", "old")
        racing.files = shelf.blobs.files
        world.clock.seconds += 20 * DAY

        assert await shelf.sweep(blobs=racing) == {again}
        assert (await world.holders(again), await world.holders(old)) == (["here"], [])

    play(tmp_path, story)


def test_a_job_that_comes_in_between_keeps_its_input(tmp_path: Path) -> None:
    """What was unneeded at the first look is judged again in the transaction that gives it up."""

    async def story(world: World) -> None:
        shelf = Shelf(world)
        [model] = await shelf.put("model")
        await world.keep(collecting(blob("champion")))
        world.clock.seconds += 20 * DAY
        begin, job = world.store.begin, Verify(variant=VARIANT, model=model)

        class Interrupted:
            def __getattr__(self, name: str) -> Any:
                return getattr(world.store, name)

            def begin(self) -> Any:
                return Enqueuing()

        class Enqueuing:
            async def __aenter__(self) -> Any:
                await world.desk().enqueue([job])
                self.tx = begin()
                return await self.tx.__aenter__()

            async def __aexit__(self, *error: Any) -> Any:
                return await self.tx.__aexit__(*error)

        store: Any = Interrupted()
        files = _Files(store, shelf.blobs, world.envelopes, SWEEP)
        page = await shelf.blobs.page("", 9)

        assert await files.remove(page, world.clock.now()) == set()
        assert set(shelf.blobs.files) == {model}

    play(tmp_path, story)


@pytest.mark.parametrize("kind", [LINES.kind, RATINGS.kind, INBOX.kind])
def test_nothing_goes_while_a_record_cannot_be_read(tmp_path: Path, kind: str) -> None:
    """A record that is damaged may name anything: then every blob stays, and the verdict names the cause."""

    async def story(world: World) -> None:
        shelf = Shelf(world)
        [unneeded] = await shelf.put("unneeded")
        async with world.store.begin() as tx:
            await tx.put([Put(kind=kind, id="v", body=b'{"variant', index={"state": "waiting"})])
        world.clock.seconds += 20 * DAY

        assert await shelf.sweep() == {unneeded}
        async with world.store.read() as view:
            verdict = await VERDICTS.get(view, "retention:here")
        assert verdict is not None
        assert not verdict.allowed
        assert "v is damaged" in verdict.rule

    play(tmp_path, story)


def test_blobs_of_an_unknown_line_stay(tmp_path: Path) -> None:
    """A line that this store does not have, or not any more, may come back."""

    async def story(world: World) -> None:
        shelf = Shelf(world)
        [games] = await shelf.put("games")
        await write(world, changed(made(games, "games", 0.0), variant=OTHER))
        world.clock.seconds += 20 * DAY

        assert await shelf.sweep() == {games}

    play(tmp_path, story)


def test_what_is_under_way_holds_back_what_came_after_it(tmp_path: Path) -> None:
    """The output of a job that runs, and a batch whose event nobody has consumed, stay however old they are."""

    async def story(world: World) -> None:
        shelf = Shelf(world)
        await world.keep(LINE)
        [before] = await shelf.put("before")
        world.clock.seconds += 1.0
        [lease] = await world.claim(Play(variant=VARIANT, model=blob("model"), games=3, seed=1))
        [output] = await shelf.put("output")
        world.clock.seconds += 20 * DAY
        assert await shelf.sweep() == {output}
        assert before not in shelf.blobs.files

        async with world.store.begin() as tx:
            await tx.cancel([lease.job])
            await tx.register_reader("slow", 0)
        assert await shelf.sweep() == {output}
        async with world.store.begin() as tx:
            await tx.forget_reader("slow")
        assert await shelf.sweep() == set()

    play(tmp_path, story)


def test_the_newest_of_each_kind_stay(tmp_path: Path) -> None:
    """A store that was off for a month keeps its last games, samples and models."""

    async def story(world: World) -> None:
        shelf = Shelf(world)
        await world.keep(LINE)
        names = await shelf.put("g1", "g2", "s1", "s2")
        kinds = ("games", "games", "samples", "samples")
        await write(
            world, *(made(name, kind, float(n)) for n, (name, kind) in enumerate(zip(names, kinds, strict=True)))
        )
        world.clock.seconds += 40 * DAY

        assert await shelf.sweep(changed(SWEEP, newest_min=1)) == {names[1], names[3]}

    play(tmp_path, story)


def test_a_sweep_goes_on_where_the_last_one_stopped(tmp_path: Path) -> None:
    """The place is a record: after a restart the rest is verified, and then the first ones again."""

    class Noting(MemoryBlobs):
        verified: list[str] = []

        async def verify(self, blobs: Collection[str]) -> Sequence[str]:
            self.verified += blobs
            return ()

    async def story(world: World) -> None:
        noting, names = Noting("here", world.clock.now), [f"{number:064x}" for number in range(10_700)]
        noting.files, noting._times = dict.fromkeys(names, b""), dict.fromkeys(names, world.clock.now())
        counts = []
        for _ in range(3):
            await Shelf(world).sweep(blobs=noting)
            counts.append(len(noting.verified))

        assert counts == [10_000, 10_700, 20_700]
        assert noting.verified == names + names[:10_000]

    play(tmp_path, story)


@pytest.mark.parametrize(
    "pin", ["champion of old", "lost", "grandparent", "samples", "imported", "window", "job", "inbox", "nothing"]
)
def test_a_blob_stays_for_what_it_is(tmp_path: Path, pin: str) -> None:
    """Every model that ever was champion or may be judged again, the ancestors of a champion and its samples stay."""

    async def story(world: World) -> None:
        shelf = Shelf(world)
        champion, parent, it = await shelf.put("champion", "parent", "it")
        await world.keep(collecting(champion, window=(Batch(blob=it, games=1),) if pin == "window" else ()))
        if pin == "job":
            await world.desk().enqueue([Distribute(variant=VARIANT, model=it)])
        links = [(champion, parent), (parent, it)] if pin == "grandparent" else []
        kinds = {"samples": "samples"}
        await write(
            world,
            made(champion, "model", 0.0, samples=it if pin == "samples" else None),
            made(parent, "model", 0.0),
            made(it, kinds.get(pin, "model"), 0.0, job_kind="import" if pin == "imported" else "train"),
            links=links,
        )
        lives = {"champion of old": (State.CHAMPION, State.RETIRED, State.CANDIDATE, State.REJECTED)}
        lives |= {"lost": (State.CANDIDATE, State.LOST), "nothing": (State.CANDIDATE, State.REJECTED)}
        model = None
        for state in lives.get(pin, ()):
            model = become(model, VARIANT, Change(it, 1, state), 0.0)
        async with world.store.begin() as tx:
            await MODELS.put(tx, [model] if model else [])
            if pin == "inbox":
                await INBOX.put(tx, [InboxFile(variant=VARIANT, file=it, name="a.pth", node="here")])
        world.clock.seconds += 40 * DAY

        assert (it in await shelf.sweep()) == (pin != "nothing")

    play(tmp_path, story)


def test_what_an_event_names_stays_until_it_is_consumed(tmp_path: Path) -> None:
    """Whatever a clock says that was set back: the pipeline may still ask for the batch."""

    async def story(world: World) -> None:
        shelf = Shelf(world)
        batch, other = await shelf.put("batch", "other")
        world.clock.seconds += 20 * DAY
        event = BatchFinished(variant=VARIANT, batch=batch, games=1, node="here", model=other)
        async with world.store.begin() as tx:
            await tx.append([world.envelopes.make(event, source="test")])
        assert await shelf.sweep() == {batch, other}
        async with world.store.begin() as tx:
            await tx.register_reader("pipeline", world.store.position)
        assert await shelf.sweep() == set()

    play(tmp_path, story)


def test_more_events_than_can_be_looked_at_delete_nothing(tmp_path: Path) -> None:
    """Behind them may be one that names a batch; our own events, which pin nothing, count as well."""

    async def story(world: World) -> None:
        shelf = Shelf(world)
        [old] = await shelf.put("old")
        world.clock.seconds += 20 * DAY
        async with world.store.begin() as tx:
            events = [Removed(node="here", blobs=(), count=0, bytes=0)] * retention._EVENTS_MAX
            await tx.append([world.envelopes.make(event, source="test") for event in events])
        assert await shelf.sweep() == {old}

    play(tmp_path, story)
