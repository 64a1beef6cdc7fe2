"""What a person does to a line happens in one transaction, and passes no gate by."""

from pathlib import Path

import msgspec
import pytest

from ringrift.events import model, pipeline
from ringrift.jobs import Distribute, Import, Verify
from ringrift.kernel.errors import InputError, UnknownName
from ringrift.pipeline import byhand
from ringrift.pipeline.byhand import Found, Hand, find, imported_from, may_put_up, put_up, roll_back
from ringrift.pipeline.line import Stage, check
from ringrift.pipeline.models import KIND, Model, State, key
from ringrift.pipeline.records import BUDGET, RUN, account_of, decisions_of, models_of
from ringrift.store.ports import Origin, Put
from unit.pipeline.story import POLICY, VARIANT, Story, at, blob
from unit.work.world import World, play


async def keep(world: World, story: Story) -> None:
    """Write down where *story* stands: its line, its models, the error budget and the jobs that are alive."""
    await world.keep(story.line)
    await world.desk().ask(tuple(story.alive.values()))
    async with world.store.begin() as tx:
        await tx.put([Put(kind=BUDGET, id=RUN, body=msgspec.json.encode(story.account))])
        await tx.put([
            Put(kind=KIND, id=key(VARIANT, name), body=msgspec.json.encode(one), index={"variant": VARIANT})
            for name, one in story.models.items()
        ])  # fmt: skip


def hand(world: World) -> Hand:
    """Somebody at the keyboard."""
    return Hand(scribe=world.scribe, ids=world.ids, now=world.clock.now())


async def lives(world: World) -> dict[str, Model]:
    """Every model of the line."""
    async with world.store.read() as view:
        return {one.model: one for one in await models_of(view, VARIANT)}


def origin(name: str, job_kind: str = "import", variant: str = VARIANT) -> Origin:
    """How a model came to be."""
    return Origin(blob=blob(name), node="n", kind="model", variant=variant, job_kind=job_kind)


@pytest.mark.parametrize("stage", [stage for stage in Stage if stage not in (Stage.STARTING, Stage.RESTING)])
def test_a_line_goes_back_from_every_stage(tmp_path: Path, stage: Stage) -> None:
    """Pointer, models, decision, event and the job that brings the model to every node: all are there, or none."""

    async def story(world: World) -> None:
        told = at(stage, rounds=2)
        line = told.line
        await keep(world, told)
        async with world.store.begin() as tx:
            await roll_back(tx, VARIANT, None, "looks odd", policy=POLICY, hand=hand(world))

        after, known = await world.line(VARIANT), await lives(world)
        async with world.store.read() as view:
            decisions = await decisions_of(view, VARIANT)
            account = await account_of(view, POLICY.budget)
        check(after)
        assert (after.stage, after.champion, after.candidate) == (Stage.DISTRIBUTING, line.previous, None)
        assert after.ancestors == line.ancestors[:-1]
        assert known[line.champion or ""].state is State.ROLLED_BACK
        assert known[line.previous or ""].state is State.CHAMPION
        if line.candidate is not None:
            assert known[line.candidate.model].state is State.REJECTED
        assert account.begun == account.settled, "a test that ended is settled"
        [decision] = decisions
        assert (decision.kind, decision.model, decision.previous) == ("rollback", line.previous, line.champion)
        assert (decision.reason, decision.promoted) == ("looks odd", False)
        [said] = await world.told(model.RolledBack)
        assert isinstance(said, model.RolledBack)
        assert (said.model, said.to, said.reason) == (line.champion, line.previous, "looks odd")
        wanted = Distribute(variant=VARIANT, model=line.previous or "").key
        assert wanted in [row.key for row in await world.jobs("ready")]
        matches = [row for row in await world.jobs("ready", "claimed") if row.kind == "match"]
        assert not matches, "the match of a candidate against the other goes on"

    play(tmp_path, story)


