"""Feedback remembers each line's matches in one record, and says what follows from them with its cause."""

from pathlib import Path

from ringrift.daemons.feedback import feedback
from ringrift.events.evaluation import Finished, Plateaued, VelocityChanged
from ringrift.kernel.settings import Policy
from unit.work.world import World, play

POLICY = Policy(plateau_rejections=3)


async def decide(world: World, variant: str, *, promoted: bool) -> str:
    """Let a match be decided, an hour after the last; the id of the event."""
    world.clock.seconds += 3600.0
    said = Finished(variant=variant, candidate="c", champion="d", blocks=16, score=0.6, elo=70.0, promoted=promoted)
    envelope = world.envelope(said)
    async with world.store.begin() as tx:
        await feedback(said, envelope, tx, policy=POLICY, scribe=world.scribe)
    return envelope.id


def test_lines_are_felt_apart(tmp_path: Path) -> None:
    """Each line has a trend and a plateau of its own, told as what its last match has led to."""

    async def story(world: World) -> None:
        for _ in range(3):
            await decide(world, "hex8_2p", promoted=True)
            last = await decide(world, "hex8_3p", promoted=False)

        trends = {said.variant: said.trend for said in await world.told(VelocityChanged)}
        assert trends == {"hex8_2p": "steady", "hex8_3p": "flat"}
        [plateau] = await world.told(Plateaued)
        assert (plateau.variant, plateau.rejections) == ("hex8_3p", 3)
        async with world.store.read() as view:
            [envelope] = await view.read(0, 10, [Plateaued.name()])
        assert (envelope.cause, envelope.source) == (last, "feedback")

    play(tmp_path, story)


def test_a_few_matches_say_nothing(tmp_path: Path) -> None:
    """Two matches are no trend."""

    async def story(world: World) -> None:
        for _ in range(2):
            await decide(world, "hex8_2p", promoted=True)

        assert await world.told() == []

    play(tmp_path, story)
