"""The verbs of membership: heartbeats with facts and the events of jobs, commands to daemons, and who leads."""

from collections.abc import Mapping, Sequence

import msgspec

from ringrift.bus import trace
from ringrift.cluster import daemon_commands
from ringrift.cluster.leadership import Leader, find_leader
from ringrift.cluster.remote_roster import Beat, BeatAnswer, CommandsAnswer, FindLeader, ReportCommands
from ringrift.cluster.roster import NODES, NodeRecord
from ringrift.coordinator.desks import BeatsView
from ringrift.coordinator.verbs import WORK, AdminParts, Parts, Peer, Verb
from ringrift.coordinator.work_verbs import held_jobs
from ringrift.events import catalog
from ringrift.events.base import Envelope, JobEvent
from ringrift.events.node import Joined, Left
from ringrift.kernel.errors import InputError, printable
from ringrift.kernel.value import changed
from ringrift.pipeline.line import LINES
from ringrift.store.ports import JobRow, Tx
from ringrift.work.breakers import BREAKERS, NODE
from ringrift.work.link_breakers import link_subjects
from ringrift.work.run_states import load_run_states

_RECORD_BYTES_MAX = 32 * 1024
_EVENTS_MAX = 200
_ERROR_CHARACTERS_MAX = 500


async def _beat(peer: Peer, body: Beat, parts: Parts) -> BeatAnswer:
    body = changed(body, record=_own_record(body.record, peer.node))
    view = await parts.desks.beats.run(body, lambda beats: _store_beats(beats, parts))
    for envelope in body.events[-_EVENTS_MAX:]:
        _publish_local(peer, envelope, view.leases[peer.node], parts)
    lines = view.lines if body.island and "play" in peer.scopes else ()
    return BeatAnswer(
        run_states=view.run_states,
        addresses=view.leader.addresses,
        champions={line.variant: line.champion for line in lines if line.champion},
        gossip=parts.roster.invite,
        commands=peer.node in view.commands,
    )


async def _store_beats(beats: Sequence[Beat], parts: Parts) -> BeatsView:
    """Store the records of many nodes, and announce those that have come, by one transaction."""
    records = {beat.record.id: beat.record for beat in beats}
    with trace.within(None):  # no request of one node is the cause of what others do
        async with parts.store.begin() as tx:
            before = await NODES.get_many(tx, list(records))
            await NODES.put(tx, records.values())
            if joined := [_joined(record, parts) for record in records.values() if _is_new(record, before)]:
                await tx.append(joined)
            return BeatsView(
                run_states=msgspec.msgpack.encode(await load_run_states(tx)),
                leader=await parts.desks.leader(tx),
                leases={beat.record.id: await held_jobs(tx, beat.record.id) for beat in beats if beat.events},
                lines=await LINES.all(tx) if any(beat.island for beat in beats) else (),
                commands=await daemon_commands.nodes_with_commands(tx, records),
            )


def _is_new(record: NodeRecord, before: Mapping[str, NodeRecord]) -> bool:
    old = before.get(record.id)
    return old is None or old.gone or old.boot != record.boot


def _joined(record: NodeRecord, parts: Parts) -> Envelope:
    return parts.desks.envelopes_of(record.id).make(Joined(node=record.id, profile=record.profile), source="node")


def _own_record(record: NodeRecord, node: str) -> NodeRecord:
    """*record* as far as a worker may say it: about itself, and its files cannot be reached.  Raises InputError."""
    record = changed(record, id=node, address="", gone=False)
    body = msgspec.json.encode(record)
    if len(body) > _RECORD_BYTES_MAX:
        raise InputError(f"the record of node {node} has {len(body)} bytes: at most {_RECORD_BYTES_MAX}")
    try:
        return msgspec.json.decode(body, type=NodeRecord)  # what could not be read again would break every survey
    except msgspec.DecodeError as error:
        raise InputError(f"the record of node {node} cannot be stored: {error}") from error


def _publish_local(peer: Peer, envelope: Envelope, rows: Mapping[str, JobRow], parts: Parts) -> None:
    """Offer a memory event about a job of the node to the subscribers here; what is no such event is left out."""
    try:
        event = catalog.decode(envelope.name, envelope.body)
    except InputError:
        return
    if isinstance(event, JobEvent) and event.job in rows:
        parts.router.publish_memory(changed(event, node=peer.node), source="worker")


async def _commands(peer: Peer, body: ReportCommands, parts: Parts) -> CommandsAnswer:
    async with parts.store.begin() as tx:
        waiting = {command.id: command for command in await daemon_commands.pending(tx, peer.node)}
        for outcome in body.outcomes:
            if (command := waiting.pop(outcome.command, None)) is not None:
                error = printable(outcome.error, _ERROR_CHARACTERS_MAX)
                await daemon_commands.complete(tx, parts.desks.envelopes_of(peer.node), command, error)
    return CommandsAnswer(commands=tuple(waiting.values()))


async def record_left(tx: Tx, node: str, parts: AdminParts) -> None:
    """Record that the remote *node* has left in good order; its leases were given back before."""
    record = await NODES.get(tx, node)
    if record is not None and not record.gone:
        await NODES.put(tx, [changed(record, gone=True)])
        await BREAKERS.delete(tx, [f"{NODE}:{node}", *link_subjects(node)])  # it begins anew when it returns
        left = Left(node=node, profile=record.profile)
        await tx.append([parts.envelopes.for_node(node).make(left, source="node")])


async def _leader(_: Peer, __: FindLeader, parts: Parts) -> Leader:
    async with parts.store.read() as view:
        return await find_leader(view)


VERBS = (
    Verb("beat", Beat, BeatAnswer, WORK, _beat, urgent=True),
    Verb("commands", ReportCommands, CommandsAnswer, WORK, _commands, writes=True),
    Verb("leader", FindLeader, Leader, "", _leader, urgent=True),
)
