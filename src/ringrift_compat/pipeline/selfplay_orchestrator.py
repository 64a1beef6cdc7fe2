"""The self-play orchestrator: keeps self-play under way, and publishes batches that were played elsewhere."""

from collections.abc import Mapping
from typing import Any

from ringrift_compat import embedded_host
from ringrift_compat.embedded_node import Pending, embedded
from ringrift_compat.events.event_router import get_router
from ringrift_compat.events.router_event import RouterEvent
from ringrift_compat.pipeline.orchestrator import LOOP_DAEMONS
from ringrift_compat.pipeline.pipeline_actions import variant_of

_EVENT = "SELFPLAY_COMPLETE"


def wire_selfplay_events() -> None:
    """Keep self-play under way in this program, where no other process does and auto-trigger is on."""
    embedded.call(embedded_host.start_daemons(embedded.node(), *LOOP_DAEMONS))


def emit_selfplay_completion(
    task_id: str | Mapping[str, Any] = "",
    board_type: object = None,
    num_players: int = 2,
    games_generated: int = 0,
    *,
    source: str = "",
    **fields: Any,
) -> Pending[RouterEvent]:
    """Publish that games were played: the same event as ``emit_selfplay_complete``, also from a mapping.

    Every subscriber gets it, and it counts for no line: games count when a job brings them.
    """
    if isinstance(task_id, Mapping):
        return get_router().publish(_EVENT, {**task_id, **fields}, source)
    payload: dict[str, Any] = {"games_generated": games_generated, **fields}
    if task_id:
        payload["task_id"] = task_id
    if board_type is not None:
        variant = variant_of(board_type, num_players)
        payload |= {"board_type": variant.rpartition("_")[0], "num_players": num_players}
        payload.setdefault("config_key", variant)
    return get_router().publish(_EVENT, payload, source)
