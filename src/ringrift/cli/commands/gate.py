"""Simulate how often a gate errs and what it costs, or what an error budget does to a whole run."""

import argparse
import math
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from random import Random
from typing import TypeVar

from ringrift.cli.command import Command, Context, Output, Parser
from ringrift.cli.formats import table
from ringrift.evaluation.trial import Contest, Fleet, Order, Rates, Season, outcomes, rates, season, trials
from ringrift.kernel.clock import Clock
from ringrift.kernel.errors import SettingsError, require_name, require_range
from ringrift.kernel.settings import Budget, Gate
from ringrift.kernel.value import changed

_KINDS = {"improvement": Gate, "non-regression": Gate.non_regression, "anti-disaster": Gate.anti_disaster}
_GATE_OPTIONS = ("elo_0", "elo_1", "alpha", "beta", "blocks_min", "blocks_max")
_RANGES = {"players": (2, 4), "trials": (1, 1_000_000), "in_flight": (1, 100_000), "slow": (0.1, 100)}
_RANGES |= {"tests": (1, 1_000_000), "runs": (1, 10_000), "open": (1, 100_000)}
_NUMBERS_MAX = 16  # numbers that one option may list
_PROGRESS_SECONDS = 2.0  # between two lines of progress
T = TypeVar("T")


def _arguments(parser: Parser) -> None:
    add = parser.add_argument
    verbs = "simulate: error rates of one gate; budget: false promotions of a whole run"
    add("verb", choices=("simulate", "budget"), help=verbs)
    add("--kind", metavar="KIND", help=f"{', '.join(_KINDS)} (default: policy.gate of the settings)")
    add("--elo-0", type=float, metavar="ELO", help="H0: passes with probability alpha")
    add("--elo-1", type=float, metavar="ELO", help="H1: fails with probability beta")
    add("--alpha", type=float, metavar="P", help="probability of a false pass")
    add("--beta", type=float, metavar="P", help="probability of a false rejection")
    add("--blocks-min", type=int, metavar="N", help="no decision before N blocks")
    add("--blocks-max", type=int, metavar="N", help="undecided after N blocks is rejected")
    add("--players", type=int, default=2, metavar="N", help="2, 3 or 4 (default 2)")
    add("--trials", type=int, default=4000, metavar="N", help="simulate: matches per true difference (default 4000)")
    add("--true", metavar="ELO,ELO", help="simulate: true differences, e.g. --true=-20,0 (default: H0 and H1)")
    add("--in-flight", type=int, default=1, metavar="N", help="simulate: blocks at once (default 1)")
    add("--slow", type=float, default=1.0, metavar="R", help="simulate: time of a loss over that of a win (default 1)")
    orders = ("dispatch", "arrival")
    add("--order", choices=orders, default=orders[0], help="simulate: order in which blocks count (default dispatch)")
    add("--wins-only", action="store_true", help="simulate: single games from a random seat, only wins count")
    add("--tests", type=int, default=2000, metavar="N", help="budget: candidate tests of a run (default 2000)")
    shares = "0.5,0.8,0.95"
    add("--null", default=shares, metavar="P,P", help=f"budget: shares of equal candidates (default {shares})")
    add("--share", type=float, metavar="P", help="budget: allowed share of false promotions (default: the settings')")
    add("--runs", type=int, default=8, metavar="N", help="budget: runs per share (default 8)")
    add("--open", type=int, default=12, metavar="N", help="budget: tests at once (default 12)")
    add("--seed", type=int, default=1, metavar="N", help="random seed (default 1)")


def _choose_gate(options: argparse.Namespace, default: Gate) -> Gate:
    """The gate of *options*: a kind or else *default*, with single numbers replaced.  Raises SettingsError."""
    if options.kind is not None:
        require_name("kind of gate", options.kind, _KINDS)
        default = _KINDS[options.kind]()
    numbers = {name: getattr(options, name) for name in _GATE_OPTIONS}
    return changed(default, **{name: value for name, value in numbers.items() if value is not None})


def _parse_numbers(key: str, text: str, low: float, high: float) -> list[float]:
    """The numbers in ``0,20,35``.  Raises SettingsError naming *key*."""
    parts = text.split(",")
    require_range(f"count of {key}", len(parts), 1, _NUMBERS_MAX)
    try:
        numbers = [float(part) for part in parts]
    except ValueError:
        raise SettingsError(key, text, "must be numbers with commas between them") from None
    for number in numbers:
        require_range(key, number, low, high)
    return numbers


def _with_progress(title: str, running: Iterable[T], count: int, unit: str, clock: Clock) -> Iterator[T]:
    """The first *count* of *running*, with a line of progress on stderr now and then."""
    last = clock.tick()
    for number, result in enumerate(islice(running, count), start=1):
        yield result
        if (tick := clock.tick()) - last >= _PROGRESS_SECONDS:
            last = tick
            print(f"{title}: {number:,} of {count:,} {unit}", file=sys.stderr, flush=True)


