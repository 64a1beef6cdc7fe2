"""Strategies differ in which bytes move when: at once when a file is made, at the next look, or not ahead of need."""

from pathlib import Path

import pytest

from ringrift.jobs import Sync
from ringrift.kernel.errors import SettingsError
from ringrift.kernel.transfer_settings import STRATEGIES, Replicas
from ringrift.kernel.value import changed
from ringrift.pipeline.copies import WAITING
from ringrift.pipeline.line import Batch, Stage
from ringrift.sync.receipts import receipts_of
from unit.daemons.disks import Disks
from unit.pipeline.story import VARIANT, at
from unit.work.world import World, play

LOOK = 30  # seconds until the daemon looks
HELD_BACK = "copied when a node needs it"
MOVES = {
    "hybrid": "0: fresh to a, fresh to b | 30: champion to b, old to b",
    "ephemeral": "0: fresh to a, fresh to b | 30: ",
    "broadcast": "0: fresh to a, fresh to b | 30: champion to b, champion to spot, old to b, old to spot",
    "pull": "0: fresh to a | 30: ",
    "auto": "0: fresh to a, fresh to b | 30: champion to b, champion to spot, old to b",
}


async def moves_at(world: World, names: dict[str, str], time: float) -> str:
    """What was copied at *time*, and to whom."""
    async with world.store.read() as view:
        receipts = [row for blob in names for row in await receipts_of(view, blob)]
    return ", ".join(sorted(f"{names[row.blob]} to {row.node}" for row in receipts if row.time == time))


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_strategies_differ_in_which_bytes_move_when(tmp_path: Path, strategy: str) -> None:
    """A machine that may vanish has made games, a durable node has older ones and the champion."""

    async def story(world: World) -> None:
        disks, roles = Disks(world), await world.roles()
        for node in ("a", "b"):
            await world.beat(node)
        await world.beat("spot", ephemeral=True)
        champion, old, fresh = disks["a"].add(b"champion"), disks["a"].add(b"old"), disks["spot"].add(b"fresh")
        names = {champion: "champion", old: "old", fresh: "fresh"}
        for blob, node in ((champion, "a"), (old, "a"), (fresh, "spot")):
            await world.hold(blob, node)
        line = at(Stage.COLLECTING, rounds=0).line
        window = (Batch(blob=old, games=1), Batch(blob=fresh, games=1))
        await world.keep(changed(line, champion=champion, pending=(), window=window))
        start = world.clock.now()

        await world.desk().enqueue([Sync(variant=VARIANT, blob=fresh, kind_of="games", source="spot")])
        await disks.do_jobs(strategy)
        world.clock.seconds += LOOK
        for node in ("a", "b"):
            await world.beat(node)
        await world.beat("spot", ephemeral=True)
        await disks.replicate(roles, strategy=strategy)
        await disks.do_jobs(strategy)

        moves = [await moves_at(world, names, start + seconds) for seconds in (0, LOOK)]
        assert f"0: {moves[0]} | {LOOK}: {moves[1]}" == MOVES[strategy]
        async with world.store.read() as view:
            waiting = " ".join(await WAITING.get(view, "last") or {})
        assert (HELD_BACK in waiting) == (strategy in ("ephemeral", "pull"))

    play(tmp_path, story)


def test_an_unknown_strategy_is_refused() -> None:
    """The message lists the strategies."""
    with pytest.raises(SettingsError, match="hybrid, ephemeral, broadcast, pull, auto"):
        Replicas(strategy="gossip")
