"""The verbs of programs: read the log, keep a place in it, ask about jobs, models and nodes, enqueue and cancel."""

from collections.abc import Sequence
from itertools import accumulate
from typing import TypeVar

from ringrift import jobs
from ringrift.bus import remote_log as log
from ringrift.cluster.alerts import open_alerts
from ringrift.cluster.roster import NODES
from ringrift.coordinator import questions
from ringrift.coordinator.event_verbs import ADMINISTER, READ
from ringrift.coordinator.questions import READERS
from ringrift.coordinator.verbs import Parts, Peer, Verb
from ringrift.events import catalog
from ringrift.events.base import Envelope
from ringrift.events.delivery import Changed
from ringrift.kernel.errors import InputError, Overtaken, printable
from ringrift.kernel.ids import check_name
from ringrift.kernel.value import changed
from ringrift.pipeline.line import LINES, require_line
from ringrift.pipeline.models import MODELS, resolve
from ringrift.store.ports import LIVE_STATES, JobRow
from ringrift.wire.connection import Nothing
from ringrift.wire.ports import BODY_BYTES_MAX
from ringrift.work import desk
from ringrift.work.job_facts import find_job, job_facts

_PAGE = 1000
_NODES_PAGE = 100  # records; each may have some kilobytes
_ROW_BYTES = 2000  # of an event or a job, besides its body
_REASON_CHARACTERS_MAX = 500
T = TypeVar("T", Envelope, JobRow)


def _within(items: Sequence[object], what: str) -> None:
    if len(items) > _PAGE:
        raise InputError(f"{len(items)} {what} are named at once: at most {_PAGE}")


async def _read_events(_: Peer, body: log.ReadEvents, parts: Parts) -> log.EventsNote:
    _within((*body.names, *body.positions), "names and positions")
    newest = parts.store.position
    async with parts.store.read() as view:
        if body.positions:
            envelopes = await view.events_at(body.positions)
        else:
            limit = min(max(body.limit, 0), _PAGE)
            envelopes = await view.read(body.after, limit, body.names) if limit else ()
    return log.EventsNote(position=newest, envelopes=_fitting(envelopes))


def _fitting(rows: Sequence[T]) -> tuple[T, ...]:
    """The first of *rows*, as many as one reply carries."""
    sizes = accumulate(len(row.body) + _ROW_BYTES for row in rows)
    return tuple(row for row, size in zip(rows, sizes, strict=True) if size <= BODY_BYTES_MAX)


def _reader(name: str) -> str:
    """*name*, if it is that of a program's handler.  Raises InputError."""
    if not name.startswith(READERS):
        raise InputError(f"{name:.80} is no handler of a program: their names begin with {READERS}")
    return check_name("handler", name)


async def _deliveries(_: Peer, body: log.ReadDeliveries, parts: Parts) -> log.Deliveries:
    _within(body.positions, "positions")
    reader = _reader(body.reader)
    async with parts.store.read() as view:
        if body.positions:
            rows = await view.deliveries_at(reader, body.positions)
        else:
            rows = await view.deliveries(body.states, min(max(body.limit, 0), _PAGE), reader)
    return log.Deliveries(deliveries=tuple(rows))


async def _register(_: Peer, body: log.RegisterReader, parts: Parts) -> log.ReaderPlace:
    async with parts.store.begin() as tx:
        at = min(max(body.position, 0), parts.store.position)
        return log.ReaderPlace(position=await tx.register_reader(_reader(body.reader), at))


async def _move(peer: Peer, body: log.MoveReader, parts: Parts) -> Nothing:
    _within((*body.seen, *body.deliveries, *body.envelopes), "deliveries")
    reader = _reader(body.reader)
    if any(row.reader != reader for row in (*body.seen, *body.deliveries)):
        raise InputError(f"deliveries of {reader} are stored with it, and no others")
    events = [_own_change(peer, envelope, reader, parts) for envelope in body.envelopes]
    async with parts.store.begin() as tx:
        if body.old is not None:
            if not body.old <= body.new <= parts.store.position:
                raise InputError(f"{reader} cannot move from {body.old} to {body.new}")
            await tx.advance(reader, body.old, body.new)
        stored = await tx.deliveries_at(reader, [row.position for row in body.seen])
        if set(stored) != set(body.seen):
            raise Overtaken(reader, 0, 0)
        await tx.put_deliveries(body.deliveries)
        await tx.append(events)
    return Nothing()


