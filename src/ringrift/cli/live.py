"""Live view: the progress of a run, as a table that redraws itself on a terminal, else as lines."""

import asyncio
import math
import re
import shutil
import tomllib
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from importlib.resources import files
from typing import TextIO

import msgspec

from ringrift.cli.brakes import brake_lines, describe_change
from ringrift.cli.formats import describe_error, duration, short
from ringrift.cli.screen import LineView, Scene, bar, describe_line, draw, paint
from ringrift.cli.why_answer import STAGE_JOBS
from ringrift.environment import read_terminal
from ringrift.events import alert, catalog, custom, daemon, data, evaluation, model, tuning, work
from ringrift.events.base import Envelope, Event, Unknown
from ringrift.harness import Cluster
from ringrift.kernel.clock import Clock
from ringrift.kernel.errors import printable
from ringrift.kernel.settings import Policy
from ringrift.pipeline.line import LINES, Line, Stage
from ringrift.pipeline.line_settings import LINE_SETTINGS
from ringrift.pipeline.metrics import LineMetrics, line_metrics
from ringrift.pipeline.proof import Claim
from ringrift.pipeline.ratings import elo_of
from ringrift.store.follow import follow
from ringrift.store.ports import Reads
from ringrift.work.run_states import load_run_states

_REDRAW_SECONDS = 0.25
_REPORT_SECONDS = 15.0  # between two reports of progress, where there is no table
_FIGURES_SECONDS = 1.0  # between two looks at figures that change slowly
_STYLE = re.compile("\x1b\\[[0-9;]*m")
_EVENT_STYLES: dict[type, str] = {model.Promoted: "green", model.RolledBack: "red", alert.Raised: "red"}
_EVENT_STYLES |= {model.Rejected: "yellow", data.Lost: "red", work.Buried: "red", daemon.Failed: "red"}
_CHARACTERS_MAX = 160
_STAGES = {"train": "training", "export": "export"}  # kinds of jobs whose start is shown
_SENTENCES = tomllib.loads(files("ringrift.cli").joinpath("sentences.toml").read_text("utf-8"))  # by event


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
            gain = f"{event.elo:+.0f} over its opponent"
            return f"{event.variant}: review of {short(event.model)} {passed}, {gain}: {event.reason}"
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
    if isinstance(event, Unknown):
        return None
    if sentence := _SENTENCES.get(event.name()):
        return str(sentence.format(event)).rstrip()
    if event.FOR_PEOPLE and type(event) not in catalog.FOR_PEOPLE:  # of another package
        return printable(f"{event.name()}: {msgspec.structs.asdict(event)}", _CHARACTERS_MAX)
    return None


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
    return progress.get((line.variant, STAGE_JOBS.get(line.stage, "")), 0.0)


_Figures = tuple[LineMetrics, tuple[float, ...], Policy | None]


