"""Receipts: which verified copy arrived where, from whom, by which transport, how large and how fast.

There is one for each copy, and it lives as long as the ledger lists the copy; sums for each node and the measured speed
of each link outlive it.  Each of them is one record, so their number is bounded by that of copies, nodes and links.
"""

from collections.abc import Sequence

from ringrift.kernel.value import Value, changed
from ringrift.store.ports import Reads, Tx
from ringrift.store.records import Records
from ringrift.sync.wants import Link

_RATE_BYTES_MIN = 64 * 1024  # a smaller file measures the latency of a link, not its rate
_NEW_SHARE = 0.25  # of a new measurement in the mean


class Receipt(Value):
    """A copy of *blob* that *node* has hashed, flushed and named."""

    blob: str
    node: str
    source: str  #: The node that it came from.
    transport: str
    size: int
    seconds: float
    time: float  #: By the wall clock of the node that recorded it.
    transfer_class: str = ""
    resumed: int = 0  #: Bytes that an earlier try had left.

    @property
    def id(self) -> str:
        return f"{self.blob}@{self.node}"

    @property
    def moved(self) -> int:
        """Bytes that this transfer moved."""
        return self.size - self.resumed


class NodeTraffic(Value):
    """What a node has received and sent so far."""

    node: str
    received: int = 0
    received_bytes: int = 0
    sent: int = 0
    sent_bytes: int = 0


def _measure(link: Link, receipt: Receipt) -> Link:
    """*link* with what *receipt* tells about it."""
    if receipt.moved >= _RATE_BYTES_MIN and receipt.seconds > 0:
        return changed(link, rate=_mean(link.rate, receipt.moved / receipt.seconds))
    return changed(link, latency=_mean(link.latency, receipt.seconds))


def _mean(before: float, new: float) -> float:
    return before + _NEW_SHARE * (new - before) if before else new


_RECEIPTS = Records("receipt", Receipt, id="id", index=("blob", "node"))
TRAFFIC = Records("traffic", NodeTraffic, id="node")
_LINKS = Records("link", Link, id="id")


async def record(tx: Tx, receipt: Receipt) -> None:
    """Write *receipt*, and what it adds to the sums of both nodes and to the speed of the link."""
    sums = await TRAFFIC.get_many(tx, [receipt.node, receipt.source])
    to, source = (sums.get(node, NodeTraffic(node=node)) for node in (receipt.node, receipt.source))
    to = changed(to, received=to.received + 1, received_bytes=to.received_bytes + receipt.moved)
    source = changed(source, sent=source.sent + 1, sent_bytes=source.sent_bytes + receipt.moved)
    link = Link(source=receipt.source, transport=receipt.transport)
    link = _measure(await _LINKS.get(tx, link.id) or link, receipt)
    await _RECEIPTS.put(tx, [receipt])
    await TRAFFIC.put(tx, [to, source])
    await _LINKS.put(tx, [link])


async def receipts_of(view: Reads, blob: str) -> Sequence[Receipt]:
    """The receipts of the copies of *blob*; a node that only made it has none."""
    return await _RECEIPTS.all(view, "blob", blob)


async def delete_receipts(tx: Tx, blob: str, nodes: Sequence[str]) -> None:
    """Delete the receipts of copies that *nodes* do not have any more."""
    await _RECEIPTS.delete(tx, [f"{blob}@{node}" for node in nodes])


async def measured_links(view: Reads) -> Sequence[Link]:
    """Every link that was used so far, as measured; whether it is broken now is another's to say."""
    return await _LINKS.all(view)
