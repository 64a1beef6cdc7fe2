"""Events about blobs: games, samples and models."""

from ringrift.events.base import Event, LineEvent


class Synced(LineEvent, tag="data.synced", evidence=True):
    """A blob has as many copies as the policy requires, or as there are reachable nodes."""

    blob: str
    kind: str
    nodes: tuple[str, ...]
    games: int = 0  #: Games in the blob, if it holds games and they were counted.
    repair: bool = False  #: Whether it was copied again because it had too few copies.


class Lost(LineEvent, tag="data.lost", evidence=True):
    """No copy of a blob is left; the line no longer counts what it held."""

    blob: str
    reason: str
    kind: str = ""  #: games or model.


class Corrupted(Event, tag="data.corrupted"):
    """A copy of a blob did not match its hash; it is not used and not counted as a copy."""

    blob: str
    node: str
    during: str = "scrub"  #: When it was noticed: *scrub* (the copy at rest) or *transfer*.


class Removed(Event, tag="data.removed", for_people=True):
    """A node has deleted blobs that nothing needs any more; how they were made stays recorded."""

    node: str
    blobs: tuple[str, ...]
    count: int
    bytes: int = 0


class Exported(LineEvent, tag="data.exported", evidence=True):
    """Batches of games were replayed and converted into training samples."""

    samples: str
    count: int
    batches: tuple[str, ...]
    node: str
    job: str = ""  #: Key of the export job.
    refused: tuple[str, ...] = ()  #: Batches that were left out because their games do not replay.
