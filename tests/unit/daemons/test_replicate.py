"""A file whose holders are all away is waited for, shown, and given up only after long patience."""

from pathlib import Path

import pytest

from ringrift.events import model
from ringrift.kernel.value import changed
from ringrift.pipeline.line import Batch, Line, Stage
from ringrift.pipeline.models import MODELS, Change, State, become
from ringrift.work.limits import VERDICTS
from unit.daemons.disks import Disks
from unit.kernel.manual_clock import ManualClock
from unit.pipeline.story import VARIANT, at
from unit.work.world import World, play

GATE = f"{VARIANT}:champion"


class TomorrowsClock(ManualClock):
    """A wall clock that somebody has set to the next day."""

    def now(self) -> float:
        return super().now() + 86_400.0


async def stored_champion(world: World, disks: Disks, stage: Stage = Stage.COLLECTING) -> tuple[Line, str]:
    """A line whose champion lies on the disks of two nodes, which beat."""
    line = changed(at(stage, rounds=0).line, pending=(), window=())
    for node in ("a", "b"):
        champion = disks[node].add(b"champion")
        await world.beat(node)
    line = changed(line, champion=champion, counts=type(line.counts)())
    await world.keep(line)
    await world.hold(champion, "a", "b")
    return line, champion


async def closed(world: World) -> str:
    """Why the champion's gate is closed; empty while it is open."""
    async with world.store.read() as view:
        verdict = await VERDICTS.get(view, GATE)
    return "" if verdict is None or verdict.allowed else verdict.rule


def test_a_champion_whose_disks_are_all_away_is_waited_for(tmp_path: Path) -> None:
    """The gate says which nodes are away, an event tells it once, the ledger stays; one disk back opens the gate."""

    async def story(world: World) -> None:
        disks, roles = Disks(world), await world.roles()
        _, champion = await stored_champion(world, disks)
        disks["a"].away = True
        await disks.replicate(roles)
        assert await closed(world) == ""

        disks["b"].away = True
        for _ in range(3):
            await disks.replicate(roles)
        assert await closed(world) == f"no holder of champion {champion:.12} answers: a, b away"
        disks["b"].away = False
        for _ in range(2):
            await disks.replicate(roles)

        assert await closed(world) == ""
        assert await world.holders(champion) == ["a", "b"]
        missing = model.Missing(variant=VARIANT, model=champion, nodes=("a", "b"))
        expected = [missing, model.Returned(variant=VARIANT, model=champion)]
        assert await world.events(model.Missing, model.Returned) == expected

    play(tmp_path, story)


@pytest.mark.parametrize(("kind", "patience"), [("model", 1000.0), ("games", 100.0)])
def test_a_file_is_given_up_when_patience_is_over(tmp_path: Path, kind: str, patience: float) -> None:
    """Its holders leave the ledger only after the whole time on the observer's clock; an answer starts that anew."""

    async def story(world: World) -> None:
        disks, roles = Disks(world), await world.roles()
        line, blob = await stored_champion(world, disks)
        if kind == "games":
            blob = disks["a"].add(b"games")
            counts = changed(line.counts, batches=1, games=10)
            await world.keep(changed(line, champion="c" * 64, pending=(Batch(blob=blob, games=10),), counts=counts))
            await world.hold(blob, "a", "b")
        disks["a"].away = disks["b"].away = True
        await disks.replicate(roles)
        world.clock.seconds += patience - 1
        await disks.replicate(roles)
        disks["a"].away = False
        await disks.replicate(roles)
        disks["a"].away = True
        for step in (0.0, patience - 1):
            world.clock.seconds += step
            await disks.replicate(roles)
            assert await world.holders(blob) == ["a", "b"]

        world.clock.seconds += 1
        await disks.replicate(roles)

        assert await world.holders(blob) == []

    play(tmp_path, story)


def test_a_wall_clock_that_jumps_gives_nothing_up(tmp_path: Path) -> None:
    """Patience is measured on the observer's monotonic clock."""

    async def story(world: World) -> None:
        disks, roles = Disks(world), await world.roles()
        _, champion = await stored_champion(world, disks)
        disks["a"].away = disks["b"].away = True
        await disks.replicate(roles)
        world.clock = TomorrowsClock(world.clock.seconds)
        await disks.replicate(roles)

        assert await world.holders(champion) == ["a", "b"]

    play(tmp_path, story)


def test_a_disk_that_was_given_up_is_found_again(tmp_path: Path) -> None:
    """A needed file that no holder is known of is looked for on every node that answers."""

    async def story(world: World) -> None:
        disks, roles = Disks(world), await world.roles()
        _, champion = await stored_champion(world, disks)
        disks["a"].away = disks["b"].away = True
        await disks.replicate(roles)
        world.clock.seconds += 1000.0
        await disks.replicate(roles)
        assert await world.holders(champion) == []
        disks["a"].away = False
        await world.beat("a")

        await disks.replicate(roles)

        assert await world.holders(champion) == ["a"]

    play(tmp_path, story)


@pytest.mark.parametrize("stage", [Stage.COLLECTING, Stage.TRAINING])
def test_a_lost_model_that_turns_up_is_reported_when_its_line_has_time(tmp_path: Path, stage: Stage) -> None:
    """The event names the node and the generation; while the line is busy with another model it waits."""

    async def story(world: World) -> None:
        disks, roles = Disks(world), await world.roles()
        await stored_champion(world, disks, stage)
        lost = disks["b"].add(b"once champion")
        async with world.store.begin() as tx:
            await MODELS.put(tx, [become(None, VARIANT, Change(lost, 3, State.LOST), 1.0)])

        await disks.replicate(roles)

        events = [model.Returned(variant=VARIANT, model=lost, node="b", generation=3)]
        assert await world.events(model.Returned) == (events if stage is Stage.COLLECTING else [])
        assert await world.holders(lost) == ["b"]

    play(tmp_path, story)
