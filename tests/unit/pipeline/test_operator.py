"""An operator's action on a line happens in one transaction, and bypasses no gate."""

from pathlib import Path

import msgspec
import pytest

from ringrift.events import model, pipeline
from ringrift.jobs import Distribute, Import
from ringrift.kernel.errors import InputError, InvalidId, UnknownName
from ringrift.pipeline import operator
from ringrift.pipeline.line import DECISIONS, Stage, check
from ringrift.pipeline.models import MODELS, Model, ModelMatch, State, resolve
from ringrift.pipeline.operator import Actor, _can_nominate, imported_from, nominate, roll_back
from ringrift.pipeline.records import BUDGET, RUN, account_of
from ringrift.store.ports import Origin
from unit.pipeline.story import POLICY, VARIANT, Story, at, blob
from unit.work.world import World, play


async def keep(world: World, story: Story) -> None:
    """Store the state of *story*: its line, its models, the error budget and the live jobs."""
    await world.keep(story.line)
    await world.desk().enqueue(tuple(story.alive.values()))
    async with world.store.begin() as tx:
        await BUDGET.put_at(tx, {RUN: story.account})
        await MODELS.put(tx, story.models.values())


def actor(world: World) -> Actor:
    """An operator at the keyboard."""
    return Actor(envelopes=world.envelopes, now=world.clock.now())


async def model_records(world: World) -> dict[str, Model]:
    """Return every model record of the line."""
    async with world.store.read() as view:
        return {record.model: record for record in await MODELS.all(view, "variant", VARIANT)}


def origin(name: str, job_kind: str = "import", variant: str = VARIANT) -> Origin:
    """Return the origin of a model."""
    return Origin(blob=blob(name), node="n", kind="model", variant=variant, job_kind=job_kind)


@pytest.mark.parametrize("stage", [stage for stage in Stage if stage not in (Stage.STARTING, Stage.RESTING)])
def test_a_line_goes_back_from_every_stage(tmp_path: Path, stage: Stage) -> None:
    """Pointer, models, decision, event and the job that brings the model to every node: all are there, or none."""

    async def story(world: World) -> None:
        messages = at(stage, rounds=2)
        line = messages.line
        await keep(world, messages)
        async with world.store.begin() as tx:
            await roll_back(tx, VARIANT, None, "looks odd", policy=POLICY, actor=actor(world))

        after, stored = await world.line(VARIANT), await model_records(world)
        async with world.store.read() as view:
            decisions = await DECISIONS.all(view, "variant", VARIANT)
            account = await account_of(view, POLICY.budget)
        check(after)
        assert (after.stage, after.champion, after.candidate) == (Stage.DISTRIBUTING, line.previous, None)
        assert after.ancestors == line.ancestors[:-1]
        assert stored[line.champion or ""].state is State.ROLLED_BACK
        assert stored[line.previous or ""].state is State.CHAMPION
        if line.candidate is not None:
            assert stored[line.candidate.model].state is State.REJECTED
        assert account.begun == account.settled, "a test that ended is settled"
        [decision] = decisions
        assert (decision.kind, decision.model, decision.previous) == ("rollback", line.previous, line.champion)
        assert (decision.reason, decision.promoted) == ("looks odd", False)
        [event] = await world.events(model.RolledBack)
        assert isinstance(event, model.RolledBack)
        assert (event.model, event.to, event.reason) == (line.champion, line.previous, "looks odd")
        expected = Distribute(variant=VARIANT, model=line.previous or "").key
        assert expected in [row.key for row in await world.jobs("ready")]
        matches = [row for row in await world.jobs("ready", "claimed") if row.kind == "match"]
        assert not matches, "the match of a candidate against the other goes on"

    play(tmp_path, story)


