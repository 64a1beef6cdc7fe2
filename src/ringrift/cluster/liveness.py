"""Decide which nodes were lost or have recovered and which readers have lapsed, from their records."""

from collections.abc import Collection, Mapping, Sequence

from ringrift.cluster.roster import NodeRecord
from ringrift.events import node, reader
from ringrift.kernel.settings import BusSettings
from ringrift.kernel.stall_detector import Observation
from ringrift.kernel.value import Value
from ringrift.store.ports import ReaderRow
from ringrift.store.records import Records

LOST_NODES = Records("lost_node", int)  # by node: the beat at which it fell silent


class _NodeChanges(Value):
    """Events to publish, and the lost nodes to remember: the beat at which each fell silent."""

    events: tuple[node.Lost | node.Recovered, ...]
    lost: Mapping[str, int]


def node_changes(
    nodes: Sequence[NodeRecord], silent: Collection[str], lost: Mapping[str, int], seconds: float
) -> _NodeChanges:
    """The changes since *lost* was stored: each loss and each return is published once, over restarts.

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
    return _NodeChanges(events=tuple(events), lost=still_lost)


def reader_observations(rows: Sequence[ReaderRow], settings: BusSettings) -> list[Observation]:
    """The readers that have events to read, for a detector to see whether they move."""
    waiting, seconds = [row for row in rows if row.behind and not row.lapsed], settings.lapse_watch_seconds
    return [Observation(name=row.reader, counter=row.position, seconds=seconds) for row in waiting]


def lapsed_readers(
    rows: Sequence[ReaderRow], stalled: Collection[str], now: float, settings: BusSettings
) -> list[reader.Lapsed]:
    """Those of the *stalled* readers whose oldest unread event has waited too long."""
    waits = {row.reader: (row.position, now - row.since) for row in rows if row.since is not None}
    return [
        reader.Lapsed(reader=name, position=waits[name][0], seconds=waits[name][1])
        for name in stalled
        if name in waits and waits[name][1] > settings.lapse_seconds
    ]
