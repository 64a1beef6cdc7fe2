"""``ringrift elo``: how strong each line is above its start, how fast it gets stronger, and what that rests on."""

import argparse
import asyncio
import json
from collections.abc import Mapping

import msgspec

from ringrift.cli.environment import effective
from ringrift.cli.show import ago, short, table
from ringrift.cli.store import existing
from ringrift.evaluation.budget import Account, expected_false, expected_share
from ringrift.evaluation.interval import Interval
from ringrift.evaluation.velocity import eta
from ringrift.kernel.clock import SystemClock
from ringrift.kernel.errors import UnknownName
from ringrift.kernel.settings import Budget, Settings
from ringrift.kernel.value import Value
from ringrift.pipeline import proof, standing
from ringrift.pipeline.line import Line
from ringrift.pipeline.records import account_of, decisions_of, lines
from ringrift.pipeline.signals import pace_of
from ringrift.store.ports import Reads, Store

POLL_SECONDS = 2.0


class Climb(Value):
    """How far one line has come."""

    variant: str
    start: str | None
    """Generation 0: 0 Elo by definition."""
    champion: str | None
    generation: int
    promotions: int
    games: int
    """Of self-play."""
    elo: Interval | None
    """Of the champion above the start; None while nobody has computed it."""
    blocks: int
    """That its ratings rest on."""
    rated: float | None
    """When."""
    elo_per_hour: Interval | None
    eta_seconds: float | None
    """Until the target; None without one, or if the pace may as well be none."""


class Errors(Value):
    """What the promotions of the run may be wrong by."""

    tests: int
    promotions: int
    false_at_most: float
    """As many false ones are to be expected."""
    share_at_most: float
    budget: float
    """The share that the settings allow."""


class Answer(Value):
    """Everything that is shown."""

    lines: tuple[Climb, ...]
    errors: Errors
    target: float | None = None


async def climb(view: Reads, line: Line, target: float | None, now: float) -> Climb:
    """How far *line* has come."""
    known = await standing.load(view, line.variant)
    pace = pace_of(known.reigns, now)
    elo = standing.strength(known, line.champion or "")
    reached = eta(elo.value, pace, target) if elo is not None and target is not None else None
    return Climb(
        variant=line.variant, start=proof.generation_0(await decisions_of(view, line.variant)), champion=line.champion,
        generation=line.generation, promotions=line.iteration, games=line.counts.games, elo=elo,
        blocks=known.summary.blocks, rated=known.time or None, elo_per_hour=pace, eta_seconds=reached,
    )  # fmt: skip


def errors(account: Account, budget: Budget) -> Errors:
    """What *account* says of the whole run."""
    return Errors(
        tests=account.begun, promotions=account.promoted, false_at_most=expected_false(account),
        share_at_most=expected_share(account), budget=budget.share,
    )  # fmt: skip


async def ask(store: Store, budget: Budget, variant: str | None, target: float | None, now: float) -> Answer:
    """What the store says.  Raises UnknownName for a line that was never opened."""
    async with store.read() as view:
        every = await lines(view)
        if variant is not None and variant not in [line.variant for line in every]:
            raise UnknownName("line", variant, [line.variant for line in every])
        wanted = [line for line in every if variant in (None, line.variant)]
        found = [await climb(view, line, target, now) for line in wanted]
        return Answer(lines=tuple(found), errors=errors(await account_of(view, budget), budget), target=target)


def as_text(answer: Answer, now: float) -> str:
    """The answer for people."""
    head = ["variant", "start", "champion", "generation", "Elo over start", "Elo an hour", "games", "blocks", "rated"]
    rows = [
        [
            one.variant, short(one.start), short(one.champion), one.generation, _bounded(one.elo, _unrated(one)),
            _bounded(one.elo_per_hour, "too early to say"), f"{one.games:,}", f"{one.blocks:,}",
            "—" if one.rated is None else f"{ago(now - one.rated)} ago",
        ]
        for one in answer.lines
    ]  # fmt: skip
    if answer.target is not None:
        head.append(f"at {answer.target:g} Elo")
        rows = [[*row, _when(one, answer.target)] for row, one in zip(rows, answer.lines, strict=True)]
    said = answer.errors
    budget = (
        f"{said.promotions} promotions in {said.tests} tests: at most {said.false_at_most:.2g} of them are expected to "
        f"be false, a share of {said.share_at_most:.1%} (budget {said.budget:.0%})"
    )
    return f"{table(head, rows) if rows else 'no line was ever opened'}\n\n{budget}"


def _unrated(one: Climb) -> str:
    return "no ratings yet" if one.rated is None else "not rated yet"


def _bounded(found: Interval | None, otherwise: str) -> str:
    if found is None:
        return otherwise
    return f"{found.value:+.0f} ({found.lower:+.0f} … {found.upper:+.0f})"


def _when(one: Climb, target: float) -> str:
    if one.elo is not None and one.elo.value >= target:
        return "reached"
    return "cannot be said" if one.eta_seconds is None else f"in {ago(one.eta_seconds)}"


async def show(settings: Settings, options: argparse.Namespace) -> None:
    """Print the answer, and with --watch again whenever it is another one, until interrupted."""
    clock, before = SystemClock(), None
    async with existing(settings.store) as store:
        while True:
            place, now = store.position, clock.now()
            answer = await ask(store, settings.policy.budget, options.variant, options.target, now)
            seen = [msgspec.structs.replace(one, elo_per_hour=None, eta_seconds=None) for one in answer.lines]
            if (seen, answer.errors) != before:
                before = (seen, answer.errors)
                text = json.dumps(msgspec.to_builtins(answer)) if options.json else as_text(answer, now)
                print(text, flush=True)
            if not options.watch:
                return
            await store.wait(place, POLL_SECONDS)


def main(options: argparse.Namespace, given: Mapping[str, object]) -> int:
    """Print; 0, also when interrupted while watching."""
    found = effective(file=options.settings, given=given)
    try:
        asyncio.run(show(found.settings, options))
    except KeyboardInterrupt:
        return 0
    return 0
