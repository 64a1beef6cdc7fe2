"""Show the health of the cluster with reasons and an exit code, or answer a liveness or readiness probe."""

from collections.abc import Sequence

from ringrift.cli.brakes import brake_lines
from ringrift.cli.command import EXIT_FAILED, Command, Context, Output, Parser
from ringrift.cli.formats import ago
from ringrift.cli.presence import Presence, observe
from ringrift.cluster.health import SurveyedNodes
from ringrift.kernel.health import Health, ProbeResult, Status
from ringrift.kernel.stall_detector import StallDetector
from ringrift.kernel.value import changed
from ringrift.kernel.verdict import Verdict
from ringrift.pipeline import health_survey
from ringrift.pipeline.healer import load_verdicts
from ringrift.pipeline.system_health import HealthFacts, SystemHealth, issue_text, judge


def _arguments(parser: Parser) -> None:
    probe = parser.add_mutually_exclusive_group()
    probe.add_argument("--live", action="store_true", help="liveness probe: exit 1 if a restart is needed")
    probe.add_argument("--ready", action="store_true", help="readiness probe: exit 1 unless every critical part works")
    parser.add_argument("--node", metavar="ID", help="only this node")


def _survey(presence: Presence) -> SurveyedNodes:
    silent, moved = (frozenset(node.id for node in nodes) for nodes in (presence.silent, presence.present))
    nodes = presence.present + presence.silent
    return SurveyedNodes(nodes=nodes, silent=silent, moved=moved, seconds=presence.seconds)


def _judge(facts: HealthFacts, node: str | None) -> SystemHealth:
    """The health of the cluster, or of *node* alone: of it and of its daemons."""
    if node is None:
        return judge(facts)
    nodes, daemons = [health for health in facts.nodes if health.part == node], facts.daemons.get(node, ())
    return judge(changed(facts, nodes=tuple(nodes), daemons={node: daemons}), ("daemons", "nodes"))


def _probe(presence: Presence, *, ready: bool) -> ProbeResult:
    """Whether every node is alive, or *ready* for work; a silent node is neither, and so is a cluster without nodes."""
    if not presence.present and not presence.silent:
        return ProbeResult(ok=False, reasons=("no running node",))
    reasons = [f"{node.id}: no heartbeat for {presence.seconds:g} s" for node in presence.silent]
    for node in presence.present:
        result = node.activity.daemons.readiness() if ready else node.activity.daemons.liveness()
        reasons += [f"{node.id}/{reason}" for reason in result.reasons]
    return ProbeResult(ok=not reasons, reasons=tuple(reasons))


def _tree(part: Health) -> dict[str, object]:
    texts = {"part": part.part, "status": part.status.name.lower(), "reason": part.reason, "remedy": part.remedy}
    return {**texts, "since": part.since}


async def _question(context: Context) -> Output:
    """Exit code 0 if the cluster is healthy, or if the probe succeeds; else 1."""
    options, store, clock = context.options, context.store, context.clock
    presence = (await observe(store, clock, context.settings.cluster.beat_seconds)).only(options.node)
    if options.live or options.ready:
        result, word = _probe(presence, ready=options.ready), "ready" if options.ready else "alive"
        text = "\n  ".join([word if result.ok else f"not {word}", *result.reasons])
        return Output(value=result, text=text, code=0 if result.ok else EXIT_FAILED)
    now = clock.now()
    async with store.read() as view:
        facts = await health_survey.read_facts(view, _survey(presence), context.settings, clock, StallDetector())
        verdicts = await load_verdicts(view)
    health = _judge(facts, options.node)
    code = 0 if health.status is Status.HEALTHY else EXIT_FAILED
    return Output(value=_as_tree(health, facts, verdicts), text=_as_text(health, facts, verdicts, now), code=code)


def _as_tree(health: SystemHealth, facts: HealthFacts, verdicts: Sequence[Verdict]) -> dict[str, object]:
    parts, issues = ([_tree(part) for part in parts] for parts in (health.parts, health.issues))
    whole = {"status": health.status.name.lower(), "score": health.score, "parts": parts, "issues": issues}
    healing = {"recoveries": facts.recoveries, "verdicts": verdicts}
    return {**whole, "off": health.off, "run_states": facts.run_states, **healing}


def _as_text(health: SystemHealth, facts: HealthFacts, verdicts: Sequence[Verdict], now: float) -> str:
    """The brakes, the score, each issue with what to do, the steps against it, and what the healer waits for."""
    lines = [f"{health.status.name.lower()}, score {health.score:.2f}"]
    for issue in health.issues:
        since = "" if issue.since is None else f" (since {ago(issue.since, now)})"
        lines.append(f"{issue.status.name.lower()}  {issue_text(issue)}{since}")
    for recovery in facts.recoveries:
        steps = ", ".join(f"{step.step} by {step.by} {ago(step.time, now)}" for step in recovery.attempts)
        lines.append(f"recovery  {recovery.subject}: {steps}")
    lines += [f"{verdict.gate}: {verdict.rule}" for verdict in verdicts]
    return "\n".join([*brake_lines(facts.run_states, now), "\n  ".join(lines)])


COMMAND = Command(arguments=_arguments, question=_question)
