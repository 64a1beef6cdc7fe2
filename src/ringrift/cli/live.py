"""Live: what happens, as it happens: a table that redraws itself on a terminal, else a line each."""

import asyncio
import shutil
from collections.abc import Mapping, Sequence
from typing import TextIO

from ringrift.cli.pace import Pace
from ringrift.cli.show import ago, short, table
from ringrift.evaluation import interval
from ringrift.events import alert, catalog, cluster, custom, daemon, data, evaluation, model, node, work
from ringrift.events.base import Event, Unknown
from ringrift.harness import Cluster
from ringrift.kernel.clock import Clock
from ringrift.kernel.errors import told as printable
from ringrift.kernel.settings import Policy
from ringrift.pipeline.line import Decision, Line, Stage, gains
from ringrift.pipeline.proof import Claim
from ringrift.pipeline.records import decisions_of, lines

REDRAW_SECONDS = 0.25
TELL_SECONDS = 15.0
"""Between two lines that say how far the run is, where no table can."""
BAR = 8
CONFIDENCE = 0.95
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
        case model.Imported():
            return f"{event.variant}: {short(event.model)} was imported from {short(event.source)}"
        case model.RolledBack():
            back = f"ROLLED BACK from {short(event.model)} to generation {event.generation}, {short(event.to)}"
            return f"{event.variant}: {back}: {event.reason}"
        case evaluation.Reviewed():
            passed = "passed" if event.passed else "FAILED"
            return f"{event.variant}: review of {short(event.model)} {passed} at {event.elo:+.0f} Elo: {event.reason}"
        case evaluation.Tried():
            vector = printable(str(event.vector), SAID_CHARACTERS_MAX)
            return f"{event.variant}: fitness {event.fitness:.3f} of {vector}"
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
        case daemon.Obeyed():
            done = f"failed: {event.error}" if event.error else "is done, as ordered"
            return f"daemon {event.daemon} on {event.node}: {event.action} {done}"
        case node.Joined():
            return f"node {event.node} joined as {event.profile}"
        case node.Quarantined():
            return f"node {event.node} is quarantined: {event.reason}"
        case node.Released():
            return f"node {event.node} may play again"
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


JOBS = {Stage.STARTING: "train", Stage.EXPORTING: "export", Stage.TRAINING: "train", Stage.VERIFYING: "verify"}
"""Stages that wait for one job, with its kind."""


def share(line: Line, policy: Policy, under_way: Mapping[tuple[str, str], float]) -> float:
    """How far the line is within its stage; *under_way* says how far jobs are, by variant and kind."""
    match line.stage:
        case Stage.COLLECTING:
            return line.fresh / policy.games_per_export
        case Stage.EVALUATING if line.candidate:
            test = line.candidate.challenge
            return len(test.blocks) / test.gate.blocks_max if test else 0.0
        case Stage.RESTING:
            return 1.0
    return under_way.get((line.variant, JOBS.get(line.stage, "")), 0.0)


def strength(decisions: Sequence[Decision], players: int) -> str:
    """How much stronger than generation 0 the promotions say the champion is, as a sum with rough bounds."""
    gained = gains(decisions, players)
    if not gained:
        return "—"
    found = interval.summed(gained, CONFIDENCE)
    return f"about {found.value:+.0f} ±{found.upper - found.value:.0f}"


class View:
    """What is looked at together: the lines with their decisions, what is under way, and how fast it goes."""

    def __init__(
        self, found: Sequence[Line], decisions: Mapping[str, Sequence[Decision]],
        under_way: Mapping[tuple[str, str], float], pace: Pace,
    ) -> None:  # fmt: skip
        self.lines, self.decisions, self.under_way, self.pace = found, decisions, under_way, pace

    def row(self, line: Line, policy: Policy) -> tuple[object, ...]:
        """A line of the table."""
        return (
            line.variant, line.stage, bar(share(line, policy, self.under_way)), line.generation, short(line.champion),
            strength(self.decisions[line.variant], line.players), f"{self.pace.of(line.variant):.1f}",
            bar(line.fresh / policy.games_per_export), line.counts.games,
        )  # fmt: skip

    def sentence(self, line: Line, policy: Policy) -> str:
        """The same in words."""
        told = strength(self.decisions[line.variant], line.players)
        return (
            f"{line.variant} {line.stage} {share(line, policy, self.under_way):.0%}, generation {line.generation} "
            f"({short(line.champion)}), {told} Elo over generation 0, {line.counts.games} games"
        )


