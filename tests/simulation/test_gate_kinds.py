"""The gate on rank scores, and its kinds: each keeps the error rates that it states."""

from itertools import islice
from random import Random

import pytest

from ringrift.evaluation.gate import _plain, expected, judge
from ringrift.evaluation.trial import Contest, Fleet, Rates, _drawn, outcomes, rates, trials
from ringrift.kernel.errors import SettingsError
from ringrift.kernel.settings import Budget, Gate
from ringrift.kernel.value import changed
from unit.evaluation.test_gate import promoted

TRIALS = 1000


def measured(elo: float, gate: Gate, *, players: int = 4, seed: int = 3) -> Rates:
    """The result of a thousand matches of a candidate with this true difference."""
    contest = Contest(elo=elo, players=players)
    return rates(islice(trials(contest, gate, Fleet(), Random(seed)), TRIALS), contest)


@pytest.mark.parametrize("players", [2, 3, 4])
def test_equal_players_have_half_the_rank_score_at_every_number(players: int) -> None:
    """A block whose mean rank score is 1/2 supports H0 = 0 Elo at every number of players."""
    outcome = judge([0.5, 0.45, 0.55, 0.5] * 10, players, Gate(), ranked=True)

    assert outcome.llr < 0.0
    assert judge([expected(35, 2)] * 10, players, Gate(), ranked=True).llr > 0.0


def test_rank_scores_and_shares_of_first_place_are_not_mixed_up() -> None:
    """A share of 0.4 of the first places of four is strong, a rank score of 0.4 is weak."""
    scores = [0.25, 0.5, 0.5, 0.25, 0.5] * 20

    assert judge(scores, 4, Gate()).decided is True
    assert judge(scores, 4, Gate(), ranked=True).decided is False


def test_two_players_have_one_scale() -> None:
    """With two players the rank score is the share of first place, and both ways agree."""
    scores = [1.0, 0.5, 0.5, 0.0, 0.5] * 30

    assert changed(judge(scores, 2, Gate()), ranked=True) == judge(scores, 2, Gate(), ranked=True)


@pytest.mark.parametrize(("players", "ranked", "variance"), [(2, False, 1 / 8), (2, True, 1 / 8), (4, True, 5 / 144)])
def test_plain_variance_is_that_of_independent_games(players: int, ranked: bool, variance: float) -> None:
    """Two coins have 1/8; four games with places 0, 1/3, 2/3 and 1 have 5/144."""
    assert _plain(players, ranked=ranked) == pytest.approx(variance)


@pytest.mark.parametrize("players", [2, 3, 4])
def test_rank_scores_keep_the_rates(players: int) -> None:
    """At most alpha and a little of equal candidates pass, at least 1 - beta and a little less of those at H1."""
    assert measured(0.0, Gate(), players=players).promoted <= 0.06
    assert measured(35.0, Gate(), players=players).promoted >= 0.93


@pytest.mark.parametrize("gate", [Gate(), Gate.non_regression(), Gate.anti_disaster()])
def test_every_kind_keeps_its_error_rates(gate: Gate) -> None:
    """Candidates at H0 pass no more often than alpha, those at H1 fail no more often than beta, and a little."""
    assert measured(gate.elo_0, gate).promoted <= gate.alpha + 0.01
    assert measured(gate.elo_1, gate).promoted >= 1.0 - gate.beta - 0.02


def test_the_disaster_gate_is_cheap() -> None:
    """It lets a sound model pass after a third of the games that the gate before a promotion takes."""
    cheap, dear = measured(0.0, Gate.anti_disaster()), measured(35.0, Gate())

    assert cheap.games < 0.6 * dear.games


def test_a_small_alpha_is_kept_too() -> None:
    """At 1 in 500, ten thousand equal candidates bring at most 30 promotions: 20 and a little."""
    gate, rng = Gate(alpha=0.002, blocks_max=1900), Random(11)
    table = outcomes(Contest(elo=0.0, players=4), rng)

    passed = sum(judge(_drawn(table, rng), 4, gate, ranked=True).decided is True for _ in range(10_000))

    assert passed <= 30


@pytest.mark.parametrize(("share", "start"), [(0.0, 0.5), (0.6, 0.5), (0.1, 0.0), (0.1, 1.1)])
def test_a_budget_out_of_range_is_refused(share: float, start: float) -> None:
    """A share of zero promotes no candidate, one above a half is no promise."""
    with pytest.raises(SettingsError, match=r"policy\.budget\."):
        Budget(share=share, start=start)


@pytest.mark.parametrize(("players", "matches"), [(2, 4000), (3, 4000), (4, 2000)])
def test_an_equal_candidate_is_hardly_ever_promoted(players: int, matches: int) -> None:
    """At most six in a hundred of thousands of matches at 0 Elo promote."""
    assert promoted(0.0, players, matches=matches) <= 0.06
