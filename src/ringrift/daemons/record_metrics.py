"""Records the metrics of every training, with the size of the export that it learnt from."""

from ringrift.events import data, training
from ringrift.events.base import Envelope
from ringrift.pipeline import metrics
from ringrift.store.ports import Tx
from ringrift.supervision.spec import Daemon


async def record_metrics(event: data.Exported | training.Finished, envelope: Envelope, tx: Tx) -> None:
    """Record one export or one training."""
    if isinstance(event, data.Exported):
        await metrics.record_export(tx, event)
    else:
        await metrics.record_training(tx, event, envelope.time)


_NAME, _ON = "record_metrics", (data.Exported, training.Finished)
SPEC = Daemon(name="record_metrics", run=record_metrics, role=_NAME, after=("pipeline",), on=_ON, category="training")
