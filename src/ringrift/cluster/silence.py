"""Silence: which nodes and readers have gone silent or are heard of again, decided from what is known of them."""

from collections.abc import Collection, Mapping, Sequence

from ringrift.cluster.roster import NodeRecord
from ringrift.events import node, reader
from ringrift.kernel.settings import BusSettings
from ringrift.kernel.value import Value
from ringrift.kernel.watch import Seen
from ringrift.store.ports import ReaderRow


class Turn(Value):
    """What is said of nodes, and what is remembered of them: the beat at which each lost one fell silent."""

    events: tuple[node.Lost | node.Recovered, ...]
    lost: Mapping[str, int]


def turn(everyone: Sequence[NodeRecord], silent: Collection[str], lost: Mapping[str, int], seconds: float) -> Turn:
    """What is new since *lost* was written down: each loss and each return is said once, over restarts.

    Who has just started to look counts everybody as present, so only a beat that has moved is a return.
    """
    events: list[node.Lost | node.Recovered] = []
    still = {}
    for one in everyone:
        beat = lost.get(one.id)
        if one.gone:
            continue  # it said so itself
        if beat is not None and beat != one.beat:
            events.append(node.Recovered(node=one.id))
        elif beat is not None:
            still[one.id] = beat
        elif one.id in silent:
            events.append(node.Lost(node=one.id, seconds=seconds))
            still[one.id] = one.beat
    return Turn(events=tuple(events), lost=still)


def standing(rows: Sequence[ReaderRow], settings: BusSettings) -> list[Seen]:
    """The readers for whom events wait, to be watched whether they move."""
    return [
        Seen(name=row.reader, mark=row.position, seconds=settings.lapse_seen_seconds)
        for row in rows
        if row.behind and not row.lapsed
    ]


def lapsed(rows: Sequence[ReaderRow], still: Collection[str], now: float, settings: BusSettings) -> list[reader.Lapsed]:
    """Those of *still*, which were watched and did not move, whose oldest event has waited too long."""
    waited = {row.reader: (row.position, now - row.since) for row in rows if row.since is not None}
    return [
        reader.Lapsed(reader=name, position=waited[name][0], seconds=waited[name][1])
        for name in still
        if name in waited and waited[name][1] > settings.lapse_seconds
    ]
