"""Run the loop on this machine with live progress, then prove and report what it learnt."""

import asyncio
import os
import signal
import sys
from argparse import Namespace
from collections.abc import Coroutine, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from random import Random, SystemRandom
from typing import Any, TypeVar

from ringrift import jobs
from ringrift.bus.envelopes import EnvelopeFactory
from ringrift.cli import html_report, report
from ringrift.cli.command import Command, Context, Output, Parser, parse_overrides
from ringrift.cli.live import Live
from ringrift.cli.logs import log_events, start_logs
from ringrift.cli.over_wire import open_workers, plan_over_wire
from ringrift.cli.run_plan import Plan, make_plan, require_alone, save_session
from ringrift.cli.runs import begin_run, end_run
from ringrift.events import catalog
from ringrift.events.evaluation import BlocksPlayed
from ringrift.events.pipeline import Opened
from ringrift.harness import Cluster
from ringrift.kernel.clock import Clock
from ringrift.kernel.errors import SettingsError
from ringrift.kernel.exit_codes import ExitCode
from ringrift.kernel.value import changed
from ringrift.pipeline import proof
from ringrift.pipeline.line import DECISIONS, LINES, Stage
from ringrift.pipeline.ratings import elo_of
from ringrift.store.follow import wait_for
from ringrift.store.ports import JobRow, Reads, Store
from ringrift.supervision.spec import COORDINATES
from ringrift.threads import beside
from ringrift.work.desk import cancel, select

_POLL_SECONDS = 0.2
_RATE_SECONDS_MAX = 15.0  # how long the report waits for the Elo of the last promotions
_FOREVER_SECONDS = 10.0 * 365 * 86_400
_EVENTS_MAX = 10_000
_PROOFS = jobs.JobFilter(purpose=jobs.Purpose.PROOF)
_ENQUEUING = ("fill", "pipeline", "trust")  # enqueue jobs; they read the log, so the next run goes on where they stop

T = TypeVar("T")


def _arguments(parser: Parser) -> None:
    add = parser.add_argument
    minutes = "run for M minutes and report; a tenth, at most a minute, is for the proof, which may run over; "
    minutes += "0: no limit, no proof (default: the workload's, reversi: 10)"
    iterations = "stop after N promotions of each variant; 0: no limit (default: 0 with a time limit, else 3)"
    add("--minutes", type=float, metavar="M", help=minutes)
    add("--iterations", type=int, metavar="N", help=iterations)
    add("--variants", metavar="A,B", help="variants to train (default: those of the settings)")
    add("--seed", type=int, metavar="N", help="random seed (default: a new one; a store keeps its seed)")
    add("--nodes", type=int, metavar="N", help="nodes of the local cluster (default: the workload's)")
    add("--over-wire", action="store_true", help="the nodes are worker processes that a coordinator serves over HTTP")
    add("--plain", action="store_true", help="print lines instead of a live table")
    add("--report", metavar="FILE", help="JSON report, with an HTML page beside it (default: in RINGRIFT_HOME)")


async def _cancel_proof(store: Store, envelopes: EnvelopeFactory) -> None:
    """Cancel matches of a proof that was cut short: their model may not be champion any more."""
    async with store.begin() as tx:
        await cancel(tx, _PROOFS, envelopes)


def _explained(finding: proof.Finding, dead: Sequence[JobRow]) -> proof.Finding:
    """*finding* with the error of a match that was given up, if that is why it has too few games."""
    pair = jobs.JobFilter(variant=finding.variant, candidate=finding.model, opponent=finding.opponent)
    errors = [row.error for row in dead if pair.matches(jobs.decode(row.kind, row.body))]
    if finding.met or not errors or finding.n >= proof.GAMES_MIN:
        return finding
    return changed(finding, why=f"{finding.why}; a match was given up: {errors[-1]}")


async def _played(view: Reads, start: int) -> list[BlocksPlayed]:
    rows = await view.read(start, _EVENTS_MAX, (BlocksPlayed.name(),))
    return [event for row in rows if isinstance(event := catalog.decode(row.name, row.body), BlocksPlayed)]


def stop_on_signal(stop: "asyncio.Future[int]", live: Live) -> None:
    """First signal: stop in good order.  Second: stop now; children end with us, and the next start recovers."""

    def stopped(number: int) -> None:
        if stop.done():
            live.line("stopped at once; the next run goes on from here")
            os._exit(128 + number)
        live.step("stopping: running jobs go back to the queue (Ctrl-C again: stop at once)")
        stop.set_result(128 + number)

    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stopped, number)


