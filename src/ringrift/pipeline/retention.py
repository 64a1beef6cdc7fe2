"""Retention: which blobs of a node may be deleted, and why the others stay.

A blob stays while anything pins it:

* a line: champion, candidate, opponents, earlier champions, window, pending batches, samples, jobs that wait;
* an open job, an event that the pipeline has not consumed, a file on its way into the loop, the last ratings;
* what it is itself: a model that is or was champion or is to be judged, an ancestor of a champion, the samples of a
  champion, one of the newest of its kind.

A checkpoint is needed until its job has ended: it stays while that waits, runs or is tried again, then it goes at once.
Anything else goes when it is old enough, unless a job that is under way or an event that is not consumed yet is as old:
they may still lead to it.  Decisions rest on blocks, which are records and not blobs.
"""

import math
import re
from collections.abc import Mapping, Sequence

from ringrift.blobs.ports import StoredBlob
from ringrift.events.base import Envelope
from ringrift.events.data import Adopted, Removed
from ringrift.kernel.errors import Damaged
from ringrift.kernel.settings import SweepSettings
from ringrift.kernel.value import Value, changed
from ringrift.pipeline.foreign_games import COUNTED_GAMES
from ringrift.pipeline.inbox import INBOX, OPEN
from ringrift.pipeline.line import LINES
from ringrift.pipeline.models import MODEL, MODELS, Model, State, is_imported
from ringrift.pipeline.ratings import RATINGS
from ringrift.store.ports import LIVE_STATES, Origin, Reads
from ringrift.sync.orphans import ADOPTIONS
from ringrift.work.checkpoints import CHECKPOINTS

_JOBS_MAX = 20_000
_ANCESTORS_MAX = 5_000
_EVENTS_MAX = 5_000
_CONSUMER = "pipeline"  # the reader that asks for what a batch or a model needs next
_DAY = 86_400.0
_OPEN_JOB, _UNCONSUMED = "an open job needs it", "an event that names it is not consumed"
_IMPORTING, _RESUMABLE = "it is being imported", "its job may go on from it"
_BUSY = (_OPEN_JOB, _UNCONSUMED, _IMPORTING, _RESUMABLE)
_OWN = (Removed.name(), Adopted.name())
CHECKPOINT_SECONDS = 60.0  #: How long a checkpoint stays in any case: it is stored a moment before it is registered.
_BLOB = re.compile(rb"(?<![0-9a-f])[0-9a-f]{64}(?![0-9a-f])")


class _Pins(Value):
    """What keeps blobs from being deleted, as of one moment."""

    reasons: Mapping[str, str] = {}  #: Blob → why it stays.
    variants: frozenset[str] = frozenset()  #: The lines that were read.
    checkpoints: frozenset[str] = frozenset()  #: Blobs that are nothing but checkpoints of jobs.
    adopted: Mapping[str, float] = {}  #: Blobs of unknown origin that were found on a node, and when.
    busy: frozenset[str] = frozenset()  #: What something under way works on, whatever else pins it.
    horizon: float = math.inf  #: What was stored at this time or later may belong to something that is under way.
    hindrance: str = ""  #: Why nothing at all may be deleted now.


class _Ruling(Value):
    """What becomes of one blob, and why."""

    blob: str
    size: int
    goes: bool
    reason: str
    kind: str = ""  #: games, samples, model, report or checkpoint; empty for what no record mentions.
    variant: str = ""
    is_busy: bool = False  #: Whether something under way works on it, so that not even a spare copy may go.


def _judge(stored: StoredBlob, origins: Sequence[Origin], pins: _Pins, settings: SweepSettings, now: float) -> _Ruling:
    """Whether *stored*, which was made as *origins* tell, may be deleted."""
    # A file that was brought by hand may be old: it has its time of grace after it was noticed.
    adopted = pins.adopted.get(stored.blob, stored.time)
    times = (stored.time, adopted, *(origin.time for origin in origins))
    is_checkpoint = stored.blob in pins.checkpoints
    limit = settings.retention_seconds if origins else settings.grace_seconds
    limit, horizon = (CHECKPOINT_SECONDS, math.inf) if is_checkpoint else (limit, pins.horizon)
    age = f"{limit / _DAY:.3g} days" if limit >= _DAY else f"{limit:g} s"
    unknown = sorted({origin.variant for origin in origins} - pins.variants)
    reasons = (
        pins.hindrance,
        pins.reasons.get(stored.blob, ""),
        f"the line {unknown[0]} is not known" if unknown else "",
        "" if all(now - time >= limit for time in times) else f"it was stored less than {age} ago",
        "" if max(times) < horizon else "a job is under way, or an event not consumed, that may lead to it",
    )
    reason = next(filter(None, reasons), "")
    rule = f"nothing has needed it for {age}" if origins else f"no record has mentioned it for {age}"
    rule, kind = ("its job has ended", CHECKPOINTS.kind) if is_checkpoint else (rule, "")
    is_busy = bool(pins.hindrance) or stored.blob in pins.busy or max(times) >= horizon
    ruling = _Ruling(blob=stored.blob, size=stored.size, goes=not reason, reason=reason or rule, is_busy=is_busy)
    return changed(ruling, kind=origins[0].kind if origins else kind, variant=origins[0].variant if origins else "")


def _pin_model(model: Model) -> str:
    """Why *model* stays; empty if it may go."""
    if any(state is State.CHAMPION for state in (model.state, *(state for state, _ in model.steps))):
        return f"it is or was champion of {model.variant}"
    return "" if model.state is State.REJECTED else f"it is {model.state} in {model.variant}"


