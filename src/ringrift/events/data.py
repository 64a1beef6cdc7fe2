"""What happened to files."""

from ringrift.events.base import Event, LineEvent


class Synced(LineEvent, tag="data.synced"):
    """A blob has as many copies as the policy asks for, or as there are nodes that could be reached."""

    blob: str
    kind: str
    nodes: tuple[str, ...]
    games: int = 0
    """In the blob, where it holds games and somebody counted them."""


class Lost(LineEvent, tag="data.lost"):
    """No copy of a blob is left anywhere; what was counted on it is taken back."""

    blob: str
    reason: str


class Corrupted(Event, tag="data.corrupted"):
    """A copy of a blob no longer matched its hash; it was set aside and counts no more."""

    blob: str
    node: str


class Exported(LineEvent, tag="data.exported"):
    """Batches of games were replayed and turned into training samples."""

    samples: str
    count: int
    batches: tuple[str, ...]
    node: str
    job: str = ""
    """Key of the job that did it."""
    refused: tuple[str, ...] = ()
    """Batches that were left out because their games do not replay."""
