"""The gate promotes what is stronger, rejects what is not, and never takes a decision back."""

import math
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ringrift.evaluation.blocks import means, merge, prefix
from ringrift.evaluation.gate import _DRAWN_SHARE_MAX, _ELO_MAX, _OVERSHOOT, Outcome, bounds, elo, expected, judge
from ringrift.events.evaluation import Block
from ringrift.kernel.settings import Gate

GATE = Gate()
PLAYERS = st.integers(min_value=2, max_value=4)


def match(elo: float, players: int, seed: str, blocks: int) -> list[float]:
    """Block means of a synthetic match: every seat is won with the chance that *elo* gives it."""
    won = expected(elo, players)
    wins = range(players + 1)
    chances = [math.comb(players, n) * won**n * (1.0 - won) ** (players - n) for n in wins]
    return Random(seed).choices([n / players for n in wins], chances, k=blocks)


def promoted(elo: float, players: int, *, matches: int, gate: Gate = GATE) -> float:
    """The share of synthetic *matches* in which the gate promotes."""
    outcomes = [
        judge(match(elo, players, f"{elo}/{players}/{n}", gate.blocks_max), players, gate) for n in range(matches)
    ]
    return sum(outcome.decided is True for outcome in outcomes) / matches


@pytest.mark.parametrize(
    ("elo", "players", "score"),
    [
        (0, 2, 1 / 2),
        (0, 3, 1 / 3),
        (0, 4, 1 / 4),
        (400, 2, 10 / 11),
        (-400, 2, 1 / 11),
        (400, 3, 10 / 12),
        (400, 4, 10 / 13),
        (-400, 4, 1 / 31),
    ],
)
def test_the_expected_score_is_a_seats_share(elo: float, players: int, score: float) -> None:
    """Equal players share the score evenly; 400 Elo are ten to one against each opponent."""
    assert expected(elo, players) == pytest.approx(score)


@settings(max_examples=30)
@given(PLAYERS, st.floats(-2000, 2000), st.floats(1, 500))
def test_more_elo_is_more_score(players: int, elo: float, more: float) -> None:
    """The expected score grows with strength and lies between 0 and 1."""
    assert 0.0 < expected(elo, players) < expected(elo + more, players) <= 1.0


def test_the_bounds_are_those_of_the_stated_error_rates() -> None:
    """Five percent on both sides are the well-known 2.944."""
    lower, upper = bounds(GATE)

    assert upper == pytest.approx(2.944, abs=0.001)
    assert lower == pytest.approx(-2.944, abs=0.001)
    assert bounds(Gate(alpha=0.01, beta=0.1)) == pytest.approx((math.log(0.1 / 0.99), math.log(0.9 / 0.01)))


@pytest.mark.parametrize("players", [2, 3, 4])
def test_nothing_is_decided_before_the_fewest_blocks(players: int) -> None:
    """Fifteen wins in a row are luck until a sixteenth block has been played."""
    assert judge([1.0] * (GATE.blocks_min - 1), players, GATE).decided is None
    assert judge([1.0] * GATE.blocks_min, players, GATE).decided is True
    assert judge([0.0] * (GATE.blocks_min - 1), players, GATE).decided is None
    assert judge([0.0] * GATE.blocks_min, players, GATE).decided is False


def test_an_empty_match_is_undecided() -> None:
    """An empty match is undecided, with a ratio of 0."""
    outcome = judge([], 2, GATE)

    assert (outcome.decided, outcome.blocks, outcome.llr, outcome.score) == (None, 0, 0.0, 0.0)
    assert outcome.rule == "likelihood ratio between the bounds"


def test_undecided_at_the_cap_is_a_rejection() -> None:
    """A candidate that does not differ from the champion within the most blocks is rejected, and the rule is named."""
    gate = Gate(elo_0=0, elo_1=35, blocks_min=16, blocks_max=20)
    even = [0.5, 0.75, 0.25, 0.5] * 5

    assert judge(even[:19], 2, gate).decided is None
    capped = judge(even, 2, gate)
    assert (capped.decided, capped.blocks) == (False, 20)
    assert capped.rule == "undecided at the most blocks allowed"
    assert capped.lower < capped.llr < capped.upper


def test_an_outcome_shows_what_it_rests_on() -> None:
    """A decision carries the blocks, the mean, the ratio and the bound that it crossed."""
    scores = [1.0, 0.75] * 20

    outcome = judge(scores, 2, GATE)

    assert outcome.decided is True
    assert outcome.rule == "likelihood ratio above the upper bound"
    assert outcome.llr >= outcome.upper
    assert outcome.score == pytest.approx(sum(scores[: outcome.blocks]) / outcome.blocks)


