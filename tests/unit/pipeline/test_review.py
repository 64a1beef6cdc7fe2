"""The champion itself is tested: after some promotions, and when what promoted it is in doubt."""

import msgspec
import pytest

from ringrift.evaluation import blocks
from ringrift.events import evaluation, model, selfplay
from ringrift.events.evaluation import Block
from ringrift.jobs import Match
from ringrift.kernel.settings import Gate
from ringrift.pipeline import exclusion, review
from ringrift.pipeline.line import Decision, Stage, check
from ringrift.pipeline.machine import conclude
from ringrift.pipeline.models import State
from ringrift.pipeline.step import Step
from unit.pipeline.story import LOSS, POLICY, WIN, Story, at, result

REVIEWED = msgspec.structs.replace(
    POLICY, review_promotions=2, review=Gate(elo_0=-200.0, elo_1=0.0, blocks_min=4, blocks_max=8)
)


def reviewed() -> Story:
    """A line whose champion is under review, two promotions after generation 0."""
    story = Story(REVIEWED)
    for _ in range(2):
        story.go(Stage.EVALUATING).go(Stage.DISTRIBUTING).go(Stage.COLLECTING)
    return story


def by(node: str, event: object) -> evaluation.BlocksPlayed:
    """The blocks of *event* as if *node* had played them."""
    assert isinstance(event, evaluation.BlocksPlayed)
    return msgspec.structs.replace(event, node=node)


def test_a_review_is_due_after_some_promotions() -> None:
    """The champion plays against the one before them, in openings of its own, beside everything else."""
    story = reviewed()

    under_review, jobs = story.line.review, [job for job in story.alive.values() if isinstance(job, Match)]

    assert under_review is not None
    assert under_review.challenge.opponent == story.line.ancestors[-2].model
    assert {(job.candidate, job.champion, job.purpose) for job in jobs} == {
        (story.line.champion, under_review.challenge.opponent, "review")
    }
    assert story.line.stage is Stage.COLLECTING
    story.go(Stage.EVALUATING).go(Stage.DISTRIBUTING).go(Stage.COLLECTING)
    assert story.line.iteration == 3
    assert story.line.review is None


def test_a_champion_that_holds_stays() -> None:
    """A review that is passed ends, and nothing else changes."""
    story = reviewed()
    champion = story.line.champion

    story.finish("review", WIN)
    step = story.finish("review", WIN)

    assert (story.line.champion, story.line.review) == (champion, None)
    [verdict] = step.events
    assert isinstance(verdict, evaluation.Reviewed)
    assert (verdict.passed, verdict.blocks) == (True, 4)
    assert "review" not in story.labels()


def test_a_champion_that_lost_strength_is_rolled_back() -> None:
    """All in one step: pointer, event with level and evidence, decision, states, distribution."""
    story = reviewed()
    before, to = story.line.champion, story.line.ancestors[-2]

    story.finish("review", LOSS)
    step = story.finish("review", LOSS)

    assert (story.line.champion, story.line.generation, story.line.stage) == (
        to.model,
        to.generation,
        Stage.DISTRIBUTING,
    )
    verdict = next(event for event in step.events if isinstance(event, model.RolledBack))
    assert (verdict.model, verdict.to, verdict.level) == (before, to.model, "critical")
    assert step.decision is not None
    assert (step.decision.kind, step.decision.promoted, step.decision.previous) == ("rollback", False, before)
    assert len(step.evidence) == 4
    states = {record.model: record.state for record in story.models.values()}
    assert (states[before or ""], states[to.model]) == (State.ROLLED_BACK, State.CHAMPION)
    assert [job.kind() for job in story.alive.values() if job.kind() not in ("play", "sync")] == ["distribute"]
    assert story.go(Stage.EVALUATING).line.champion == to.model


def test_a_new_champion_ends_the_review_of_the_old_one() -> None:
    """The review of the old one is of no use any more."""
    story = reviewed()
    for _ in range(100):
        if story.line.stage is Stage.DISTRIBUTING:
            break
        kinds = sorted(story.labels() - {"play", "review"})
        if kinds:
            story.finish(kinds[0])
        else:
            story.play_batch()

    assert story.line.review is None
    assert "review" not in story.labels()


@pytest.mark.parametrize(
    "stage", [Stage.COLLECTING, Stage.EXPORTING, Stage.TRAINING, Stage.VERIFYING, Stage.EVALUATING]
)
def test_a_line_can_go_back_from_anywhere(stage: Stage) -> None:
    """A candidate's test ends with it and is settled, jobs that are of no use are cancelled, and the loop goes on."""
    story = at(stage, rounds=2)
    to = story.line.ancestors[-1].model
    begun = story.account.begun - story.account.settled

    step = conclude(
        story.line, review.roll_back(story.line, to, "by hand", 9.0), POLICY, story.account, at=9.0, requested=True
    )
    story.apply(step)

    assert story.line.champion == to
    assert begun == (1 if stage is Stage.EVALUATING else 0)
    assert story.account.begun == story.account.settled
    assert not story.labels() & {"match", "export", "train"}
    assert story.go(Stage.EVALUATING).lives()


