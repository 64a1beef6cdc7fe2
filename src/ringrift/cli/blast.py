"""``ringrift blast --node N``: which samples and models have seen any game of a node, and how."""

import argparse
import json
import math
from collections.abc import Mapping, Sequence

import msgspec

from ringrift.cli.events import moment
from ringrift.cli.show import clock, short, table
from ringrift.cli.store import answer
from ringrift.kernel.clock import SystemClock
from ringrift.kernel.errors import InputError
from ringrift.pipeline.lineage import Blast, Touched, blast
from ringrift.store.ports import Store

ROWS_SHOWN = 40


def span(options: argparse.Namespace, now: float) -> tuple[float, float]:
    """From when to before when; without a word for it, from the beginning and without an end.  Raises InputError."""
    since = moment(options.since, now) if options.since else 0.0
    until = moment(options.until, now) if options.until else math.inf
    if until <= since:
        raise InputError(f"--until {options.until!r:.40} lies before --since {options.since!r:.40}")
    return since, until


def as_text(found: Blast) -> str:
    """The answer for people: what the node played, then models and samples, newest first."""
    since = f" since {clock(found.since)}" if found.since else ""
    until = f" until {clock(found.until)}" if math.isfinite(found.until) else ""
    of = f" of {found.variant}" if found.variant else ""
    played = f"{found.node} played {found.played.games} games{of} in {found.played.blobs} batches{since}{until}"
    if not found.samples:
        return "\n".join([played, "no samples and no model have seen any of them", *_cut(found)])
    direct = sum(one.directly for one in found.models)
    return "\n".join([
        played,
        f"{direct} models were trained on some of them, {len(found.models) - direct} more descend from those:",
        _models(found.models),
        f"{len(found.samples)} samples have some of them:",
        _table(("  samples", "variant", "batches", "games", "exported"), [
            (f"  {short(one.origin.blob)}", one.origin.variant, one.batches, one.games, clock(one.origin.time))
            for one in found.samples
        ]),
        *_cut(found),
    ])  # fmt: skip


def _models(models: Sequence[Touched]) -> str:
    return _table(("  model", "variant", "generation", "", "how", "batches", "games", "trained"), [
        (
            f"  {short(one.origin.blob)}", one.origin.variant, one.origin.generation,
            "champion" if one.champion else "",
            f"{'directly, samples' if one.directly else 'inherited from'} {short(one.via)}", one.batches, one.games,
            clock(one.origin.time),
        )
        for one in models
    ])  # fmt: skip


def _table(head: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    more = f"\n  … and {len(rows) - ROWS_SHOWN} older ones (--json has all)" if len(rows) > ROWS_SHOWN else ""
    return table(head, rows[:ROWS_SHOWN]) + more


def _cut(found: Blast) -> list[str]:
    return [f"cut: {said}" for said in found.cut]


def as_json(found: Blast) -> str:
    """The answer for programs; a time without an end is null."""
    tree = msgspec.to_builtins(found)
    return json.dumps(tree | {"until": found.until if math.isfinite(found.until) else None}, indent=2)


async def do(store: Store, options: argparse.Namespace, node: str) -> str:
    """What the store says of the games of the node that is asked for."""
    since, until = span(options, SystemClock().now())
    async with store.read() as view:
        found = await blast(view, options.node, since, until, options.variant)
    return as_json(found) if options.json else as_text(found)


def main(options: argparse.Namespace, given: Mapping[str, object]) -> int:
    """Print it; 0.  Raises UnknownName for a node or variant that there is not, InputError for a bad moment."""
    return answer(options, given, do)