async def rule(view: Reads, page: Sequence[StoredBlob], settings: SweepSettings, now: float) -> list[_Ruling]:
    """The rulings on *page*; nothing goes if a record cannot be read."""
    origins: dict[str, list[Origin]] = {}
    for origin in await view.origins([stored.blob for stored in page]):
        origins.setdefault(origin.blob, []).append(origin)
    try:
        pins = await _read_pins(view, [stored.blob for stored in page], origins, settings.newest_min)
    except Damaged as error:
        pins = _Pins(hindrance=str(error))
    return [_judge(stored, origins.get(stored.blob, ()), pins, settings, now) for stored in page]


async def _read_pins(view: Reads, blobs: list[str], origins: Mapping[str, list[Origin]], newest_min: int) -> _Pins:
    """What pins *blobs*, and perhaps others."""
    # Decoded to see that each can be read, but searched as they are: a newer version may have added fields.
    lines, _, _ = await LINES.scan(view), await RATINGS.scan(view), await INBOX.find(view, "state", *OPEN)
    jobs, events = await view.jobs(LIVE_STATES, _JOBS_MAX), await _read_unconsumed(view)
    bodies = {
        "a line needs it": (await view.scan(LINES.kind, "", LINES.limit)).values(),
        _OPEN_JOB: [job.body for job in jobs],
        # Our own say what is gone or was found; counted all the same: what is behind the limit is not read.
        _UNCONSUMED: [event.body for event in events if event.name not in _OWN],
        "the last ratings mention it": (await view.scan(RATINGS.kind, "", RATINGS.limit)).values(),
        "it lists imported games that count": (await view.scan(COUNTED_GAMES.kind, "", COUNTED_GAMES.limit)).values(),
        _IMPORTING: (await view.find(INBOX.kind, "state", OPEN, INBOX.limit)).values(),
    }
    owners, open_jobs = await CHECKPOINTS.get_many(view, blobs), {job.id for job in jobs}
    names = {reason: [_BLOB.findall(body) for body in rows] for reason, rows in bodies.items()}
    pinned = {reason: {blob.decode() for blobs in rows for blob in blobs} for reason, rows in names.items()}
    pinned[_RESUMABLE] = {blob for blob, job in owners.items() if job in open_jobs}
    trained = {blob for blob in blobs if any(origin.kind == MODEL for origin in origins.get(blob, ()))}
    maybe = trained.union(blob for blob in blobs if blob not in origins)
    models = await MODELS.get_many(view, [f"{variant}:{blob}" for variant in lines for blob in maybe])
    reasons = {model.model: reason for model in models.values() if (reason := _pin_model(model))}
    judged = {model.model for model in models.values()}
    imported = {blob for blob in trained - judged if any(is_imported(origin) for origin in origins[blob])}
    pinned["it was imported and never judged"] = imported
    champions = sorted({line.champion for line in lines.values() if line.champion is not None})
    pinned["a champion was trained on it"] = {o.samples for o in await view.origins(champions) if o.samples}
    ancestors = await view.walk(champions, True, _ANCESTORS_MAX, (MODEL,)) if trained else ()
    pinned["a champion descends from it"] = set(ancestors)
    for kind in ("games", "samples", MODEL):
        newest = await view.list_origins(kind, newest_min) if newest_min else ()
        pinned[f"it is one of the newest {newest_min} {kind}"] = {origin.blob for origin in newest}
    limits = ((jobs, _JOBS_MAX), (ancestors, _ANCESTORS_MAX), (lines, LINES.limit), (events, _EVENTS_MAX))
    is_cut = any(len(rows) >= limit for rows, limit in limits)
    return _Pins(
        reasons={blob: reason for reason, names in reversed(pinned.items()) for blob in names} | reasons,
        variants=frozenset(lines),
        busy=frozenset().union(*(pinned[reason] for reason in _BUSY)),
        checkpoints=frozenset(owners).difference(origins),
        adopted={blob: row.time for blob, row in (await ADOPTIONS.get_many(view, blobs)).items()},
        horizon=await _read_horizon(view, [job.time for job in jobs if job.attempts]),
        hindrance="there are too many lines, jobs, events or ancestors to look at" if is_cut else "",
    )


async def _read_unconsumed(view: Reads) -> list[Envelope]:
    """The events that the pipeline has yet to consume, whatever the clocks of their nodes say."""
    position = next((row.position for row in await view.readers() if row.reader == _CONSUMER), 0)
    parked = await view.deliveries(("parked",), _EVENTS_MAX, _CONSUMER)
    events = [event for row in parked for event in await view.read(row.position - 1, 1)]
    return [*events, *await view.read(position, _EVENTS_MAX)]


async def read_horizon(view: Reads) -> float:
    """When the oldest thing under way began: what was stored at this time or later may belong to it."""
    return await _read_horizon(view, [job.time for job in await view.jobs(LIVE_STATES, _JOBS_MAX) if job.attempts])


async def _read_horizon(view: Reads, times: Sequence[float]) -> float:
    """The time of the oldest thing under way: an attempt of a job, an event that a reader has not consumed."""
    unread = [row.since for row in await view.readers() if row.since is not None and not row.lapsed]
    parked = [delivery.first for delivery in await view.deliveries(("parked",), 1)]
    return min((*times, *unread, *parked), default=math.inf)
