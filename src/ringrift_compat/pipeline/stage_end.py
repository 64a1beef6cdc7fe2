"""The events that end a requested stage, as a pure function of what is waited for."""

from ringrift.events import data, evaluation, model, pipeline, training, work
from ringrift.events.base import Event, LineEvent
from ringrift.jobs import Distribute, Export, Sync, Train
from ringrift.kernel.value import Value, changed
from ringrift.pipeline.line import Line, Stage
from ringrift.pipeline.moves import copy_games

END_EVENTS: tuple[type[Event], ...] = (
    *(data.Synced, data.Lost, data.Exported, training.Finished, evaluation.Finished, evaluation.Reviewed),
    *(model.Promoted, model.Rejected, model.Distributed, pipeline.Moved, work.Buried),
)
"""Every event that may end a stage."""
_KINDS = {"sync": Sync.kind(), "export": Export.kind(), "train": Train.kind(), "promote": Distribute.kind()}


class StageWait(Value):
    """A requested stage of a line whose end is waited for."""

    stage: str
    variant: str
    copies: dict[str, str] = {}
    """While *stage* is sync: the batches whose copies are not there yet, each with the key of its job."""


class StageEnd(Value):
    """The event that ended a stage, or why it failed."""

    event: Event | None = None
    blob: str | None = None
    """The blob that it made, if it made one."""
    error: str = ""


def stage_wait(line: Line, stage: str) -> StageWait:
    """The events to wait for when *stage* of *line* has just been started."""
    copies = {batch.blob: copy_games(line, batch.blob).key for batch in line.pending} if stage == "sync" else {}
    return StageWait(stage=stage, variant=line.variant, copies=copies)


def observe(wait: StageWait, event: Event) -> tuple[StageWait, StageEnd | None]:
    """The events still to wait for after *event*, and the end of the stage if *event* was it."""
    if not isinstance(event, LineEvent) or event.variant != wait.variant:
        return wait, None
    if isinstance(event, work.Buried):
        return wait, _failure(wait, event)
    match wait.stage, event:
        case "sync", data.Synced() if event.blob in wait.copies:
            left = {blob: key for blob, key in wait.copies.items() if blob != event.blob}
            return changed(wait, copies=left), None if left else StageEnd(event=event, blob=event.blob)
        case "sync", data.Lost() if event.blob in wait.copies:
            return wait, StageEnd(blob=event.blob, error=f"a batch is lost: {event.reason}")
        case "export", data.Exported():
            return wait, StageEnd(event=event, blob=event.samples)
        case "train", training.Finished():
            return wait, StageEnd(event=event, blob=event.model)
        case "promote", model.Distributed():
            return wait, StageEnd(event=event, blob=event.model)
        # Generation 0 is promoted without a match.
        case "evaluate", evaluation.Reviewed() | model.Promoted():
            return wait, StageEnd(event=event, blob=event.model)
        case "evaluate", evaluation.Finished():
            return wait, StageEnd(event=event, blob=event.candidate)
        case "evaluate", model.Rejected():
            return wait, StageEnd(blob=event.model, error=event.reason)
        case "evaluate", pipeline.Moved(stage=Stage.STARTING):
            return wait, StageEnd(error="the candidate could not be copied or checked, and there is no champion")
        case "promote", pipeline.Moved(before=Stage.DISTRIBUTING):
            return wait, StageEnd(error="the champion was replaced before every node had it")
    return wait, None


def _failure(wait: StageWait, event: work.Buried) -> StageEnd | None:
    """A job of the stage will not be done; the line may ask for another, but this try has failed."""
    if event.kind != _KINDS.get(wait.stage) or (wait.stage == "sync" and event.key not in wait.copies.values()):
        return None
    return StageEnd(blob=event.blob, error=event.error)
