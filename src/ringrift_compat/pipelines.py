"""The documented pipeline orchestrator and its triggers: views of the lines and of the gates before their stages."""

from dataclasses import dataclass
from functools import cache
from typing import Any

import msgspec

from ringrift.kernel.settings import Policy
from ringrift.pipeline.held import stage_of
from ringrift.pipeline.line import Line
from ringrift.pipeline.overdue import overdue
from ringrift.pipeline.records import lines, load, verdicts_of
from ringrift.pipeline.request import answer
from ringrift_compat import circuits, hosting
from ringrift_compat.ambient import Embedded, ambient
from ringrift_compat.circuits import CircuitBreaker
from ringrift_compat.health import CoordinatorStatus, HealthCheckResult
from ringrift_compat.stages import EVALUATE, EXPORT, PROMOTE, SHOWN, SYNC, TRAIN, Action, PipelineStage, variant_of

DUTIES = ("pipeline", "fill", "rescue")


@dataclass(frozen=True)
class TriggerConditions:
    """What lets a stage begin by itself, as the policy has it."""

    auto_trigger: bool
    min_games_for_export: int
    games_per_batch: int
    min_batches_for_sync: int = 1
    min_blocks_for_promotion: int = 0
    max_blocks_for_promotion: int = 0


class DataPipelineOrchestrator:
    """Tells where every variant stands in the loop; the loop itself is a duty of a node."""

    @property
    def circuit_breaker(self) -> CircuitBreaker:
        """The breaker of the stages that this program triggers."""
        return circuits.of_stages(ambient.node())

    @property
    def auto_trigger(self) -> bool:
        """Whether one stage starts the next where this program runs the loop."""
        return _policy(ambient.node()).auto

    def get_status(self) -> dict[str, Any]:
        """As :func:`get_pipeline_status`."""
        return get_pipeline_status()

    def get_current_stage(self, config_key: str) -> PipelineStage:
        """The stage of one variant; idle if nobody ever asked for it."""
        line = ambient.call(_line(ambient.node(), config_key))
        return PipelineStage.IDLE if line is None else SHOWN[line.stage]

    def health_check(self) -> HealthCheckResult:
        """Healthy unless a line has been in one stage for too long, or a stage's breaker is open."""
        return ambient.call(_health(ambient.node()))


@cache
def get_pipeline_orchestrator() -> DataPipelineOrchestrator:
    """The orchestrator of this program."""
    return DataPipelineOrchestrator()


def wire_pipeline_events(auto_trigger: bool | None = None) -> DataPipelineOrchestrator:
    """Let this program run the loop where nobody else does.

    Whether one stage starts the next: as *auto_trigger* says, else as before, which is not unless somebody said so.
    """
    ambient.call(_wire(ambient.node(), auto_trigger))
    return get_pipeline_orchestrator()


def get_pipeline_status() -> dict[str, Any]:
    """Where each variant stands and since when, what it holds until it is asked for, and what its gates say."""
    return ambient.call(_status(ambient.node()))


def get_trigger_conditions() -> TriggerConditions:
    """What lets a stage begin by itself, as the policy in force has it."""
    policy = _policy(ambient.node())
    return TriggerConditions(
        auto_trigger=policy.auto, min_games_for_export=policy.games_per_export, games_per_batch=policy.games_per_batch,
        min_blocks_for_promotion=policy.gate.blocks_min, max_blocks_for_promotion=policy.gate.blocks_max,
    )  # fmt: skip


def should_trigger_sync(board_type: object, num_players: int = 2) -> tuple[bool, str]:
    """Whether a request for copies would be let through now, and by which rule."""
    return _should(SYNC, board_type, num_players)


def should_trigger_export(board_type: object, num_players: int = 2) -> tuple[bool, str]:
    """Whether a request for an export would be let through now, and by which rule."""
    return _should(EXPORT, board_type, num_players)


def should_trigger_training(board_type: object, num_players: int = 2) -> tuple[bool, str]:
    """Whether a request for training would be let through now, and by which rule."""
    return _should(TRAIN, board_type, num_players)


def should_trigger_evaluation(board_type: object, num_players: int = 2) -> tuple[bool, str]:
    """Whether a request for evaluation would be let through now, and by which rule."""
    return _should(EVALUATE, board_type, num_players)


def should_trigger_promotion(board_type: object, num_players: int = 2) -> tuple[bool, str]:
    """Whether a request for promotion would be let through now, and by which rule."""
    return _should(PROMOTE, board_type, num_players)


def _should(action: Action, board_type: object, num_players: int) -> tuple[bool, str]:
    node = ambient.node()
    if not circuits.of_stages(node).would_execute(action.stage):
        return False, f"the circuit of {action.stage} is open"
    variant = variant_of(board_type, num_players)
    line = ambient.call(_line(node, variant))
    if line is None:
        return False, f"nobody has opened a line of {variant} yet"
    said = answer(line, action.asked, _policy(node), node.clock.now())
    return said.allowed, f"{said.rule} ({said.value:g} of {said.limit:g})"


def _policy(node: Embedded) -> Policy:
    whole = hosting.hosted(node)
    return whole.policy if whole else msgspec.structs.replace(node.settings.policy, auto=hosting.is_automatic(node))


async def _line(node: Embedded, variant: str) -> Line | None:
    async with node.store.read() as view:
        return await load(view, variant)


async def _wire(node: Embedded, auto_trigger: bool | None) -> None:
    if auto_trigger is not None:
        await hosting.be_automatic(node, auto_trigger)
    whole = await hosting.duties(node, *DUTIES)
    if hosting.leads(node, whole):
        await hosting.duties(node, hosting.WORKS)
    await hosting.let_go(node)


async def _status(node: Embedded) -> dict[str, Any]:
    async with node.store.read() as view:
        known = [(line, await verdicts_of(view, line.variant)) for line in await lines(view)]
    return {
        "auto_trigger": _policy(node).auto,
        "variants": {
            line.variant: {
                "stage": SHOWN[line.stage].value,
                "line_stage": line.stage.value,
                "iteration": line.iteration,
                "since": line.since,
                "champion": line.champion,
                "generation": line.generation,
                "held": sorted({stage_of(job) for job in line.held}),
                "verdicts": [msgspec.to_builtins(said) for said in verdicts],
            }
            for line, verdicts in known
        },
        "circuits": circuits.of_stages(node).get_status()["circuits"],
    }


async def _health(node: Embedded) -> HealthCheckResult:
    limits, now = _policy(node).stages, node.clock.now()
    async with node.store.read() as view:
        known = await lines(view)
    late = [line.variant for line in known if overdue(line, now, limits) is not None]
    open_now = [key for key, one in circuits.of_stages(node).get_status()["circuits"].items() if one["state"] == "open"]
    words = [f"{name} is overdue" for name in late] + [f"the circuit of {key} is open" for key in open_now]
    return HealthCheckResult(
        healthy=not words, status=CoordinatorStatus.DEGRADED if words else CoordinatorStatus.RUNNING,
        message="; ".join(words) or f"{len(known)} lines", details={"lines": len(known)}, timestamp=now,
    )  # fmt: skip
