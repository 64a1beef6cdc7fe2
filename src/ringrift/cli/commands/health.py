"""Show the health of the cluster with reasons and an exit code, or answer a liveness or readiness probe."""

from collections.abc import Sequence

from ringrift.cli.command import EXIT_FAILED, Command, Context, Output, Parser
from ringrift.cli.formats import duration
from ringrift.cli.presence import Presence, observe
from ringrift.cluster.alerts import Alert, open_alerts
from ringrift.cluster.health import judge
from ringrift.kernel.health import Health, ProbeResult, Status, whole
from ringrift.kernel.value import changed

_NO_NODE = "no running node"


def _arguments(parser: Parser) -> None:
    probe = parser.add_mutually_exclusive_group()
    probe.add_argument("--live", action="store_true", help="liveness probe: exit 1 if a restart is needed")
    probe.add_argument("--ready", action="store_true", help="readiness probe: exit 1 unless every critical part works")
    parser.add_argument("--node", metavar="ID", help="only this node")


def _parts(presence: Presence, alerts: Sequence[Alert]) -> list[Health]:
    """The health of every node, and of every daemon of the nodes that run."""
    silent, present = {node.id for node in presence.silent}, {node.id for node in presence.present}
    nodes = judge(presence.present + presence.silent, silent, present, alerts, presence.seconds)
    daemons = [(node.id, health) for node in presence.present for health in node.activity.daemons.health()]
    return [*nodes, *(changed(health, part=f"{node}/{health.part}") for node, health in daemons)]


def _probe(presence: Presence, *, ready: bool) -> ProbeResult:
    """Whether every node is alive, or *ready* for work; a silent node is neither, and so is a cluster without nodes."""
    if not presence.present and not presence.silent:
        return ProbeResult(ok=False, reasons=(_NO_NODE,))
    reasons = [f"{node.id}: no heartbeat for {presence.seconds:g} s" for node in presence.silent]
    for node in presence.present:
        result = node.activity.daemons.readiness() if ready else node.activity.daemons.liveness()
        reasons += [f"{node.id}/{reason}" for reason in result.reasons]
    return ProbeResult(ok=not reasons, reasons=tuple(reasons))


def _as_text(health: Health, problems: Sequence[Health], now: float) -> str:
    lines = [f"{health.status.name.lower()}, score {health.points:.2f}"]
    if not problems and health.status is not Status.HEALTHY:
        lines.append(_NO_NODE)
    for part in sorted(problems, key=lambda part: part.status):
        since = "" if part.since is None else f" (since {duration(now - part.since)} ago)"
        lines.append(f"{part.status.name.lower()}  {part.part}: {' '.join(part.reason.split())}{since}")
    return "\n  ".join(lines)


def _tree(part: Health) -> dict[str, object]:
    return {"part": part.part, "status": part.status.name.lower(), "reason": part.reason, "since": part.since}


async def _question(context: Context) -> Output:
    """Exit code 0 if the cluster is healthy, or if the probe succeeds; else 1."""
    options, store, clock = context.options, context.store, context.clock
    presence = await observe(store, clock, context.settings.cluster.beat_seconds)
    async with store.read() as view:
        alerts = await open_alerts(view)
    presence = presence.only(options.node)
    if options.live or options.ready:
        result, word = _probe(presence, ready=options.ready), "ready" if options.ready else "alive"
        text = "\n  ".join([word if result.ok else f"not {word}", *result.reasons])
        return Output(value=result, text=text, code=0 if result.ok else EXIT_FAILED)
    all_parts = _parts(presence, alerts)
    cluster = whole("cluster" if options.node is None else options.node, all_parts)
    problems = [part for part in all_parts if part.status is not Status.HEALTHY]
    value = {**_tree(cluster), "score": cluster.points, "parts": [_tree(part) for part in all_parts]}
    code = 0 if cluster.status is Status.HEALTHY else EXIT_FAILED
    return Output(value=value, text=_as_text(cluster, problems, clock.now()), code=code)


COMMAND = Command(arguments=_arguments, question=_question)
