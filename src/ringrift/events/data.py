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


class Adopted(Event, tag="data.adopted", for_people=True):
    """A node has found files of unknown origin in its folder; they are listed now, and deleted after the grace time."""

    node: str
    blobs: tuple[str, ...]
    count: int
    bytes: int = 0


class Packed(Event, tag="data.packed", for_people=True):
    """A node has put small files of games into packs; each keeps its name and is read as before."""

    node: str
    count: int


class PrioritySynced(Event, tag="data.priority_synced"):
    """An urgent sync that a program asked for has ended."""

    success: bool
    node: str = ""  #: Whose files were copied; empty: whoever holds them.
    variant: str = ""  #: Empty: of all lines.
    reason: str = ""
    node_count: int = 0  #: Nodes that hold all of the files now.
    bytes: int = 0
    errors: tuple[str, ...] = ()


class Imported(LineEvent, tag="data.imported", evidence=True):
    """A file of games from elsewhere was read; its new games are batches, which are published before this."""

    source: str  #: Blob of the file.
    batches: tuple[str, ...]
    games: int  #: Games that count now: those of *batches*.
    repeated: int  #: Games that were counted before, or stand in the file twice.
    refused: int  #: Games that do not replay, and rows that cannot be read.
    other: int  #: Games of other variants.
    errors: str  #: What is wrong with the first that were refused, a line each.
    node: str
    pending: bool = (
        False  #: Whether they count before they were replayed; export replays them, and refuses bad batches.
    )


class Exported(LineEvent, tag="data.exported", evidence=True):
    """Batches of games were replayed and converted into training samples."""

    samples: str
    count: int
    batches: tuple[str, ...]
    node: str
    job: str = ""  #: Key of the export job.
    refused: tuple[str, ...] = ()  #: Batches that were left out because their games do not replay.
