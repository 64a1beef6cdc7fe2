"""Events about self-play."""

from ringrift.events.base import LineEvent


class BatchFinished(LineEvent, tag="selfplay.batch_finished", evidence=True):
    """A node played a batch of games and holds its only copy."""

    batch: str
    games: int
    node: str
    model: str
    ephemeral: bool = False
    source: str = ""  #: Blob of the file that its games were imported from; empty if the node has played them.
    island: bool = False  #: Whether it was played without a lease, by a node that was cut off, and came in later.
