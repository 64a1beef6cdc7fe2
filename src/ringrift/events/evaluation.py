"""What happened in evaluation."""

from ringrift.events.base import LineEvent
from ringrift.kernel.value import Value


class Played(Value):
    """One numbered block: the candidate's score from each seat."""

    number: int
    scores: tuple[float, ...]


class BlocksPlayed(LineEvent, tag="evaluation.blocks_played"):
    """A node played numbered blocks of a match between candidate and champion."""

    candidate: str
    champion: str
    blocks: tuple[Played, ...]
    node: str