@settings(max_examples=30)
@given(PLAYERS, st.integers(0, 10**6), st.sampled_from([-60.0, 0.0, 35.0, 100.0]))
def test_a_longer_match_never_changes_a_decision(players: int, seed: int, elo: float) -> None:
    """Once a prefix has decided, every longer list of blocks gives exactly the same, to the last digit."""
    gate = Gate(blocks_min=4, blocks_max=60)
    scores = match(elo, players, f"longer/{seed}", 80)

    event: Outcome | None = None
    for length in range(0, 81, 4):
        outcome = judge(scores[:length], players, gate)
        assert event is None or outcome == event
        if outcome.decided is not None:
            event = outcome

    assert event is not None


@settings(max_examples=30)
@given(PLAYERS, st.permutations(range(40)), st.integers(0, 10**6))
def test_the_order_of_arrival_never_changes_the_outcome(players: int, order: list[int], seed: int) -> None:
    """Fast wins cannot decide: in any order of arrival, only the completed prefix is judged.

    A decision on the way is the decision in the end, and in the end the outcome is that of the dispatch order.
    """
    gate = Gate(blocks_min=4, blocks_max=40)
    scores = match(60.0, players, f"order/{seed}", 40)
    blocks = [Block(number=number, scores=(scores[number],)) for number in order]
    target = judge(scores, players, gate)

    state: tuple[Block, ...] = ()
    for start in range(0, 40, 5):
        state = merge(state, blocks[start : start + 5])
        outcome = judge(means(prefix(state)), players, gate)
        assert outcome.decided is None or outcome == target

    assert outcome == target


def test_blocks_after_the_decision_are_not_read() -> None:
    """A match that is still being played is judged as far as it has come: nothing after the decision is read."""
    inputs = iter([1.0, 0.5] * GATE.blocks_max)

    outcome = judge(inputs, 2, GATE)

    assert outcome.decided is True
    assert len(list(inputs)) == 2 * GATE.blocks_max - outcome.blocks


def test_the_bounds_are_drawn_in_by_the_overshoot() -> None:
    """A walk ends beyond its bound, so the bounds lie nearer than the stated rates alone would put them."""
    even = [0.0, 0.5, 0.5, 1.0] * 50  # of variance 1/8, as that of two coins

    outcome = judge(even, 2, GATE)

    drawn = _OVERSHOOT * (expected(35, 2) - 0.5) / math.sqrt(1 / 8)
    assert outcome.upper == pytest.approx(bounds(GATE)[1] - drawn)
    assert outcome.lower == pytest.approx(bounds(GATE)[0] + drawn)


def test_large_steps_draw_the_bounds_in_no_further_than_half() -> None:
    """With bounds 800 Elo apart every block is a leap; half of each bound stays."""
    gate = Gate(elo_0=-400, elo_1=400, blocks_min=2, blocks_max=10_000)

    outcome = judge([0.5] * 100, 2, gate)

    assert (outcome.lower, outcome.upper) == pytest.approx([_DRAWN_SHARE_MAX * bound for bound in bounds(gate)])


def test_equal_results_are_not_certainty() -> None:
    """Sixteen blocks of 11 : 9 do not promote, though they do not differ at all."""
    outcome = judge([0.55] * 16, 4, GATE, ranked=True)

    assert outcome.decided is None
    assert 0.0 < outcome.llr < outcome.upper


# With SPRT(0, 35), α = β = 5 % and the default cap; the seeds are fixed, so the shares are too.
@pytest.mark.parametrize("players", [2, 3, 4])
def test_a_much_stronger_candidate_is_nearly_always_promoted(players: int) -> None:
    """At least ninety-five percent of three hundred matches at +100 Elo promote."""
    assert promoted(100.0, players, matches=300) >= 0.95


@pytest.mark.parametrize("players", [2, 3])
def test_a_weaker_candidate_is_never_promoted(players: int) -> None:
    """None of two hundred matches at -60 Elo promotes."""
    assert promoted(-60.0, players, matches=200) == 0.0


@pytest.mark.parametrize("players", [2, 3, 4])
@pytest.mark.parametrize("strength", [-200.0, 0.0, 35.0, 400.0])
def test_elo_inverts_the_expected_score(players: int, strength: float) -> None:
    """The expected score of a difference gives that difference, at every number of players."""
    assert elo(expected(strength, players), players) == pytest.approx(strength)


@pytest.mark.parametrize(("score", "difference"), [(0.0, -_ELO_MAX), (1.0, _ELO_MAX), (0.999999, _ELO_MAX)])
def test_elo_is_bounded(score: float, difference: float) -> None:
    """A score of 0 or 1 gives the largest difference."""
    assert elo(score, 2) == difference
