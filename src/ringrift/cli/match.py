"""``ringrift match A B``: let two players meet over numbered blocks; it is kept as evidence and promotes nobody."""

import argparse
import asyncio
import json
import sys
from collections.abc import Mapping, Sequence
from random import SystemRandom

import msgspec

from ringrift.cli.awaited import Followed, follow
from ringrift.cli.environment import effective
from ringrift.cli.show import short
from ringrift.cli.store import by_hand, existing
from ringrift.cluster.roster import Roster
from ringrift.evaluation import blocks as results
from ringrift.evaluation.interval import Interval, in_elo, of_score
from ringrift.events.base import Event
from ringrift.events.evaluation import BlocksPlayed
from ringrift.jobs import STAGE, Match
from ringrift.kernel.clock import SystemClock
from ringrift.kernel.errors import InputError, UnknownName
from ringrift.kernel.ids import Ids, seed_of
from ringrift.kernel.settings import Settings
from ringrift.kernel.value import Value
from ringrift.kernel.variant import parse
from ringrift.pipeline.byhand import find, line_of
from ringrift.pipeline.line import Line
from ringrift.store.ports import Reads, Store, Tx
from ringrift.work.desk import ask

PURPOSE = "hand"
CONFIDENCE = 0.95
BLOCKS_MAX = 10_000
EXIT_UNDONE = 1


class Met(Value):
    """How a match went."""

    variant: str
    one: str
    other: str
    blocks: int
    score: Interval
    elo: Interval
    error: str = ""
    """Why not all blocks were played."""


async def player(view: Reads, asked: str, variant: str | None) -> tuple[str, str | None]:
    """The model that *asked* means with its variant; else it must be the name of a player that never trains."""
    try:
        found = await find(view, asked, variant)
    except UnknownName:
        return asked, None
    return found.model, found.variant


async def jobs_of(view: Reads, options: argparse.Namespace, size: int) -> tuple[Line, list[Match]]:
    """The jobs of the match that was asked for.  Raises InputError, UnknownName."""
    if not 1 <= options.blocks <= BLOCKS_MAX:
        raise InputError(f"--blocks takes 1 … {BLOCKS_MAX}, not {options.blocks}")
    one, of = await player(view, options.one, options.variant)
    other, other_of = await player(view, options.other, options.variant)
    if of is None:
        raise UnknownName("model", options.one)
    if other_of not in (None, of):
        raise InputError(f"{short(one)} plays {of} and {short(other)} plays {other_of}")
    line = await line_of(view, of)
    champion, baseline = (other, "") if other_of else ("", other)
    seed = seed_of(PURPOSE, of, one, other)
    return line, [
        Match(
            variant=of, candidate=one, first=first, count=min(size, options.blocks - first), seed=seed, priority=STAGE,
            purpose=PURPOSE, champion=champion, baseline=baseline,
        )
        for first in range(0, options.blocks, size)
    ]  # fmt: skip


async def asked_for(tx: Tx, jobs: Sequence[Match], node: str) -> int:
    """Ask for *jobs*; the position behind which their ends will be told."""
    newest, clock = await tx.last(None, 1), SystemClock()
    await ask(tx, jobs, Ids(clock, SystemRandom()), clock.now(), scribe=by_hand(node))
    return newest[-1].position if newest else 0


def met(jobs: Sequence[Match], events: Sequence[Event], error: str = "") -> Met:
    """What the blocks that were played say."""
    first = jobs[0]
    players = parse(first.variant).players
    played = [block for event in events if isinstance(event, BlocksPlayed) for block in results.of(event)]
    scores, ranked = results.observed(results.merged((), played))
    scale = 2 if ranked else players
    score = of_score(scores, scale, CONFIDENCE)
    return Met(
        variant=first.variant, one=first.candidate, other=first.opponent, blocks=len(scores), score=score,
        elo=in_elo(score, scale), error=error,
    )  # fmt: skip


def as_text(found: Met) -> str:
    """The match for people."""
    out = [f"{found.variant}: {short(found.one)} against {short(found.other)}, {found.blocks} blocks"]
    if found.blocks:
        score, elo = found.score, found.elo
        out.append(f"score {score.value:.3f} ({score.lower:.3f} … {score.upper:.3f})")
        out.append(f"Elo {elo.value:+.0f} ({elo.lower:+.0f} … {elo.upper:+.0f}, {CONFIDENCE:.0%})")
    return "\n".join([*out, *([found.error] if found.error else [])])


async def play(store: Store, options: argparse.Namespace, settings: Settings) -> Met:
    """Ask for the match and wait for it, telling on stderr how it goes."""
    async with store.begin() as tx:
        line, jobs = await jobs_of(tx, options, settings.policy.blocks_per_job)
        after = await asked_for(tx, jobs, settings.node.id)
    clock = SystemClock()

    def tell(text: str) -> None:
        print(f"match {line.variant}: {text}", file=sys.stderr)

    roster = Roster(store, clock, settings.cluster.beat_seconds)
    followed: Followed = await follow(store, roster, jobs, after, clock, tell)
    return met(jobs, followed.events, followed.error)


def main(options: argparse.Namespace, given: Mapping[str, object]) -> int:
    """Print how it went; 0, or 1 if not all blocks were played."""
    found = effective(file=options.settings, given=given)

    async def run() -> Met:
        async with existing(found.settings.store) as store:
            return await play(store, options, found.settings)

    answer = asyncio.run(run())
    print(json.dumps(msgspec.to_builtins(answer)) if options.json else as_text(answer))
    return EXIT_UNDONE if answer.error else 0
