"""Pipeline actions: each requests one stage of a line, gets the verdict of its gate, and waits for its end.

No gate is bypassed, and the loop itself publishes the end of a stage under its documented names: nothing is published
here a second time.
"""

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import msgspec

from ringrift.blobs.folder import Folder
from ringrift.events import catalog
from ringrift.events.base import Unknown
from ringrift.events.pipeline import Opened, Requested
from ringrift.kernel import variant as variants
from ringrift.kernel.errors import RingriftError
from ringrift.kernel.verdict import Verdict
from ringrift.pipeline.line import LINES, Line
from ringrift.pipeline.requests import ANSWER_SECONDS_MAX, wait_for_answer
from ringrift.store.follow import follow, wait_for
from ringrift.store.ports import Reads
from ringrift.workload.registry import Registry
from ringrift_compat import embedded_host
from ringrift_compat.embedded_node import EmbeddedNode, embedded
from ringrift_compat.events.buses import StageCompletionResult
from ringrift_compat.health.circuit_breaker import refuse_stage
from ringrift_compat.pipeline.stage_end import END_EVENTS, StageEnd, StageWait, observe, stage_wait
from ringrift_compat.types import BoardType

_SOURCE, _PIPELINE = "pipeline_actions", "pipeline"
_END_NAMES = tuple(event.name() for event in END_EVENTS)
_LATE = "it is not done in time; the request is kept, and the stage goes on"
_CLOSED = "the node was shut down meanwhile; the request is kept"


@dataclass(frozen=True)
class _Action:
    """A stage that can be triggered: its documented name, its name in a request, and how long it may take."""

    stage: str
    request: str
    seconds_max: float


@dataclass
class _Outcome:
    """The result of requesting a stage."""

    error: str = ""
    iteration: int = 0
    path: str | None = None
    details: dict[str, Any] = field(default_factory=dict)


def variant_of(board_type: object, num_players: int) -> str:
    """The variant that is played on *board_type*, also under its short name.  Raises InvalidId."""
    board = str(getattr(board_type, "value", board_type)).lower()
    with suppress(ValueError):  # or it is a board of the user's own workload
        board = BoardType(board).value
    return str(variants.parse(f"{board}_{int(num_players)}p"))


async def _trigger(
    action: _Action, board_type: object, num_players: int, iteration: int | None, seconds: float | None, reason: str
) -> StageCompletionResult:
    """Request the stage of *action* and wait for its end, from any loop.

    Raises InvalidId or UnknownName for a variant that no workload plays.
    """
    variant = variant_of(board_type, num_players)
    node = embedded.node()
    start = node.clock.tick()
    if refusal := await embedded.post(_refuse(node, action.stage)):
        outcome = _Outcome(error=refusal)
    else:
        outcome = await _request(node, action, variant, reason, action.seconds_max if seconds is None else seconds)
    fields = {"config_key": variant, "board_type": variants.parse(variant).board, "num_players": num_players}
    return StageCompletionResult(
        success=not outcome.error,
        stage=action.stage,
        iteration=outcome.iteration if iteration is None else iteration,
        duration_seconds=node.clock.tick() - start,
        output_path=outcome.path,
        error=outcome.error or None,
        metadata=outcome.details | fields,
    )


async def _refuse(node: EmbeddedNode, stage: str) -> str:
    async with node.store.read() as view:
        return await refuse_stage(view, stage)


async def _request(node: EmbeddedNode, action: _Action, variant: str, reason: str, seconds: float) -> _Outcome:
    deadline = node.clock.tick() + seconds
    request, position, answered = await embedded.post(request_stage(node, action.request, variant, reason))
    details: dict[str, Any] = {"request": request}
    if answered is None:
        error = f"no coordinator has answered within {ANSWER_SECONDS_MAX:g} s; the request is kept"
        return _Outcome(error=error, details=details)
    verdict, line = answered
    details["verdict"] = msgspec.to_builtins(verdict)
    outcome = _Outcome(iteration=line.iteration, details=details)
    if not verdict.allowed:
        outcome.error = f"{verdict.rule} ({verdict.value:g} of {verdict.limit:g})"
        return outcome
    end = await _wait(node, stage_wait(line, action.request), position, deadline)
    if end.event is not None:
        details["event"] = msgspec.to_builtins(end.event)
    outcome.error = end.error
    outcome.path = await embedded.post(_path(node, end.blob)) if not end.error else None
    return outcome


