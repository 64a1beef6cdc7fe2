"""Which nodes should get a copy of a blob, as a pure function of its holders and of the nodes that are present."""

from collections.abc import Collection, Mapping


def targets(holders: Collection[str], durable: Mapping[str, bool], here: str, copies_min: int) -> list[str]:
    """The nodes that should get a copy for *copies_min* of them, or one on each: *here* first, then durable ones.

    *durable* has the nodes that are present; False for a machine that may vanish without notice.
    """
    empty = sorted(durable.keys() - set(holders), key=lambda node: (node != here, not durable[node], node))
    return empty[: max(copies_min - (len(durable) - len(empty)), 0)]
