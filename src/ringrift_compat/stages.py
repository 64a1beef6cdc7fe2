"""The documented stages: what each is here, how one is asked for, and what it came to."""

from contextlib import suppress
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

import msgspec

from ringrift.blobs.folder import Folder
from ringrift.events import catalog
from ringrift.events.base import Unknown
from ringrift.events.pipeline import Opened, Requested
from ringrift.kernel import variant as variants
from ringrift.kernel.settings import Settings
from ringrift.pipeline.asking import ANSWER_SECONDS_MAX, Told, answer
from ringrift.pipeline.ended import ENDS, Awaited, Ended, awaited, heard
from ringrift.pipeline.line import Stage
from ringrift.pipeline.records import load
from ringrift.workload.registry import Registry
from ringrift_compat import circuits, hosting
from ringrift_compat.ambient import Embedded, ambient
from ringrift_compat.buses import StageCompletionResult
from ringrift_compat.levels import BoardType

SOURCE = "pipeline_actions"
LOOK_SECONDS = 0.5
"""How long one look into the log waits for something new; who stops waiting leaves no more than that behind."""
PAGE = 1000
DUTIES, OWN_DUTIES = ("pipeline",), ("rescue", "work")
"""Who answers; and who does the work, where this program is the coordinator of its home."""
_NAMES = tuple(event.name() for event in ENDS)


class PipelineStage(StrEnum):
    """The stages of the documents."""

    IDLE = "idle"
    SELFPLAY = "selfplay"
    DATA_SYNC = "data_sync"
    NPZ_EXPORT = "npz_export"
    NPZ_COMBINATION = "npz_combination"
    TRAINING = "training"
    EVALUATION = "evaluation"
    PROMOTION = "promotion"
    COMPLETE = "complete"


SHOWN = {
    Stage.STARTING: PipelineStage.TRAINING,
    Stage.COLLECTING: PipelineStage.SELFPLAY,
    Stage.EXPORTING: PipelineStage.NPZ_EXPORT,
    Stage.TRAINING: PipelineStage.TRAINING,
    Stage.VERIFYING: PipelineStage.EVALUATION,
    Stage.EVALUATING: PipelineStage.EVALUATION,
    Stage.DISTRIBUTING: PipelineStage.PROMOTION,
    Stage.RESTING: PipelineStage.COMPLETE,
}
"""What a stage of a line is called in the documents."""


@dataclass(frozen=True)
class Action:
    """A stage that can be triggered: what it is called here, and how long it may take."""

    stage: PipelineStage
    asked: str
    seconds_max: float


SYNC = Action(PipelineStage.DATA_SYNC, "sync", 1800.0)
EXPORT = Action(PipelineStage.NPZ_EXPORT, "export", 3600.0)
TRAIN = Action(PipelineStage.TRAINING, "train", 86_400.0)
EVALUATE = Action(PipelineStage.EVALUATION, "evaluate", 7200.0)
PROMOTE = Action(PipelineStage.PROMOTION, "promote", 600.0)


def variant_of(board_type: object, num_players: int) -> str:
    """The variant that is played on *board_type*, also under its short name.  Raises InvalidId."""
    word = str(getattr(board_type, "value", board_type)).lower()
    with suppress(ValueError):  # or it is a board of one's own workload
        word = BoardType(word).value
    return str(variants.parse(f"{word}_{int(num_players)}p"))


@dataclass
class Outcome:
    """What came of asking for a stage."""

    error: str = ""
    failed: bool = False
    """Whether it was begun or could not even be asked for, and went wrong: a gate that is closed is no failure."""
    iteration: int = 0
    path: str | None = None
    details: dict[str, Any] = field(default_factory=dict)


async def carry_out(
    action: Action, board_type: object, num_players: int, iteration: int | None, seconds: float | None, reason: str
) -> StageCompletionResult:
    """Ask for the stage of *action* and wait for its end, from any loop.

    Raises InvalidId or UnknownName for a variant that nobody plays.
    """
    variant = variant_of(board_type, num_players)
    node = ambient.node()
    began, breaker = node.clock.tick(), circuits.of_stages(node)
    if breaker.can_execute(action.stage):
        outcome = None
        try:
            outcome = await _outcome(node, action, variant, reason, seconds)
        finally:
            _record(breaker, action.stage, outcome)
    else:
        left, last = breaker.seconds_left(action.stage), breaker.last_error(action.stage)
        outcome = Outcome(error=f"the circuit of {action.stage} is open for another {left:.0f} s: {last}")
    about = {"config_key": variant, "board_type": variants.parse(variant).board, "num_players": num_players}
    return StageCompletionResult(
        success=not outcome.error, stage=action.stage.value, error=outcome.error or None, output_path=outcome.path,
        iteration=outcome.iteration if iteration is None else iteration, metadata=outcome.details | about,
        duration_seconds=node.clock.tick() - began,
    )  # fmt: skip