async def request_stage(
    node: EmbeddedNode, stage: str, variant: str, reason: str
) -> tuple[str, int, tuple[Verdict, Line] | None]:
    """Open the line if it is not open, and publish the request: its id, its position, and its answer."""
    host = await embedded_host.start_daemons(node, _PIPELINE)
    if embedded_host.is_coordinator(node, host):
        await embedded_host.start_daemons(node, "rescue", embedded_host.WORK_DAEMON)
    async with node.store.read() as view:
        line = await LINES.get(view, variant)
    events: list[Opened | Requested] = [Requested(variant=variant, stage=stage, reason=reason)]
    if line is None:
        work = host.settings.work
        # Raises UnknownName where no workload plays this variant.
        Registry.load(work.executables).owner(variant, work.workload)
        events.insert(0, Opened(variant=variant, workload=work.workload))
    *_, envelope = await node.router.publish_many(events, source=_SOURCE)
    return envelope.id, envelope.position, await wait_for_answer(node.store, envelope.id, variant, node.clock)


async def _wait(node: EmbeddedNode, waits: StageWait, after: int, deadline: float) -> StageEnd:
    """Wait on the loop of the node for the end of a stage; cancelling this ends that wait."""
    if waits.stage == "sync" and not waits.copies:
        return StageEnd()  # the last copy was there before the log could be read
    future = asyncio.run_coroutine_threadsafe(_follow(node, waits, after, deadline), node.loop)
    try:
        return await asyncio.wrap_future(future)
    except asyncio.CancelledError:
        task = asyncio.current_task()
        if task is None or task.cancelling():
            raise
        return StageEnd(error=_CLOSED)
    except RingriftError:
        if embedded.is_open and embedded.node() is node:
            raise
        return StageEnd(error=_CLOSED)


async def _follow(node: EmbeddedNode, waits: StageWait, after: int, deadline: float) -> StageEnd:
    with suppress(TimeoutError):
        async with asyncio.timeout(deadline - node.clock.tick()):
            async for envelope in follow(node.store, after, names=_END_NAMES):
                event = catalog.decode(envelope.name, envelope.body)
                if not isinstance(event, Unknown):
                    waits, end = observe(waits, event)
                    if end is not None:
                        await _wait_for_line(node, envelope.position)
                        return end
    return StageEnd(error=_LATE)


async def _wait_for_line(node: EmbeddedNode, position: int) -> None:
    """Wait until the line has taken the event at *position* into account, so that its status shows the next stage."""

    async def has_moved(view: Reads) -> bool | None:
        positions = await view.positions()
        return True if positions.get(_PIPELINE, position) >= position else None

    await wait_for(node.store, has_moved, node.clock, ANSWER_SECONDS_MAX)


async def _path(node: EmbeddedNode, blob: str | None) -> str | None:
    """The path of *blob* on this machine, if this program's node has it."""
    host = embedded_host.get_host(node)
    if host is None or blob is None or blob not in await host.blobs.have([blob]):
        return None
    return str(Folder(host.record.address).path(blob))


_Trigger = Callable[..., Coroutine[Any, Any, StageCompletionResult]]


def _make_trigger(action: _Action, about: str) -> _Trigger:
    async def trigger(
        board_type: object,
        num_players: int = 2,
        iteration: int | None = None,
        *,
        timeout_seconds: float | None = None,
        reason: str = "",
    ) -> StageCompletionResult:
        return await _trigger(action, board_type, num_players, iteration, timeout_seconds, reason)

    trigger.__name__ = trigger.__qualname__ = f"trigger_{action.stage}"
    trigger.__doc__ = about
    return trigger


_ACTIONS = (
    _Action("data_sync", "sync", 1800.0),
    _Action("npz_export", "export", 3600.0),
    _Action("training", "train", 86_400.0),
    _Action("evaluation", "evaluate", 7200.0),
    _Action("promotion", "promote", 600.0),
)
_SYNC, _EXPORT, _TRAIN, _EVALUATE, _PROMOTE = _ACTIONS
trigger_data_sync = _make_trigger(_SYNC, "Copy the batches that wait for their copies.")
trigger_npz_export = _make_trigger(_EXPORT, "Export the games since the last export; ``output_path`` is the file.")
trigger_training = _make_trigger(_TRAIN, "Train on the last export, or make generation 0; ``output_path`` is its file.")
trigger_evaluation = _make_trigger(_EVALUATE, "Copy, verify and match the candidate; ``metadata`` has the decision.")
trigger_promotion = _make_trigger(_PROMOTE, "Distribute a champion that has won its match; only evidence promotes.")
