"""The documented self-play orchestrator: what was played, as the lines and the log have it."""

from collections.abc import Mapping
from functools import cache
from typing import Any

from ringrift.jobs import Play
from ringrift.pipeline.line import Line
from ringrift.pipeline.records import lines, verdicts_of
from ringrift_compat import hosting
from ringrift_compat.ambient import Embedded, Pending, ambient
from ringrift_compat.events import get_router
from ringrift_compat.health import CoordinatorStatus, HealthCheckResult
from ringrift_compat.router_event import RouterEvent
from ringrift_compat.stages import variant_of

EVENT = "SELFPLAY_COMPLETE"
DUTIES = ("pipeline", "fill", "rescue")
RECENT_MAX = 100
"""Finished batches that are shown."""
_COUNTS = ("batches", "games", "kept", "games_kept", "lost", "games_lost")


class SelfplayOrchestrator:
    """Tells how much is played, how much was, and why no more is."""

    def get_stats(self) -> dict[str, Any]:
        """Games and batches of all variants, what runs and waits, and the same for each variant."""
        by_variant = ambient.call(_stats(ambient.node()))
        total = {name: sum(one[name] for one in by_variant.values()) for name in (*_COUNTS, "running", "waiting")}
        return total | {"games_generated": total["games"], "by_config": by_variant}

    def get_status(self) -> dict[str, Any]:
        """As :meth:`get_stats`, with the verdict of self-play's gate for each variant."""
        return self.get_stats() | {"verdicts": ambient.call(_verdicts(ambient.node()))}

    def get_recent_completions(self, limit: int = RECENT_MAX) -> list[RouterEvent]:
        """The last batches that were finished or announced, oldest first."""
        return get_router().get_recent_events(min(limit, RECENT_MAX), EVENT)

    def health_check(self) -> HealthCheckResult:
        """Healthy as long as no games were lost."""
        stats = self.get_stats()
        lost = stats["games_lost"]
        return HealthCheckResult(
            healthy=not lost, status=CoordinatorStatus.DEGRADED if lost else CoordinatorStatus.RUNNING,
            message=f"{lost} of {stats['games']} games are lost" if lost else f"{stats['games']} games",
            details=stats, timestamp=ambient.node().clock.now(),
        )  # fmt: skip


@cache
def get_selfplay_orchestrator() -> SelfplayOrchestrator:
    """The orchestrator of this program."""
    return SelfplayOrchestrator()


def wire_selfplay_events() -> SelfplayOrchestrator:
    """Let this program keep self-play under way where nobody else does and auto-trigger is on."""
    node = ambient.node()
    ambient.call(hosting.duties(node, *DUTIES))
    return get_selfplay_orchestrator()


def emit_selfplay_completion(
    task_id: str | Mapping[str, Any] = "", board_type: object = None, num_players: int = 2, games_generated: int = 0, *,
    source: str = "", **fields: Any,
) -> Pending[RouterEvent]:  # fmt: skip
    """Publish that games were played: the same event as ``emit_selfplay_complete``, also from a mapping.

    It is heard by everybody who listens, and counts for no line: games count when a job brings them.
    """
    if isinstance(task_id, Mapping):
        return get_router().publish(EVENT, {**task_id, **fields}, source)
    said: dict[str, Any] = {"games_generated": games_generated, **fields}
    if task_id:
        said["task_id"] = task_id
    if board_type is not None:
        variant = variant_of(board_type, num_players)
        said |= {"board_type": variant.rpartition("_")[0], "num_players": num_players}
        said.setdefault("config_key", variant)
    return get_router().publish(EVENT, said, source)


async def _stats(node: Embedded) -> dict[str, dict[str, int]]:
    async with node.store.read() as view:
        found = [(line, await view.tally(line.variant)) for line in await lines(view)]
    return {line.variant: _of(line, tally) for line, tally in found}


def _of(line: Line, tally: Mapping[tuple[str, str], int]) -> dict[str, int]:
    counts = {name: int(getattr(line.counts, name)) for name in _COUNTS}
    running, waiting = (tally.get((Play.kind(), state), 0) for state in ("claimed", "ready"))
    return counts | {"running": running, "waiting": waiting, "jobs_asked": line.plays}


async def _verdicts(node: Embedded) -> dict[str, str]:
    async with node.store.read() as view:
        found = {line.variant: await verdicts_of(view, line.variant) for line in await lines(view)}
    return {variant: str(said) for variant, verdicts in found.items() for said in verdicts if said.gate == "fill"}
