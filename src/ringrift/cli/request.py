"""``ringrift request VARIANT STAGE``: ask for a stage out of turn, and hear what the gate says."""

import argparse
import asyncio
import json
from collections.abc import Mapping

import msgspec

from ringrift.cli.environment import effective
from ringrift.cli.show import verdict as verdict_line
from ringrift.cli.store import by_hand, existing
from ringrift.events.base import Envelope
from ringrift.events.pipeline import Requested
from ringrift.kernel.clock import Clock, SystemClock
from ringrift.kernel.errors import UnknownName
from ringrift.kernel.verdict import Verdict
from ringrift.pipeline import asking
from ringrift.pipeline.asking import ANSWER_SECONDS_MAX
from ringrift.pipeline.records import lines
from ringrift.pipeline.request import AFTER
from ringrift.store.ports import Store

EXIT_REFUSED = 1


async def ask(store: Store, said: Requested, node: str) -> Envelope:
    """Publish the request.  Raises UnknownName for a line that was never opened."""
    async with store.begin() as tx:
        known = [line.variant for line in await lines(tx)]
        if said.variant not in known:
            raise UnknownName("line", said.variant, known)
        [told] = await tx.append([by_hand(node).wrap(said, source="cli")])
    return told


async def answer(store: Store, asked: Envelope, variant: str, clock: Clock) -> Verdict | None:
    """The verdict on the request, once the pipeline has read it; None if nobody has in time."""
    told = await asking.answer(store, asked.id, variant, clock)
    return None if told is None else told.verdict


def as_text(found: Verdict | None, said: Requested, now: float) -> str:
    """The answer for people."""
    if found is None:
        return (
            f"nobody has answered within {ANSWER_SECONDS_MAX:g} s: the request for {said.stage} of {said.variant} is "
            "kept and will be answered when a coordinator runs (see  ringrift why)"
        )
    return f"{said.variant}: {verdict_line(found, now)}"


def main(options: argparse.Namespace, given: Mapping[str, object]) -> int:
    """Print the verdict; 0 if the gate is open, 1 if it is not or nobody answered."""
    found = effective(file=options.settings, given=given)
    if options.stage not in AFTER:
        raise UnknownName("stage", options.stage, AFTER)
    said = Requested(variant=options.variant, stage=options.stage, reason=options.reason)
    clock = SystemClock()

    async def run() -> Verdict | None:
        async with existing(found.settings.store) as store:
            return await answer(store, await ask(store, said, found.settings.node.id), said.variant, clock)

    verdict = asyncio.run(run())
    if options.json:
        print(json.dumps({"request": msgspec.to_builtins(said), "verdict": msgspec.to_builtins(verdict)}))
    else:
        print(as_text(verdict, said, clock.now()))
    return 0 if verdict is not None and verdict.allowed else EXIT_REFUSED
