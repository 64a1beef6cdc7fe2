"""Show how strong each line is, how it trains and how fast it gets stronger, and how many promotions may be false."""

from collections.abc import Mapping, Sequence
from typing import Any

from ringrift.cli.command import Command, Context, Parser
from ringrift.cli.formats import ago, duration, elo_bounds, short, table
from ringrift.cli.metric_files import training_figures
from ringrift.evaluation.budget import Account, expected_share
from ringrift.evaluation.interval import eta
from ringrift.kernel.errors import SettingsError
from ringrift.kernel.settings import Budget
from ringrift.pipeline import proof, ratings
from ringrift.pipeline.line import DECISIONS, Line
from ringrift.pipeline.metrics import LineMetrics, line_metrics
from ringrift.pipeline.records import account_of
from ringrift.pipeline.signals import velocity_of
from ringrift.store.follow import wait_for
from ringrift.store.ports import Reads

_WATCH_SECONDS = 2.0
_SHARE_MIN = 0.005  # of the cores, below which a stage is not shown
_Strength = Mapping[str, Any]
_ERRORS = """{promotions} promotions in {tests} tests: at most {false_at_most:.2g} of them are expected to be false, \
a share of {share_at_most:.1%} (budget {budget:.0%})"""


def _arguments(parser: Parser) -> None:
    parser.add_argument("--variant", metavar="NAME", help="only this variant, e.g. hex8_2p")
    parser.add_argument("--target", type=float, metavar="ELO", help="estimate when each line reaches this Elo")
    parser.add_argument("--watch", action="store_true", help="print again after every change, until Ctrl-C")


async def _line_strength(view: Reads, line: Line, target: float | None, now: float) -> dict[str, Any]:
    """The strength of *line* above its start, which is 0 Elo by definition; what is not rated yet has none."""
    line_ratings, metrics = await ratings.ratings_of(view, line.variant), await line_metrics(view, line.variant, now)
    elo, pace = metrics.elo, velocity_of(line_ratings.periods, now)
    start = proof.generation_0(await DECISIONS.all(view, "variant", line.variant))
    state: dict[str, Any] = {"variant": line.variant, "start": start, "champion": line.champion, "elo": elo}
    state |= {"generation": line.generation, "promotions": line.iteration, "games": line.counts.games}
    state |= {"blocks": line_ratings.summary.blocks, "rated": line_ratings.time or None, "elo_per_hour": pace}
    state |= {"metrics": metrics, "players": await ratings.elo_of(view, line.variant)}
    return state | {"eta_seconds": None if elo is None or target is None else eta(elo.value, pace, target)}


def _promotion_errors(account: Account, budget: Budget) -> dict[str, float]:
    """How many promotions of the run are expected to be false, and which share the settings allow."""
    errors = {"false_at_most": account.spent, "share_at_most": expected_share(account), "budget": budget.share}
    return {"tests": account.begun, "promotions": account.promoted, **errors}


def _as_text(lines: Sequence[_Strength], errors: Mapping[str, float], target: float | None, now: float) -> str:
    head = ["variant", "start", "champion", "generation", "Elo over start", "Elo an hour", "games", "blocks", "rated"]
    rows = [_row(line, target, now) for line in lines]
    if target is not None:
        head.append(f"at {target:g} Elo")
    parts = [table(head, rows, "no lines yet"), *([_training_table(lines)] if lines else []), _ERRORS.format(**errors)]
    return "\n\n".join(parts)


def _training_table(lines: Sequence[_Strength]) -> str:
    """How each line trains and plays."""
    names, rows = ("loss", "held-out loss", "steps/s", "positions", "window", "reuse"), []
    for line in lines:
        metrics: LineMetrics = line["metrics"]
        training = training_figures(metrics.training)
        speed = "—" if metrics.games_per_second is None else f"{metrics.games_per_second:.2f}"
        busy = ", ".join(f"{stage} {share:.0%}" for stage, share in metrics.busy.items() if share >= _SHARE_MIN)
        rows.append((line["variant"], *(training.get(name, "—") for name in names), speed, busy or "—"))
    return table(("variant", *names, "games/s", "cores busy"), rows)


def _players_table(players: Sequence[ratings.RatedModel]) -> str:
    """Every rated player of one line."""
    generations = ["—" if row.generation is None else row.generation for row in players]
    names = [row.model if row.is_baseline else short(row.model) for row in players]
    rows = [(*start, elo_bounds(row.elo), row.blocks) for *start, row in zip(generations, names, players, strict=True)]
    return table(("generation", "player", "Elo over start", "blocks"), rows, "no player is rated yet")


def _row(line: _Strength, target: float | None, now: float) -> Sequence[object]:
    elo, pace, rated, seconds = (line[name] for name in ("elo", "elo_per_hour", "rated", "eta_seconds"))
    unrated = "no ratings yet" if rated is None else "not rated yet"
    bounds = unrated if elo is None else elo_bounds(elo), "too early to say" if pace is None else elo_bounds(pace)
    start = (line["variant"], short(line["start"]), short(line["champion"]), line["generation"], *bounds)
    row = (*start, f"{line['games']:,}", f"{line['blocks']:,}", "—" if rated is None else ago(rated, now))
    if target is None:
        return row
    arrival = "unknown" if seconds is None else f"in {duration(seconds)}"
    return (*row, "reached" if elo is not None and elo.value >= target else arrival)


async def _question(context: Context) -> None:
    """Print the strengths, with --watch again after each change until interrupted.  Raises UnknownName."""
    printed: object = None
    budget, target = context.settings.policy.budget, context.options.target

    async def show(view: Reads) -> bool | None:
        nonlocal printed
        now = context.clock.now()
        lines = [await _line_strength(view, line, target, now) for line in await context.lines(view)]
        errors = _promotion_errors(await account_of(view, budget), budget)
        # Pace and arrival change with the clock alone.
        facts = [line | {"elo_per_hour": None, "eta_seconds": None, "metrics": None} for line in lines]
        if (facts, errors) != printed:
            printed = (facts, errors)
            value = {"lines": lines, "errors": errors, "target": target}
            text = _as_text(lines, errors, target, now)
            if context.options.variant is not None:
                text = "\n\n".join([_players_table(lines[0]["players"]), text])
            context.print(value, text)
        return None if context.options.watch else True

    while await wait_for(context.store, show, context.clock, _WATCH_SECONDS, poll_seconds=_WATCH_SECONDS) is None:
        pass


def _prepare(context: Context) -> None:
    """Raises SettingsError."""
    if context.options.target is not None and context.options.target < 0:
        raise SettingsError("--target", context.options.target, "must be 0 or more: a line starts at 0 Elo")


COMMAND = Command(arguments=_arguments, prepare=_prepare, question=_question, endless=True)