def test_an_operators_move_is_published_like_any_other(tmp_path: Path) -> None:
    """The daemon that fills the queue receives it, and its cause is the operator's action."""

    async def story(world: World) -> None:
        await keep(world, at(Stage.COLLECTING, rounds=2))
        async with world.store.begin() as tx:
            await roll_back(tx, VARIANT, None, "why not", policy=POLICY, actor=actor(world))

        [moved] = await world.events(pipeline.Moved)
        async with world.store.read() as view:
            log = {envelope.name: envelope for envelope in await view.read(0, 100)}
        assert moved == pipeline.Moved(
            variant=VARIANT, stage=Stage.DISTRIBUTING, before=Stage.COLLECTING, late=True, requested=True
        )
        assert log["pipeline.moved"].cause == log["model.rolled_back"].id

    play(tmp_path, story)


def test_any_earlier_champion_can_be_the_target(tmp_path: Path) -> None:
    """It is named by a prefix; champions after it are no longer ancestors."""

    async def story(world: World) -> None:
        line = at(Stage.COLLECTING, rounds=2).line
        first, last = line.ancestors
        await keep(world, at(Stage.COLLECTING, rounds=2))
        async with world.store.begin() as tx:
            await roll_back(tx, VARIANT, first.model[:10], "far", policy=POLICY, actor=actor(world))

        after = await world.line(VARIANT)
        assert (after.champion, after.generation, after.ancestors) == (first.model, first.generation, ())
        assert (await model_records(world))[last.model].state is State.RETIRED

    play(tmp_path, story)


@pytest.mark.parametrize("to", ["ffff", "", "the champion"])
def test_only_an_ancestor_can_be_the_target(tmp_path: Path, to: str) -> None:
    """Anything else is refused with the list of those that can, and nothing has happened."""

    async def story(world: World) -> None:
        line = at(Stage.COLLECTING, rounds=2).line
        await keep(world, at(Stage.COLLECTING, rounds=2))
        expected = line.champion if to == "the champion" else to
        with pytest.raises(UnknownName) as refused:
            async with world.store.begin() as tx:
                await roll_back(tx, VARIANT, expected, "no", policy=POLICY, actor=actor(world))

        assert refused.value.names == tuple(sorted(record.model[:12] for record in line.ancestors))
        assert await world.line(VARIANT) == line
        assert await world.events(model.RolledBack) == []

    play(tmp_path, story)


def test_a_line_without_an_earlier_champion_cannot_go_back(tmp_path: Path) -> None:
    """Generation 0 is all it has."""

    async def story(world: World) -> None:
        await keep(world, at(Stage.COLLECTING, rounds=0))
        with pytest.raises(InputError, match="hex8_2p has no earlier champion to go back to"):
            async with world.store.begin() as tx:
                await roll_back(tx, VARIANT, None, "no", policy=POLICY, actor=actor(world))

    play(tmp_path, story)


def test_another_variant_is_not_touched(tmp_path: Path) -> None:
    """A rollback writes only what belongs to its line."""

    async def story(world: World) -> None:
        other = msgspec.structs.replace(at(Stage.COLLECTING, rounds=2).line, variant="hex8_3p", players=3)
        await keep(world, at(Stage.COLLECTING, rounds=2))
        await world.keep(other)
        async with world.store.begin() as tx:
            await roll_back(tx, VARIANT, None, "mine", policy=POLICY, actor=actor(world))

        assert await world.line("hex8_3p") == other
        assert {row.variant for row in await world.jobs()} == {VARIANT}

    play(tmp_path, story)


# -- putting a model up ------------------------------------------------------------------------------------------------


def stored(name: str, state: State) -> ModelMatch:
    """A model that stands in *state*."""
    life = Model(variant=VARIANT, model=blob(name), generation=1, state=state, since=0.0)
    return ModelMatch(variant=VARIANT, model=blob(name), record=life)


