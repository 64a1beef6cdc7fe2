"""The loop from event to event: each leads to one stage, its jobs and its events."""

import msgspec
import pytest

from ringrift.evaluation.budget import open_account
from ringrift.evaluation.gate import _ELO_MAX
from ringrift.events import data, evaluation, model, pipeline
from ringrift.jobs import STAGE, URGENT, Distribute, Export, JobFilter, Match, Purpose, Sync, Train, Verify
from ringrift.kernel.errors import InvalidId
from ringrift.kernel.settings import Gate
from ringrift.kernel.value import changed
from ringrift.pipeline.line import Batch, Line, Stage, _BatchCounts
from ringrift.pipeline.machine import advance, new_line
from ringrift.pipeline.step import Step, context_for
from unit.pipeline.story import EVEN, LOSS, POLICY, VARIANT, WIN, Story, at, blob, result


def moved(before: Stage, stage: Stage) -> pipeline.Moved:
    """Return the event of a stage change."""
    return pipeline.Moved(variant=VARIANT, stage=stage, before=before)


def open_line(variant: str, at: float) -> Step:
    """The first step of a new line."""
    opened = pipeline.Opened(variant=variant, workload="fake")
    line = new_line(opened)
    return advance(line, opened, context_for(line, POLICY, at, open_account(POLICY.budget)))


def test_opening_a_line_enqueues_generation_0() -> None:
    """A new line starts with a Train job without inputs, whose seed depends on policy and variant alone."""
    step = open_line(VARIANT, 5.0)
    again = open_line(VARIANT, 9.0)

    [train] = step.jobs
    assert step.line == Line(variant=VARIANT, workload="fake", players=2, since=5.0, tries=1, awaited_job=train.key)
    assert isinstance(train, Train)
    assert (train.generation, train.samples, train.parent, train.priority) == (0, None, None, STAGE)
    assert again.jobs == step.jobs
    assert [str(verdict.gate) for verdict in step.verdicts] == ["starting"]


def test_a_line_needs_a_variant() -> None:
    """An invalid variant opens no line."""
    with pytest.raises(InvalidId):
        open_line("HEX", 0.0)


def test_the_first_model_is_copied_checked_and_promoted_without_a_match() -> None:
    """Generation 0 becomes champion once it has its copies and its verification, in either order."""
    story = Story()
    [train] = story.alive.values()
    first = result(train)

    step = story.finish("train")
    assert step.line.stage is Stage.VERIFYING
    assert step.events == (moved(Stage.STARTING, Stage.VERIFYING),)
    copy, vouch = step.jobs
    assert copy == Sync(variant=VARIANT, blob=first.model, kind_of="model", source="n", priority=URGENT)
    assert vouch == Verify(variant=VARIANT, model=first.model, priority=STAGE)

    half = story.finish("verify")
    assert (half.line.stage, half.jobs, half.events) == (Stage.VERIFYING, (), ())

    whole = story.finish("sync")
    assert (whole.line.champion, whole.line.generation, whole.line.iteration) == (first.model, 0, 0)
    assert whole.line.stage is Stage.DISTRIBUTING
    assert whole.jobs == (Distribute(variant=VARIANT, model=first.model, priority=STAGE),)
    promoted = model.Promoted(variant=VARIANT, model=first.model, generation=0)
    assert whole.events == (moved(Stage.VERIFYING, Stage.DISTRIBUTING), promoted)
    assert whole.decision is not None
    assert (whole.decision.promoted, whole.decision.evidence) == (True, None)

    assert story.finish("distribute").line.stage is Stage.COLLECTING


