"""Win rates roll over the last blocks against each opponent, and a clear fall makes the champion be reviewed."""

from statistics import fmean

from ringrift.evaluation.budget import open_account
from ringrift.evaluation.tally import BlockScore, Player
from ringrift.events import evaluation
from ringrift.jobs import Match
from ringrift.kernel.value import changed
from ringrift.pipeline import review
from ringrift.pipeline.line import Stage
from ringrift.pipeline.step import Context, Step, context_for
from ringrift.pipeline.win_rates import _find_drop, _WinRates, _with_blocks
from unit.pipeline.story import POLICY, VARIANT, Story

REVIEWED = changed(POLICY, review_promotions=8)


def blocks(model: str, points: int, count: int, opponent: str = "random") -> list[BlockScore]:
    """*count* blocks in which *model* got *points* of 4 against *opponent*."""
    one, other = Player(weights=model, settings="s"), Player(weights=opponent, settings="s")
    return [BlockScore(variant=VARIANT, one=one, other=other, points=points, comparisons=2)] * count


def rates(*played: tuple[str, int, int]) -> _WinRates:
    """The win rates after champions one after another got points in blocks: (champion, points, count)."""
    result = _WinRates(variant=VARIANT)
    for model, points, count in played:
        result = _with_blocks(result, model, blocks(model, points, count))
    return result


def test_a_rate_is_made_of_the_newest_blocks() -> None:
    """64 blocks against one opponent; older ones are forgotten."""
    [row] = rates(("a", 0, 30), ("a", 4, 64)).opponents

    assert (fmean(row.rates), len(row.rates), row.opponent.weights) == (1.0, 64, "random")


def test_the_champion_may_stand_on_either_side() -> None:
    """As the opponent of a match its share is what the other did not get; matches of others change nothing."""
    result = _with_blocks(_WinRates(variant=VARIANT), "random", blocks("a", 3, 1))
    assert [(row.opponent.weights, fmean(row.rates)) for row in result.opponents] == [("a", 0.25)]

    assert _with_blocks(result, "c", blocks("a", 3, 5)) == result


def test_the_opponents_of_a_line_are_limited() -> None:
    """The one that was met least lately goes."""
    result = _WinRates(variant=VARIANT)
    for number in range(20):
        result = _with_blocks(result, "a", blocks("a", 2, 1, f"o{number}"))

    assert [row.opponent.weights for row in result.opponents] == [f"o{number}" for number in range(4, 20)]


def test_a_clear_fall_against_one_opponent_is_a_drop() -> None:
    """Both champions have played enough blocks, and the fall is larger than chance and than 0.1."""
    drop = _find_drop(rates(("a", 4, 16), ("b", 2, 16)))

    assert drop == evaluation.WinRateFell(
        variant=VARIANT, model="b", predecessor="a", opponent="random", rate=0.5, before=1.0, blocks=16
    )
    assert _find_drop(rates(("a", 2, 16), ("b", 4, 16))) is None
    assert _find_drop(rates(("a", 4, 16), ("b", 2, 15))) is None
    assert _find_drop(rates(("a", 4, 15), ("b", 2, 16))) is None
    assert _find_drop(rates(("a", 4, 64), ("a", 0, 64))) is None


def test_a_fall_within_chance_is_no_drop() -> None:
    """16 blocks that go up and down by themselves show nothing of a fall by 0.12."""
    noisy = _with_blocks(rates(("a", 4, 8), ("a", 0, 8)), "b", blocks("b", 4, 6) + blocks("b", 0, 10))

    assert _find_drop(noisy) is None


def test_a_champion_that_hardly_played_does_not_hide_the_one_before() -> None:
    """The comparison is with the last champion that played enough."""
    drop = _find_drop(rates(("a", 4, 20), ("b", 2, 3), ("c", 1, 20)))

    assert drop is not None
    assert (drop.model, drop.predecessor) == ("c", "a")


def _context(story: Story, drop: evaluation.WinRateFell | None) -> Context:
    context = context_for(story.line, REVIEWED, 1.0, open_account(REVIEWED.budget))
    return changed(context, drop=drop, step=Step(line=story.line))


def _champions() -> Story:
    """A line with two champions one after another."""
    story = Story(REVIEWED)
    story.go(Stage.EVALUATING).go(Stage.DISTRIBUTING).go(Stage.COLLECTING)
    assert story.line.review is None
    return story


def test_a_drop_makes_the_champion_be_reviewed() -> None:
    """Against the one that did better, by blocks of its own; the fall is published."""
    story = _champions()
    champion, before = story.line.champion or "", story.line.ancestors[-1].model
    drop = evaluation.WinRateFell(
        variant=VARIANT, model=champion, predecessor=before, opponent="random", rate=0.5, before=0.9, blocks=16
    )

    step = review.watch_win_rates(
        story.line, evaluation.Plateaued(variant=VARIANT, rejections=1, since=0.0), _context(story, drop)
    )

    assert step.line.review is not None
    assert step.line.review.challenge.opponent == before
    assert step.line.review.reason == "its win rate against random is 0.50, before 0.90"
    assert {(job.candidate, job.champion, job.purpose) for job in step.jobs if isinstance(job, Match)} == {
        (champion, before, "review")
    }
    [event] = step.events
    assert isinstance(event, evaluation.WinRateFell)
    assert (event.model, event.rate, event.before) == (champion, 0.5, 0.9)


def test_without_a_drop_nothing_is_reviewed() -> None:
    """Nor for a model that is champion no more; a predecessor that is no ancestor is only published."""
    story = _champions()
    champion = story.line.champion or ""
    event = evaluation.Plateaued(variant=VARIANT, rejections=1, since=0.0)
    stray = evaluation.WinRateFell(
        variant=VARIANT, model=champion, predecessor="gone", opponent="random", rate=0.5, before=0.9, blocks=16
    )

    for drop in (None, changed(stray, model="earlier")):
        assert review.watch_win_rates(story.line, event, _context(story, drop)) == Step(line=story.line)
    step = review.watch_win_rates(story.line, event, _context(story, stray))
    assert (step.line.review, len(step.events), step.jobs) == (None, 1, ())
