"""The gate and the budget keep their promises on a simulated fleet, and arrival order would not.

Blocks of two players have seats worth 40 Elo and openings worth 60 Elo either way; game durations follow a gamma
distribution.  All seeds are fixed, so every figure here can be measured again.
"""

from functools import cache
from itertools import islice
from random import Random

import pytest

from ringrift.evaluation.trial import Contest, Fleet, Order, Rates, Season, outcomes, rates, season, trials
from ringrift.kernel.settings import Budget, Gate

TRIALS = 4000
IN_FLIGHT = 200
GATE = Gate()
PLAIN = Fleet()
"""One block in flight, decided as it comes: the sequential test of the textbooks."""
RUNS = 6
TESTS = 2000
TESTS_OPEN = 12
"""As many variants as a full run has, each with one candidate under test."""


@cache
def cell(contest: Contest, gate: Gate, fleet: Fleet, seed: int, count: int = TRIALS) -> Rates:
    """The result of *count* simulated matches; several tests use the same ones."""
    return rates(islice(trials(contest, gate, fleet, Random(seed)), count), contest)


def busy(slow: float, order: Order = Order.DISPATCH) -> Fleet:
    """Two hundred blocks at once, losses slower by the factor *slow*."""
    return Fleet(in_flight=IN_FLIGHT, slow=slow, order=order)


@pytest.mark.parametrize("slow", [1.3, 2.0])
def test_in_dispatch_order_equal_candidates_pass_no_more_often_than_stated(slow: float) -> None:
    """At 0 Elo, with two hundred blocks in flight and slow losses, false promotions stay at alpha + 1 % or below."""
    assert cell(Contest(elo=0.0), GATE, busy(slow), 1).promoted <= GATE.alpha + 0.01


@pytest.mark.parametrize("slow", [1.3, 2.0])
def test_in_arrival_order_equal_candidates_pass_by_the_dozen(slow: float) -> None:
    """The same matches decided as results arrive promote more than 30 of 100 candidates that are only equal."""
    assert cell(Contest(elo=0.0), GATE, busy(slow, Order.ARRIVAL), 1).promoted > 0.30


@pytest.mark.parametrize("slow", [1.3, 2.0])
def test_stronger_candidates_pass(slow: float) -> None:
    """At +35 Elo at least 1 - beta - 2 % pass, on no more than 1.1 times the games of the plain sequential test."""
    busily = cell(Contest(elo=35.0), GATE, busy(slow), 2)
    plain = cell(Contest(elo=35.0), GATE, PLAIN, 3)

    assert busily.promoted >= 1.0 - GATE.beta - 0.02
    assert plain.promoted >= 1.0 - GATE.beta - 0.02
    assert busily.games <= 1.1 * plain.games


def test_the_cost_of_waiting_for_the_slowest_is_reported() -> None:
    """The cost of dispatch order is surplus: blocks in flight and out of turn at the decision."""
    busily = cell(Contest(elo=35.0), GATE, busy(1.3), 2)

    assert cell(Contest(elo=35.0), GATE, PLAIN, 3).surplus == 0.0
    assert 2 * (IN_FLIGHT - 1) <= busily.surplus <= 2 * 2.5 * IN_FLIGHT


def test_ranks_and_blocks_need_half_the_games_of_wins() -> None:
    """With four players, +35 Elo at 5 % and 5 %: rank scores over all seats save 45 % of the games and more.

    The other way counts only wins, in single games from random seats, of the same players on the same openings.
    """
    # Capped at as many games as the blocks have, so that neither runs out of them.
    singles = Gate(blocks_max=4 * GATE.blocks_max)
    ranked = {elo: cell(Contest(elo=elo, players=4), GATE, PLAIN, 4) for elo in (0.0, 35.0)}
    wins = {elo: cell(Contest(elo=elo, players=4, rotated=False), singles, PLAIN, 4, 2000) for elo in (0.0, 35.0)}

    assert ranked[35.0].games <= 0.55 * wins[35.0].games
    assert ranked[0.0].games <= 0.55 * wins[0.0].games
    # The savings are not paid for with errors.
    assert ranked[0.0].promoted <= 0.06
    assert ranked[35.0].promoted >= max(0.93, wins[35.0].promoted)


def seasons(null: float, budget: Budget | None) -> list[Season]:
    """Runs of two thousand candidate tests each, a dozen at once, all real walks."""
    rng = Random(f"{null}/{budget}")
    tables = outcomes(Contest(elo=0.0), rng), outcomes(Contest(elo=35.0), rng)
    return [
        season(tables, GATE, players=2, tests=TESTS, null=null, budget=budget, open_max=TESTS_OPEN, rng=rng)
        for _ in range(RUNS)
    ]


@pytest.mark.parametrize(("null", "plain_share"), [(0.5, 0.03), (0.8, 0.10), (0.95, 0.30)])
def test_the_budget_bounds_the_false_promotions_of_a_run(null: float, plain_share: float) -> None:
    """With 50, 80 and 95 % equal candidates less than 10 % of the promotions are false, and the true ones stay.

    The plain gate, with alpha = 5 % for every test, promotes more false ones than *plain_share*.
    """
    budget = Budget(share=0.10)
    careful, plain = seasons(null, budget), seasons(null, None)

    def false_share(runs: list[Season]) -> float:
        return sum(run.false_share for run in runs) / len(runs)

    def stored(runs: list[Season]) -> float:
        return sum(run.promoted - run.false for run in runs) / sum(run.stronger for run in runs)

    assert false_share(careful) < budget.share
    assert false_share(plain) > plain_share
    assert stored(careful) >= 0.70 * stored(plain)
