"""``ringrift why`` on a store: which facts it reads, and what it prints for one line, for all and for none."""

from pathlib import Path

import pytest

from ringrift.blobs.folder import Folder
from ringrift.cli.command import Output
from ringrift.cluster.roster import NodeRecord
from ringrift.events.work import Buried
from ringrift.jobs import Train
from ringrift.kernel.errors import UnknownName
from ringrift.kernel.value import changed
from ringrift.kernel.verdict import Verdict
from ringrift.pipeline.line import Stage
from ringrift.pipeline.records import save_verdicts
from unit.cli.command_output import ask
from unit.pipeline.story import VARIANT, at, blob
from unit.work.world import World, play


async def why(world: World, *words: str) -> Output:
    """The output of the command at the time of *world*."""
    return await ask(world.store, "why", *words, clock=world.clock)


async def first_line(world: World, *words: str) -> str:
    """Its first line."""
    return (await why(world, *words)).text.split("\n")[0]


async def lead(world: World, stage: Stage, folder: Path) -> None:
    """A line in *stage*, and a node that decides about it, with its blobs in *folder*."""
    await world.keep(changed(at(stage).line, since=world.clock.now()))
    Folder(folder, "n1").mark()
    beat = int(world.clock.tick() * 1000)
    await world.roster.put(NodeRecord(id="n1", profile="full", address=str(folder), beat=beat))
    await world.roles("n1")


def test_a_coordinator_is_one_that_still_beats(tmp_path: Path) -> None:
    """Without a node, with one, and with one that was killed and whose roles nobody has taken yet."""

    async def story(world: World) -> None:
        await world.keep(at(Stage.TRAINING).line)
        assert await first_line(world, VARIANT) == f"{VARIANT} waits: no coordinator is running"
        await lead(world, Stage.TRAINING, tmp_path)
        assert "no coordinator" not in await first_line(world, VARIANT)
        world.clock.seconds += 60.0
        assert await first_line(world, VARIANT) == f"{VARIANT} waits: no coordinator is running"

    play(tmp_path, story)


def test_without_a_variant_every_line_is_answered(tmp_path: Path) -> None:
    """Each begins with its name; a store without lines says that there are none."""

    async def story(world: World) -> None:
        assert (await why(world)).text.startswith("no line yet: nothing was ever run here")
        line = at(Stage.TRAINING).line
        await world.keep(line)
        await world.keep(changed(line, variant="square8_3p", players=3))

        output = await why(world)

        answers = [text for text in output.text.splitlines() if not text.startswith(" ") and text]
        assert [text.split()[0] for text in answers] == [VARIANT, "square8_3p"]
        assert [reply["variant"] for reply in output.value] == [VARIANT, "square8_3p"]
        with pytest.raises(UnknownName):
            await why(world, "chess_2p")

    play(tmp_path, story)


def test_internals_are_shown_only_if_wanted(tmp_path: Path) -> None:
    """Roles, gates and signals are for ``--all``; the first line is the same."""

    async def story(world: World) -> None:
        await world.keep(at(Stage.TRAINING).line)
        await world.roles("n1")
        async with world.store.begin() as tx:
            verdicts = [
                Verdict("ladder", True, "a rule", 1, 2, 3.0),
                Verdict("feedback urgency", False, "r", 1, 2, 3.0),
            ]
            await save_verdicts(tx, VARIANT, verdicts)

        plain, full = (await why(world, VARIANT)).text, (await why(world, VARIANT, "--all")).text

        assert plain.split("\n")[0] == full.split("\n")[0]
        for title in ("other gates:", "signals:"):
            assert (title in plain, title in full) == (False, True)

    play(tmp_path, story)


def test_a_buried_job_is_the_cause_though_the_next_one_runs(tmp_path: Path) -> None:
    """Every attempt makes a new job that is given up as well: the answer names error, file and line, and the job."""

    async def story(world: World) -> None:
        await lead(world, Stage.TRAINING, tmp_path)
        trace = 'File "/x/net.py", line 12, in forward'
        event = Buried(variant=VARIANT, job="j7", kind="train", key="k", error="no", attempts=2, traceback=trace)
        async with world.store.begin() as tx:
            await tx.append([world.envelope(event)])
        await world.claim(Train(variant=VARIANT, generation=1, samples=blob("s"), parent=blob("m")), node="n1")

        output = await why(world, VARIANT)

        first, second, *_ = output.text.split("\n")
        assert first.startswith(f"{VARIANT} waits: training fails: no at net.py:12 (given up after 2 attempts), since ")
        assert second.split() == ["do:", "ringrift", "jobs", "show", "j7"]
        assert output.value["answer"].cause == "failing"

    play(tmp_path, story)


def test_since_is_that_of_this_stage(tmp_path: Path) -> None:
    """A verdict that keeps the time of an earlier round is dated by this one, for people and for programs."""

    async def story(world: World) -> None:
        await lead(world, Stage.COLLECTING, tmp_path)
        async with world.store.begin() as tx:
            await save_verdicts(tx, VARIANT, [Verdict(Stage.COLLECTING, False, "games", 3, 20, 5.0)])

        output = await why(world, VARIANT)

        now = world.clock.now()
        assert (output.value["answer"].since, output.value["waits_on"].since) == (now, now)
        assert output.text.startswith(f"{VARIANT} is collecting: 3 of 20 games, since ")

    play(tmp_path, story)
