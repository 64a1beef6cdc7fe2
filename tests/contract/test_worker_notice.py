"""A worker whose machine is about to be taken away hands everything in and takes nothing more."""

import asyncio
from pathlib import Path

from ringrift.cluster.alerts import open_alerts
from ringrift.daemons.notice import _EVACUATION
from ringrift.events.selfplay import BatchFinished
from ringrift.node import Node
from ringrift.work.game_ledger import ACCOUNTS, find_imbalances
from unit.worker_rig import VARIANT, DirectWire, coordinator, log, worker
from wait import wait_until

SECONDS = 20.0


async def _alerts(node: Node) -> list[tuple[str, str]]:
    async with node.store.read() as view:
        return [(alert.kind, alert.subject) for alert in await open_alerts(view) if alert.kind == _EVACUATION]


def test_after_a_notice_a_worker_delivers_and_rests(tmp_path: Path) -> None:
    """Its spool is empty, its leases are over, every slot is accounted for, and people are told why it rests."""
    path = tmp_path / "notice"

    async def story() -> None:
        wire = DirectWire()
        own = {"node.notice_file": str(path), "node.ephemeral": True}
        async with coordinator(tmp_path, wire, "w1") as node, worker(tmp_path, wire, seconds=0.3, **own) as w1:

            async def has_played() -> bool:
                return len(await log(node.store, BatchFinished)) >= 3

            await wait_until(has_played, SECONDS)
            path.write_text("spot instance is interrupted in 120 s")

            async def rests() -> bool:
                async with node.store.read() as view:
                    is_held = bool(await view.jobs(("claimed",), 10, holder="w1"))
                return bool(w1.runner.notice) and w1.runner.is_idle and not w1.spool.results and not is_held

            await wait_until(rests, SECONDS)
            count = len(await log(node.store, BatchFinished))

            async def is_told() -> bool:
                return await _alerts(node) == [(_EVACUATION, "w1")]

            await wait_until(is_told, SECONDS)
            async with node.store.read() as view:
                account = await ACCOUNTS.get(view, VARIANT)
                assert await find_imbalances(view) == {}
            assert account is not None
            assert account.ingested.slots == count == len(await log(node.store, BatchFinished))

            path.unlink()

            async def plays_on() -> bool:
                return len(await log(node.store, BatchFinished)) > count and not await _alerts(node)

            await wait_until(plays_on, SECONDS)

    asyncio.run(story())