class _Run:
    """One run on an open cluster: the loop, then the proof, each until it ends, a signal comes or something breaks."""

    def __init__(self, plan: Plan, live: Live, clock: Clock, cluster: Cluster) -> None:
        self._plan, self._live, self._clock, self._cluster = plan, live, clock, cluster
        self.began = clock.tick()
        self.stop: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        stop_on_signal(self.stop, live)

    async def run(self) -> tuple[proof.Finding, ...]:
        """Open the lines and run until time is up and the proof is played; the findings.  Raises Unreachable."""
        plan, cluster, start = self._plan, self._cluster, self._cluster.store.position
        opened = [Opened(variant=name, workload=line.workload) for name, line in plan.lines.items()]
        await cluster.nodes[0].router.publish_many(opened, source="run")
        async with beside(self._live.follow(cluster, start, plan.loop_seconds)) as self._view:
            await self._until(self._loop())
            findings = () if self.stop.done() else await self._prove() or ()
            await self._until(self._rate())
            return findings

    async def _until(self, end: Coroutine[Any, Any, T]) -> T | None:
        """The result of *end*; None after a signal.  Raises Unreachable and whatever breaks a node or the view."""
        broken = [node.supervisor.broken for node in self._cluster.nodes]
        async with beside(end) as ending:
            ends: list[asyncio.Future[Any]] = [self.stop, ending, self._view, *broken]
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
            for failed in (*broken, self._view):
                if failed.done():
                    failed.result()
            return None if self.stop.done() else await ending

    async def _prove(self) -> tuple[proof.Finding, ...] | None:
        """The findings of a timed run; None if it has no time limit, or if it was stopped meanwhile."""
        plan, nodes = self._plan, self._cluster.nodes
        if plan.all_seconds is None:
            return None
        # Running jobs come to their end, and no line moves until the next run.
        for node in nodes:
            for name in _ENQUEUING if node.record.profile in COORDINATES else ():
                await node.supervisor.stop(name)
        claims = list[proof.Claim]()
        async with self._cluster.store.read() as view:
            for variant, spec in plan.specs.items():
                line, decisions = await LINES.get(view, variant), await DECISIONS.all(view, "variant", variant)
                own = (plan.lines[variant].policy, plan.baselines[variant], spec.opening_plies)
                claims += proof.claims(variant, line, decisions, *own)
        self._live.prove(claims)
        try:
            return await self._until(self._play_proof(claims, self.began + plan.all_seconds))
        finally:
            await _cancel_proof(self._cluster.store, nodes[0].envelopes)

    async def _play_proof(self, claims: Sequence[proof.Claim], until: float) -> tuple[proof.Finding, ...]:
        """Play the matches for *claims* and judge them, at the latest at tick *until* by what was played by then."""
        start, store = self._cluster.store.position, self._cluster.store
        await self._cluster.nodes[0].desk.enqueue(proof.jobs_for(claims, self._plan.settings.policy.seed))

        async def finished(view: Reads) -> bool | None:
            self._live.proven = proof.progress(claims, await _played(view, start))
            return None if await select(view, _PROOFS) else True

        seconds = until - self._clock.tick()
        await wait_for(store, finished, self._clock, seconds, poll_seconds=_POLL_SECONDS)
        async with store.read() as view:
            events, dead = await _played(view, start), await select(view, _PROOFS, ("dead",))
        return tuple(_explained(proof.judge(claim, events), dead) for claim in claims)

    async def _rate(self) -> None:
        """Give the last promotions a moment to be rated: the report shows their Elo."""

        async def everyone_is_rated(view: Reads) -> bool | None:
            champions = {line.champion for line in await LINES.all(view) if line.variant in self._plan.specs}
            rated = {row.model for variant in self._plan.specs for row in await elo_of(view, variant)}
            return True if champions <= {None, *rated} else None

        seconds = _RATE_SECONDS_MAX
        await wait_for(self._cluster.store, everyone_is_rated, self._clock, seconds, poll_seconds=_POLL_SECONDS)

    async def _loop(self) -> None:
        """Wait until time is up or every line has its promotions; a line at rest is woken by its event first."""
        policy, seconds = self._plan.settings.policy, self._plan.loop_seconds
        goal, limit = policy.iterations_max, _FOREVER_SECONDS if seconds is None else seconds
        if goal is None:
            return await asyncio.sleep(limit)

        async def everyone_rests(view: Reads) -> bool | None:
            lines = await LINES.all(view)
            resting = {line.variant for line in lines if line.stage is Stage.RESTING and line.iteration >= goal}
            return True if resting.issuperset(self._plan.specs) else None

        await wait_for(self._cluster.store, everyone_rests, self._clock, limit, poll_seconds=_POLL_SECONDS)