def _record(breaker: circuits.CircuitBreaker, stage: PipelineStage, outcome: Outcome | None) -> None:
    """Tell *breaker* what came of a try; who stopped waiting, or met a closed gate, has learnt nothing of the stage."""
    if outcome is not None and outcome.failed:
        breaker.record_failure(stage, outcome.error)
    elif outcome is None or outcome.error:
        breaker.record_undecided(stage)
    else:
        breaker.record_success(stage)


async def _outcome(node: Embedded, action: Action, variant: str, reason: str, seconds: float | None) -> Outcome:
    limit = action.seconds_max if seconds is None else seconds
    until = node.clock.tick() + limit
    request, position, told = await ambient.post(_ask(node, action, variant, reason))
    details: dict[str, Any] = {"request": request}
    if told is None:
        error = f"nobody has answered within {ANSWER_SECONDS_MAX:g} s: the request is kept"
        return Outcome(error=error, failed=True, details=details)
    details["verdict"] = msgspec.to_builtins(told.verdict)
    found = Outcome(iteration=told.line.iteration, details=details)
    if not told.verdict.allowed:
        found.error = f"{told.verdict.rule} ({told.verdict.value:g} of {told.verdict.limit:g})"
        return found
    ended = await _end(node, awaited(told.line, action.asked), position, until)
    if ended.event is not None:
        details["event"] = msgspec.to_builtins(ended.event)
    found.error, found.failed = ended.error, bool(ended.error)
    found.path = await ambient.post(_path(node, ended.blob)) if not ended.error else None
    return found


async def _ask(node: Embedded, action: Action, variant: str, reason: str) -> tuple[str, int, Told | None]:
    """Open the line if it is not, and ask: the id and the position of the request, and its answer."""
    whole = await hosting.duties(node, *DUTIES)
    if hosting.leads(node, whole):
        await hosting.duties(node, *OWN_DUTIES)
    async with node.store.read() as view:
        known = await load(view, variant)
    opening = [] if known is not None else [Opened(variant=variant, workload=workload_of(variant, whole.settings))]
    request = Requested(variant=variant, stage=action.asked, reason=reason)
    *_, asked = await node.router.publish_many([*opening, request], source=SOURCE)
    return asked.id, asked.position, await answer(node.store, asked.id, variant, node.clock)


def workload_of(variant: str, settings: Settings) -> str:
    """The configured workload, after a look whether anybody plays *variant*.  Raises UnknownName."""
    work = settings.work
    Registry.load(work.executables, prefer=work.workload).owner(variant, work.workload)
    return work.workload


async def _end(node: Embedded, waits: Awaited, after: int, until: float) -> Ended:
    """What came of the stage that *waits* tells of, by what is said behind position *after*."""
    if waits.stage == "sync" and not waits.blobs:
        return Ended()  # the last copy was there before anybody could look
    while node.clock.tick() < until:
        if not ambient.is_open or ambient.node() is not node:
            return Ended(error="the node was shut down meanwhile; what was asked for is kept")
        waits, after, ended = await ambient.post(_look(node, waits, after))
        if ended is not None:
            return ended
    return Ended(error="it is not done in time; what was asked for is kept and goes on")


async def _look(node: Embedded, waits: Awaited, after: int) -> tuple[Awaited, int, Ended | None]:
    position = node.store.position
    async with node.store.read() as view:
        said = await view.read(after, PAGE, _NAMES)
    for envelope in said:
        after, event = envelope.position, catalog.decode(envelope.name, envelope.body)
        if isinstance(event, Unknown):
            continue
        waits, ended = heard(waits, event)
        if ended is not None:
            return waits, after, ended
    if len(said) < PAGE:
        await node.store.wait(position, LOOK_SECONDS)
    return waits, after, None


async def _path(node: Embedded, blob: str | None) -> str | None:
    """Where *blob* lies on this machine, if this program's node has it."""
    whole = hosting.hosted(node)
    if whole is None or blob is None or blob not in await whole.blobs.have([blob]):
        return None
    return str(Folder(whole.settings.blobs.folder).path(blob))
