"""``ringrift gate simulate|budget``: how often a gate errs, and what it costs, before a run relies on it."""

import argparse
import json
import math
import sys
from collections.abc import Iterator, Mapping
from itertools import islice
from random import Random

import msgspec

from ringrift.cli.environment import effective
from ringrift.cli.show import table
from ringrift.evaluation.trial import Contest, Fleet, Order, Rates, Season, Trial, outcomes, rates, season, trials
from ringrift.kernel.clock import Clock, SystemClock
from ringrift.kernel.errors import SettingsError, UnknownName, within
from ringrift.kernel.settings import Budget, Gate
from ringrift.kernel.value import Value

KINDS = {
    "improvement": Gate.improvement,
    "non-regression": Gate.non_regression,
    "anti-disaster": Gate.anti_disaster,
}
GIVEN = ("elo_0", "elo_1", "alpha", "beta", "blocks_min", "blocks_max")
LIST_MAX = 16
"""Numbers that one option may list."""
TOLD_SECONDS = 2.0
"""Between two lines of progress."""
TRIALS_PER_LOOK = 50
"""Trials between two looks at the clock."""


class Cell(Value):
    """What came of the trials of one true difference."""

    elo: float
    rates: Rates


class Run(Value):
    """What came of simulated runs with one share of equal candidates, with and without the budget."""

    null: float
    runs: int
    false_share: float
    """Mean over the runs of the share of promotions that were false."""
    plain_false_share: float
    """The same where each test has the gate's own alpha."""
    kept: float
    """True promotions, as a part of those without the budget."""
    blocks: float
    """Mean blocks of a test."""
    plain_blocks: float


def chosen(options: argparse.Namespace, base: Gate) -> Gate:
    """The gate that *options* ask for: a kind or else *base*, with what is given on top.  Raises SettingsError."""
    if options.kind is not None:
        if options.kind not in KINDS:
            raise UnknownName("kind of gate", options.kind, KINDS)
        base = KINDS[options.kind]()
    return msgspec.structs.replace(
        base, **{name: getattr(options, name) for name in GIVEN if getattr(options, name) is not None}
    )


def numbers(key: str, text: str, low: float, high: float) -> list[float]:
    """The numbers in ``0,20,35``.  Raises SettingsError naming *key*."""
    parts = text.split(",")
    within(f"count of {key}", len(parts), 1, LIST_MAX)
    try:
        found = [float(part) for part in parts]
    except ValueError:
        raise SettingsError(key, text, "must be numbers with commas between them") from None
    for number in found:
        within(key, number, low, high)
    return found


def told(what: str, running: Iterator[Trial], count: int, clock: Clock) -> Iterator[Trial]:
    """The first *count* of *running*, with a line on stderr now and then that says how far it is."""
    last = clock.tick()
    for number, trial in enumerate(islice(running, count), start=1):
        yield trial
        if number % TRIALS_PER_LOOK == 0 and clock.tick() - last >= TOLD_SECONDS:
            last = clock.tick()
            print(f"{what}: {number:,} of {count:,} trials", file=sys.stderr, flush=True)


def simulated(options: argparse.Namespace, gate: Gate, fleet: Fleet, clock: Clock) -> list[Cell]:
    """The error rates and games of *gate* for every true difference that was asked for."""
    asked = options.true if options.true is not None else f"{gate.elo_0:g},{gate.elo_1:g}"
    cells = []
    for elo in numbers("--true", asked, -1000, 1000):
        contest = Contest(elo=elo, players=options.players, rotated=not options.wins_only)
        running = trials(contest, gate, fleet, Random(f"{options.seed}/{elo}"))
        cells.append(Cell(elo=elo, rates=rates(told(f"{elo:+g} Elo", running, options.trials, clock), contest)))
    return cells


def as_text(cells: list[Cell], gate: Gate, fleet: Fleet, players: int) -> str:
    """The rates for people."""
    rows = []
    for cell in cells:
        share, count = cell.rates.promoted, cell.rates.trials
        # Twice the standard error, with Laplace's rule so that none of a hundred does not look certain.
        inner = (share * count + 1.0) / (count + 2.0)
        reach = 2.0 * math.sqrt(inner * (1.0 - inner) / count)
        rows.append((f"{cell.elo:+g}", f"{share:.1%} ± {reach:.1%}", f"{cell.rates.games:,.0f}",
                     f"{cell.rates.surplus:,.0f}"))  # fmt: skip
    return "\n".join(
        [
            f"gate {gate.elo_0:+g} … {gate.elo_1:+g} Elo, alpha {gate.alpha:g}, beta {gate.beta:g}, {gate.blocks_min} "
            f"to {gate.blocks_max} blocks; {players} players, {fleet.in_flight} in flight, losses "
            f"{fleet.slow:g} x as slow as wins, decided in order of {fleet.order}",
            table(("true Elo", "passed", "games", "surplus"), rows),
        ]
    )


