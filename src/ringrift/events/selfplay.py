"""Events about self-play."""

from ringrift.events.base import LineEvent


class BatchFinished(LineEvent, tag="selfplay.batch_finished", evidence=True):
    """A node played a batch of games and holds its only copy."""

    batch: str
    games: int
    node: str
    model: str
    ephemeral: bool = False
