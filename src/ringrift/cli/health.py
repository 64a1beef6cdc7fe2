"""``ringrift health``: how the cluster is, whether it lives and is ready for work, as an exit code with reasons."""

import argparse
import asyncio
import json
from collections.abc import Mapping, Sequence

import msgspec

from ringrift.cli import heard
from ringrift.cli.environment import effective
from ringrift.cli.heard import Heard
from ringrift.cli.show import ago
from ringrift.cli.store import existing
from ringrift.cluster.alerts import Alert, open_alerts
from ringrift.cluster.health import judge
from ringrift.kernel.clock import SystemClock
from ringrift.kernel.health import Answer, Health, Status, whole
from ringrift.kernel.settings import Settings

NOBODY = "no node is here"
EXIT_NOT_WELL = 1


def parts(found: Heard, alerts: Sequence[Alert]) -> list[Health]:
    """How every node is, and every daemon of those that are here."""
    silent, here = [node.id for node in found.silent], [node.id for node in found.here]
    nodes = judge(found.here + found.silent, silent, here, alerts, found.seconds)
    daemons = [
        msgspec.structs.replace(one, part=f"{node.id}/{one.part}")
        for node in found.here
        for one in node.doing.duties.health()
    ]
    return [*nodes, *daemons]


def probe(found: Heard, *, ready: bool) -> Answer:
    """Whether every node lives, or is *ready* for work: one that is not heard is neither, and nobody is neither."""
    if not found.here and not found.silent:
        return Answer(ok=False, reasons=(NOBODY,))
    wrong = [f"{node.id}: not heard of for {found.seconds:g} s" for node in found.silent]
    for node in found.here:
        duties = node.doing.duties
        said = duties.readiness() if ready else duties.liveness()
        wrong += [f"{node.id}/{reason}" for reason in said.reasons]
    return Answer(ok=not wrong, reasons=tuple(wrong))


def as_text(found: Health, wrong: Sequence[Health], now: float) -> str:
    """The health for people: one line for each part that is not well, the worst first."""
    lines = [f"{found.status.name.lower()}, score {found.points:.2f}"]
    if not wrong and found.status is not Status.HEALTHY:
        lines.append(NOBODY)
    for part in sorted(wrong, key=lambda one: one.status):
        since = "" if part.since is None else f" (since {ago(now - part.since)} ago)"
        lines.append(f"{part.status.name.lower()}  {part.part}: {' '.join(part.reason.split())}{since}")
    return "\n  ".join(lines)


def _as_json(found: Health, all_parts: Sequence[Health]) -> str:
    def tree(one: Health) -> dict[str, object]:
        return {"part": one.part, "status": one.status.name.lower(), "reason": one.reason, "since": one.since}

    return json.dumps({**tree(found), "score": found.points, "parts": [tree(one) for one in all_parts]}, indent=2)


async def _look(settings: Settings) -> tuple[Heard, list[Alert]]:
    async with existing(settings.store) as store:
        found = await heard.look(store, SystemClock(), settings.cluster.beat_seconds)
        async with store.read() as view:
            return found, await open_alerts(view)


def main(options: argparse.Namespace, given: Mapping[str, object]) -> int:
    """Print how it is; 0 if all is well, or if the probe that was asked for says yes, else 1."""
    found, alerts = asyncio.run(_look(effective(file=options.settings, given=given).settings))
    found = found.only(options.node)
    if options.live or options.ready:
        said = probe(found, ready=options.ready)
        word = "ready" if options.ready else "alive"
        if options.json:
            print(json.dumps({"ok": said.ok, "reasons": said.reasons}))
        else:
            print("\n  ".join([word if said else f"not {word}", *said.reasons]))
        return 0 if said else EXIT_NOT_WELL
    every = parts(found, alerts)
    cluster = whole("cluster" if options.node is None else options.node, every)
    wrong = [part for part in every if part.status is not Status.HEALTHY]
    print(_as_json(cluster, every) if options.json else as_text(cluster, wrong, SystemClock().now()))
    return 0 if cluster.status is Status.HEALTHY else EXIT_NOT_WELL