@pytest.mark.parametrize("state", [state for state in State if state is not State.TRAINING])
def test_only_an_inactive_model_is_nominated(state: State) -> None:
    """Retired, rejected, rolled-back and lost models can be; a model under way or a champion cannot."""
    verdict = _can_nominate(at(Stage.COLLECTING).line, stored("m", state), 5.0)

    out = state in (State.RETIRED, State.REJECTED, State.ROLLED_BACK, State.LOST)
    assert verdict.allowed is out
    assert out or verdict.rule == f"it is {state}"


@pytest.mark.parametrize("stage", [stage for stage in Stage if stage is not Stage.RESTING])
def test_a_line_takes_a_candidate_only_while_it_has_none(stage: Stage) -> None:
    """It must be collecting; otherwise the verdict names its stage."""
    line = at(stage).line

    verdict = _can_nominate(line, stored("m", State.REJECTED), 5.0)

    assert verdict.allowed is (stage is Stage.COLLECTING)
    if line.champion is not None and not verdict.allowed:
        assert verdict.rule == f"the line is {stage}; a model can be nominated while it is collecting or resting"


def test_only_an_imported_model_is_nominated_for_the_first_time() -> None:
    """A trained model is tested by itself."""
    line = at(Stage.COLLECTING).line
    stranger = ModelMatch(variant=VARIANT, model=blob("m"))

    assert not _can_nominate(line, stranger, 5.0).allowed
    assert _can_nominate(line, msgspec.structs.replace(stranger, imported=True), 5.0).allowed
    assert _can_nominate(line, ModelMatch(variant=VARIANT, model=line.champion or ""), 5.0).rule == "it is the champion"


def test_a_nominated_model_passes_every_gate(tmp_path: Path) -> None:
    """It is copied from a holder and checked, and is not champion by nomination."""

    async def story(world: World) -> None:
        messages = at(Stage.COLLECTING, rounds=2)
        before = messages.line.previous or ""
        await keep(world, messages)
        await world.hold(before, "n")
        async with world.store.begin() as tx:
            match = await resolve(tx, before[:12])
            verdict, step = await nominate(tx, match, policy=POLICY, actor=actor(world))

        line = await world.line(VARIANT)
        assert verdict.allowed
        assert step is not None
        assert (line.stage, line.champion) == (Stage.VERIFYING, messages.line.champion)
        assert line.candidate is not None
        assert (line.candidate.model, line.candidate.copied, line.candidate.verified) == (before, False, False)
        assert (await model_records(world))[before].state is State.CANDIDATE
        kinds = {row.kind for row in await world.jobs("ready") if before in row.key}
        assert kinds == {"sync", "verify"}
        assert await world.events(model.Promoted) == []

    play(tmp_path, story)


def test_a_refusal_changes_nothing(tmp_path: Path) -> None:
    """The line and its jobs are as before."""

    async def story(world: World) -> None:
        messages = at(Stage.EVALUATING, rounds=2)
        await keep(world, messages)
        before = await world.jobs()
        async with world.store.begin() as tx:
            match = await resolve(tx, messages.line.previous or "")
            verdict, step = await nominate(tx, match, policy=POLICY, actor=actor(world))

        assert (verdict.allowed, step) == (False, None)
        assert await world.line(VARIANT) == messages.line
        assert await world.jobs() == before

    play(tmp_path, story)


# -- which model, and which request --------------------------------------------------------------------------------


def test_a_model_is_looked_up_by_prefix_or_as_champion(tmp_path: Path) -> None:
    """An imported one is included; a missing or ambiguous one is an error that lists the existing ones."""

    async def story(world: World) -> None:
        messages = at(Stage.COLLECTING, rounds=1)
        await keep(world, messages)
        async with world.store.begin() as tx:
            await tx.put_origins([origin("foreign")])
        async with world.store.read() as view:
            champion = await resolve(view, VARIANT)
            came = await resolve(view, blob("foreign")[:12])
            with pytest.raises(UnknownName, match="unknown model 'missing'"):
                await resolve(view, "missing")
            with pytest.raises(InvalidId):
                await resolve(view, "")

        assert (champion.model, champion.imported) == (messages.line.champion, False)
        assert champion.record is not None
        assert (came.model, came.record, came.imported) == (blob("foreign"), None, True)

    play(tmp_path, story)


