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


class Finished(LineEvent, tag="evaluation.finished"):
    """The match between a candidate and the champion is decided."""

    candidate: str
    champion: str
    blocks: int
    score: float
    elo: float
    """Of the candidate over the champion, as the blocks say."""
    promoted: bool


class VelocityChanged(LineEvent, tag="evaluation.velocity_changed"):
    """A line gains strength at another pace than before: *rising*, *steady* or *flat*."""

    trend: str
    before: str
    elo_per_hour: float
    matches: int
    """Decided matches that this rests on."""


class Plateaued(LineEvent, tag="evaluation.plateaued"):
    """Many candidates in a row were rejected: the line no longer gets stronger by itself."""

    rejections: int
    since: float