def test_a_move_by_hand_is_told_like_any_other(tmp_path: Path) -> None:
    """Who fills the queue hears of it, and its cause is what was done."""

    async def story(world: World) -> None:
        await keep(world, at(Stage.COLLECTING, rounds=2))
        async with world.store.begin() as tx:
            await roll_back(tx, VARIANT, None, "why not", policy=POLICY, hand=hand(world))

        [moved] = await world.told(pipeline.Moved)
        async with world.store.read() as view:
            log = {envelope.name: envelope for envelope in await view.read(0, 100)}
        assert moved == pipeline.Moved(variant=VARIANT, stage=Stage.DISTRIBUTING, before=Stage.COLLECTING)
        assert log["pipeline.moved"].cause == log["model.rolled_back"].id

    play(tmp_path, story)


def test_any_earlier_champion_can_be_the_target(tmp_path: Path) -> None:
    """By the beginning of its name; those behind it are no longer ancestors."""

    async def story(world: World) -> None:
        line = at(Stage.COLLECTING, rounds=2).line
        first, last = line.ancestors
        await keep(world, at(Stage.COLLECTING, rounds=2))
        async with world.store.begin() as tx:
            await roll_back(tx, VARIANT, first.model[:10], "far", policy=POLICY, hand=hand(world))

        after = await world.line(VARIANT)
        assert (after.champion, after.generation, after.ancestors) == (first.model, first.generation, ())
        assert (await lives(world))[last.model].state is State.RETIRED

    play(tmp_path, story)


@pytest.mark.parametrize("to", ["ffff", "", "the champion"])
def test_only_an_ancestor_can_be_the_target(tmp_path: Path, to: str) -> None:
    """Anything else is refused with the list of those that can, and nothing has happened."""

    async def story(world: World) -> None:
        line = at(Stage.COLLECTING, rounds=2).line
        await keep(world, at(Stage.COLLECTING, rounds=2))
        wanted = line.champion if to == "the champion" else to
        with pytest.raises(UnknownName) as refused:
            async with world.store.begin() as tx:
                await roll_back(tx, VARIANT, wanted, "no", policy=POLICY, hand=hand(world))

        assert refused.value.known == tuple(sorted(one.model[:12] for one in line.ancestors))
        assert await world.line(VARIANT) == line
        assert await world.told(model.RolledBack) == []

    play(tmp_path, story)


def test_a_line_without_an_earlier_champion_cannot_go_back(tmp_path: Path) -> None:
    """Generation 0 is all it has."""

    async def story(world: World) -> None:
        await keep(world, at(Stage.COLLECTING, rounds=0))
        with pytest.raises(InputError, match="hex8_2p has no earlier champion to go back to"):
            async with world.store.begin() as tx:
                await roll_back(tx, VARIANT, None, "no", policy=POLICY, hand=hand(world))

    play(tmp_path, story)


def test_another_variant_is_not_touched(tmp_path: Path) -> None:
    """A rollback writes only what belongs to its line."""

    async def story(world: World) -> None:
        other = msgspec.structs.replace(at(Stage.COLLECTING, rounds=2).line, variant="hex8_3p", players=3)
        await keep(world, at(Stage.COLLECTING, rounds=2))
        await world.keep(other)
        async with world.store.begin() as tx:
            await roll_back(tx, VARIANT, None, "mine", policy=POLICY, hand=hand(world))

        assert await world.line("hex8_3p") == other
        assert {row.variant for row in await world.jobs()} == {VARIANT}

    play(tmp_path, story)


# -- putting a model up ------------------------------------------------------------------------------------------------


def known(name: str, state: State) -> Found:
    """A model that stands in *state*."""
    life = Model(variant=VARIANT, model=blob(name), generation=1, state=state, since=0.0)
    return Found(variant=VARIANT, model=blob(name), known=life)