async def _run(plan: Plan, live: Live, clock: Clock, options: Namespace) -> tuple[int, report.Report]:
    """Run *plan*; the exit code and the report.  Raises Unreachable, ChildDied."""
    rng, begun = Random(SystemRandom().getrandbits(64)), clock.now()
    workers = len(plan.nodes) if options.over_wire else 0
    plan = plan_over_wire(plan) if options.over_wire else plan
    async with AsyncExitStack() as stack:
        cluster = await stack.enter_async_context(Cluster.open(plan.settings, plan.nodes, clock, rng, lines=plan.lines))
        log_events(cluster.nodes)
        if workers:
            await stack.enter_async_context(open_workers(plan, workers, cluster.store, live, clock, options))
        await _cancel_proof(cluster.store, cluster.nodes[0].envelopes)
        await save_session(cluster.store, plan.session)
        minutes = plan.session.seconds / 60
        record = await begin_run(cluster.store, plan.effective, began=begun, pid=os.getpid(), minutes=minutes)
        current = _Run(plan, live, clock, cluster)
        findings = await current.run()
        stopped = current.stop.done()
        seconds = clock.tick() - current.began
        spent = plan.session.spent_seconds + seconds if stopped else 0.0
        await save_session(cluster.store, changed(plan.session, spent_seconds=spent))
        await end_run(cluster.store, record, ended=clock.now(), seconds=seconds, proof=findings)
        about = report.about(plan.settings, plan.chosen.requirements(), begun, clock.now())
        result = await report.gather(cluster.store, about, findings)
    if stopped:
        return current.stop.result(), result
    return ExitCode.NOT_PROVEN if any(not finding.met for finding in findings) else 0, result


def _require_writable(name: str, *files: Path) -> None:
    """Raise SettingsError unless each of the report's *files* can be written: the run itself takes long."""
    for file in files:
        try:
            is_new = not file.exists()
            file.open("ab").close()
            if is_new:
                file.unlink()
        except OSError as error:
            reason = "its folder does not exist" if isinstance(error, FileNotFoundError) else str(error.strerror)
            raise SettingsError(name, str(file), reason) from error


def _prepare(context: Context) -> Output:
    """Exit code 0 if every claim is proven, 3 if one is not, 130 or 143 after a signal."""
    options, clock = context.options, context.clock
    home = context.effective.home
    path = Path(options.report or Path(home) / "report.json")
    page = path.with_suffix(".html") if path.name else path
    if options.report or path.parent.is_dir():
        _require_writable("--report" if options.report else "report file", path, page)
    require_alone(context.settings.store, context.settings.node.id)
    plan = make_plan(options, parse_overrides(options.set))
    settings = plan.settings
    log = start_logs(home, settings.sweep, debug=plan.effective.debug, trace=settings.trace.debug)
    live = Live(sys.stdout, settings.policy, clock, table=sys.stdout.isatty() and not options.plain)
    for note in plan.notes:
        live.line(note)
    limit = "" if plan.loop_seconds is None else f", {plan.loop_seconds / 60:.1f} minutes, then the proof"
    workloads = ", ".join(dict.fromkeys(line.workload for line in plan.lines.values()))
    kind = "workers over HTTP" if options.over_wire else "nodes"
    live.line(f"{len(plan.nodes)} {kind}, workload {workloads}, store {settings.store.path}, log {log}")
    live.line(f"seed {settings.policy.seed}, variants {', '.join(settings.policy.variants)}{limit}")
    code, result = asyncio.run(_run(plan, live, clock, options))
    path.write_text(report.as_json(result))
    page.write_text(html_report.as_page(result))
    stopped = "" if code in (0, ExitCode.NOT_PROVEN) else '   (stopped early; "ringrift run" goes on)'
    text = f"\n{report.as_text(result)}\n\nreport: {page} (data: {path}){stopped}"
    return Output(value=None, text=text, code=code)


COMMAND = Command(arguments=_arguments, prepare=_prepare, json_help=None, starts_node=True)
