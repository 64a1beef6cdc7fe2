"""From where a node reads a file: a peer that has it, a peer that is about to have it, the coordinator, or later.

A large file leaves the coordinator once at a time as long as there are peers that serve: whoever has the beginning of
it passes that on.  So the way to the coordinator, which all share, carries it once, and the readers form a tree.
"""

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass

from ringrift.kernel.clock import Clock
from ringrift.wire.ports import CHUNK_BYTES

_COORDINATOR = ""
_READERS_OF_PEER_MAX = 2
_READERS_OF_COORDINATOR_MAX = 1
_LARGE_BYTES_MIN = CHUNK_BYTES + 1  # a smaller file is sent sooner than a reader asks a peer
_GRANT_SECONDS_MAX = 60.0  # without a sign of life of a reader, after which its place is free
_READ_SECONDS_MAX = 10.0  # the same where each piece is a sign of life
_WAIT_SECONDS_MAX = 30.0  # after which a reader does not wait for others any more
_SWEEP_SECONDS = 1.0
_GRANTS_MAX = 20_000
_PAUSE_SECONDS_MIN, _PAUSE_SECONDS_MAX, _PAUSE_SECONDS_EACH = 0.2, 2.0, 0.002


@dataclass(slots=True)
class _Grant:
    """What a reader was told, and when it last showed that it goes by it; no *source*: to wait *since* then."""

    source: str | None
    tick: float
    since: float


class Sources:
    """Spreads the readers of files over those who have them."""

    def __init__(self, clock: Clock) -> None:
        self._clock, self._swept = clock, clock.tick()
        self._waiting: dict[tuple[str, str], _Grant] = {}  # by reader and blob
        self._reading: dict[str, dict[str, _Grant]] = {}  # by blob, by reader
        self._load: Counter[str] = Counter()  # readers of each peer

    @property
    def pause_seconds(self) -> float:
        """How long a reader that waits should wait before it asks again: the longer, the more there are."""
        return min(_PAUSE_SECONDS_MIN + _PAUSE_SECONDS_EACH * len(self._waiting), _PAUSE_SECONDS_MAX)

    def choose(
        self,
        reader: str,
        blob: str,
        size: int,
        *,
        holders: Collection[str],
        servers: Collection[str],
        failed: Collection[str] = (),
    ) -> str | None:
        """The peer from which *reader* should read *blob*, _COORDINATOR, or None: it should wait.

        *holders* have the file; *servers* are the nodes that serve what they have.  None of *failed* is chosen.
        """
        tick = self._clock.tick()
        self._drop_old(tick)
        before = self._waiting.pop((reader, blob), None)
        self.end(reader, (blob,))
        since = before.since if before is not None else tick
        depths = dict.fromkeys((node for node in holders if node in servers), 0)
        depths = self._relays(reader, blob, servers) | depths
        free = [node for node in depths if node not in (reader, *failed) and self._load[node] < _READERS_OF_PEER_MAX]
        reading = self._reading.get(blob, {})
        from_here = sum(grant.source == _COORDINATOR for grant in reading.values())
        is_staged = size >= _LARGE_BYTES_MIN and from_here >= _READERS_OF_COORDINATOR_MAX
        can_wait = tick - since < _WAIT_SECONDS_MAX and any(node in servers for node in (*holders, *reading))
        if free and size >= _LARGE_BYTES_MIN:
            source: str | None = min(free, key=lambda node: (depths[node], self._load[node], node))
        else:
            source = None if is_staged and can_wait else _COORDINATOR
        self._note(reader, blob, _Grant(source, tick, since))
        return source

    def _relays(self, reader: str, blob: str, servers: Collection[str]) -> dict[str, int]:
        """Readers of *blob* that pass it on as it comes, with how many peers away from the coordinator each is.

        None that gets it from *reader* itself, however many are between.
        """
        reading, depths = self._reading.get(blob, {}), dict[str, int]()
        for node in reading:
            depth, source = 1, reading[node].source
            while source in reading and source != reader and depth <= len(reading):
                depth, source = depth + 1, reading[source].source
            if node in servers and source != reader:
                depths[node] = depth
        return depths

    def _note(self, reader: str, blob: str, grant: _Grant) -> None:
        if grant.source is None:
            if len(self._waiting) < _GRANTS_MAX:
                self._waiting[reader, blob] = grant
            return
        self._reading.setdefault(blob, {})[reader] = grant
        self._load[grant.source] += grant.source != _COORDINATOR

    def _drop_old(self, tick: float) -> None:
        if tick - self._swept < _SWEEP_SECONDS:
            return
        self._swept = tick
        for blob, readers in list(self._reading.items()):
            for reader, grant in list(readers.items()):
                if tick - grant.tick > (_GRANT_SECONDS_MAX if grant.source else _READ_SECONDS_MAX):
                    self.end(reader, (blob,))
        for key, grant in list(self._waiting.items()):
            if tick - grant.tick > _GRANT_SECONDS_MAX:
                del self._waiting[key]

    def touch(self, reader: str, blob: str) -> None:
        """*reader* has read a piece of *blob* here."""
        if (grant := self._reading.get(blob, {}).get(reader)) is not None:
            grant.tick = self._clock.tick()

    def end(self, reader: str, blobs: Collection[str]) -> None:
        """*reader* has these *blobs*, or does not read them any more."""
        for blob in blobs:
            readers = self._reading.get(blob, {})
            if (grant := readers.pop(reader, None)) is None:
                continue
            if grant.source:
                self._load[grant.source] -= 1
                self._load += Counter()  # without those that have none
            if not readers:
                del self._reading[blob]