@pytest.mark.parametrize("state", [state for state in State if state is not State.TRAINING])
def test_only_who_is_out_of_the_running_is_put_up(state: State) -> None:
    """Retired, rejected, rolled back or once lost: who is under way or champion is not."""
    verdict = may_put_up(at(Stage.COLLECTING).line, known("m", state), 5.0)

    out = state in (State.RETIRED, State.REJECTED, State.ROLLED_BACK, State.LOST)
    assert verdict.allowed is out
    assert out or verdict.rule == f"it is {state}"


@pytest.mark.parametrize("stage", [stage for stage in Stage if stage is not Stage.RESTING])
def test_a_line_takes_a_candidate_only_while_it_has_none(stage: Stage) -> None:
    """While it collects; else the verdict says where it stands."""
    line = at(stage).line

    verdict = may_put_up(line, known("m", State.REJECTED), 5.0)

    assert verdict.allowed is (stage is Stage.COLLECTING)
    if line.champion is not None and not verdict.allowed:
        assert verdict.rule == f"the line is {stage}; a model can be put up while it is collecting or resting"


def test_who_was_never_a_candidate_is_not_put_up_unless_it_came_from_elsewhere() -> None:
    """What is trained is tested by itself."""
    line = at(Stage.COLLECTING).line
    stranger = Found(variant=VARIANT, model=blob("m"))

    assert not may_put_up(line, stranger, 5.0).allowed
    assert may_put_up(line, msgspec.structs.replace(stranger, imported=True), 5.0).allowed
    assert may_put_up(line, Found(variant=VARIANT, model=line.champion or ""), 5.0).rule == "it is the champion"


def test_who_is_put_up_goes_the_way_of_every_candidate(tmp_path: Path) -> None:
    """It is copied from a holder and checked, and nobody is champion by it."""

    async def story(world: World) -> None:
        told = at(Stage.COLLECTING, rounds=2)
        before = told.line.previous or ""
        await keep(world, told)
        await world.hold(before, "n")
        async with world.store.begin() as tx:
            found = await find(tx, before[:12])
            verdict, step = await put_up(tx, found, policy=POLICY, hand=hand(world))

        line = await world.line(VARIANT)
        assert verdict.allowed
        assert step is not None
        assert (line.stage, line.champion) == (Stage.VERIFYING, told.line.champion)
        assert line.candidate is not None
        assert (line.candidate.model, line.candidate.copied, line.candidate.verified) == (before, False, False)
        assert (await lives(world))[before].state is State.CANDIDATE
        asked = {row.kind for row in await world.jobs("ready") if before in row.key}
        assert asked == {"sync", "verify"}
        assert await world.told(model.Promoted) == []

    play(tmp_path, story)


def test_a_refusal_changes_nothing(tmp_path: Path) -> None:
    """The line and its jobs are as before."""

    async def story(world: World) -> None:
        told = at(Stage.EVALUATING, rounds=2)
        await keep(world, told)
        before = await world.jobs()
        async with world.store.begin() as tx:
            found = await find(tx, told.line.previous or "")
            verdict, step = await put_up(tx, found, policy=POLICY, hand=hand(world))

        assert (verdict.allowed, step) == (False, None)
        assert await world.line(VARIANT) == told.line
        assert await world.jobs() == before

    play(tmp_path, story)


# -- which model, and what is asked for --------------------------------------------------------------------------------


def test_a_model_is_found_by_its_beginning_or_as_champion(tmp_path: Path) -> None:
    """Also one that has only come in; what is not there or not one alone is named with what there is."""

    async def story(world: World) -> None:
        told = at(Stage.COLLECTING, rounds=1)
        await keep(world, told)
        async with world.store.begin() as tx:
            await tx.originate([origin("foreign")])
        async with world.store.read() as view:
            champion = await find(view, VARIANT)
            came = await find(view, blob("foreign")[:12])
            with pytest.raises(UnknownName, match="unknown model 'nobody'"):
                await find(view, "nobody")
            with pytest.raises(UnknownName):
                await find(view, "")

        assert (champion.model, champion.imported) == (told.line.champion, False)
        assert champion.known is not None
        assert (came.model, came.known, came.imported) == (blob("foreign"), None, True)

    play(tmp_path, story)