def test_a_champion_without_a_model_record_is_looked_up(tmp_path: Path) -> None:
    """In an older store its line names it, and that is enough."""

    async def story(world: World) -> None:
        line = at(Stage.COLLECTING, rounds=1).line
        await world.keep(line)
        async with world.store.read() as view:
            matches = [await resolve(view, VARIANT), await resolve(view, (line.previous or "")[:12])]

        assert [(match.model, match.record) for match in matches] == [(line.champion, None), (line.previous, None)]

    play(tmp_path, story)


def test_an_ambiguous_prefix_is_refused(tmp_path: Path) -> None:
    """No model is chosen by chance."""

    async def story(world: World) -> None:
        await world.keep(at(Stage.COLLECTING).line)
        names = ["ab" + "0" * 62, "ab" + "1" * 62]
        async with world.store.begin() as tx:
            await tx.put_origins([msgspec.structs.replace(origin("x"), blob=name) for name in names])
        async with world.store.read() as view:
            with pytest.raises(InputError, match="is ambiguous: ab0000000000 of hex8_2p, ab1111111111"):
                await resolve(view, "ab")
            assert (await resolve(view, "ab1")).model == names[1]

    play(tmp_path, story)


def test_the_same_file_is_imported_once(tmp_path: Path) -> None:
    """While the job waits it is the same job; later the imported model is returned, and for its variant only."""

    async def story(world: World) -> None:
        await world.keep(at(Stage.COLLECTING).line)
        file = blob("file")
        async with world.store.begin() as tx:
            first, _ = await operator.import_model(tx, VARIANT, file, actor=actor(world))
            await operator.import_model(tx, VARIANT, file, actor=actor(world))
        waiting = [row.key for row in await world.jobs("ready")]
        async with world.store.begin() as tx:
            await tx.put_origins([origin("made")])
            await tx.link([(blob("made"), file)])
        async with world.store.read() as view:
            stored = await imported_from(view, VARIANT, file)
            other = await imported_from(view, "hex8_3p", file)
            own = await imported_from(view, VARIANT, blob("made"))
            new = await imported_from(view, VARIANT, blob("new"))

        assert waiting == [first.key] == [Import(variant=VARIANT, file=file).key]
        assert (stored, other, own, new) == (blob("made"), None, blob("made"), None)

    play(tmp_path, story)


def test_the_result_of_an_import_is_newer_than_its_request(tmp_path: Path) -> None:
    """An earlier event about the file is not taken for the answer."""

    async def story(world: World) -> None:
        messages = at(Stage.COLLECTING, rounds=1)
        await keep(world, messages)
        earlier = model.Imported(variant=VARIANT, model=blob("made"), source=blob("file"), node="n")
        await world.router.publish(earlier)
        async with world.store.begin() as tx:
            job, after = await operator.import_model(tx, VARIANT, blob("file"), actor=actor(world))

        async with world.store.read() as view:
            behind = [envelope.name for envelope in await view.read(after, 100)]
        assert job == Import(variant=VARIANT, file=blob("file"), priority=job.priority)
        assert job.is_ended_by(earlier)
        assert "model.imported" not in behind

    play(tmp_path, story)


def test_an_import_for_a_missing_line_is_refused(tmp_path: Path) -> None:
    """The error lists the existing lines."""

    async def story(world: World) -> None:
        await world.keep(at(Stage.COLLECTING).line)
        with pytest.raises(UnknownName, match="unknown variant 'hex9_2p'; known: hex8_2p"):
            async with world.store.begin() as tx:
                await operator.import_model(tx, "hex9_2p", blob("file"), actor=actor(world))

        assert await world.jobs() == []

    play(tmp_path, story)