def budgeted(options: argparse.Namespace, gate: Gate, budget: Budget, clock: Clock) -> list[Run]:
    """What runs of candidate tests come to with *budget* and without, for every share of equal candidates asked for."""
    found, last = [], clock.tick()
    for null in numbers("--null", options.null, 0, 1):
        rng = Random(f"{options.seed}/{null}")
        tables = (outcomes(Contest(elo=0.0, players=options.players), rng),
                  outcomes(Contest(elo=gate.elo_1, players=options.players), rng))  # fmt: skip
        both: dict[bool, list[Season]] = {True: [], False: []}
        for number in range(options.runs):
            for careful, runs in both.items():
                runs.append(
                    season(tables, gate, players=options.players, tests=options.tests, null=null,
                           budget=budget if careful else None, open_max=options.open, rng=rng)
                )  # fmt: skip
            if clock.tick() - last >= TOLD_SECONDS:
                last = clock.tick()
                print(f"{null:.0%} equal: {number + 1} of {options.runs} runs", file=sys.stderr, flush=True)
        found.append(_compared(null, both[True], both[False]))
    return found


def _compared(null: float, careful: list[Season], plain: list[Season]) -> Run:
    true = [sum(one.promoted - one.false for one in runs) / max(sum(one.stronger for one in runs), 1)
            for runs in (careful, plain)]  # fmt: skip
    count, tests = len(careful), sum(one.tests for one in careful)
    return Run(
        null=null, runs=count, kept=true[0] / true[1] if true[1] else 0.0,
        false_share=sum(one.false_share for one in careful) / count,
        plain_false_share=sum(one.false_share for one in plain) / count,
        blocks=sum(one.blocks for one in careful) / tests, plain_blocks=sum(one.blocks for one in plain) / tests,
    )  # fmt: skip


def runs_as_text(found: list[Run], options: argparse.Namespace, budget: Budget) -> str:
    """The runs for people."""
    rows = [(f"{run.null:.0%}", f"{run.false_share:.1%}", f"{run.plain_false_share:.1%}", f"{run.kept:.1%}",
             f"{run.blocks:,.0f}", f"{run.plain_blocks:,.0f}") for run in found]  # fmt: skip
    head = ("equal", "false promotions", "without budget", "true ones kept", "blocks a test", "without budget")
    return f"{options.runs} runs of {options.tests:,} tests, budget {budget.share:.0%}\n{table(head, rows)}"


def main(options: argparse.Namespace, given: Mapping[str, object]) -> int:
    """Print what the simulation says; wrong input raises SettingsError or UnknownName."""
    policy = effective(file=options.settings, given=given).settings.policy
    gate = chosen(options, policy.gate)
    within("--players", options.players, 2, 4)
    within("--trials", options.trials, 1, 1_000_000)
    clock = SystemClock()
    if options.verb == "simulate":
        within("--in-flight", options.in_flight, 1, 100_000)
        within("--slow", options.slow, 0.1, 100)
        fleet = Fleet(in_flight=options.in_flight, slow=options.slow, order=Order(options.order))
        cells = simulated(options, gate, fleet, clock)
        said = {"gate": gate, "fleet": fleet, "players": options.players, "cells": cells}
        print(_json(said) if options.json else as_text(cells, gate, fleet, options.players))
        return 0
    within("--tests", options.tests, 1, 1_000_000)
    within("--runs", options.runs, 1, 10_000)
    within("--open", options.open, 1, 100_000)
    share = policy.budget.share if options.share is None else options.share
    budget = msgspec.structs.replace(policy.budget, share=share)
    found = budgeted(options, gate, budget, clock)
    said = {"gate": gate, "budget": budget, "players": options.players, "tests": options.tests, "runs": found}
    print(_json(said) if options.json else runs_as_text(found, options, budget))
    return 0


def _json(said: dict[str, object]) -> str:
    return json.dumps(msgspec.to_builtins(said))
