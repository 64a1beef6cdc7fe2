"""What counts once: games, by their file."""

from pathlib import Path

from ringrift.events.selfplay import BatchFinished
from ringrift.events.work import Cancelled
from ringrift.jobs import Play
from ringrift.store.ports import Origin
from ringrift.work.counted_once import count_once
from ringrift.work.desk import JobOutcome
from unit.work.world import World, play

VARIANT, NODE = "hex8_2p", "here"


async def ingest(world: World, number: int, blob: str = "") -> bool:
    """Whether the batch of this *number*, in *blob* or in a file of its own, counts."""
    blob = blob or f"blob-{number}"
    event = BatchFinished(variant=VARIANT, batch=blob, games=1, node=NODE, model="m", island=True)
    origin = Origin(blob=blob, node=NODE, kind="games", variant=VARIANT, games=1, job_kind="play")
    job = Play(variant=VARIANT, model="m", games=1, seed=number)
    outcome = JobOutcome(events=(event,), origins=(origin,))
    return await world.desk().ingest(f"island:{NODE}:e:{number}", job, outcome, "", None)


def test_a_batch_counts_once_by_its_file(tmp_path: Path) -> None:
    """Whichever key it is offered under."""

    async def story(world: World) -> None:
        assert [await ingest(world, number) for number in (1, 2, 1, 2)] == [True, True, False, False]
        assert not await ingest(world, 3, "blob-2")
        assert len(await world.events(BatchFinished)) == 2

    play(tmp_path, story)


def test_games_from_elsewhere_that_are_counted_are_not_published() -> None:
    """They were no job to play, so nothing is cancelled either."""
    event = BatchFinished(variant=VARIANT, batch="a", games=1, node=NODE, model="m")
    imported = BatchFinished(variant=VARIANT, batch="a", games=1, node=NODE, model="m", source="file")

    assert count_once(event, "job", {"a"}) == Cancelled(variant=VARIANT, kind="play", jobs=("job",))
    assert count_once(imported, "job", {"a"}) is None
    assert count_once(imported, "job", set()) is imported
