"""Files of games: a line reads one at a time, from the list of what it has counted, and records how it counted them."""

import asyncio
from pathlib import Path

import pytest

from ringrift.blobs.ports import StoredBlob
from ringrift.jobs import Ingest
from ringrift.kernel.errors import UnknownName, WorkError
from ringrift.kernel.settings import SweepSettings
from ringrift.kernel.value import changed
from ringrift.pipeline import lineage
from ringrift.pipeline.file_jobs import conclude
from ringrift.pipeline.foreign_games import COUNTED_GAMES, require_turn, take_turn
from ringrift.pipeline.line import Line
from ringrift.pipeline.retention import rule
from ringrift.work.limits import LineWork
from ringrift.workload.api import Artifact, JobResult
from unit.pipeline.story import VARIANT, blob
from unit.work.world import World, play

LINE = Line(variant=VARIANT, workload="fake", players=2)
META = {"games": 5, "repeated": 0, "refused": 0, "other": 0, "errors": ""}
RESULT = JobResult(
    (Artifact("games", blob("batch"), 9, {"games": 5}), Artifact("report", blob("list"), 9, META)), version="7"
)


async def count(world: World, name: str, *nodes: str) -> None:
    """Let *nodes* hold the list *name* of the games that count."""
    await world.hold(blob(name), *nodes)
    async with world.store.begin() as tx:
        await COUNTED_GAMES.put_at(tx, {VARIANT: blob(name)})


def test_a_job_begins_with_the_list_that_the_last_one_left(tmp_path: Path) -> None:
    """The first has none, and a line that is not open has no job."""

    async def story(world: World) -> None:
        with pytest.raises(UnknownName):
            await take_turn(world.store, world.clock, VARIANT, blob("file"), replay=True)
        await world.keep(LINE)
        first, _ = await take_turn(world.store, world.clock, VARIANT, blob("file"), replay=True)
        await count(world, "list", "near")
        second, is_lost = await take_turn(world.store, world.clock, VARIANT, blob("file"), replay=False)

        assert first == Ingest(variant=VARIANT, file=blob("file"))
        assert second == Ingest(variant=VARIANT, file=blob("file"), history=blob("list"), replay=False)
        assert not is_lost

    play(tmp_path, story)


def test_a_list_that_no_node_holds_is_reported(tmp_path: Path) -> None:
    """The file can be read all the same, and the caller knows that games may count again."""

    async def story(world: World) -> None:
        await world.keep(LINE)
        await count(world, "list")
        job, is_lost = await take_turn(world.store, world.clock, VARIANT, blob("file"), replay=True)

        assert (job.history, is_lost) == (None, True)

    play(tmp_path, story)


def test_a_second_file_waits_for_the_first(tmp_path: Path) -> None:
    """The same file does not: it is the same job.  After the end of the first, the new list is used."""

    async def story(world: World) -> None:
        await world.keep(LINE)
        [lease] = await world.claim(Ingest(variant=VARIANT, file=blob("one")))
        same, _ = await take_turn(world.store, world.clock, VARIANT, blob("one"), replay=True)
        waiting = asyncio.create_task(take_turn(world.store, world.clock, VARIANT, blob("two"), replay=True))
        done, _ = await asyncio.wait((waiting,), timeout=0.3)
        assert not done
        async with world.store.begin() as tx:
            await tx.cancel([lease.job])
        await count(world, "list", "near")
        second, _ = await waiting

        assert same.file == blob("one")
        assert (second.file, second.history) == (blob("two"), blob("list"))

    play(tmp_path, story)


def test_two_files_that_had_their_turn_at_once_are_not_both_read(tmp_path: Path) -> None:
    """The one that is enqueued later would not have the games of the other in its list."""

    async def story(world: World) -> None:
        await world.keep(LINE)
        job, _ = await take_turn(world.store, world.clock, VARIANT, blob("two"), replay=True)
        async with world.store.read() as view:
            await require_turn(view, job)
        [lease] = await world.claim(Ingest(variant=VARIANT, file=blob("one")))
        async with world.store.read() as view:
            with pytest.raises(WorkError, match="another file was read"):
                await require_turn(view, job)
        async with world.store.begin() as tx:
            await tx.cancel([lease.job])
        await count(world, "list", "near")
        async with world.store.read() as view:
            with pytest.raises(WorkError, match="another file was read"):
                await require_turn(view, job)

    play(tmp_path, story)


@pytest.mark.parametrize(("replay", "state"), [(True, "replayed"), (False, "pending")])
def test_the_list_is_recorded_with_the_games_and_how_they_counted(replay: bool, state: str) -> None:
    """All is written when the job ends: events, the list for the next job, and whether games were replayed."""
    job, line = (
        Ingest(variant=VARIANT, file=blob("file"), history=blob("old"), replay=replay),
        LineWork(workload="fake"),
    )

    outcome = conclude(job, RESULT, line, node="n", holder="n", ephemeral=False)

    [row] = [put for put in outcome.records if put.kind == COUNTED_GAMES.kind]
    assert (row.id, row.body) == (VARIANT, f'"{blob("list")}"'.encode())
    batch = next(origin for origin in outcome.origins if origin.kind == "games")
    assert (batch.games, batch.job_kind, batch.version, batch.settings) == (5, "ingest", "7", state)
    assert lineage.code_of(batch) == f"7, imported, {state}"
    assert lineage.code_of(changed(batch, job_kind="play")) == "7"
    assert (blob("batch"), blob("file")) in outcome.links


def test_the_list_is_not_deleted(tmp_path: Path) -> None:
    """It stays however old it is; the one before it goes."""

    async def story(world: World) -> None:
        await world.keep(LINE)
        await count(world, "list", "near")
        page = [StoredBlob(blob=blob(name), size=1, time=0.0) for name in ("list", "old")]
        async with world.store.read() as view:
            rulings = await rule(view, page, SweepSettings(grace_seconds=1.0), 1e9)

        assert [(ruling.goes, ruling.reason) for ruling in rulings] == [
            (False, "it lists imported games that count"),
            (True, "no record has mentioned it for 1 s"),
        ]

    play(tmp_path, story)