def test_a_champion_is_found_in_a_store_that_is_older_than_these_records(tmp_path: Path) -> None:
    """Its line names it, and that is enough."""

    async def story(world: World) -> None:
        line = at(Stage.COLLECTING, rounds=1).line
        await world.keep(line)
        async with world.store.read() as view:
            found = [await find(view, VARIANT), await find(view, (line.previous or "")[:12])]

        assert [(one.model, one.known) for one in found] == [(line.champion, None), (line.previous, None)]

    play(tmp_path, story)


def test_several_models_of_one_beginning_are_told_apart(tmp_path: Path) -> None:
    """Nobody is taken by chance."""

    async def story(world: World) -> None:
        await world.keep(at(Stage.COLLECTING).line)
        names = ["ab" + "0" * 62, "ab" + "1" * 62]
        async with world.store.begin() as tx:
            await tx.originate([msgspec.structs.replace(origin("x"), blob=name) for name in names])
        async with world.store.read() as view:
            with pytest.raises(InputError, match="is not one but several: ab0000000000 of hex8_2p, ab1111111111"):
                await find(view, "ab")
            assert (await find(view, "ab1")).model == names[1]

    play(tmp_path, story)


def test_the_same_file_is_imported_once(tmp_path: Path) -> None:
    """While the job waits it is the same job; later the model that came of it is known, and for its variant only."""

    async def story(world: World) -> None:
        await world.keep(at(Stage.COLLECTING).line)
        file = blob("file")
        async with world.store.begin() as tx:
            first = await byhand.take_in(tx, VARIANT, file, hand=hand(world))
            await byhand.take_in(tx, VARIANT, file, hand=hand(world))
        waiting = [row.key for row in await world.jobs("ready")]
        async with world.store.begin() as tx:
            await tx.originate([origin("made")])
            await tx.link([(blob("made"), file)])
        async with world.store.read() as view:
            known = await imported_from(view, VARIANT, file)
            other = await imported_from(view, "hex8_3p", file)
            own = await imported_from(view, VARIANT, blob("made"))
            new = await imported_from(view, VARIANT, blob("new"))

        assert waiting == [first.job.key] == [Import(variant=VARIANT, file=file).key]
        assert (known, other, own, new) == (blob("made"), None, blob("made"), None)

    play(tmp_path, story)


def test_a_check_is_a_job_whose_end_comes_behind_it(tmp_path: Path) -> None:
    """What was said of the model before is not taken for the answer."""

    async def story(world: World) -> None:
        told = at(Stage.COLLECTING, rounds=1)
        await keep(world, told)
        await world.router.publish(model.Verified(variant=VARIANT, model=told.line.champion or "", node="n"))
        async with world.store.begin() as tx:
            asked = await byhand.check(tx, await find(tx, VARIANT), hand=hand(world))

        async with world.store.read() as view:
            behind = [envelope.name for envelope in await view.read(asked.after, 100)]
        assert asked.job == Verify(variant=VARIANT, model=told.line.champion or "", priority=asked.job.priority)
        assert "model.verified" not in behind

    play(tmp_path, story)


def test_no_model_is_taken_in_for_a_line_that_is_not_there(tmp_path: Path) -> None:
    """It is named with those that are."""

    async def story(world: World) -> None:
        await world.keep(at(Stage.COLLECTING).line)
        with pytest.raises(UnknownName, match="unknown line 'hex9_2p'; known: hex8_2p"):
            async with world.store.begin() as tx:
                await byhand.take_in(tx, "hex9_2p", blob("file"), hand=hand(world))

        assert await world.jobs() == []

    play(tmp_path, story)
