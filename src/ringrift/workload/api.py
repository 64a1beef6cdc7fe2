"""The plug-in interface: what a game must offer so that the loop can make it stronger.

Standard library only, so that a workload runs where nothing of ours is installed but this package's source.
A job is a pure function: (spec, content-addressed inputs, seed) → content-addressed outputs.  It can be restarted,
it can be stopped between games, and what it has published before the stop is valid.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, Protocol, runtime_checkable

STAGES = ("play", "export", "train", "match", "verify", "tune", "import")
KINDS = ("games", "samples", "model", "report")
Kind = Literal["games", "samples", "model", "report"]
SETTINGS_LETTERS_MAX = 200
Scalar = str | int | float | bool | None


@dataclass(frozen=True, slots=True)
class VariantSpec:
    """One variant that a workload can play, e.g. ``hex8_2p``."""

    name: str
    players: int
    actions: int
    cpu_seconds_per_game: float
    """A hint for placement and time limits, at the workload's default settings."""


@dataclass(frozen=True, slots=True)
class Artifact:
    """A blob by its content: never a path."""

    kind: Kind
    blob: str
    size: int
    meta: Mapping[str, Scalar] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class JobSpec:
    """What one job is to do.  *attempt* only feeds fault injection and logs: results must not depend on it."""

    job: str
    stage: str
    variant: str
    seed: int
    inputs: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Role → blob ids, in order: ``{"model": ("ab…",), "batches": ("cd…", "ef…")}``."""
    params: Mapping[str, Scalar] = field(default_factory=dict)
    attempt: int = 1


@dataclass(frozen=True, slots=True)
class Block:
    """One numbered opening played from every seat: the candidate's score from each seat, in [0, 1]."""

    number: int
    scores: tuple[float, ...]
    """Its share of first place."""
    ranks: tuple[float, ...] = ()
    """The share of its opponents that it finished before, ties halved; with more than two players it tells more."""


@dataclass(frozen=True, slots=True)
class JobResult:
    """What a job made.  *partial* = stopped early, but everything listed is whole."""

    outputs: Sequence[Artifact] = ()
    metrics: Mapping[str, float] = field(default_factory=dict)
    blocks: Sequence[Block] = ()
    partial: bool = False
    settings: str = ""
    """How the players of a match searched, e.g. ``sims=16``: the same model is another player with other settings."""
    refused: Sequence[str] = ()
    """Inputs that were left out because they are bad; what was made does not rest on them."""
    version: str = ""
    """Of the workload's code; the worker says it, not the workload."""


class Refused(Exception):
    """Raised by a workload: bad inputs that no retry will mend.  *blob* names the culprit if it is known."""

    def __init__(self, reason: str, blob: str | None = None) -> None:
        self.reason, self.blob = reason, blob
        super().__init__(reason)


class JobContext(Protocol):
    """What the node offers to a running job."""

    @property
    def traceparent(self) -> str:
        """Where the job stands in its trace, as W3C writes it, for other programs that it calls; "" without one."""

    def open_input(self, blob: str) -> Path:
        """A verified local copy of *blob*.  Read only."""

    def publish(self, kind: Kind, data: bytes, meta: Mapping[str, Scalar]) -> Artifact:
        """Store *data* durably under its hash.  The same bytes twice are one blob."""

    def heartbeat(self, done: float, **metrics: float) -> None:
        """Say that *done* of the work (0…1) is done.  A job that stays silent longer than its lease is taken away."""

    def should_stop(self) -> bool:
        """True once the node wants the job to end early with what it has."""

    def checkpoint(self, data: bytes) -> None:
        """Keep *data* so that the next attempt of this job can go on from here."""

    def resume(self) -> bytes | None:
        """The last checkpoint of an earlier attempt, if there is one."""


@runtime_checkable
class Workload(Protocol):
    """A family of games.  *version* enters every job, so that results of two versions are never mixed up."""

    name: str
    version: str

    def variants(self) -> Sequence[VariantSpec]:
        """Every variant this workload can play."""

    def run(self, job: JobSpec, ctx: JobContext) -> JobResult:
        """Do *job*.

        play    inputs model            params games            → one games artifact, meta games
        export  inputs batches          params —                → one samples artifact, meta samples, games;
                                                                  bad batches are left out and listed as refused
        train   inputs samples, parent  params —                → one model artifact; without samples: generation 0
        match   inputs candidate, champion  params first, count → blocks numbered first … first+count-1
                                                                  (a param candidate or champion in its input's place
                                                                  names a player that never trains; opening_plies, if
                                                                  given: how long openings are)
        verify  inputs model                                    → nothing; raises Refused if the model is unusable
        tune    params vector: numbers with commas between them → the metric fitness; a workload may lack this stage
        import  inputs file, which comes from elsewhere         → one model artifact; raises Refused unless it is a
                                                                  sound model of the variant; may be lacking too
        """
