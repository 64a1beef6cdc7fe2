"""What happened in self-play."""

from ringrift.events.base import LineEvent


class BatchFinished(LineEvent, tag="selfplay.batch_finished"):
    """A node played a batch of games and still holds the only copy."""

    batch: str
    games: int
    node: str
    model: str
    ephemeral: bool = False
