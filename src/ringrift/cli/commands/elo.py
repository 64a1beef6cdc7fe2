"""Show how strong each line is, how fast it gets stronger, and the expected share of false promotions."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ringrift.cli.command import Command, Context, Parser
from ringrift.cli.formats import duration, short, table
from ringrift.evaluation.budget import Account, expected_share
from ringrift.evaluation.interval import Interval, eta
from ringrift.kernel.settings import Budget
from ringrift.pipeline import proof, ratings
from ringrift.pipeline.line import DECISIONS, LINES, Line
from ringrift.pipeline.operator import require_line
from ringrift.pipeline.records import account_of
from ringrift.pipeline.signals import velocity_of
from ringrift.store.follow import wait_for
from ringrift.store.ports import Reads

_WATCH_SECONDS = 2.0


def _arguments(parser: Parser) -> None:
    parser.add_argument("--variant", metavar="NAME", help="only this variant, e.g. hex8_2p")
    parser.add_argument("--target", type=float, metavar="ELO", help="estimate when each line reaches this Elo")
    parser.add_argument("--watch", action="store_true", help="print again after every change, until Ctrl-C")


@dataclass(frozen=True)
class _LineStrength:
    variant: str
    start: str | None
    """Generation 0: 0 Elo by definition."""
    champion: str | None
    generation: int
    promotions: int
    games: int
    """Games of self-play."""
    elo: Interval | None
    """Elo of the champion above the start; None until it is rated."""
    blocks: int
    """Blocks that its ratings rest on."""
    rated: float | None
    """When the ratings were computed."""
    elo_per_hour: Interval | None
    eta_seconds: float | None
    """Until the target; None without a target, or if the pace may be zero."""


@dataclass(frozen=True)
class _PromotionErrors:
    """How many promotions of the run are expected to be false."""

    tests: int
    promotions: int
    false_at_most: float
    """The expected number of false promotions."""
    share_at_most: float
    budget: float
    """The share that the settings allow."""


@dataclass(frozen=True)
class _Strengths:
    """Everything that ``ringrift elo`` shows."""

    lines: tuple[_LineStrength, ...]
    errors: _PromotionErrors
    target: float | None = None


async def _line_strength(view: Reads, line: Line, target: float | None, now: float) -> _LineStrength:
    line_ratings = await ratings.ratings_of(view, line.variant)
    pace = velocity_of(line_ratings.periods, now)
    elo = ratings.strength(line_ratings, line.champion or "")
    start = proof.generation_0(await DECISIONS.all(view, "variant", line.variant))
    state = (line.variant, start, line.champion, line.generation, line.iteration, line.counts.games)
    eta_seconds = eta(elo.value, pace, target) if elo is not None and target is not None else None
    return _LineStrength(*state, elo, line_ratings.summary.blocks, line_ratings.time or None, pace, eta_seconds)


def _promotion_errors(account: Account, budget: Budget) -> _PromotionErrors:
    return _PromotionErrors(account.begun, account.promoted, account.spent, expected_share(account), budget.share)


def _as_text(strengths: _Strengths, now: float) -> str:
    head = ["variant", "start", "champion", "generation", "Elo over start", "Elo an hour", "games", "blocks", "rated"]
    target, errors = strengths.target, strengths.errors
    rows = [_row(line, target, now) for line in strengths.lines]
    budget = (
        f"{errors.promotions} promotions in {errors.tests} tests: at most {errors.false_at_most:.2g} of them are "
        f"expected to be false, a share of {errors.share_at_most:.1%} (budget {errors.budget:.0%})"
    )
    if target is not None:
        head.append(f"at {target:g} Elo")
    return f"{table(head, rows, 'no lines yet')}\n\n{budget}"


def _row(line: _LineStrength, target: float | None, now: float) -> Sequence[object]:
    rated = "—" if line.rated is None else f"{duration(now - line.rated)} ago"
    elo = _bounds(line.elo, "no ratings yet" if line.rated is None else "not rated yet")
    pace = _bounds(line.elo_per_hour, "too early to say")
    start = (line.variant, short(line.start), short(line.champion), line.generation, elo, pace)
    row = (*start, f"{line.games:,}", f"{line.blocks:,}", rated)
    if target is None:
        return row
    arrival = "unknown" if line.eta_seconds is None else f"in {duration(line.eta_seconds)}"
    return (*row, "reached" if line.elo is not None and line.elo.value >= target else arrival)


def _bounds(interval: Interval | None, otherwise: str) -> str:
    if interval is None:
        return otherwise
    return f"{interval.value:+.0f} ({interval.lower:+.0f} … {interval.upper:+.0f})"


async def _read(context: Context, view: Reads) -> _Strengths:
    """Raises UnknownName for a variant without a line."""
    variant, target, now = context.options.variant, context.options.target, context.clock.now()
    lines = await LINES.all(view) if variant is None else [await require_line(view, variant)]
    strengths = [await _line_strength(view, line, target, now) for line in lines]
    budget = context.settings.policy.budget
    return _Strengths(tuple(strengths), _promotion_errors(await account_of(view, budget), budget), target)


async def _question(context: Context) -> None:
    """Print the strengths, with --watch again after each change until interrupted."""
    printed: object = None

    async def show(view: Reads) -> bool | None:
        nonlocal printed
        strengths = await _read(context, view)
        # Pace and arrival change with the clock alone.
        facts = [replace(line, elo_per_hour=None, eta_seconds=None) for line in strengths.lines]
        if (facts, strengths.errors) != printed:
            printed = (facts, strengths.errors)
            context.print(strengths, _as_text(strengths, context.clock.now()))
        return None if context.options.watch else True

    while await wait_for(context.store, show, context.clock, _WATCH_SECONDS, poll_seconds=_WATCH_SECONDS) is None:
        pass


COMMAND = Command(arguments=_arguments, question=_question, endless=True)
