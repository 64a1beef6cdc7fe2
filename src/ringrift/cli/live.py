"""Live view: the progress of a run, as a table that redraws itself on a terminal, else as lines."""

import asyncio
import shutil
from collections import deque
from collections.abc import Mapping, Sequence
from typing import TextIO

from ringrift.cli.brakes import brake_lines, describe_change
from ringrift.cli.formats import CONFIDENCE, duration, short, table
from ringrift.evaluation import interval
from ringrift.events import alert, catalog, cluster, custom, daemon, data, evaluation, health, model, node, tuning, work
from ringrift.events.base import Envelope, Event, Unknown
from ringrift.harness import Cluster
from ringrift.kernel.clock import Clock
from ringrift.kernel.errors import printable
from ringrift.kernel.settings import Policy
from ringrift.pipeline.line import DECISIONS, LINES, Decision, Line, Stage, gains
from ringrift.pipeline.proof import Claim
from ringrift.store.follow import follow
from ringrift.store.ports import Reads
from ringrift.work.run_states import load_run_states

_REDRAW_SECONDS = 0.25
_REPORT_SECONDS = 15.0  # between two reports of progress, where there is no table
_DECISIONS_AT_ONCE = 100
_WINDOW_SECONDS, _COUNTS_MAX = 60.0, 1000  # of the throughput: batches end every few seconds, and less would show that
_BAR = 8
_CHARACTERS_MAX = 160
_STAGES = {"train": "training", "export": "export"}  # kinds of jobs whose start is shown
_SENTENCES: dict[type, str] = {  # of events for which their fields suffice
    alert.Cleared: "alert cleared: {0.kind} {0.subject} {0.detail}",
    alert.Raised: "ALERT {0.level}: {0.kind} {0.subject}: {0.detail}",
    cluster.RoleTaken: "node {0.node} leads {0.role} in term {0.term}",
    daemon.Stalled: "node {0.node}: the event loop was blocked for {0.seconds:.1f} s at {0.place}",
    daemon.Failed: "daemon {0.daemon} on {0.node} failed and stays stopped: {0.error}",
    data.Lost: "{0.variant}: LOST {0.blob:.10}: {0.reason}",
    data.Removed: "node {0.node} deleted {0.count} blobs that nothing needs ({0.bytes} bytes)",
    evaluation.VelocityChanged: "{0.variant}: the trend is {0.trend} (before: {0.before}): "
    "{0.elo_per_hour:+.0f} Elo an hour over the last {0.champions} champions",
    health.RecoveryStarted: "recovery of {0.subject}: {0.step} by {0.by}: {0.reason}",
    model.Imported: "{0.variant}: {0.model:.10} imported from {0.source:.10}",
    model.Rejected: "{0.variant}: candidate {0.model:.10} rejected: {0.reason}",
    model.RolledBack: "{0.variant}: ROLLED BACK from {0.model:.10} to generation {0.generation}, "
    "{0.to:.10}: {0.reason}",
    work.TaskChanged: "task {0.task} ({0.kind}) on {0.node}: {0.state} after {0.seconds:.0f} s {0.reason}",
    node.Joined: "node {0.node} joined as {0.profile}",
    node.Left: "node {0.node} left",
    node.Suspected: "node {0.node} has sent no heartbeat for {0.seconds:.0f} s",
    node.Quarantined: "node {0.node} is quarantined: {0.reason}",
    node.Released: "node {0.node} is released from quarantine",
    work.Buried: "{0.variant}: gave up {0.kind} after {0.attempts} attempts: {0.error}",
    work.PressureChanged: "pressure of the queue {0.queue} is {0.level} (before: {0.before}): {0.depth} wait",
}


def describe_event(event: Event | Unknown) -> str | None:
    """*event* in a sentence, if it is of interest to people."""
    match event:
        case model.Promoted(evidence=None):
            return f"{event.variant}: generation 0 is {short(event.model)}"
        case model.Promoted(evidence=model.Evidence() as evidence):
            score = f"{evidence.score:.3f} in {evidence.blocks} blocks (LLR {evidence.llr:.2f} of {evidence.upper:.2f})"
            return f"{event.variant}: generation {event.generation} promoted: {short(event.model)} scored {score}"
        case evaluation.Reviewed():
            passed = "passed" if event.passed else "FAILED"
            return f"{event.variant}: review of {short(event.model)} {passed} at {event.elo:+.0f} Elo: {event.reason}"
        case tuning.TrialFinished():
            return printable(f"{event.variant}: fitness {event.fitness:.3f} of {event.vector}", _CHARACTERS_MAX)
        case custom.Published():
            return printable(f"{event.event}: {event.payload}", _CHARACTERS_MAX)
        case work.Enqueued(kind="export" | "train"):
            return f"{event.variant}: {_STAGES[event.kind]} queued (job {', '.join(event.jobs)})"
        case work.Started(kind="export" | "train"):
            place = f"node {event.node}" + (f", attempt {event.attempts}" if event.attempts > 1 else "")
            return f"{event.variant}: {_STAGES[event.kind]} started (job {event.job}, {place})"
        case work.RunStateChanged():
            return describe_change(event)
        case work.Rescued():
            return f"{len(event.jobs)} leases expired without renewal; their jobs are ready again"
        case daemon.Stopped(error=error) if error:
            return f"daemon {event.daemon} on {event.node} stopped with an error: {error}"
        case daemon.Started(failures=failures) if failures:
            return f"daemon {event.daemon} on {event.node} started again after {failures} recent failures"
        case daemon.CommandDone():
            result = f"failed: {event.error}" if event.error else "done"
            return f"daemon {event.daemon} on {event.node}: command {event.action} {result}"
    return _SENTENCES[type(event)].format(event).rstrip() if type(event) in _SENTENCES else None


