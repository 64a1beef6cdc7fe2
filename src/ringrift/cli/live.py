"""Live: what happens, as it happens: a table that redraws itself on a terminal, else a line each."""

import asyncio
from typing import TextIO

from ringrift.cli.show import short, table
from ringrift.events import alert, catalog, cluster, custom, daemon, data, evaluation, model, node, work
from ringrift.events.base import Event, Unknown
from ringrift.harness import Cluster
from ringrift.kernel.errors import told as printable
from ringrift.kernel.settings import Policy
from ringrift.pipeline.line import Line, Stage
from ringrift.pipeline.records import lines

REDRAW_SECONDS = 0.25
BAR = 20
SAID_CHARACTERS_MAX = 160


def told(event: Event | Unknown) -> str | None:
    """*event* in a sentence, if a person wants to hear of it."""
    match event:
        case model.Promoted(evidence=None):
            return f"{event.variant}: generation 0 is {short(event.model)}"
        case model.Promoted(evidence=model.Evidence() as found):
            return (
                f"{event.variant}: generation {event.generation} promoted: {short(event.model)} scored "
                f"{found.score:.3f} in {found.blocks} blocks (LLR {found.llr:.2f} of {found.upper:.2f})"
            )
        case model.Rejected():
            return f"{event.variant}: candidate {short(event.model)} rejected: {event.reason}"
        case evaluation.VelocityChanged():
            return (
                f"{event.variant}: {event.trend}, before {event.before}: {event.elo_per_hour:+.0f} Elo an hour "
                f"over the last {event.matches} matches"
            )
        case data.Lost():
            return f"{event.variant}: LOST {short(event.blob)}: {event.reason}"
        case work.Buried():
            return f"{event.variant}: gave up {event.kind} after {event.attempts} tries: {event.error}"
        case work.Enqueued(kind="export" | "train"):
            return f"{event.variant}: {event.kind} is asked for"
        case work.Rescued():
            return f"{len(event.jobs)} leases were not renewed and have been taken back"
        case work.PressureChanged():
            return f"pressure on the queue is {event.level}: {event.ready} jobs wait"
        case daemon.Failed():
            return f"daemon {event.daemon} on {event.node} was given up: {event.error}"
        case node.Joined():
            return f"node {event.node} joined as {event.profile}"
        case node.Left():
            return f"node {event.node} left"
        case cluster.RoleTaken():
            return f"node {event.node} leads {event.role} in term {event.term}"
        case alert.Raised():
            return f"ALERT {event.level}: {event.kind} {event.subject}: {event.detail}"
        case alert.Cleared():
            return f"alert over: {event.kind} {event.subject} {event.detail}".rstrip()
        case custom.Said():
            return printable(f"{event.event}: {event.payload}", SAID_CHARACTERS_MAX)
    return None


def bar(share: float) -> str:
    """A bar that is *share* full."""
    full = round(min(max(share, 0.0), 1.0) * BAR)
    return "█" * full + "·" * (BAR - full)


def share(line: Line, policy: Policy) -> float:
    """How far the line is within its stage."""
    match line.stage:
        case Stage.COLLECTING:
            return line.fresh / policy.games_per_export
        case Stage.VERIFYING if line.candidate:
            return (line.candidate.copied + line.candidate.verified) / 2
        case Stage.EVALUATING if line.candidate:
            return len(line.candidate.blocks) / policy.gate.blocks_max
        case Stage.RESTING:
            return 1.0
    return 0.5


class Live:
    """Writes to one stream."""

    def __init__(self, out: TextIO, policy: Policy, *, table: bool) -> None:
        self._out, self._policy, self._table = out, policy, table
        self._drawn = 0

    def line(self, text: str) -> None:
        """A line that stays, above the table if there is one."""
        self._out.write(self._erase() + text + "\n")
        self._out.flush()

    async def follow(self, cluster: Cluster, after: int) -> None:
        """Show what happens behind *after* until cancelled."""
        drawing = asyncio.get_running_loop().create_task(self._draw_forever(cluster)) if self._table else None
        try:
            async for envelope in cluster.nodes[0].router.live(after=after):
                text = told(catalog.decode(envelope.name, envelope.body))
                if text is not None:
                    self.line(text)
        finally:
            if drawing is not None:
                drawing.cancel()
                self._out.write(self._erase())

    async def _draw_forever(self, cluster: Cluster) -> None:
        while True:
            async with cluster.store.read() as view:
                found = [line for line in await lines(view) if line.variant in self._policy.variants]
            self._draw(found)
            await asyncio.sleep(REDRAW_SECONDS)

    def _draw(self, found: list[Line]) -> None:
        goal = self._policy.iterations_max
        rows = [
            (line.variant, line.stage, bar(share(line, self._policy)), line.generation, short(line.champion),
             f"{line.iteration}" + (f"/{goal}" if goal else ""), line.counts.games)
            for line in found
        ]  # fmt: skip
        text = table(("variant", "stage", "", "generation", "champion", "promotions", "games"), rows)
        self._out.write(self._erase() + text + "\n")
        self._out.flush()
        self._drawn = text.count("\n") + 1

    def _erase(self) -> str:
        drawn, self._drawn = self._drawn, 0
        return f"\x1b[{drawn}A\x1b[J" if drawn else ""