def _simulate(options: argparse.Namespace, gate: Gate, fleet: Fleet, clock: Clock) -> dict[float, Rates]:
    """The error rates and games of *gate* by true difference."""
    differences = options.true if options.true is not None else f"{gate.elo_0:g},{gate.elo_1:g}"
    results = {}
    for elo in _parse_numbers("--true", differences, -1000, 1000):
        contest = Contest(elo=elo, players=options.players, rotated=not options.wins_only)
        running = trials(contest, gate, fleet, Random(f"{options.seed}/{elo}"))
        results[elo] = rates(_with_progress(f"{elo:+g} Elo", running, options.trials, "trials", clock), contest)
    return results


def _rates_text(results: Mapping[float, Rates], gate: Gate, fleet: Fleet, players: int) -> str:
    rows = []
    for elo, result in results.items():
        share, count = result.promoted, result.trials
        # Twice the standard error, with Laplace's rule so that none of a hundred does not look certain.
        inner = (share * count + 1.0) / (count + 2.0)
        reach = 2.0 * math.sqrt(inner * (1.0 - inner) / count)
        rows.append((f"{elo:+g}", f"{share:.1%} ± {reach:.1%}", f"{result.games:,.0f}", f"{result.surplus:,.0f}"))
    head = f"gate {gate.elo_0:+g} … {gate.elo_1:+g} Elo, alpha {gate.alpha:g}, beta {gate.beta:g}, {gate.blocks_min} "
    head += f"to {gate.blocks_max} blocks; {players} players, {fleet.in_flight} in flight, losses {fleet.slow:g} x as "
    head += f"slow as wins, decided in order of {fleet.order}\n"
    return head + table(("true Elo", "passed", "games", "surplus"), rows)


def _simulate_budget(options: argparse.Namespace, gate: Gate, budget: Budget, clock: Clock) -> list[dict[str, float]]:
    """Runs of candidate tests with *budget* and without, for every share of equal candidates."""
    results, limits = [], {"players": options.players, "tests": options.tests, "open_max": options.open}
    for null in _parse_numbers("--null", options.null, 0, 1):
        rng = Random(f"{options.seed}/{null}")
        equal = outcomes(Contest(elo=0.0, players=options.players), rng)
        tables = (equal, outcomes(Contest(elo=gate.elo_1, players=options.players), rng))
        careful, plain = list[Season](), list[Season]()
        for _ in _with_progress(f"{null:.0%} equal", range(options.runs), options.runs, "runs", clock):
            careful.append(season(tables, gate, **limits, null=null, budget=budget, rng=rng))
            plain.append(season(tables, gate, **limits, null=null, budget=None, rng=rng))
        results.append(_compare(null, careful, plain))
    return results


def _compare(null: float, careful: Sequence[Season], plain: Sequence[Season]) -> dict[str, float]:
    """Runs with one share of equal candidates, with the error budget and *plain*: each test has the gate's alpha."""
    # The shares of false promotions and the blocks of a test are means; power is that of true promotions, relative.
    count, tests = len(careful), sum(run.tests for run in careful)
    power, plain_power = (
        sum(run.promoted - run.false for run in runs) / max(sum(run.stronger for run in runs), 1)
        for runs in (careful, plain)
    )
    false_share, plain_false_share = (sum(run.false_share for run in runs) / count for runs in (careful, plain))
    blocks, plain_blocks = (sum(run.blocks for run in runs) / tests for runs in (careful, plain))
    relative = power / plain_power if plain_power else 0.0
    shares = {"false_share": false_share, "plain_false_share": plain_false_share, "power": relative}
    return {"null": null, "runs": count, **shares, "blocks": blocks, "plain_blocks": plain_blocks}


def _budget_text(results: Sequence[Mapping[str, float]], options: argparse.Namespace, budget: Budget) -> str:
    shares = ("{null:.0%}", "{false_share:.1%}", "{plain_false_share:.1%}", "{power:.1%}")
    cells = (*shares, "{blocks:,.0f}", "{plain_blocks:,.0f}")
    rows = [[cell.format(**run) for cell in cells] for run in results]
    head = ("equal", "false promotions", "without budget", "true promotions", "blocks a test", "without budget")
    return f"{options.runs} runs of {options.tests:,} tests, budget {budget.share:.0%}\n{table(head, rows)}"


def _prepare(context: Context) -> Output:
    options, policy, clock = context.options, context.settings.policy, context.clock
    gate = _choose_gate(options, policy.gate)
    for name, (low, high) in _RANGES.items():
        require_range("--" + name.replace("_", "-"), getattr(options, name), low, high)
    if options.verb == "simulate":
        fleet = Fleet(in_flight=options.in_flight, slow=options.slow, order=Order(options.order))
        results = _simulate(options, gate, fleet, clock)
        cells = [{"elo": elo, "rates": result} for elo, result in results.items()]
        value = {"gate": gate, "fleet": fleet, "players": options.players, "cells": cells}
        return Output(value=value, text=_rates_text(results, gate, fleet, options.players))
    budget = policy.budget if options.share is None else changed(policy.budget, share=options.share)
    runs = _simulate_budget(options, gate, budget, clock)
    value = {"gate": gate, "budget": budget, "players": options.players, "tests": options.tests, "runs": runs}
    return Output(value=value, text=_budget_text(runs, options, budget))


COMMAND = Command(arguments=_arguments, prepare=_prepare)
