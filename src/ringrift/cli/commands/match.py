"""Play a match between models or baselines; the result is stored as evidence and promotes no model."""

import argparse
from collections.abc import Mapping, Sequence
from typing import Any

from ringrift.cli.command import EXIT_FAILED, Command, Context, Output, Parser
from ringrift.cli.formats import CONFIDENCE, elo_bounds, short
from ringrift.cli.own_worker import do_jobs
from ringrift.evaluation import blocks as results
from ringrift.evaluation.interval import in_elo, of_score
from ringrift.events.base import Event
from ringrift.events.evaluation import BlocksPlayed
from ringrift.jobs import STAGE, Match, Purpose, match_jobs
from ringrift.kernel.errors import InputError, InvalidId, UnknownName, require_range
from ringrift.kernel.ids import seed_of
from ringrift.kernel.settings import WorkSettings
from ringrift.kernel.value import changed
from ringrift.kernel.variant import parse
from ringrift.pipeline.line import LINES
from ringrift.pipeline.models import resolve
from ringrift.store.ports import Reads
from ringrift.workload.registry import Registry

_BLOCKS_MAX = 10_000


def _arguments(parser: Parser) -> None:
    parser.add_argument("model", help="first digits of a model's hash, a variant for its champion, or a baseline")
    parser.add_argument("opponent", help="the same; a baseline is e.g. random or uct:200")
    parser.add_argument(
        "--variant", metavar="NAME", help="the variant, for two baselines or if several have such a model"
    )
    blocks = "openings, each from every seat (default 32)"
    parser.add_argument("--blocks", type=int, default=32, metavar="N", help=blocks)


async def _player(view: Reads, name: str, variant: str | None) -> tuple[str, str | None]:
    """The model that *name* means with its variant; otherwise *name* must be a baseline."""
    try:
        match = await resolve(view, name, variant)
    except (InvalidId, UnknownName):
        return name, None
    return match.model, match.variant


async def _jobs_of(view: Reads, options: argparse.Namespace, work: WorkSettings, size: int) -> tuple[Match, ...]:
    """The jobs of the match that *options* describe, *size* blocks each.  Raises InputError, UnknownName."""
    require_range("--blocks", options.blocks, 1, _BLOCKS_MAX)
    model, model_variant = await _player(view, options.model, options.variant)
    opponent, opponent_variant = await _player(view, options.opponent, options.variant)
    if None not in (model_variant, opponent_variant) and model_variant != opponent_variant:
        raise InputError(f"{short(model)} plays {model_variant}, but {short(opponent)} plays {opponent_variant}")
    variant = model_variant or opponent_variant or options.variant
    if variant is None:
        raise UnknownName("model", options.model, ["baselines play each other with --variant NAME"])
    line = await LINES.get(view, variant)
    for name, is_model in ((model, model_variant), (opponent, opponent_variant)):
        if not is_model:
            _require_baseline(name, variant, work, line.workload if line else None)
    side = {"champion" if opponent_variant else "baseline": opponent}
    seed = seed_of(Purpose.OPERATOR, variant, model, opponent)
    job = Match(variant=variant, candidate=model, first=0, count=size, seed=seed, priority=STAGE)
    return match_jobs(changed(job, purpose=Purpose.OPERATOR, **side), 0, options.blocks, size)


def _require_baseline(name: str, variant: str, work: WorkSettings, workload: str | None) -> None:
    """Raise UnknownName for a plain name that *variant* does not declare; one with a parameter its workload judges."""
    registry = Registry.load(work.executables)
    specs = registry.get(workload or registry.owner(variant, work.workload)).variants()
    declared = next((spec.baselines for spec in specs if spec.name == variant), ())
    if declared and ":" not in name and name not in declared:
        raise UnknownName(f"model or baseline of {variant}", name, declared)


def _result_of(jobs: Sequence[Match], events: Sequence[Event], error: str = "") -> dict[str, Any]:
    """The result of the match; *error* is why not all blocks were played."""
    first = jobs[0]
    blocks = [block for event in events if isinstance(event, BlocksPlayed) for block in results.from_event(event)]
    scores, ranked = results.observations(results.merge((), blocks))
    scale = 2 if ranked else parse(first.variant).players
    score, pair = of_score(scores, scale, CONFIDENCE), {"model": first.candidate, "opponent": first.opponent}
    numbers = {"blocks": len(scores), "score": score, "gain": in_elo(score, scale)}
    return {"variant": first.variant, **pair, **numbers, "error": error}


def _as_text(result: Mapping[str, Any]) -> str:
    score, gain, blocks = result["score"], result["gain"], result["blocks"]
    lines = [f"{result['variant']}: {short(result['model'])} against {short(result['opponent'])}, {blocks} blocks"]
    if blocks:
        lines.append(f"score {score.value:.3f} ({score.lower:.3f} … {score.upper:.3f})")
        lines.append(f"gain over the opponent {elo_bounds(gain)} with {CONFIDENCE:.0%}")
    return "\n".join(filter(None, [*lines, result["error"]]))


async def _question(context: Context) -> Output:
    """Exit code 1 if not all blocks were played.  Progress goes to stderr."""
    settings = context.settings
    async with context.store.read() as view:
        jobs = await _jobs_of(view, context.options, settings.work, settings.policy.blocks_per_job)
    followed = await do_jobs(context, jobs)
    result = _result_of(jobs, followed.events, followed.error)
    return Output(value=result, text=_as_text(result), code=EXIT_FAILED if followed.error else 0)


COMMAND = Command(arguments=_arguments, question=_question)