HEAD = ("variant", "stage", "", "gen", "champion", "Elo gained*", "games/s", "self-play", "games")
NOTE = "* over generation 0, as the sum of what promotions gained: rough"


class Live:
    """Writes to one stream."""

    def __init__(self, out: TextIO, policy: Policy, clock: Clock, *, table: bool) -> None:
        self._out, self._policy, self._clock, self._table = out, policy, clock, table
        self._drawn = 0
        self._waits: set[str] = set()
        self._pace = Pace()
        self._end: float | None = None
        self._claims: Sequence[Claim] | None = None
        self._proven = 0.0

    def line(self, text: str) -> None:
        """A line that stays, above the table if there is one."""
        self._out.write(self._erase() + text + "\n")
        self._out.flush()

    def prove(self, claims: Sequence[Claim]) -> None:
        """From now on the proof of *claims* is played."""
        self._claims = claims
        self.line("time is up: no more work is asked for, and what was learnt is put to the proof")

    def proven(self, share: float) -> None:
        """*share* of the proof has been played."""
        self._proven = share

    async def follow(self, cluster: Cluster, after: int, seconds: float | None = None) -> None:
        """Show what happens behind *after* until cancelled; the loop ends in *seconds*."""
        self._end = None if seconds is None else self._clock.tick() + seconds
        try:
            async with asyncio.TaskGroup() as both:
                both.create_task(self._show_forever(cluster))
                both.create_task(self._tell_forever(cluster, after))
        finally:
            self._out.write(self._erase())

    async def _tell_forever(self, cluster: Cluster, after: int) -> None:
        async for envelope in cluster.nodes[0].router.live(after=after):
            text = told(catalog.decode(envelope.name, envelope.body))
            if text is not None:
                self.line(text)

    async def _show_forever(self, cluster: Cluster) -> None:
        while True:
            await asyncio.sleep(REDRAW_SECONDS if self._table else TELL_SECONDS)
            self._tell_waits(cluster)
            view = await self._look(cluster)
            if self._table:
                self._draw(view)
            else:
                self.line(self._words(view))

    def _tell_waits(self, cluster: Cluster) -> None:
        """Say what keeps daemons waiting, each reason once for as long as it lasts: a full disk keeps no event."""
        reports = [report for node in cluster.nodes for report in node.supervisor.reports()]
        waits = {report.health.reason for report in reports if report.state == "waiting"}
        for reason in sorted(waits - self._waits):
            self.line(f"daemons are held up: {reason}")
        self._waits = waits

    async def _look(self, cluster: Cluster) -> View:
        async with cluster.store.read() as view:
            found = [line for line in await lines(view) if line.variant in self._policy.variants]
            decisions = {line.variant: await decisions_of(view, line.variant) for line in found}
        running = [job for node in cluster.nodes for job in node.activity.value().jobs]
        self._pace.see(self._clock.tick(), {line.variant: line.counts.games for line in found})
        return View(found, decisions, {(job.variant, job.kind): job.done for job in running}, self._pace)

    def _words(self, view: View) -> str:
        parts = [view.sentence(line, self._policy) for line in view.lines]
        return "\n  ".join([f"{self._state()}, {self._pace.total():.1f} games/s", *parts])

    def _state(self) -> str:
        """What is done now, and for how much longer."""
        if self._claims is not None:
            return f"proof {bar(self._proven)} {self._proven:.0%} of {len(self._claims)} claims"
        if self._end is not None:
            return f"{ago(self._end - self._clock.tick())} left"
        goal = self._policy.iterations_max
        return "until Ctrl-C" if goal is None else f"until each variant has {goal} promotions"

    def _draw(self, view: View) -> None:
        rows = [view.row(line, self._policy) for line in view.lines]
        text = f"{table(HEAD, rows)}\n{self._state()}   {self._pace.total():.1f} games/s   {NOTE}"
        wide = shutil.get_terminal_size().columns
        # A line that wraps would be two to erase.
        text = "\n".join(line[: max(wide - 1, 1)] for line in text.split("\n"))
        self._out.write(self._erase() + text + "\n")
        self._out.flush()
        self._drawn = text.count("\n") + 1

    def _erase(self) -> str:
        drawn, self._drawn = self._drawn, 0
        return f"\x1b[{drawn}A\x1b[J" if drawn else ""