def test_games_are_copied_counted_and_exported_when_there_are_enough() -> None:
    """Each batch is copied first; the copy that brings the games to the limit starts an export of the window."""
    story = at(Stage.COLLECTING, rounds=0)
    story.fill()
    one, two = (result(story.pop("play")) for _ in range(2))

    played = story.publish(one)
    copy = Sync(variant=VARIANT, blob=one.batch, kind_of="games", source="n", played=one.games, priority=STAGE)
    assert played.jobs == (copy,)
    assert story.line.pending == (Batch(blob=one.batch, games=10, node="n"),)

    stored = story.finish("sync")
    assert (stored.jobs, story.line.fresh, story.line.window) == ((), 10, (Batch(blob=one.batch, games=10, node="n"),))
    [waits] = stored.verdicts
    assert (waits.allowed, waits.value, waits.limit) == (False, 10, 20)

    story.publish(two)
    enough = story.finish("sync")
    [export] = enough.jobs
    assert isinstance(export, Export)
    assert export.batches == (one.batch, two.batch)
    assert (story.line.stage, story.line.fresh) == (Stage.EXPORTING, 0)
    assert story.line.counts == _BatchCounts(batches=2, games=20, stored=2, games_kept=20)


def test_games_of_a_machine_that_may_vanish_are_copied_first() -> None:
    """An ephemeral node's batch is urgent."""
    story = at(Stage.COLLECTING, rounds=0)
    story.fill()
    batch = msgspec.structs.replace(result(story.pop("play")), ephemeral=True)

    assert story.publish(batch).jobs[0].priority == URGENT


def test_samples_are_trained_on_from_the_champion() -> None:
    """An export is followed by training the next generation from the champion on those samples."""
    story = at(Stage.EXPORTING, rounds=0)
    champion = story.line.champion

    step = story.finish("export")

    [train] = step.jobs
    assert isinstance(train, Train)
    assert (train.generation, train.parent) == (1, champion)
    assert train.samples == story.line.samples
    assert story.line.stage is Stage.TRAINING


def test_batches_that_an_export_left_out_are_lost() -> None:
    """Bad games leave the window and the books with an event each; training goes on with the rest."""
    story = at(Stage.EXPORTING, rounds=0)
    bad, good = story.line.window

    step = story.publish(msgspec.structs.replace(result(story.pop("export")), refused=(bad.blob, blob("stranger"))))

    lost = data.Lost(variant=VARIANT, blob=bad.blob, reason="its games do not replay", kind="games")
    assert step.events == (moved(Stage.EXPORTING, Stage.TRAINING), lost)
    assert (step.line.window, step.line.counts.lost, step.line.counts.games_lost) == ((good,), 1, 10)
    assert [job.kind() for job in step.jobs] == ["train"]


def test_a_candidate_plays_numbered_blocks_of_one_seed() -> None:
    """A vouched-for candidate is matched in jobs that follow each other without a gap, as many as may be open.

    They share a seed, because the openings of one seed are all different.
    """
    story = at(Stage.EVALUATING, rounds=0)
    candidate = story.line.candidate
    assert candidate is not None

    matches = [job for job in story.alive.values() if isinstance(job, Match)]

    assert [(job.first, job.count) for job in matches] == [(0, 2), (2, 2)]
    assert {(job.candidate, job.champion) for job in matches} == {(candidate.model, story.line.champion)}
    assert len({job.seed for job in matches}) == 1
    assert candidate.challenge is not None
    assert candidate.challenge.dispatched == 4


def test_a_stronger_candidate_is_promoted_on_evidence() -> None:
    """Four won blocks decide: champion, event, decision, distribution, and the rest of the match is cancelled."""
    story = at(Stage.EVALUATING, rounds=0)
    old, candidate = story.line.champion, story.line.candidate
    assert candidate is not None

    going = story.finish("match", WIN)
    assert (going.line.stage, len(going.jobs)) == (Stage.EVALUATING, 1)
    step = story.finish("match", WIN)

    line = step.line
    assert (line.champion, line.previous, line.generation, line.iteration) == (candidate.model, old, 1, 1)
    output, decided, promoted = step.events
    assert output == moved(Stage.EVALUATING, Stage.DISTRIBUTING)
    assert decided == evaluation.Finished(
        variant=VARIANT, candidate=candidate.model, champion=old, blocks=4, score=1.0, elo=_ELO_MAX, promoted=True
    )
    assert isinstance(promoted, model.Promoted)
    assert promoted.evidence is not None
    assert (promoted.previous, promoted.evidence.blocks, promoted.evidence.score) == (old, 4, 1.0)
    assert step.decision is not None
    assert step.decision.evidence == promoted.evidence
    assert step.cancel == (JobFilter(variant=VARIANT, purpose=Purpose.PROMOTION, candidate=candidate.model),)
    assert [job.kind() for job in story.alive.values() if job.kind() != "play"] == ["distribute"]


