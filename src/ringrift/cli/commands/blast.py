"""List the samples and models that games of a node have reached."""

import math
from collections.abc import Sequence

import msgspec

from ringrift.cli.command import Command, Context, Output, Parser
from ringrift.cli.commands.events import parse_moment
from ringrift.cli.formats import short, table, timestamp
from ringrift.kernel.errors import InputError
from ringrift.pipeline.lineage import Blast, Touched, blast

_ROWS_MAX, _MORE = 40, "  … and {} older ones (all: --json)"


def _arguments(parser: Parser) -> None:
    parser.add_argument("--node", required=True, metavar="NAME", help="the node that played the games")
    parser.add_argument("--since", metavar="MOMENT", help="played from then on: 90m, 2h, 7d or 2026-01-31T12:00")
    parser.add_argument("--until", metavar="MOMENT", help="played before then, in the same form")
    parser.add_argument("--variant", metavar="NAME", help="only this variant, e.g. hex8_2p")


def _as_text(reach: Blast) -> str:
    since = f" since {timestamp(reach.since)}" if reach.since else ""
    until = f" until {timestamp(reach.until)}" if math.isfinite(reach.until) else ""
    variant = f" of {reach.variant}" if reach.variant else ""
    played = f"{reach.node} played {reach.played.games} games{variant} in {reach.played.blobs} batches{since}{until}"
    truncated = [f"truncated: {limit}" for limit in reach.cut]
    if not reach.samples:
        return "\n".join([played, "no samples and no model contain any of them", *truncated])
    direct = sum(model.directly for model in reach.models)
    models = f"{direct} models were trained on some of them, {len(reach.models) - direct} more descend from those:"
    samples = f"{len(reach.samples)} samples contain some of them:"
    return "\n".join([played, models, _models(reach.models), samples, _samples(reach.samples), *truncated])


def _models(models: Sequence[Touched]) -> str:
    rows = []
    for model in models:
        origin, how = model.origin, "directly, samples" if model.directly else "inherited from"
        start = (f"  {short(origin.blob)}", origin.variant, origin.generation, "champion" if model.champion else "")
        rows.append((*start, f"{how} {short(model.via)}", model.batches, model.games, timestamp(origin.time)))
    head = ("  model", "variant", "generation", "", "how", "batches", "games", "trained")
    return table(head, rows, limit=_ROWS_MAX, more=_MORE)


def _samples(samples: Sequence[Touched]) -> str:
    origins = [(sample.origin, sample.batches, sample.games) for sample in samples]
    rows = [(f"  {short(origin.blob)}", origin.variant, *counts, timestamp(origin.time)) for origin, *counts in origins]
    head = ("  samples", "variant", "batches", "games", "exported")
    return table(head, rows, limit=_ROWS_MAX, more=_MORE)


async def _question(context: Context) -> Output:
    options, now = context.options, context.clock.now()
    since = parse_moment(options.since, now) if options.since else 0.0
    until = parse_moment(options.until, now) if options.until else math.inf
    if until <= since:
        raise InputError(f"--until {options.until!r:.40} lies before --since {options.since!r:.40}")
    async with context.store.read() as view:
        reach = await blast(view, options.node, since, until, options.variant)
    # JSON has no infinity: a span without an end has null.
    value = msgspec.to_builtins(reach) | {"until": reach.until if math.isfinite(reach.until) else None}
    return Output(value=value, text=_as_text(reach))


COMMAND = Command(arguments=_arguments, question=_question)