class _Throughput:
    """Games a second of every variant, over the last minute."""

    def __init__(self) -> None:
        self._counts: deque[tuple[float, Mapping[str, int]]] = deque(maxlen=_COUNTS_MAX)

    def add(self, tick: float, games: Mapping[str, int]) -> None:
        self._counts.append((tick, games))
        while len(self._counts) > 2 and self._counts[1][0] <= tick - _WINDOW_SECONDS:
            self._counts.popleft()

    def of(self, variant: str) -> float:
        if len(self._counts) < 2:
            return 0.0
        (began, first), (ended, last) = self._counts[0], self._counts[-1]
        return (last.get(variant, 0) - first.get(variant, 0)) / max(ended - began, 1e-9)

    def total(self) -> float:
        return sum(self.of(variant) for variant in self._counts[-1][1]) if self._counts else 0.0


def _bar(share: float) -> str:
    full = round(min(max(share, 0.0), 1.0) * _BAR)
    return "█" * full + "·" * (_BAR - full)


_STAGE_JOBS = {Stage.STARTING: "train", Stage.EXPORTING: "export", Stage.TRAINING: "train", Stage.VERIFYING: "verify"}
"""Stages that wait for one job, with its kind."""


def _stage_share(line: Line, policy: Policy, progress: Mapping[tuple[str, str], float]) -> float:
    """The share of its stage that *line* has done; *progress* is that of running jobs, by variant and kind."""
    match line.stage:
        case Stage.COLLECTING:
            return line.fresh / policy.games_per_export
        case Stage.EVALUATING if line.candidate:
            test = line.candidate.challenge
            return len(test.blocks) / test.gate.blocks_max if test else 0.0
        case Stage.RESTING:
            return 1.0
    return progress.get((line.variant, _STAGE_JOBS.get(line.stage, "")), 0.0)


def _strength_text(decisions: Sequence[Decision], players: int) -> str:
    """The strength of the champion over generation 0: the sum of its promotions with rough bounds."""
    steps = gains(decisions, players)
    if not steps:
        return "—"
    total = interval.summed(steps, CONFIDENCE)
    return f"about {total.value:+.0f} ±{total.upper - total.value:.0f}"


def _row(line: Line, strength: str, share: float, selfplay: float, pace: float) -> tuple[object, ...]:
    model = (line.generation, short(line.champion), strength)
    return (line.variant, line.stage, _bar(share), *model, f"{pace:.1f}", _bar(selfplay), line.counts.games)


def _sentence(line: Line, strength: str, share: float) -> str:
    model = f"generation {line.generation} ({short(line.champion)}), {strength} Elo over generation 0"
    return f"{line.variant} {line.stage} {share:.0%}, {model}, {line.counts.games} games"


_LineState = tuple[Line, str, float]
_HEAD = ("variant", "stage", "", "gen", "champion", "Elo gained*", "games/s", "self-play", "games")
_NOTE = "* over generation 0, the sum over promotions: rough"


