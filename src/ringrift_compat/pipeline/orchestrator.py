"""The pipeline orchestrator: the state of every line, and the loop of this program."""

from typing import Any

import msgspec

from ringrift.pipeline.line import LINES, Stage
from ringrift.pipeline.requests import stage_of
from ringrift.work.limits import VERDICTS
from ringrift_compat import embedded_host
from ringrift_compat.embedded_node import EmbeddedNode, embedded
from ringrift_compat.health.circuit_breaker import read_stage_circuits

LOOP_DAEMONS = ("pipeline", "fill", "rescue")
_STAGE_NAMES = {
    Stage.STARTING: "training",
    Stage.COLLECTING: "selfplay",
    Stage.EXPORTING: "npz_export",
    Stage.TRAINING: "training",
    Stage.VERIFYING: "evaluation",
    Stage.EVALUATING: "evaluation",
    Stage.DISTRIBUTING: "promotion",
    Stage.RESTING: "complete",
}
"""The documented name of each stage of a line."""


def wire_pipeline_events(auto_trigger: bool | None = None) -> None:
    """Run the loop in this program where no other process does.

    One stage starts the next as *auto_trigger* says, else as it was set before, which is off at first.
    """
    embedded.call(_start_loop(embedded.node(), auto_trigger))


def get_pipeline_status() -> dict[str, Any]:
    """The stage of each variant and since when, what waits for an operator, and the verdicts of its gates."""
    return embedded.call(_status(embedded.node()))


async def _start_loop(node: EmbeddedNode, auto_trigger: bool | None) -> None:
    if auto_trigger is not None:
        await embedded_host.set_automatic(node, auto_trigger)
    host = await embedded_host.start_daemons(node, *LOOP_DAEMONS)
    if embedded_host.is_coordinator(node, host):
        await embedded_host.start_daemons(node, embedded_host.WORK_DAEMON)
    await embedded_host.release_lines(node)


async def _status(node: EmbeddedNode) -> dict[str, Any]:
    async with node.store.read() as view:
        rows = [(line, await VERDICTS.all(view, "variant", line.variant)) for line in await LINES.all(view)]
        circuits = await read_stage_circuits(view)
    return {
        "auto_trigger": embedded_host.is_automatic(node),
        "variants": {
            line.variant: {
                "stage": _STAGE_NAMES[line.stage],
                "line_stage": line.stage.value,
                "iteration": line.iteration,
                "since": line.since,
                "champion": line.champion,
                "generation": line.generation,
                "held": sorted({stage_of(job) for job in line.manual_jobs}),
                "verdicts": [msgspec.to_builtins(verdict) for verdict in verdicts],
            }
            for line, verdicts in rows
        },
        "circuits": circuits,
    }
