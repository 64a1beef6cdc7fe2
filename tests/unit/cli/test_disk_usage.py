"""``data du`` shows what takes space and what pins it; ``data gc`` deletes what the retention rule lets go."""

import asyncio
import os
from dataclasses import replace
from pathlib import Path

import pytest

from ringrift.blobs.folder import Folder
from ringrift.cli.command import Output
from ringrift.cli.commands.data import COMMAND
from ringrift.cli.disk_usage import Usage, _sum_usage, size_text
from ringrift.cluster.roster import NODES, NodeRecord
from ringrift.environment import read_settings
from ringrift.events.daemon import CommandIssued
from ringrift.events.data import Removed
from ringrift.kernel.errors import InputError, UnknownName
from ringrift.kernel.value import changed
from ringrift.pipeline import retention
from ringrift.pipeline.line import Batch
from ringrift.work.checkpoints import CHECKPOINTS
from unit.cli.command_output import context
from unit.pipeline.blob_rig import DAY, collecting, made, write
from unit.pipeline.story import VARIANT
from unit.work.world import World, play

SWEEP = {"sweep.newest_min": 0, "sweep.retention_seconds": 100.0, "sweep.grace_seconds": 100.0}


async def command(world: World, *words: str) -> Output:
    """The output of ``ringrift data`` with *words*, where files that nothing needs go after 100 s."""
    base = context(world.store, "data", *words, clock=world.clock)
    effective = read_settings({"RINGRIFT_HOME": "/nowhere"}, overrides=SWEEP)
    output = await COMMAND.question(replace(base, effective=effective)) if COMMAND.question else None
    assert output is not None
    return output


async def store_files(world: World, root: Path, node: str = "n1", age: float = DAY) -> list[str]:
    """A champion, a batch in the window, one that nothing needs, and a leftover, of *node*, all of one *age*."""
    folder = Folder(root / node, node)
    folder.mark()
    names = [folder.put(name.encode() * 100) for name in ("champion", "window", "games", "leftover")]
    born = world.clock.now() - age
    for name in names:
        os.utime(folder.path(name), (born, born))
    champion, window, games, _ = names
    await world.keep(collecting(champion, window=(Batch(blob=window, games=3),)))
    await write(world, made(games, "games", born), made(window, "games", born), made(champion, "model", born))
    await world.hold(games, node)
    async with world.store.begin() as tx:
        record = NodeRecord(id=node, profile="full", address=str(root / node), beat=1, gone=True)
        await NODES.put(tx, [record])
    return names


def test_sizes_are_by_node_kind_and_variant_with_what_pins_them(tmp_path: Path) -> None:
    """Every file is counted once, and the rule of the sweep says what becomes of it."""

    async def story(world: World) -> None:
        folder = Folder(tmp_path / "n1", "n1")
        await store_files(world, tmp_path)
        checkpoint = folder.put(b"checkpoint" * 100)
        born = world.clock.now() - retention.CHECKPOINT_SECONDS
        os.utime(folder.path(checkpoint), (born, born))
        async with world.store.begin() as tx:
            await CHECKPOINTS.put_at(tx, {checkpoint: "a job that is done"})
        output = await command(world, "du")

        rows = {(row.kind, row.goes, row.reason): row for row in output.value["usage"] if row.node}
        assert rows[("model", False, "a line needs it")].bytes == 800
        assert rows[("games", False, "a line needs it")].variant == VARIANT
        assert rows[("games", True, "nothing has needed it for 100 s")].files == 1
        assert rows[("checkpoint", True, "its job has ended")].bytes == 1000
        assert rows[("other", True, "no record has mentioned it for 100 s")].bytes == 800
        assert sum(row.files for row in rows.values()) == 5
        assert "n1    games" in output.text
        assert (
            output.text.index("what stays:") < output.text.index("a line needs it") < output.text.index("what may go")
        )

    play(tmp_path, story)


