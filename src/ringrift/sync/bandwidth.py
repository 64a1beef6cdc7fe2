"""Bandwidth: which bytes may pass next and when, as arithmetic on ticks that are handed in.

Every limit is a link with a rate: all transfers, those with a host, those of a class, one transfer alone.  A piece of a
file begins when all of its links are free, and occupies each for its bytes divided by the rate.  Of the pieces that
wait, those of the class go first that had the least for its weight (start-time fair queueing), and within a class the
one that waits longest.  A sender prepares its next piece while one occupies the links, so that it competes in time.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from ringrift.kernel.transfer_settings import TRANSFER_CLASSES, BandwidthSettings, minutes_of

_SLACK_SECONDS = 0.1  # how much of lost time a link makes up for: timers are late, and senders do other things
_ROUND_SECONDS = 1e-5  # a timer may end this much early, by the rounding of clocks
_PIECE_SECONDS, _PIECE_BYTES_MIN = 0.05, 4096  # how far a transfer is ahead; a new rate takes effect after one piece
_FREE_SHARE_MIN = 0.05  # of a rate, whatever is reserved: the files of the node itself never stand still
_WEIGHTS = {
    transfer_class: 2.0 ** (len(TRANSFER_CLASSES) - 1 - rank) for rank, transfer_class in enumerate(TRANSFER_CLASSES)
}
_DAY_MINUTES = 24 * 60
Links = tuple[tuple[str, str], ...]  #: The limits that a transfer is under, by kind and name.


def rank_of(transfer_class: str) -> int:
    """The place of *transfer_class* in the order of classes, most urgent first; one that is not in it comes last."""
    return TRANSFER_CLASSES.index(transfer_class) if transfer_class in TRANSFER_CLASSES else len(TRANSFER_CLASSES)


def total_rate(settings: BandwidthSettings, now: float) -> float:
    """Bytes a second of all transfers at *now*, seconds since the epoch: by the timetable, in UTC, if it covers it."""
    minute = now / 60 % _DAY_MINUTES
    for hours, rate in settings.timetable.items():
        begin, end = minutes_of(hours)
        if (minute - begin) % _DAY_MINUTES < (end - begin) % _DAY_MINUTES:
            return rate
    return settings.bytes_per_second


def _free_rate(rate: float, reserved: float) -> float:
    """What is left of *rate*, 0 for no limit, beside what others have *reserved*."""
    return max(rate - reserved, _FREE_SHARE_MIN * rate)


@dataclass
class Rates:
    """The rates in force, in bytes a second, of which 0 is no limit."""

    settings: BandwidthSettings
    total: float = 0.0
    reserved: Mapping[str, float] = field(default_factory=dict)  #: What programs have reserved, by host.
    own: dict[str, float] = field(default_factory=dict)  #: The limits of single transfers, by their ids.

    def of(self, kind: str, name: str) -> float:
        """The rate of one link."""
        match kind:
            case "total":
                return _free_rate(self.total, sum(self.reserved.values()))
            case "host":
                rate = self.settings.hosts.get(name, self.settings.host_bytes_per_second)
                return _free_rate(rate, self.reserved.get(name, 0.0))
            case "class":
                return self.settings.classes.get(name, 0.0)
        return self.own.get(name, 0.0)

    def limited(self, links: Links) -> Links:
        """Those of *links* that have a limit."""
        return tuple(link for link in links if self.of(*link) > 0)

    def weight(self, transfer_class: str) -> float:
        """The share of *transfer_class* when others compete with it."""
        return self.settings.weights.get(transfer_class, _WEIGHTS.get(transfer_class, 1.0))

    def pieces(self, size: int, links: Links) -> Iterator[int]:
        """The sizes of the pieces that *size* bytes pass in.  Rates may change while they are drawn."""
        while size > 0:
            slowest = min((self.of(*link) for link in self.limited(links)), default=0.0)
            piece = min(size, max(int(slowest * _PIECE_SECONDS), _PIECE_BYTES_MIN) if slowest else size)
            yield piece
            size -= piece


@dataclass(eq=False)
class Piece:
    """Some bytes of a transfer that wait to pass."""

    transfer_class: str
    links: Links
    size: int


class Schedule:
    """The pieces that wait, and until when each link is occupied."""

    def __init__(self, rates: Rates) -> None:
        self._rates = rates
        self._waiting: dict[str, list[Piece]] = {}
        self._free_at: dict[tuple[str, str], float] = {}
        self._virtual, self._finish = 0.0, dict[str, float]()

    def add(self, piece: Piece, tick: float) -> None:
        """Let *piece* wait for its turn.  A link that is new is free from *tick* on and has nothing to make up for."""
        self._waiting.setdefault(piece.transfer_class, []).append(piece)
        for link in piece.links:
            self._free_at.setdefault(link, tick)

    def remove(self, piece: Piece) -> None:
        """Take *piece* out, if it still waits."""
        if piece in (pieces := self._waiting.get(piece.transfer_class, [])):
            pieces.remove(piece)

    def drop(self, links: Links) -> None:
        """Forget *links*, which no transfer uses any more."""
        for link in links:
            self._free_at.pop(link, None)

    def start(self, tick: float) -> Iterator[Piece]:
        """The pieces whose turn it is at *tick*."""
        while (piece := self._choose(tick)) is not None:
            self.remove(piece)
            begin = self._begin(piece.transfer_class)
            self._virtual = begin
            self._finish[piece.transfer_class] = begin + piece.size / self._rates.weight(piece.transfer_class)
            for link in self._limited(piece):
                occupied_from = max(self._free_at[link], tick - _SLACK_SECONDS)
                self._free_at[link] = occupied_from + piece.size / self._rates.of(*link)
            yield piece

    def next_tick(self) -> float | None:
        """When the next piece may begin; None if none waits."""
        begins = [self._can_begin(piece) for pieces in self._waiting.values() for piece in pieces]
        return min(begins, default=None)

    def _limited(self, piece: Piece) -> Links:
        return self._rates.limited(piece.links)

    def _can_begin(self, piece: Piece) -> float:
        return max((self._free_at[link] for link in self._limited(piece)), default=0.0)

    def _begin(self, transfer_class: str) -> float:
        """The virtual time at which *transfer_class* is served next: one that was idle has no claim on the past."""
        return max(self._virtual, self._finish.get(transfer_class, 0.0))

    def _choose(self, tick: float) -> Piece | None:
        for transfer_class in sorted(
            self._waiting,
            key=lambda transfer_class: (self._begin(transfer_class), rank_of(transfer_class), transfer_class),
        ):
            for piece in self._waiting[transfer_class]:
                if self._can_begin(piece) <= tick + _ROUND_SECONDS:
                    return piece
        return None
