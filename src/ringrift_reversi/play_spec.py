"""Play spec: what a play job requests, and the batch it makes, on any device; needs no numba."""

import hashlib
from dataclasses import dataclass

from ringrift.workload.api import JobContext, JobResult, JobSpec
from ringrift.workload.clock import Clock
from ringrift.workload.kit import int_param
from ringrift_reversi import records
from ringrift_reversi.params import float_param
from ringrift_reversi.records import Games
from ringrift_reversi.workload import VERSION

SIMS_MAX = 4096
_GAMES_MAX = 100_000
_CHECKPOINT_SECONDS = 4.0
"""Longest time between checkpoints: what is played since the last one is lost with a machine that vanishes."""


@dataclass(frozen=True, slots=True)
class Style:
    """The settings with which games are played."""

    sims: int = 16
    fast_sims: int = 8
    full_share: float = 1.0
    random_plies: int = 8
    c_visit: float = 50.0
    c_scale: float = 1.0

    def meta(self) -> dict[str, str]:
        """The settings as metadata of the games."""
        return {name: repr(getattr(self, name)) for name in self.__slots__}


@dataclass(frozen=True, slots=True)
class PlaySpec:
    """The number of games, their style, and the identity that a checkpoint of this very job has."""

    games: int
    style: Style
    identity: str


@dataclass(frozen=True, slots=True)
class Batch:
    """The games that were played, and how fast."""

    games: Games
    metrics: dict[str, float]


class Checkpoints:
    """When the next checkpoint of a batch is due: after _CHECKPOINT_SECONDS, or after so many more games."""

    def __init__(self, job: JobSpec, clock: Clock, done: int) -> None:
        self._clock, self._games_max = clock, int_param(job, "checkpoint_games", 0, 0, _GAMES_MAX)
        self._tick, self._done = clock.tick(), done

    def is_due(self, done: int) -> bool:
        """Whether one is due with *done* games; then it counts as made."""
        is_enough = self._games_max > 0 and done - self._done >= self._games_max
        if not is_enough and self._clock.tick() - self._tick < _CHECKPOINT_SECONDS:
            return False
        self._tick, self._done = self._clock.tick(), done
        return True


def spec_of(job: JobSpec, blob: str) -> PlaySpec:
    """The games that *job* requests of the model *blob*.  Raises Refused."""
    total, style = int_param(job, "games", None, 1, _GAMES_MAX), _style(job)
    identity = (VERSION, job.variant, job.seed, blob, total, *style.meta().values())
    return PlaySpec(games=total, style=style, identity=hashlib.sha256(repr(identity).encode()).hexdigest())


def metrics(games: int, fresh: int, plies: int, seconds: float) -> dict[str, float]:
    """The metrics of a batch of *games*, of which *fresh* were played in this attempt."""
    seconds = max(seconds, 1e-9)
    return {"games": float(games), "games_per_second": fresh / seconds, "plies_per_second": plies / seconds}


def publish(job: JobSpec, ctx: JobContext, spec: PlaySpec, batch: Batch, blob: str) -> JobResult:
    """The result of *job*: *batch* as a file of games."""
    games = len(batch.games)
    meta = {**spec.style.meta(), "model": blob, "seed": str(job.seed), "workload": f"reversi {VERSION}"}
    data = records.pack(batch.games, job.variant, meta)
    output = ctx.publish("games", data, {"games": games, "positions": len(batch.games.moves)})
    return JobResult(outputs=(output,), metrics=batch.metrics, partial=games < spec.games)


def _style(job: JobSpec) -> Style:
    default = Style()
    sims = int_param(job, "sims", default.sims, 1, SIMS_MAX)
    return Style(
        sims=sims,
        fast_sims=int_param(job, "fast_sims", min(sims, default.fast_sims), 1, SIMS_MAX),
        full_share=float_param(job, "full_share", default.full_share, 0.01, 1.0),
        random_plies=int_param(job, "random_plies", default.random_plies, 0, 64),
        c_visit=float_param(job, "c_visit", default.c_visit, 0.0, 1e4),
        c_scale=float_param(job, "c_scale", default.c_scale, 0.0, 1e4),
    )
