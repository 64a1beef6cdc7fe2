"""Decide which nodes were lost or have recovered and which readers have lapsed, from their records."""

from collections.abc import Collection, Mapping, Sequence

from ringrift.cluster.roster import SILENT_BEATS, NodeRecord
from ringrift.events import node, reader
from ringrift.kernel.settings import BusSettings
from ringrift.kernel.stall_detector import Observation
from ringrift.store.ports import ReaderRow
from ringrift.store.records import Records

LOST_NODES = Records("lost_node", int)  # by node: the beat at which it fell silent
SUSPECTS = Records("suspect_node", int)  # by node: the last beat before those that it missed
_SUSPECT_BEATS = 2  # heartbeats that a node misses before it is suspected; it is lost after more


def node_changes(
    nodes: Sequence[NodeRecord], silent: Collection[str], lost: Mapping[str, int], seconds: float
) -> tuple[list[node.Lost | node.Recovered], dict[str, int]]:
    """What happened since *lost* was stored, and who is lost now: a loss or return is published once, over restarts.

    An observer that has just started counts every node as present, so only a beat that has moved is a return.
    """
    events: list[node.Lost | node.Recovered] = []
    still_lost = {}
    for record in nodes:
        beat = lost.get(record.id)
        if record.gone:
            continue  # it left in good order
        if beat is not None and beat != record.beat:
            events.append(node.Recovered(node=record.id))
        elif beat is not None:
            still_lost[record.id] = beat
        elif record.id in silent:
            events.append(node.Lost(node=record.id, seconds=seconds))
            still_lost[record.id] = record.beat
    return events, still_lost


def suspect_observations(nodes: Sequence[NodeRecord], seconds: float) -> list[Observation]:
    """The nodes that should send heartbeats, for a detector to see which miss some; *seconds* is when one is lost."""
    limit = seconds * _SUSPECT_BEATS / SILENT_BEATS
    return [Observation(name=f"node {n.id}", counter=n.beat, seconds=limit) for n in nodes if not n.gone]


def suspected_nodes(
    observations: Sequence[Observation], suspects: Mapping[str, int], lost: Collection[str]
) -> list[node.Suspected]:
    """The nodes of *observations* that fell silent since *suspects* was stored and are not lost yet."""
    named = {observation.name.removeprefix("node "): observation for observation in observations}
    new = {id: row for id, row in named.items() if id not in lost and suspects.get(id) != row.counter}
    return [node.Suspected(node=id, seconds=row.seconds) for id, row in new.items()]


def reader_observations(rows: Sequence[ReaderRow], settings: BusSettings) -> list[Observation]:
    """The readers that have events to read, for a detector to see whether they move."""
    waiting, seconds = [row for row in rows if row.behind and not row.lapsed], settings.lapse_watch_seconds
    return [Observation(name=row.reader, counter=row.position, seconds=seconds) for row in waiting]


def lapsed_readers(
    rows: Sequence[ReaderRow], stalled: Collection[str], now: float, settings: BusSettings
) -> list[reader.Lapsed]:
    """Those of the *stalled* readers whose oldest unread event has waited too long."""
    waiting = {row.reader: (row.position, now - row.since) for row in rows if row.since is not None}
    late = {name: wait for name, wait in waiting.items() if name in stalled and wait[1] > settings.lapse_seconds}
    return [reader.Lapsed(reader=name, position=at, seconds=seconds) for name, (at, seconds) in late.items()]
