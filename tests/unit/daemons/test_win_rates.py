"""The pipeline keeps win rates of every line from the blocks in the log, and reviews a champion that does worse."""

from pathlib import Path
from statistics import fmean

from ringrift.bus.envelopes import EnvelopeFactory
from ringrift.daemons.pipeline import pipeline
from ringrift.events.base import Envelope
from ringrift.events.evaluation import Block, BlocksPlayed, WinRateFell
from ringrift.kernel.value import changed
from ringrift.kernel.verdict import Verdict
from ringrift.pipeline.line import LINES, Ancestor, Line, Stage
from ringrift.pipeline.win_rates import _WIN_RATES
from ringrift.work.limits import QUARANTINES
from unit.pipeline.story import POLICY, VARIANT, blob
from unit.work.world import World, play

FIRST, SECOND = blob("first champion"), blob("second champion")
REVIEWED = changed(POLICY, review_promotions=8)


def line(champion: str, *ancestors: str) -> Line:
    """A line with this champion."""
    earlier = tuple(Ancestor(model=model, generation=0) for model in ancestors)
    facts = {"stage": Stage.COLLECTING, "champion": champion, "generation": 1, "ancestors": earlier}
    return Line(variant=VARIANT, workload="fake", players=2, **facts)


async def report(world: World, model: str, score: float, *, seed: int, node: str = "n1", blocks: int = 16) -> None:
    """Let *node* report blocks of *model* against a baseline, all with this score."""
    played = tuple(Block(number=number, scores=(score, score)) for number in range(blocks))
    names = {"candidate": model, "champion": "greedy", "settings": "s", "seed": seed, "node": node}
    event = BlocksPlayed(variant=VARIANT, blocks=played, **names)
    factory = EnvelopeFactory("here", world.clock, world.ids)
    envelope: Envelope = factory.make(event, source="test")
    async with world.store.begin() as tx:
        [envelope] = await tx.append([envelope])
        await pipeline(event, envelope, tx, policy=REVIEWED, envelopes=factory)


async def rates(world: World) -> list[tuple[str, str, int, float]]:
    """Champion, opponent, blocks and rate of every row."""
    async with world.store.read() as view:
        stored = await _WIN_RATES.get(view, VARIANT)
    rows = stored.opponents if stored else ()
    return [(row.model, row.opponent.weights, len(row.rates), fmean(row.rates)) for row in rows]


def test_a_fall_of_the_win_rate_leads_to_a_review(tmp_path: Path) -> None:
    """The second champion does worse against the same baseline: it is reviewed against the first, once."""

    async def story(world: World) -> None:
        await world.keep(line(FIRST))
        await report(world, FIRST, 1.0, seed=1)
        assert await rates(world) == [(FIRST, "greedy", 16, 1.0)]
        await world.keep(line(SECOND, FIRST))
        await report(world, SECOND, 0.5, seed=2)

        under_review = (await world.line(VARIANT)).review
        assert under_review is not None
        assert under_review.challenge.opponent == FIRST
        await report(world, SECOND, 0.5, seed=3)
        [event] = await world.events(WinRateFell)
        assert isinstance(event, WinRateFell)
        assert (event.model, event.predecessor, event.opponent, event.blocks) == (SECOND, FIRST, "greedy", 16)

    play(tmp_path, story)


def test_the_same_blocks_count_once_and_those_of_a_quarantined_node_never(tmp_path: Path) -> None:
    """A second report of a block and a node that is not trusted leave the rates as they are."""

    async def story(world: World) -> None:
        await world.keep(line(FIRST))
        await report(world, FIRST, 1.0, seed=1)
        await report(world, FIRST, 1.0, seed=1)
        async with world.store.begin() as tx:
            verdict = Verdict(gate="trust", allowed=False, rule="wrong", value=1, limit=0)
            await QUARANTINES.put_at(tx, {"bad": verdict})
        await report(world, FIRST, 0.0, seed=2, node="bad")

        assert await rates(world) == [(FIRST, "greedy", 16, 1.0)]
        async with world.store.read() as view:
            assert (await LINES.get(view, VARIANT)) is not None

    play(tmp_path, story)
