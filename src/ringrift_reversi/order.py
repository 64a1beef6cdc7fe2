"""Order: what a play job asks for, and the batch that comes of it, whichever device plays; needs no numba."""

import hashlib
from dataclasses import dataclass

from ringrift.workload.api import JobContext, JobResult, JobSpec
from ringrift_reversi import records
from ringrift_reversi.asked import real, whole
from ringrift_reversi.records import Games
from ringrift_reversi.workload import VERSION

SIMS_MAX = 4096
GAMES_MAX = 100_000
KEEP_SECONDS = 4.0
"""Between checkpoints."""


@dataclass(frozen=True, slots=True)
class Style:
    """How games are played."""

    sims: int = 16
    fast_sims: int = 8
    full_share: float = 1.0
    random_plies: int = 8
    c_visit: float = 50.0
    c_scale: float = 1.0

    def words(self) -> dict[str, str]:
        """It as words, to be kept with the games."""
        return {name: repr(getattr(self, name)) for name in self.__slots__}


@dataclass(frozen=True, slots=True)
class Order:
    """How many games of which style, and what a checkpoint must say to be one of this very job."""

    games: int
    style: Style
    identity: str


@dataclass(frozen=True, slots=True)
class Batch:
    """What was played, and how fast."""

    games: Games
    metrics: dict[str, float]


def order_of(job: JobSpec, blob: str) -> Order:
    """What *job* asks the model *blob* to play.  Raises Refused."""
    total, style = whole(job, "games", None, 1, GAMES_MAX), _style(job)
    said = (VERSION, job.variant, job.seed, blob, total, *style.words().values())
    return Order(games=total, style=style, identity=hashlib.sha256(repr(said).encode()).hexdigest())


def metrics(games: int, fresh: int, plies: int, seconds: float) -> dict[str, float]:
    """What is told of a batch of *games*, of which *fresh* were played in this attempt."""
    seconds = max(seconds, 1e-9)
    return {
        "games": float(games), "games_per_second": fresh / seconds, "plies_per_second": plies / seconds,
    }  # fmt: skip


def published(job: JobSpec, ctx: JobContext, order: Order, batch: Batch, blob: str) -> JobResult:
    """The result of *job*: *batch* as a file of games."""
    games = len(batch.games)
    words = {**order.style.words(), "model": blob, "seed": str(job.seed), "workload": f"reversi {VERSION}"}
    data = records.pack(batch.games, job.variant, words)
    made = ctx.publish("games", data, {"games": games, "positions": len(batch.games.moves)})
    return JobResult(outputs=(made,), metrics=batch.metrics, partial=games < order.games)


def _style(job: JobSpec) -> Style:
    usual = Style()
    sims = whole(job, "sims", usual.sims, 1, SIMS_MAX)
    return Style(
        sims=sims,
        fast_sims=whole(job, "fast_sims", min(sims, usual.fast_sims), 1, SIMS_MAX),
        full_share=real(job, "full_share", usual.full_share, 0.01, 1.0),
        random_plies=whole(job, "random_plies", usual.random_plies, 0, 64),
        c_visit=real(job, "c_visit", usual.c_visit, 0.0, 1e4),
        c_scale=real(job, "c_scale", usual.c_scale, 0.0, 1e4),
    )