class Live:
    """Writes the live view to one stream: a table that redraws itself if *table*, else lines."""

    def __init__(self, out: TextIO, policy: Policy, clock: Clock, *, table: bool) -> None:
        self._out, self._policy, self._clock = out, policy, clock
        self._colour, can_redraw = read_terminal(out)
        self._table = table and can_redraw
        self._drawn = list[str]()  # the lines of the table as they stand on the screen, without colour
        self.proven = 0.0  # the share of the proof that has been played
        self._waits, self._failures = set[str](), Counter[str]()
        self._figures: tuple[float, dict[str, _Figures]] = (-math.inf, {})
        self._end: float | None = None
        self._claims: Sequence[Claim] | None = None
        self._broken = asyncio.Event()  # set when the reader of our output has ended

    def line(self, text: str, style: str = "") -> None:
        """Print a line that stays, above the table if there is one."""
        self._write(self._erase() + paint([(text, style)], len(text), colour=self._colour) + "\n")

    def step(self, text: str) -> None:
        """Show what is being done until the next line or step: on a terminal the next one overwrites it."""
        if self._table:
            self._draw([f"{text} …"])
        else:
            self.line(f"{text} …")

    def prove(self, claims: Sequence[Claim]) -> None:
        """From now on the proof of *claims* is played."""
        self._claims = claims
        self.line("time is up: no new jobs; the proof is played")

    async def follow(self, cluster: Cluster, after: int, seconds: float | None = None) -> None:
        """Show what happens after position *after* until cancelled; the loop ends in *seconds*.

        Raises BrokenPipeError if the reader of the output has ended.
        """
        self._end = None if seconds is None else self._clock.tick() + seconds
        for brake in (await self._read(cluster)).brakes:
            self.line(brake, "red")
        events = (work.Started, work.Failed, daemon.Started, daemon.Stopped)
        for member in cluster.nodes:
            member.router.subscribe(events, self._print_event, name="live")
        try:
            async with asyncio.TaskGroup() as both:
                both.create_task(self._redraw_forever(cluster))
                both.create_task(self._print_events(cluster, after))
        except ExceptionGroup as group:
            raise group.exceptions[0] from None
        finally:
            self._write(self._erase())

    async def _print_event(self, event: Event | Unknown, _: Envelope) -> None:
        if isinstance(event, work.Failed):
            self._count_failure(event)
        elif not isinstance(event, work.Enqueued) and (text := describe_event(event)) is not None:  # its start is shown
            self.line(text, _EVENT_STYLES.get(type(event), ""))

    def _count_failure(self, event: work.Failed) -> None:
        """Print the first failure of each kind of job at once; the others are counted."""
        if event.cause in work.GIVEN_BACK:
            return
        self._failures[event.kind] += 1
        if self._failures[event.kind] == 1:
            error = describe_error(event.error, event.traceback)
            self.line(f"FAILED: {event.kind} {event.variant} on {event.node}: {error}", "red")
            self.line(f"  see:  ringrift jobs show {event.job}", "red")

    async def _print_events(self, cluster: Cluster, after: int) -> None:
        async for envelope in follow(cluster.store, after):
            await self._print_event(catalog.decode(envelope.name, envelope.body), envelope)

    async def _redraw_forever(self, cluster: Cluster) -> None:
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(_REDRAW_SECONDS if self._table else _REPORT_SECONDS):
                    await self._broken.wait()
                raise BrokenPipeError
            self._print_waits(cluster)
            scene = await self._read(cluster)
            if self._table:
                size = shutil.get_terminal_size()
                # A line as wide as the screen would wrap on some terminals, and be two to erase.
                self._draw(draw(scene, size.columns - 1, size.lines - 1, colour=self._colour))
            else:
                self.line("\n  ".join([*scene.brakes, scene.phase, *map(describe_line, scene.lines)]))

    def _print_waits(self, cluster: Cluster) -> None:
        """Print why daemons wait, each reason once for as long as it lasts: a full disk stores no event."""
        reports = [report for node in cluster.nodes for report in node.supervisor.statuses()]
        waits = {report.health.reason for report in reports if report.state == "waiting"}
        for reason in sorted(waits - self._waits):
            self.line(f"daemons wait: {reason}", "red")
        self._waits = waits

    async def _read(self, cluster: Cluster) -> Scene:
        """The scene now: progress is read each time, figures that change slowly once a second."""
        tick, now = self._clock.tick(), self._clock.now()
        async with cluster.store.read() as view:
            brakes = brake_lines((await load_run_states(view)).in_force(now), now)
            lines = [line for line in await LINES.all(view) if line.variant in self._policy.variants]
            read_at, figures = self._figures
            if tick - read_at >= _FIGURES_SECONDS or any(line.variant not in figures for line in lines):
                figures = {line.variant: await _read_figures(view, line.variant, now) for line in lines}
                self._figures = (tick, figures)
        jobs = [job for node in cluster.nodes for job in node.activity.snapshot().jobs]
        progress = {(job.variant, job.kind): job.done for job in jobs}
        views = []
        for line in lines:
            metrics, curve, policy = figures[line.variant]
            share = _stage_share(line, policy or self._policy, progress)
            views.append(LineView(line=line, metrics=metrics, share=share, curve=curve))
        return Scene(phase=self._phase(), lines=tuple(views), brakes=tuple(brakes), failures=dict(self._failures))

    def _phase(self) -> str:
        """The loop or the proof, and how long it still lasts."""
        if self._claims is not None:
            return f"proof {bar(self.proven)} {self.proven:.0%} of {len(self._claims)} claims"
        if self._end is not None:
            return f"{duration(self._end - self._clock.tick())} left"
        goal = self._policy.iterations_max
        return "until Ctrl-C" if goal is None else f"until each variant has {goal} promotions"

    def _draw(self, lines: Sequence[str]) -> None:
        """Replace what was drawn last by *lines*."""
        self._write(self._erase() + "".join(f"{line}\n" for line in lines))
        self._drawn = [_STYLE.sub("", line) for line in lines]

    def _erase(self) -> str:
        """The codes that erase what was drawn last, on a screen that may have become narrower since: its lines wrap."""
        width = max(shutil.get_terminal_size().columns, 1) if self._drawn else 1
        rows = sum(max(math.ceil(len(line) / width), 1) for line in self._drawn)
        self._drawn = []
        up = f"\x1b[{rows}A" if rows else ""
        return f"\r{up}\x1b[J" if self._table else ""  # from the first column: the terminal may have echoed ^C

    def _write(self, text: str) -> None:
        if self._broken.is_set():
            return
        try:
            self._out.write(text)
            self._out.flush()
        except BrokenPipeError:
            self._broken.set()


async def _read_figures(view: Reads, variant: str, now: float) -> _Figures:
    """The metrics of a line, the Elo of its champions, and its own policy."""
    champions = [row.elo.value for row in await elo_of(view, variant) if row.generation is not None]
    settings = await LINE_SETTINGS.get(view, variant)
    return await line_metrics(view, variant, now), tuple(champions), settings.policy if settings else None