@pytest.mark.parametrize(
    ("lost", "name"), [(1, "minor"), (34, "minor"), (35, "moderate"), (50, "severe"), (75, "critical")]
)
def test_a_loss_has_a_level(lost: float, name: str) -> None:
    """By how many Elo it is."""
    assert review._level(lost) == name


def test_blocks_of_a_quarantined_node_are_played_again() -> None:
    """They are removed from the test under way, those numbers are requested once more, and the rest stands."""
    story = at(Stage.EVALUATING, rounds=0)
    story.publish(by("bad", result(story.pop("match"), WIN)))
    story.publish(by("good", result(story.pop("match"), (1.0, 0.5))))
    assert story.line.stage is Stage.EVALUATING

    step = exclusion._exclude_node(story.line, "bad", POLICY)

    check(step.line)
    candidate = step.line.candidate
    assert candidate is not None
    assert candidate.challenge is not None
    assert {block.node for block in candidate.challenge.blocks} == {"good"}
    assert [(job.first, job.count) for job in step.jobs if isinstance(job, Match)] == [(0, 2)]


def test_later_reports_of_a_quarantined_node_do_not_count() -> None:
    """Its blocks are requested again, its games are given up and published as lost."""
    story = at(Stage.EVALUATING, rounds=0)
    late = by("bad", result(story.pop("match"), WIN))
    story.fill()
    batch = result(story.pop("play"))
    assert isinstance(batch, selfplay.BatchFinished)

    blocks, games = (exclusion._discard_result(story.line, event, POLICY) for event in (late, batch))

    assert blocks.line == story.line
    assert [(job.first, job.count) for job in blocks.jobs if isinstance(job, Match)] == [(0, 2)]
    check(games.line)
    assert (games.jobs, games.line.counts.games_lost) == ((), batch.games)
    assert [event.name() for event in games.events] == ["data.lost"]


def test_games_of_a_quarantined_node_leave_the_window() -> None:
    """No model is trained on them any more, and they are counted as lost."""
    story = at(Stage.COLLECTING)
    story.finish("play")
    stored = (*story.line.window, *story.line.pending)

    step = exclusion._exclude_node(story.line, "n", POLICY)

    check(step.line)
    assert (step.line.window, step.line.pending, step.line.counts.lost) == ((), (), len(stored))


def doubted(scores: tuple[float, ...]) -> tuple[Story, Step]:
    """Return a line whose champion was promoted by blocks of two nodes, after "bad" of them was quarantined.

    The second value is the step that follows when its blocks have been played again with *scores*.
    """
    story = at(Stage.EVALUATING, rounds=0)
    candidate = story.line.candidate
    assert candidate is not None
    story.publish(by("good", result(story.pop("match"), WIN)))
    step = story.publish(by("bad", result(story.pop("match"), WIN)))
    decision = step.decision
    assert isinstance(decision, Decision)
    assert decision.promoted
    test = candidate.challenge
    assert test is not None
    events = [event for event in story.events if isinstance(event, evaluation.BlocksPlayed)]
    played = [block for event in events for block in blocks.from_event(event)]
    story.go(Stage.COLLECTING)
    step = exclusion._review_promotion(Step(line=story.line), (decision, tuple(played)), "bad", POLICY)
    story.apply(step)
    return story, story.finish("review", scores)


def test_a_promotion_that_holds_without_the_bad_node_is_confirmed() -> None:
    """Its blocks are played again by others, and the same gate gives the same verdict."""
    story, step = doubted(WIN)

    assert isinstance(step.events[-1], evaluation.Reviewed)
    assert step.events[-1].passed
    assert (story.line.review, story.line.generation) == (None, 1)


def test_a_promotion_on_false_blocks_is_undone() -> None:
    """Played again, the blocks are lost: the gate would have refused, and the line goes back."""
    story, _ = doubted(LOSS)
    for _ in range(8):
        if story.line.generation == 0:
            break
        story.finish("review", LOSS)

    assert story.line.generation == 0
    assert story.line.review is None


def test_without_a_node_the_rest_is_renumbered_from_0() -> None:
    """The gate can then be evaluated on the rest."""
    rest = exclusion.blocks_without([Block(number=n, scores=(1.0, n / 4), node="ab"[n % 2]) for n in range(4)], "a")

    assert [(block.number, block.scores) for block in rest] == [(0, (1.0, 0.25)), (1, (1.0, 0.75))]
