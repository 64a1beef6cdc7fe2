"""Ended: what must be said for a stage that was asked for to be over, as a pure function of what is awaited."""

from ringrift.events import data, evaluation, model, pipeline, training, work
from ringrift.events.base import Event, LineEvent
from ringrift.jobs import Distribute, Export, Sync, Train
from ringrift.kernel.value import Value
from ringrift.pipeline.line import Line, Stage
from ringrift.pipeline.step import changed

ENDS: tuple[type[Event], ...] = (
    data.Synced, data.Lost, data.Exported, training.Finished, evaluation.Finished, evaluation.Reviewed, model.Promoted,
    model.Rejected, model.Distributed, pipeline.Moved, work.Buried,
)  # fmt: skip
"""Every event that may end a stage."""
_KINDS = {"sync": Sync.kind(), "export": Export.kind(), "train": Train.kind(), "promote": Distribute.kind()}


class Awaited(Value):
    """A stage of a line that somebody waits for."""

    stage: str
    variant: str
    blobs: frozenset[str] = frozenset()
    """The batches whose copies are not there yet, while *stage* is sync."""


class Ended(Value):
    """What came of a stage: the event that ended it, or why it failed."""

    event: Event | None = None
    blob: str | None = None
    """What it made, if it made something."""
    error: str = ""


def awaited(line: Line, stage: str) -> Awaited:
    """What is to be waited for when *stage* of *line* has just been let through."""
    blobs = frozenset(batch.blob for batch in line.pending) if stage == "sync" else frozenset[str]()
    return Awaited(stage=stage, variant=line.variant, blobs=blobs)


def heard(waits: Awaited, event: Event) -> tuple[Awaited, Ended | None]:
    """What is still waited for after *event*, and what came of the stage if that was its end."""
    if not isinstance(event, LineEvent) or event.variant != waits.variant:
        return waits, None
    if isinstance(event, work.Buried):
        return waits, _buried(waits, event)
    if waits.stage == "sync":
        return _copied(waits, event)
    match waits.stage, event:
        case "export", data.Exported():
            return waits, Ended(event=event, blob=event.samples)
        case "train", training.Finished():
            return waits, Ended(event=event, blob=event.model)
        case "promote", model.Distributed():
            return waits, Ended(event=event, blob=event.model)
        case "evaluate", evaluation.Finished():
            return waits, Ended(event=event, blob=event.candidate)
        case "evaluate", evaluation.Reviewed():
            return waits, Ended(event=event, blob=event.model)
        case "evaluate", model.Promoted():  # generation 0 is tested against nobody
            return waits, Ended(event=event, blob=event.model)
        case "evaluate", model.Rejected():
            return waits, Ended(blob=event.model, error=event.reason)
        case "evaluate", pipeline.Moved(stage=Stage.STARTING):
            return waits, Ended(error="the candidate could not be copied or checked, and there is no champion")
        case "promote", pipeline.Moved(before=Stage.DISTRIBUTING):
            return waits, Ended(error="the champion had to go before every node had it")
    return waits, None


def _copied(waits: Awaited, event: LineEvent) -> tuple[Awaited, Ended | None]:
    match event:
        case data.Synced() if event.blob in waits.blobs:
            left = waits.blobs - {event.blob}
            return changed(waits, blobs=left), None if left else Ended(event=event, blob=event.blob)
        case data.Lost() if event.blob in waits.blobs:
            return waits, Ended(blob=event.blob, error=f"a batch is lost: {event.reason}")
    return waits, None


def _buried(waits: Awaited, event: work.Buried) -> Ended | None:
    """A job of the stage will not be done; the line may ask for another, but this try has failed."""
    if event.kind != _KINDS.get(waits.stage):
        return None
    if waits.stage == "sync" and not event.key.endswith(tuple(waits.blobs)):
        return None
    return Ended(blob=event.blob, error=event.error)