def test_a_weaker_candidate_is_rejected_on_evidence() -> None:
    """Four lost blocks decide too: the champion stays, the line collects again, and the reason is stored."""
    story = at(Stage.EVALUATING, rounds=0)
    champion = story.line.champion

    story.finish("match", LOSS)
    step = story.finish("match", LOSS)

    assert (step.line.stage, step.line.champion, step.line.iteration) == (Stage.COLLECTING, champion, 0)
    decided, rejected = step.events[-2:]
    assert isinstance(decided, evaluation.Finished)
    assert (decided.promoted, decided.score, decided.elo) == (False, 0.0, -_ELO_MAX)
    assert isinstance(rejected, model.Rejected)
    assert rejected.reason == "likelihood ratio below the lower bound"
    assert step.decision is not None
    assert not step.decision.promoted
    assert not any(job.kind() == "match" for job in story.alive.values())


def test_an_even_candidate_is_rejected_at_the_cap_at_the_latest() -> None:
    """A match that decides nothing requests blocks up to the cap and not one more."""
    story = at(Stage.EVALUATING, rounds=0)
    candidate = story.line.candidate
    assert candidate is not None
    assert candidate.challenge is not None
    cap, scores = candidate.challenge.gate.blocks_max, [(1.0, 1.0), (0.5, 0.0)]

    for number in range(-(-cap // POLICY.blocks_per_job)):
        assert story.line.stage is Stage.EVALUATING
        step = story.finish("match", scores[number % 2])

    assert cap >= POLICY.gate.blocks_max, "a stricter test gets more blocks"
    assert step.decision is not None
    assert step.decision.reason == "undecided at the most blocks allowed"
    assert step.decision.evidence is not None
    assert step.decision.evidence.blocks == cap


def test_a_fast_win_does_not_decide_before_a_slow_block() -> None:
    """Blocks after a gap wait: the promotion comes with the block that closes it."""
    story = at(Stage.EVALUATING, rounds=0)
    first, second = story.pop("match"), story.pop("match")

    assert story.publish(result(second, WIN)).line.stage is Stage.EVALUATING
    assert story.publish(result(first, WIN)).line.stage is Stage.DISTRIBUTING


@pytest.mark.parametrize("scores", [WIN, LOSS], ids=["wins", "losses"])
def test_blocks_behind_a_hole_decide_nothing(scores: tuple[float, ...]) -> None:
    """Blocks 8 to 15 come before 0 to 7, all the same, and enough to decide: nothing is decided until the hole closes.

    What is quick to play would otherwise decide for what is slow.
    """
    gate = Gate(elo_0=0.0, elo_1=200.0, blocks_min=4, blocks_max=64)
    story = Story(changed(POLICY, gate=gate, blocks_per_job=8))
    for stage in (Stage.VERIFYING, Stage.COLLECTING, Stage.EVALUATING):
        story.go(stage)
    first, second = story.pop("match"), story.pop("match")
    assert isinstance(first, Match)
    assert isinstance(second, Match)
    assert (first.first, first.count, second.first, second.count) == (0, 8, 8, 8)

    step = story.publish(result(second, scores))

    assert (step.line.stage, step.decision) == (Stage.EVALUATING, None)
    [verdict] = [verdict for verdict in step.verdicts if verdict.gate == Stage.EVALUATING]
    assert (verdict.allowed, verdict.value) == (False, 0.0)
    decided = story.publish(result(first, scores))
    assert decided.decision is not None
    assert decided.decision.promoted is (scores == WIN)


def test_unrequested_blocks_do_not_count() -> None:
    """Results with numbers beyond the dispatched ones, or of another match, change nothing."""
    story = at(Stage.EVALUATING, rounds=0)
    before, candidate = story.line, story.line.candidate
    assert candidate is not None
    ahead = tuple(evaluation.Block(number=number, scores=WIN) for number in (-1, 4, 5, 100))
    event = evaluation.BlocksPlayed(
        variant=VARIANT, candidate=candidate.model, champion=before.champion or "", blocks=ahead, node="n"
    )
    strange = msgspec.structs.replace(result(story.pop("match"), EVEN), champion=blob("another"))

    assert story.publish(event).line == before
    assert story.publish(strange).line == before


@pytest.mark.parametrize("scores", [(), (1.0,), (1.0, 1.0, 1.0), (1.5, 0.0), (-1.0, 0.0)], ids=str)
def test_invalid_blocks_do_not_count(scores: tuple[float, ...]) -> None:
    """A block without a score from each seat, or with one outside 0 … 1, changes nothing, whichever node sent it."""
    story = at(Stage.EVALUATING, rounds=0)
    before = story.line

    step = story.publish(result(story.pop("match"), scores))

    assert (step.line, step.jobs, step.events) == (before, (), ())


def test_the_window_keeps_the_newest_batches() -> None:
    """Older batches leave the window, and every export takes the newest ones."""
    story = at(Stage.EVALUATING, rounds=0)
    window = story.line.window

    for _ in range(2):
        story.play_batch()

    assert len(story.line.window) == POLICY.window_batches_max
    assert story.line.window[0] == window[1]
    assert story.line.fresh == 20


def test_games_that_came_meanwhile_are_exported_at_once() -> None:
    """When the loop comes round, enough fresh games lead straight to the next export."""
    story = at(Stage.EVALUATING, rounds=0)
    story.play_batch()
    story.play_batch()
    story.go(Stage.DISTRIBUTING)

    step = story.finish("distribute")

    assert step.line.stage is Stage.EXPORTING
    assert step.events == (moved(Stage.DISTRIBUTING, Stage.EXPORTING),)


def test_a_line_rests_after_its_promotions_and_goes_on_when_opened_again() -> None:
    """With one promotion requested the line rests after it; opened again with more, it collects."""
    story = Story(msgspec.structs.replace(POLICY, iterations_max=1))
    story.go(Stage.RESTING)
    rested = story.line
    opened = pipeline.Opened(variant=VARIANT, workload="fake")

    assert rested.iteration == 1
    assert msgspec.structs.replace(story.publish(opened).line, since=rested.since) == rested
    story.policy = POLICY
    assert story.publish(opened).line.stage is Stage.COLLECTING


def test_games_that_arrive_while_it_rests_are_kept() -> None:
    """A resting line still copies the games under way, and requests nothing more."""
    story = Story(msgspec.structs.replace(POLICY, iterations_max=1))
    story.go(Stage.RESTING)
    play = story.pop("play")

    story.publish(result(play))
    step = story.finish("sync")

    assert (step.line.stage, step.jobs) == (Stage.RESTING, ())
    assert step.line.counts.stored == 3


def test_each_round_has_seeds_of_its_own() -> None:
    """Exports, trainings and matches of later rounds are new jobs, never the finished ones again."""
    story, keys = Story(), []

    for _ in range(3):
        for stage in (Stage.EXPORTING, Stage.TRAINING, Stage.EVALUATING, Stage.DISTRIBUTING):
            story.go(stage)
            keys += [key for key in story.alive if key.split(":")[0] in ("export", "train", "match", "distribute")]

    assert len(keys) == len(set(keys))


def test_data_of_other_kinds_is_nobodys_turn() -> None:
    """A copy of samples, or of a model outside its check, moves nothing."""
    story = at(Stage.COLLECTING)
    before = story.line

    for kind in ("samples", "model", "report"):
        assert story.publish(data.Synced(variant=VARIANT, blob=blob("x"), kind=kind, nodes=("n",))).line == before