class Live:
    """Writes the live view to one stream."""

    def __init__(self, out: TextIO, policy: Policy, clock: Clock, *, table: bool) -> None:
        self._out, self._policy, self._clock, self._table = out, policy, clock, table
        self._drawn, self._throughput = 0, _Throughput()
        self.proven = 0.0  # the share of the proof that has been played
        self._waits, self._decisions = set[str](), dict[str, dict[str, Decision]]()
        self._end: float | None = None
        self._claims: Sequence[Claim] | None = None

    def line(self, text: str) -> None:
        """Print a line that stays, above the table if there is one."""
        self._out.write(self._erase() + text + "\n")
        self._out.flush()

    def prove(self, claims: Sequence[Claim]) -> None:
        """From now on the proof of *claims* is played."""
        self._claims = claims
        self.line("time is up: no new jobs; the proof is played")

    async def follow(self, cluster: Cluster, after: int, seconds: float | None = None) -> None:
        """Show what happens after position *after* until cancelled; the loop ends in *seconds*."""
        self._end = None if seconds is None else self._clock.tick() + seconds
        for brake in (await self._read(cluster))[0]:
            self.line(brake)
        for member in cluster.nodes:
            member.router.subscribe((work.Started, daemon.Started, daemon.Stopped), self._print_event, name="live")
        try:
            async with asyncio.TaskGroup() as both:
                both.create_task(self._redraw_forever(cluster))
                both.create_task(self._print_events(cluster, after))
        finally:
            self._out.write(self._erase())

    async def _print_event(self, event: Event | Unknown, _: Envelope) -> None:
        if not isinstance(event, work.Enqueued) and (text := describe_event(event)) is not None:  # its start is printed
            self.line(text)

    async def _print_events(self, cluster: Cluster, after: int) -> None:
        async for envelope in follow(cluster.store, after):
            await self._print_event(catalog.decode(envelope.name, envelope.body), envelope)

    async def _redraw_forever(self, cluster: Cluster) -> None:
        while True:
            await asyncio.sleep(_REDRAW_SECONDS if self._table else _REPORT_SECONDS)
            self._print_waits(cluster)
            brakes, lines = await self._read(cluster)
            if self._table:
                self._draw(brakes, lines)
                continue
            pace = f"{self._phase()}, {self._throughput.total():.1f} games/s"
            self.line("\n  ".join([*brakes, pace, *(_sentence(*line) for line in lines)]))

    def _print_waits(self, cluster: Cluster) -> None:
        """Print why daemons wait, each reason once for as long as it lasts: a full disk stores no event."""
        reports = [report for node in cluster.nodes for report in node.supervisor.statuses()]
        waits = {report.health.reason for report in reports if report.state == "waiting"}
        for reason in sorted(waits - self._waits):
            self.line(f"daemons wait: {reason}")
        self._waits = waits

    async def _read(self, cluster: Cluster) -> tuple[list[str], list[_LineState]]:
        """The brakes, and every line with its strength and the share of its stage that is done."""
        async with cluster.store.read() as view:
            brakes = brake_lines((await load_run_states(view)).in_force(now := self._clock.now()), now)
            lines = [line for line in await LINES.all(view) if line.variant in self._policy.variants]
            strengths = [
                _strength_text(await self._decisions_about(view, line.variant), line.players) for line in lines
            ]
        jobs = [job for node in cluster.nodes for job in node.activity.snapshot().jobs]
        progress = {(job.variant, job.kind): job.done for job in jobs}
        self._throughput.add(self._clock.tick(), {line.variant: line.counts.games for line in lines})
        shares = [_stage_share(line, self._policy, progress) for line in lines]
        return brakes, list(zip(lines, strengths, shares, strict=True))

    async def _decisions_about(self, view: Reads, variant: str) -> Sequence[Decision]:
        """Every decision about *variant*; only those since the last redraw are read."""
        decisions = self._decisions.setdefault(variant, {})
        while True:
            # Their ids are the variant and that of an event, and so in the order of time.
            page = await DECISIONS.scan(view, next(reversed(decisions), f"{variant}:"), _DECISIONS_AT_ONCE)
            own = {id: decision for id, decision in page.items() if decision.variant == variant}
            decisions.update(own)
            if len(own) < _DECISIONS_AT_ONCE:
                return list(decisions.values())

    def _phase(self) -> str:
        """The loop or the proof, and how long it still lasts."""
        if self._claims is not None:
            return f"proof {_bar(self.proven)} {self.proven:.0%} of {len(self._claims)} claims"
        if self._end is not None:
            return f"{duration(self._end - self._clock.tick())} left"
        goal = self._policy.iterations_max
        return "until Ctrl-C" if goal is None else f"until each variant has {goal} promotions"

    def _draw(self, brakes: Sequence[str], lines: Sequence[_LineState]) -> None:
        goal, pace = self._policy.games_per_export, self._throughput
        rows = [_row(*state, state[0].fresh / goal, pace.of(state[0].variant)) for state in lines]
        foot = f"{self._phase()}   {pace.total():.1f} games/s   {_NOTE}"
        text = "\n".join([*brakes, table(_HEAD, rows), foot])
        width = max(shutil.get_terminal_size().columns - 1, 1)  # a line that wraps would be two to erase
        text = "\n".join(line[:width] for line in text.split("\n"))
        self.line(text)
        self._drawn = text.count("\n") + 1

    def _erase(self) -> str:
        drawn, self._drawn = self._drawn, 0
        return f"\x1b[{drawn}A\x1b[J" if drawn else ""
