"""Evacuation: what only a machine that may vanish holds is brought to a durable node."""

from dataclasses import dataclass
from pathlib import Path
from typing import cast

import pytest

from ringrift.cluster.roster import NodeRecord
from ringrift.daemons.evacuate import evacuate
from ringrift.daemons.notice import _EVACUATION, _read_notice, notice
from ringrift.events.alert import Cleared, Raised
from ringrift.kernel.settings import Settings
from ringrift.kernel.value import changed
from ringrift.pipeline.evacuation import Evacuation
from ringrift.pipeline.line import Batch, Line, Stage
from ringrift.work.run_states import set_run_state
from ringrift.work.runner import Runner
from unit.daemons.disks import Disks
from unit.pipeline.story import at
from unit.work.world import World, play


@dataclass
class Jobs:
    """What a runner says to those that save files."""

    notice: str = ""
    checkpoints: tuple[str, ...] = ()


def needing(*blobs: str) -> Line:
    """A line that needs these batches and nothing else."""
    line = at(Stage.COLLECTING, rounds=0).line
    batches = tuple(Batch(blob=blob, games=1, node="here") for blob in blobs)
    counts = type(line.counts)(batches=len(blobs), games=len(blobs), stored=len(blobs), games_kept=len(blobs))
    return changed(line, champion=None, generation=-1, stage=Stage.STARTING, pending=(), window=batches, counts=counts)


class Machine:
    """The node *here*, which may vanish or not, with its files."""

    def __init__(self, world: World, *, ephemeral: bool) -> None:
        self.world, self.disks, self.jobs = world, Disks(world), Jobs()
        self.record = NodeRecord(id="here", profile="full", address="here", beat=1, ephemeral=ephemeral)

    async def look(self) -> list[str]:
        """Let the daemon look once; what no durable node could take."""
        world, runner = self.world, cast("Runner", self.jobs)
        parts = {"store": world.store, "roster": world.roster, "desk": world.desk(), "clock": world.clock}
        return await evacuate(**parts, transfer=self.disks.transfer, runner=runner, record=self.record)

    async def make(self, data: bytes, *others: str) -> str:
        """A file that this node and *others* hold."""
        for node in ("here", *others):
            blob = self.disks[node].add(data)
            await self.world.hold(blob, node)
        return blob


def test_an_only_copy_on_a_machine_that_may_vanish_is_brought_to_a_durable_one(tmp_path: Path) -> None:
    """So are checkpoints; what a durable node holds already stays, and another ephemeral one is no refuge."""

    async def story(world: World) -> None:
        machine = Machine(world, ephemeral=True)
        for node, ephemeral in (("here", True), ("spot", True), ("b", False), ("c", False)):
            await world.beat(node, ephemeral=ephemeral)
        alone, twice = await machine.make(b"alone", "spot"), await machine.make(b"twice", "c")
        checkpoint = machine.disks["here"].add(b"checkpoint")
        machine.jobs.checkpoints = (checkpoint,)
        await world.keep(needing(alone, twice))

        assert await machine.look() == []

        assert await world.holders(alone) == ["b", "here", "spot"]
        assert await world.holders(twice) == ["c", "here"]
        assert await world.holders(checkpoint) == ["b"]

    play(tmp_path, story)


def test_a_full_or_absent_node_is_passed_over(tmp_path: Path) -> None:
    """The next durable one takes it; while none can, it is named."""

    async def story(world: World) -> None:
        machine = Machine(world, ephemeral=True)
        await world.beat("here", ephemeral=True)
        await world.beat("another", ephemeral=True)
        alone = await machine.make(b"alone")
        await world.keep(needing(alone))
        assert await machine.look() == [alone]

        for node in ("b", "c", "d"):
            await world.beat(node)
        machine.disks["b"].away = True
        machine.disks.fill("c")
        assert await machine.look() == []
        assert await world.holders(alone) == ["d", "here"]

    play(tmp_path, story)


@pytest.mark.parametrize("cause", ["", "notice", "drain"])
def test_a_durable_node_evacuates_only_when_it_goes(tmp_path: Path, cause: str) -> None:
    """By the notice of its provider, or because an operator drains it."""

    async def story(world: World) -> None:
        machine = Machine(world, ephemeral=False)
        await world.beat("here")
        await world.beat("b")
        alone = await machine.make(b"alone")
        await world.keep(needing(alone))
        if cause == "notice":
            machine.jobs.notice = "gone in two minutes"
        if cause == "drain":
            async with world.store.begin() as tx:
                await set_run_state(tx, world.envelopes, scope="node:here", state="draining", now=world.clock.now())

        await machine.look()

        assert await world.holders(alone) == (["b", "here"] if cause else ["here"])

    play(tmp_path, story)


def test_only_machines_that_may_vanish_protect_what_they_make(tmp_path: Path) -> None:
    """A durable node keeps its files; of a machine that may vanish they are elsewhere when it returns."""

    async def story(world: World) -> None:
        for ephemeral in (False, True):
            machine = Machine(world, ephemeral=ephemeral)
            await world.beat("here", ephemeral=ephemeral)
            await world.beat("b")
            blob = machine.disks["here"].add(b"%d" % ephemeral)
            parts = (machine.record, world.store, world.roster, machine.disks.transfer)
            await Evacuation(*parts).protect([blob])
            assert await world.holders(blob) == (["b"] if ephemeral else [])

    play(tmp_path, story)


def test_a_notice_is_the_first_line_of_its_file(tmp_path: Path) -> None:
    """An empty file is one too, and so is one that cannot be read; without a file there is none."""
    path = tmp_path / "notice"
    assert _read_notice(str(path)) == ""
    assert _read_notice(str(path / "below")) == ""
    path.write_bytes(b"terminate at 12:00\x1b[31m\nmore")
    assert _read_notice(str(path)).startswith("this machine is about to be taken away: terminate at 12:00")
    assert "\x1b" not in _read_notice(str(path))
    path.write_bytes(b"")
    assert _read_notice(str(path)).endswith(str(path))
    path.unlink()
    path.mkdir()
    assert _read_notice(str(path)).endswith("Is a directory")


def test_a_notice_is_published_once_and_can_be_taken_back(tmp_path: Path) -> None:
    """The runner learns of it at every look; people are told once."""
    path = tmp_path / "notice"

    async def story(world: World) -> None:
        settings = Settings.local(tmp_path, node="here").overlaid({"node.notice_file": str(path)})
        jobs, memory = Jobs(), dict[str, str]()

        async def look() -> str:
            runner = cast("Runner", jobs)
            await notice(runner=runner, router=world.router, settings=settings, node_id="here", memory=memory)
            return jobs.notice

        assert not await look()
        path.write_text("soon")
        assert await look()
        assert await look()
        path.unlink()
        assert not await look()

        [event] = await world.events(Raised)
        assert isinstance(event, Raised)
        assert (event.kind, event.subject) == (_EVACUATION, "here")
        assert await world.events(Cleared) == [Cleared(kind=_EVACUATION, subject="here")]

    play(tmp_path, story)
