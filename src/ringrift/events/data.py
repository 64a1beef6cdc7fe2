"""Events about blobs: games, samples and models."""

from ringrift.events.base import Event, LineEvent, evidence


@evidence
class Synced(LineEvent, tag="data.synced"):
    """A blob has as many copies as the policy requires, or as there are reachable nodes."""

    blob: str
    kind: str
    nodes: tuple[str, ...]
    games: int = 0  #: Games in the blob, if it holds games and they were counted.


@evidence
class Lost(LineEvent, tag="data.lost"):
    """No copy of a blob is left; the line no longer counts what it held."""

    blob: str
    reason: str


class Corrupted(Event, tag="data.corrupted"):
    """A copy of a blob no longer matched its hash; it was set aside and is not counted as a copy."""

    blob: str
    node: str


@evidence
class Exported(LineEvent, tag="data.exported"):
    """Batches of games were replayed and converted into training samples."""

    samples: str
    count: int
    batches: tuple[str, ...]
    node: str
    job: str = ""  #: Key of the export job.
    refused: tuple[str, ...] = ()  #: Batches that were left out because their games do not replay.
