"""Which nodes should get a copy of a blob, as a pure function of its holders and of the nodes that are present."""

from collections.abc import Collection, Sequence

from ringrift.kernel.value import Value


class Place(Value):
    """A node as a place for copies."""

    node: str
    durable: bool = True  #: False for a machine that may vanish without notice: its copies count, but not first.


def targets(holders: Collection[str], places: Sequence[Place], here: str, copies_min: int) -> list[str]:
    """The nodes that should get a copy for *copies_min* of them, or one on each: *here* first, then durable ones."""
    missing = copies_min - len({place.node for place in places} & set(holders))
    empty = [place for place in places if place.node not in holders]
    empty.sort(key=lambda place: (place.node != here, not place.durable, place.node))
    return [place.node for place in empty[: max(missing, 0)]]
