"""What the worker of a command made is on a node of this machine before the worker is gone."""

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path
from random import Random

from ringrift.cli.own_worker import _save_outputs, local_node
from ringrift.cluster.roster import NODES, NodeRecord
from ringrift.kernel.clock import SystemClock
from ringrift.kernel.settings import Settings
from ringrift.node import Node
from ringrift.store.open import open_store
from ringrift.sync import ledger


def settings(home: Path, node: str, profile: str) -> Settings:
    """A node of *home* with a folder of its own."""
    about = {"node.id": node, "node.profile": profile, "blobs.folder": str(home / "blobs" / node)}
    return Settings.local(home).overlaid(about)


def test_outputs_are_saved_on_a_node_that_has_left(tmp_path: Path) -> None:
    """Only what no other node holds is copied, and the ledger knows."""

    async def story() -> None:
        stays, clock = settings(tmp_path, "n1", "full"), SystemClock()
        async with asyncio.timeout(60.0), open_store(stays.store, clock) as store, AsyncExitStack() as stack:
            async with Node.open(stays, clock, Random(1), store=store, begin=()):
                """It leaves at once."""
            own = Node.open(settings(tmp_path, "x", "minimal"), clock, Random(2), store=store, begin=(), leads=False)
            worker = await stack.enter_async_context(own)
            [blob] = await worker.blobs.put([b"made by the worker"])
            async with store.begin() as tx:
                await tx.put([ledger.holding(blob, "x")])
            await _save_outputs(worker)
            async with store.read() as view:
                assert sorted(await ledger.holders(view, blob)) == ["n1", "x"]
                assert (await NODES.get(view, "n1") or worker.record).gone
            assert (tmp_path / "blobs" / "n1" / blob[:2] / blob).read_bytes() == b"made by the worker"

    asyncio.run(story())


def test_a_node_that_runs_is_preferred_and_a_folder_elsewhere_is_none(tmp_path: Path) -> None:
    """Of those whose files are here: one that has not left, then the own one."""
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "node").write_text(name)
    gone, here, away = (
        NodeRecord(id=name, profile="full", address=str(tmp_path / name), beat=1, gone=name == "a") for name in "abc"
    )

    assert local_node([gone, here, away], "a") == here
    assert local_node([gone, away], "") == gone
    assert local_node([away], "c") is None
