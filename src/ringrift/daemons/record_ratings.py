"""Records the ratings of every line: each champion with its period, and the strengths as they are computed."""

from ringrift.events import evaluation, model
from ringrift.events.base import Envelope
from ringrift.pipeline.ratings import RATINGS, mark_due, ratings_of, with_champion, with_ratings
from ringrift.store.ports import Tx
from ringrift.supervision.spec import Daemon

_Result = evaluation.Finished | evaluation.Reviewed | evaluation.Rated | model.Promoted | model.RolledBack


async def record_ratings(event: _Result, envelope: Envelope, tx: Tx) -> None:
    """Record what was decided or computed about one line."""
    variant, at = event.variant, envelope.time
    if isinstance(event, evaluation.Finished | evaluation.Reviewed):
        await mark_due(tx, variant)
        return
    ratings = await ratings_of(tx, variant)
    match event:
        case model.Promoted():
            ratings = with_champion(ratings, event.model, event.generation, at)
        case model.RolledBack():
            ratings = with_champion(ratings, event.to, event.generation, at)
        case evaluation.Rated():
            ratings = with_ratings(ratings, event, at)
    await RATINGS.put(tx, [ratings])


_EVENTS = (evaluation.Finished, evaluation.Reviewed, evaluation.Rated, model.Promoted, model.RolledBack)
_NAME, _AFTER = "record_ratings", ("pipeline",)
SPEC = Daemon(name="record_ratings", run=record_ratings, role=_NAME, after=_AFTER, on=_EVENTS, category="evaluation")
