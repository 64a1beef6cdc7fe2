"""What should be where: wants, the nodes and links that could serve them, and the strategies that shape them."""

from enum import StrEnum

from ringrift.kernel.value import Value


class TransferClass(StrEnum):
    """Why a copy is wanted; the more urgent reason comes first."""

    URGENT = "urgent"  # the only copy of a file, or all of them on machines that may vanish
    CHAMPION = "champion"  # the network that plays
    SAMPLES = "samples"  # what the next training reads
    SECOND = "second"  # one more copy of what has too few
    MIRROR = "mirror"

    @property
    def rank(self) -> int:
        """0 for the most urgent."""
        return _RANKS[self]


_RANKS = {transfer_class: rank for rank, transfer_class in enumerate(TransferClass)}


class Want(Value):
    """A file that should be on the node *target*, or on *copies* nodes."""

    blob: str
    kind: str  #: games, samples or model
    transfer_class: TransferClass
    size: int = 0  #: Bytes; 0: not known.
    target: str = ""
    copies: int = 0
    deadline: float | None = None  #: When it is needed, by the wall clock; it orders wants of one class, nothing else.
    variant: str = ""


class PlanNode(Value):
    """A node as the planner sees it."""

    id: str
    durable: bool = True  #: False: a machine that may vanish without notice.
    room: int | None = None  #: Bytes that it may still take; None: not known, and not a limit.
    trains: bool = False  #: Whether it will train next.
    plays: bool = False
    site: str = ""  #: Nodes of one site are near each other; empty: not known.
    reachable: bool = True
    takes: bool = True  #: False: it may send, but gets nothing now.


class Link(Value):
    """A way from the holder *source*, as the mean of late transfers."""

    source: str
    transport: str
    rate: float = 0.0  #: Bytes per second of files that are large enough to tell; 0: none was yet.
    latency: float = 0.0  #: Seconds of files that are too small to tell a rate.
    is_broken: bool = False  #: Whether its breaker is open.

    @property
    def id(self) -> str:
        return f"{self.source}@{self.transport}"
