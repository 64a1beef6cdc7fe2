"""Play a match between two models; the result is stored as evidence and promotes no model."""

import argparse
from collections.abc import Mapping, Sequence
from typing import Any

from ringrift.cli.command import EXIT_FAILED, Command, Context, Output, Parser
from ringrift.cli.follow_jobs import follow
from ringrift.cli.formats import CONFIDENCE, short
from ringrift.evaluation import blocks as results
from ringrift.evaluation.interval import in_elo, of_score
from ringrift.events.base import Event
from ringrift.events.evaluation import BlocksPlayed
from ringrift.jobs import STAGE, Match, Purpose, match_jobs
from ringrift.kernel.errors import InputError, InvalidId, UnknownName, require_range
from ringrift.kernel.ids import seed_of
from ringrift.kernel.value import changed
from ringrift.kernel.variant import parse
from ringrift.pipeline.models import resolve
from ringrift.store.ports import Reads
from ringrift.work.desk import enqueue

_BLOCKS_MAX = 10_000


def _arguments(parser: Parser) -> None:
    parser.add_argument("model", help="first digits of a model's hash, or a variant for its champion")
    parser.add_argument("opponent", help="the same, or a baseline such as uct:200")
    parser.add_argument("--variant", metavar="NAME", help="the variant, if several have such a model")
    blocks = "openings, each from every seat (default 32)"
    parser.add_argument("--blocks", type=int, default=32, metavar="N", help=blocks)


async def _player(view: Reads, name: str, variant: str | None) -> tuple[str, str | None]:
    """The model that *name* means with its variant; otherwise *name* must be a baseline."""
    try:
        match = await resolve(view, name, variant)
    except (InvalidId, UnknownName):
        return name, None
    return match.model, match.variant


async def _jobs_of(view: Reads, options: argparse.Namespace, blocks_per_job: int) -> tuple[Match, ...]:
    """The jobs of the match that *options* describe.  Raises InputError, UnknownName."""
    require_range("--blocks", options.blocks, 1, _BLOCKS_MAX)
    model, variant = await _player(view, options.model, options.variant)
    opponent, opponent_variant = await _player(view, options.opponent, options.variant)
    if variant is None:
        raise UnknownName("model", options.model)
    if opponent_variant not in (None, variant):
        raise InputError(f"{short(model)} plays {variant}, but {short(opponent)} plays {opponent_variant}")
    side = {"champion" if opponent_variant else "baseline": opponent}
    seed = seed_of(Purpose.OPERATOR, variant, model, opponent)
    job = Match(variant=variant, candidate=model, first=0, count=blocks_per_job, seed=seed, priority=STAGE)
    return match_jobs(changed(job, purpose=Purpose.OPERATOR, **side), 0, options.blocks, blocks_per_job)


def _result_of(jobs: Sequence[Match], events: Sequence[Event], error: str = "") -> dict[str, Any]:
    """The result of the match; *error* is why not all blocks were played."""
    first = jobs[0]
    blocks = [block for event in events if isinstance(event, BlocksPlayed) for block in results.from_event(event)]
    scores, ranked = results.observations(results.merge((), blocks))
    scale = 2 if ranked else parse(first.variant).players
    score, pair = of_score(scores, scale, CONFIDENCE), {"model": first.candidate, "opponent": first.opponent}
    numbers = {"blocks": len(scores), "score": score, "elo": in_elo(score, scale)}
    return {"variant": first.variant, **pair, **numbers, "error": error}


def _as_text(result: Mapping[str, Any]) -> str:
    score, elo, blocks = result["score"], result["elo"], result["blocks"]
    lines = [f"{result['variant']}: {short(result['model'])} against {short(result['opponent'])}, {blocks} blocks"]
    if blocks:
        lines.append(f"score {score.value:.3f} ({score.lower:.3f} … {score.upper:.3f})")
        lines.append(f"Elo {elo.value:+.0f} ({elo.lower:+.0f} … {elo.upper:+.0f}, {CONFIDENCE:.0%})")
    return "\n".join(filter(None, [*lines, result["error"]]))


async def _question(context: Context) -> Output:
    """Exit code 1 if not all blocks were played.  Progress goes to stderr."""
    async with context.store.begin() as tx:
        jobs = await _jobs_of(tx, context.options, context.settings.policy.blocks_per_job)
        newest = await tx.last(None, 1)
        await enqueue(tx, jobs, context.envelopes(), context.clock.now())
    followed = await follow(context, jobs, newest[-1].position if newest else 0)
    result = _result_of(jobs, followed.events, followed.reason)
    return Output(value=result, text=_as_text(result), code=EXIT_FAILED if followed.error else 0)


COMMAND = Command(arguments=_arguments, question=_question)