def _own_change(peer: Peer, envelope: Envelope, reader: str, parts: Parts) -> Envelope:
    event = catalog.decode(envelope.name, envelope.body)
    if not isinstance(event, Changed) or event.reader != reader:
        raise InputError(f"{envelope.name:.80} is no change of a delivery to {reader}")
    return changed(envelope, node=peer.node, position=0, time=parts.clock.now())


async def _list_jobs(_: Peer, body: log.ListJobs, parts: Parts) -> log.JobRows:
    async with parts.store.read() as view:
        return log.JobRows(rows=_fitting(await view.list_jobs(body.query, min(max(body.limit, 0), _PAGE))))


async def _show_job(_: Peer, body: questions.ShowJob, parts: Parts) -> questions.ShownJob:
    async with parts.store.read() as view:
        return questions.ShownJob(facts=await job_facts(view, body.id))


async def _enqueue(peer: Peer, body: questions.EnqueueJob, parts: Parts) -> questions.EnqueuedJob:
    job = jobs.decode(body.kind, body.body)
    async with parts.store.begin() as tx:
        [id] = await desk.enqueue(tx, [job], parts.desks.envelopes_of(peer.node), parts.clock.now())
    return questions.EnqueuedJob(id=id)


async def _cancel(peer: Peer, body: questions.CancelJob, parts: Parts) -> questions.CancelledJob:
    async with parts.store.begin() as tx:
        row = await find_job(tx, body.id)
        if row.state in LIVE_STATES:
            reason = printable(body.reason, _REASON_CHARACTERS_MAX)
            await desk.cancel_job(tx, row, parts.desks.envelopes_of(peer.node), reason)
    return questions.CancelledJob(cancelled=row.state in LIVE_STATES)


async def _list_models(_: Peer, body: questions.ListModels, parts: Parts) -> questions.Models:
    async with parts.store.read() as view:
        models = await MODELS.all(view, "variant", body.variant) if body.variant else await MODELS.all(view)
    after = max(body.after, 0)
    return questions.Models(models=tuple(models[after : after + _PAGE]), more=len(models) > after + _PAGE)


async def _find_model(_: Peer, body: questions.FindModel, parts: Parts) -> questions.FoundModel:
    async with parts.store.read() as view:
        name = body.name if body.any else (await require_line(view, body.name)).champion
        if name is None:
            return questions.FoundModel()
        match = await resolve(view, name, None if body.any else body.name)
    return questions.FoundModel(blob=match.model, model=match.record)


async def _status(_: Peer, __: questions.AskStatus, parts: Parts) -> questions.StatusAnswer:
    async with parts.store.read() as view:
        nodes, lines = await parts.roster.present(view), await LINES.all(view)
        alerts, counts = await open_alerts(view), await view.count_jobs()
    rows = [questions.JobCount(kind=kind, state=state, count=count) for (kind, state), count in counts.items()]
    ids = tuple(node.id for node in nodes)
    return questions.StatusAnswer(nodes=ids, lines=tuple(lines), alerts=tuple(alerts), jobs=tuple(rows))


async def _facts(_: Peer, body: questions.AskFacts, parts: Parts) -> questions.NodeRecords:
    async with parts.store.read() as view:
        if body.nodes:
            records = await NODES.get_many(view, body.nodes[:_NODES_PAGE])
            return questions.NodeRecords(nodes=tuple(records.values()), more=len(body.nodes) > _NODES_PAGE)
        page = tuple((await NODES.scan(view, body.after, _NODES_PAGE)).values())
    return questions.NodeRecords(nodes=page, more=len(page) == _NODES_PAGE)


VERBS = (
    Verb("events.read", log.ReadEvents, log.EventsNote, READ, _read_events),
    Verb("reader.deliveries", log.ReadDeliveries, log.Deliveries, READ, _deliveries),
    Verb("reader.register", log.RegisterReader, log.ReaderPlace, READ, _register, writes=True),
    Verb("reader.move", log.MoveReader, Nothing, READ, _move, writes=True),
    Verb("jobs.list", log.ListJobs, log.JobRows, READ, _list_jobs),
    Verb("jobs.show", questions.ShowJob, questions.ShownJob, READ, _show_job),
    Verb("jobs.enqueue", questions.EnqueueJob, questions.EnqueuedJob, ADMINISTER, _enqueue, writes=True),
    Verb("jobs.cancel", questions.CancelJob, questions.CancelledJob, ADMINISTER, _cancel, writes=True),
    Verb("models.list", questions.ListModels, questions.Models, READ, _list_models),
    Verb("models.find", questions.FindModel, questions.FoundModel, READ, _find_model),
    Verb("status", questions.AskStatus, questions.StatusAnswer, READ, _status),
    Verb("facts", questions.AskFacts, questions.NodeRecords, READ, _facts),
)
