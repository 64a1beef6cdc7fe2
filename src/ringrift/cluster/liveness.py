"""Decide which nodes were lost or have recovered and which readers have lapsed, from their records."""

from collections.abc import Collection, Mapping, Sequence

from ringrift.cluster.roster import NodeBeat, NodeState
from ringrift.events import node, reader
from ringrift.kernel.settings import BusSettings
from ringrift.kernel.stall_detector import Observation
from ringrift.kernel.value import Value
from ringrift.store.ports import ReaderRow, Reads
from ringrift.store.records import Records

LOST_NODES = Records("lost_node", int)  # by node: the beat at which it fell silent
SUSPECTS = Records("suspect_node", int)  # by node: the last beat before those that it missed
STARTING = Records("starting_node", int)  # by node: the last beat before it or its watcher was started
_STALLS_MAX = 100_000  # stalls of a reader at one position that are counted


class _Stall(Value):
    """How often a watcher saw a reader stand still at *position* for ``bus.lapse_watch_seconds``."""

    position: int
    times: int


STALLS = Records("reader_stall", _Stall)  # by reader


def node_changes(
    nodes: Sequence[NodeBeat], silent: Mapping[str, float], lost: Mapping[str, int]
) -> tuple[list[node.Lost | node.Recovered], dict[str, int]]:
    """What happened since *lost* was stored, and who is lost now: a loss or return is published once, over restarts.

    *silent*: for how many seconds at least those sent no heartbeat that are lost by what this observer has seen.
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
            events.append(node.Lost(node=record.id, seconds=silent[record.id], ephemeral=record.ephemeral))
            still_lost[record.id] = record.beat
    return events, still_lost


def suspected_nodes(
    nodes: Sequence[NodeBeat], states: Mapping[str, NodeState], suspects: Mapping[str, int], seconds: float
) -> list[node.Suspected]:
    """The *nodes* that have become suspects since *suspects* was stored, by the beats that they fell silent after."""
    fresh = [row for row in nodes if states[row.id] is NodeState.SUSPECT and suspects.get(row.id) != row.beat]
    return [node.Suspected(node=row.id, seconds=seconds) for row in fresh]


async def stored_states(view: Reads, nodes: Sequence[NodeBeat]) -> dict[str, NodeState]:
    """The states of *nodes* as the watcher last judged them, for those that do not watch themselves."""
    opinions = {NodeState.STARTING: STARTING, NodeState.SUSPECT: SUSPECTS, NodeState.LOST: LOST_NODES}
    states = {row.id: NodeState.LEFT if row.gone else NodeState.ALIVE for row in nodes}
    for state, records in opinions.items():
        beats = await records.scan(view)
        states |= {row.id: state for row in nodes if not row.gone and beats.get(row.id) == row.beat}
    return states


def reader_observations(
    rows: Sequence[ReaderRow], stalls: Mapping[str, _Stall], settings: BusSettings
) -> list[Observation]:
    """The readers that have events to read, for a detector to see whether they move; a stall is counted and goes on."""
    waiting, seconds = [row for row in rows if row.behind and not row.lapsed], settings.lapse_watch_seconds
    counters = [(row.reader, row.position * _STALLS_MAX + _times(row, stalls)) for row in waiting]
    return [Observation(name=reader, counter=counter, seconds=seconds) for reader, counter in counters]


def count_stalls(
    rows: Sequence[ReaderRow], stalls: Mapping[str, _Stall], stalled: Collection[str], settings: BusSettings
) -> tuple[list[reader.Lapsed], dict[str, _Stall]]:
    """Those of the *stalled* readers that have stood still for long enough, and how often each of the rest was seen to.

    Stalls are counted, over restarts of the watcher, and no time is stored: a wall clock that jumps changes nothing.
    """
    lapsed, counts = list[reader.Lapsed](), dict[str, _Stall]()
    for row in rows:
        times = _times(row, stalls) + (row.reader in stalled)
        seconds = times * settings.lapse_watch_seconds
        if row.reader in stalled and (seconds >= settings.lapse_seconds or times >= _STALLS_MAX):
            lapsed.append(reader.Lapsed(reader=row.reader, position=row.position, seconds=seconds))
        elif times:
            counts[row.reader] = _Stall(position=row.position, times=times)
    return lapsed, counts


def _times(row: ReaderRow, stalls: Mapping[str, _Stall]) -> int:
    """How often *row* was seen to stand still where it is."""
    stall = stalls.get(row.reader)
    return stall.times if stall is not None and stall.position == row.position else 0