def test_a_folder_that_is_not_here_is_named_and_the_others_are_counted(tmp_path: Path) -> None:
    """A node of another machine, or a disk that is not mounted."""

    async def story(world: World) -> None:
        await store_files(world, tmp_path)
        async with world.store.begin() as tx:
            await NODES.put(tx, [NodeRecord(id="far", profile="full", address="/nowhere/far", beat=1)])
        output = await command(world, "du")
        assert "not counted: node far cannot be reached" in output.text
        assert {row.node for row in output.value["usage"]} >= {"n1"}
        with pytest.raises(UnknownName, match="nobody"):
            await command(world, "du", "nobody")

    play(tmp_path, story)


def test_a_dry_run_deletes_nothing_and_a_run_what_it_said(tmp_path: Path) -> None:
    """The same rule, with the same settings: files, ledger and event; a second run finds nothing more."""

    async def story(world: World) -> None:
        champion, window, games, leftover = await store_files(world, tmp_path)
        folder = Folder(tmp_path / "n1", "n1")
        plan = await command(world, "gc", "--dry-run")
        assert folder.have([champion, window, games, leftover]) == {champion, window, games, leftover}
        assert {row.kind for row in plan.value["usage"] if row.goes} == {"games", "other"}

        output = await command(world, "gc")
        assert "node n1: deleted 2 files, 1.3 kB" in output.text
        assert folder.have([champion, window, games, leftover]) == {champion, window}
        assert await world.holders(games) == []
        [removed] = await world.events(Removed)
        assert isinstance(removed, Removed)
        assert (removed.node, set(removed.blobs)) == ("n1", {games, leftover})
        again = await command(world, "gc")
        assert "deleted 0 files" in again.text

    play(tmp_path, story)


def test_young_files_stay(tmp_path: Path) -> None:
    """By the settings that are in force: a person who wants more room sets them for this command."""

    async def story(world: World) -> None:
        names = await store_files(world, tmp_path, age=50.0)
        assert "deleted 0 files" in (await command(world, "gc")).text
        assert len(Folder(tmp_path / "n1", "n1").have(names)) == 4

    play(tmp_path, story)


def test_a_node_that_runs_is_asked_to_sweep_itself(tmp_path: Path) -> None:
    """Its folder is not touched by this command."""

    async def story(world: World) -> None:
        names = await store_files(world, tmp_path)
        async with world.store.begin() as tx:
            [record] = await NODES.all(tx)
            await NODES.put(tx, [changed(record, gone=False)])

        asking = asyncio.create_task(command(world, "gc"))
        for beat in range(2, 10_000):
            async with world.store.begin() as tx:
                await NODES.put(tx, [changed(record, gone=False, beat=beat)])
            if asking.done():
                break
        output = await asking

        assert "node n1: it runs and was asked to sweep now" in output.text
        [event] = await world.events(CommandIssued)
        assert isinstance(event, CommandIssued)
        assert (event.node, event.daemon, event.action) == ("n1", "sweep", "restart")
        assert len(Folder(tmp_path / "n1", "n1").have(names)) == 4

    play(tmp_path, story)


@pytest.mark.parametrize(
    ("size", "text"), [(0, "0 B"), (999, "999 B"), (1_500, "1.5 kB"), (119e6, "119 MB"), (3e15, "3e+03 TB")]
)
def test_sizes_are_short(size: float, text: str) -> None:
    """In the unit in which they have few digits."""
    assert size_text(size) == text


def test_sums_ignore_what_their_key_leaves_out() -> None:
    """The largest first, within each node."""
    rows = [
        Usage(node="a", kind="games", variant="x", files=1, bytes=5),
        Usage(node="a", kind="games", variant="y", files=2, bytes=6),
        Usage(node="a", kind="model", files=1, bytes=50),
    ]
    assert _sum_usage(changed(row, variant="") for row in rows) == [
        Usage(node="a", kind="model", files=1, bytes=50),
        Usage(node="a", kind="games", files=3, bytes=11),
    ]


def test_dry_run_belongs_to_gc(tmp_path: Path) -> None:
    """Elsewhere it would promise what is not so."""
    with pytest.raises(InputError, match="ringrift data gc --dry-run"):
        COMMAND.prepare(context(None, "data", "give-up", "n1", "--dry-run"))
